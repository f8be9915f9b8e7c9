"""Looks of geometries, and lights."""
