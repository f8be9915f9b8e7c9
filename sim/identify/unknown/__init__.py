"""Unknown quantities by name, what is known of them before, and how they become parameters of a model."""
