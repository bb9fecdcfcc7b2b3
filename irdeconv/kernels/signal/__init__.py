"""Signals cut into frames and put together again."""
