"""Kernels for deconvolutions, and which of them could compute one."""
