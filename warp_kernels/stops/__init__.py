"""Stops: limits on velocities that keep what moves from passing thin static triangle meshes within a step."""
