"""CPU-only code: C++ in header files, behind :mod:`warp_kernels.cpu.native`."""
