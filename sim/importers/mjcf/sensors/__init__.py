"""Sensors of an MJCF file."""
