"""Tendons of a model, and what a builder collects of them."""
