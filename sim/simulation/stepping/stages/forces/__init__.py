"""Stages of forces: actuators, tendons, links, damping."""
