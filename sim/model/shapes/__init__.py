"""Shapes of geometries: their types, hulls, triangles and inertia."""
