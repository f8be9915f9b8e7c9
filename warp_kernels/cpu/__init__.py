"""What runs on a CPU only: C++ in header files, behind :mod:`warp_kernels.cpu.native`."""
