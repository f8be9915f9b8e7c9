"""Distances between geometries of a model."""
