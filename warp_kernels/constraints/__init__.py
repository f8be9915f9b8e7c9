"""Constraints: their kinds as data, which of them there are, and their rows with adjoints."""
