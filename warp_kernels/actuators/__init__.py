"""Actuators, their states and transmissions, motors and muscles."""
