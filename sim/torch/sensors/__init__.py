"""What sensors of a model would measure along a rollout, as differentiable functions of its states."""
