"""Sensors of contacts and of forces of constraints, and their adjoints."""
