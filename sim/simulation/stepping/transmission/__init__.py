"""Actuators on frames and on contacts in a step."""
