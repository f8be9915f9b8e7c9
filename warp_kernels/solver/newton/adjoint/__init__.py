"""Adjoint of the solution of Newton's method."""
