"""Errors, limits, files and text for all other folders."""
