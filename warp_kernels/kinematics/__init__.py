"""Kinematics: poses, Jacobians, velocities, accelerations, integration of coordinates."""
