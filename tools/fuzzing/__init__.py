"""Fuzzing of everything that reads a file: mutants, guards, judgement. `tools/fuzz.py` runs it."""
