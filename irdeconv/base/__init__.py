"""Errors, limits, files, text: what all other folders use."""
