"""Forces of actuators, muscles and tendons as differentiable functions."""
