"""Stages that list constraints, compute their errors and rows, and prepare their solution."""
