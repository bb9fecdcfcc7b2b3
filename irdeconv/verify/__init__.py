"""Checking results: proof that a lowering is right, comparison of what graphs compute."""
