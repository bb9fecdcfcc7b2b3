"""Proofs that a lowered layer computes what its source layer means."""
