"""Rays against the geometries of a model: distances, what is hit, and patterns of rays such as those of a lidar."""
