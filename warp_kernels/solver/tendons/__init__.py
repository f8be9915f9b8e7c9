"""Tendons: lengths, their Jacobians, forces and constraints."""
