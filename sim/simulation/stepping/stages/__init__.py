"""Stages of a step: one file for each that has arrays of its own, and the launches of the others."""
