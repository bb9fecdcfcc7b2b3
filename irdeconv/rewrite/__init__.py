"""Passes: inference, rewriting, lowering, standard operations for writing.

There is no pass manager: `lower` and `standardize` are functions. The builder infers and folds each
node that it adds, and a plan folds constants, so `simplify` runs only on request.
"""
