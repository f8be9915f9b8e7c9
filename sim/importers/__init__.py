"""Readers of robot files: URDF, MJCF, SDF and USD."""
