"""Stepping many worlds through time with contact, and the gradient of a rollout."""
