"""The solvers of a step's constraints: one file for each, chosen once in ``choose.py``."""
