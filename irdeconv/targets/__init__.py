"""Targets: TOML files that list the operations of a device and their limits, and checks."""
