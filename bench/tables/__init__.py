"""Peak memory and time of gradients through long rollouts, compared with autodiff frameworks: see ``__main__``."""
