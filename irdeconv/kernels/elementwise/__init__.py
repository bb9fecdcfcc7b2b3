"""Chains of element-wise operations, computed tile by tile."""
