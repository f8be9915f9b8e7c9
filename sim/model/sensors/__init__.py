"""Sensors and their targets."""
