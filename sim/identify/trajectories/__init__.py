"""Identification from simulated motions, in single or multiple shooting."""
