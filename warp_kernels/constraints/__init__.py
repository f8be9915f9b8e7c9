"""Constraints: kinds as data, active set, and rows with their adjoints."""
