"""MuJoCo's law of contacts, limits and dry friction, as a convex problem in the unknowns of
:mod:`warp_kernels.solver.newton`.
"""
