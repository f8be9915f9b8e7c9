"""Distances between geometries: the search for nearest features, and their formulas."""
