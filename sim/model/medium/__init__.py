"""A medium such as water, and what it drags."""
