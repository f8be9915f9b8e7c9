"""Curves over time beside the scene."""
