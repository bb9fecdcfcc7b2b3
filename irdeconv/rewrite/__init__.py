"""Passes: inference, rewriting, lowering, standard operations for writing."""
