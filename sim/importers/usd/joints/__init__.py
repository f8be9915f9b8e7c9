"""Joints of a USD file: their kinds, the trees that they form, and their conversion to joints of a model."""
