"""The public functions by what they are for; `irdeconv.api` has them all."""
