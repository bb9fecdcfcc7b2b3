"""What all kernels share: threads and their scratch memory, matrix products, candidates."""
