"""Linear solves of a step from the middle: Kahan's rule, damping and closed loops."""
