"""Kernels for convolutions, and which of them could compute one."""
