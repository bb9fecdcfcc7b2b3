"""The public functions by what they are for; `irdeconv` offers them all."""
