"""Sensors of a model."""
