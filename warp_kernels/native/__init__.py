"""C++ that stands before the source of every module of kernels, for a CPU."""
