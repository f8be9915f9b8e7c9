"""Peak memory and time of gradients through long rollouts, beside automatic differentiation: see ``__main__``."""
