"""What MuJoCo's integrators do with the velocity that a step's solution leads to."""
