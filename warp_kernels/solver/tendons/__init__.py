"""Tendons: their lengths and how these change with the degrees of freedom, their forces, their constraints."""
