"""The stages of a step: one file for each that has arrays of its own, and what the others launch."""
