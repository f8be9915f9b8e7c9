"""Rays against the geometries of a model."""
