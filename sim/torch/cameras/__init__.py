"""Colour cameras in many worlds at once."""
