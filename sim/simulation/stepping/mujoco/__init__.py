"""What of a step is MuJoCo's alone."""
