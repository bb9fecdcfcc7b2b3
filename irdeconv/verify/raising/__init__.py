"""Raising that keeps only what is proved."""
