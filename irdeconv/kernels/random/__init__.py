"""Generators of random words and what makes numbers of them, as OpenVINO does."""
