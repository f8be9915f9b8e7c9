"""Geoms of an MJCF file."""
