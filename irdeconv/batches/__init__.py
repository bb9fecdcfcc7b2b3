"""Many items of work: what they are called, what became of them, and who does them."""
