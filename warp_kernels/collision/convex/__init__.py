"""Contacts between bounded convex shapes, found by their support functions."""
