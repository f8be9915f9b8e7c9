"""Joints, drives, tendons and moving surfaces of a model as prims."""
