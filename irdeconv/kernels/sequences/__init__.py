"""Reading sequences of classes."""
