"""The integrators of MuJoCo's law but Euler's, which is that of any step."""
