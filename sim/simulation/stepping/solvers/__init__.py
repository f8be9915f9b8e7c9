"""Solvers of a step's constraints: one file each, chosen once in ``choose.py``."""
