"""Tendons in a step: which rows they take, and the launches of their kernels."""
