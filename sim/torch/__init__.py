"""Differentiable simulation for PyTorch: tensors in and out, without a copy."""

from sim.torch.autograd import rollout, step
from sim.torch.robot import Robot

__all__ = ["Robot", "rollout", "step"]
