"""MuJoCo's integrators: velocity after the step from the velocity of the constraint solution."""
