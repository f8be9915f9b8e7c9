"""Constraint solvers: Delassus matrix, projected Gauss-Seidel and Newton's method, with their backward passes."""
