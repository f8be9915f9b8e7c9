"""Differentiable simulation for PyTorch: tensors in and out, without a copy."""

from sim.torch.adjoint_clip import clip_adjoint
from sim.torch.autograd import rollout, step
from sim.torch.robot.parametrisations import (
    Parametrisation,
    PhysicalInertia,
    Positive,
    PositiveDefinite,
    Rotation,
    Unconstrained,
)
from sim.torch.robot.robot import Robot

__all__ = [
    "Parametrisation",
    "PhysicalInertia",
    "Positive",
    "PositiveDefinite",
    "Robot",
    "Rotation",
    "Unconstrained",
    "clip_adjoint",
    "rollout",
    "step",
]
