"""Identification from motions that are simulated, in single or multiple shooting."""
