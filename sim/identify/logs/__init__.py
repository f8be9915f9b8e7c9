"""Logs of a robot's motion: reading, filtering, differentiating and aligning them."""
