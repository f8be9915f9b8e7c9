"""The sensors of contacts and forces: their places among the constraints of a step."""
