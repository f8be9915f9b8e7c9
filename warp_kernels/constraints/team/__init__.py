"""Constraints by a team of threads per world: their list, and the adjoint of their rows."""
