"""Actuators on frames and on contacts: what moves along them, and their forces on the degrees of freedom."""
