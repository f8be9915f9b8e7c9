"""Newton's method by a team of threads per world, see :mod:`warp_kernels.team`."""
