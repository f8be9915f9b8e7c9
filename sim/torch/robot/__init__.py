"""A robot model as a module of PyTorch."""
