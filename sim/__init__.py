"""Backswing: a differentiable simulator of articulated rigid bodies with frictional contact."""

from sim.builder import ModelBuilder
from sim.errors import ImportFileError, ModelError
from sim.load import load
from sim.model import Model, Part

__all__ = ["ImportFileError", "Model", "ModelBuilder", "ModelError", "Part", "load"]
