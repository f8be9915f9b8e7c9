"""Sensor readings along a rollout, as differentiable functions of its states."""
