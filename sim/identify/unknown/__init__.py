"""Unknown quantities by name, their priors, and their map to a model's parameters."""
