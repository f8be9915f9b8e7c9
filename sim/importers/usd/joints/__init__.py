"""Joints of a USD file: what they are, the trees that they form, and how they become joints of a model."""
