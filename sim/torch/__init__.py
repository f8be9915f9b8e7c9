"""Differentiable simulation for PyTorch: tensors in and out, without a copy."""

from sim.torch.autograd import rollout, step

__all__ = ["rollout", "step"]
