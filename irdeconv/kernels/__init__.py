"""NumPy kernels: pure functions of arrays and integers, without graph or specs."""
