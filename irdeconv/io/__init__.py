"""Reading and writing IR files."""
