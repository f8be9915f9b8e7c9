"""Parameters of a robot as tensors, for the kernels of an operation."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
import warp as wp

from sim.device_model import DeviceModel
from sim.parameters import PARAMETERS
from sim.torch.arrays import as_array
from warp_kernels.parameters import parameter_kernels


def is_shared(name: str, tensor: torch.Tensor) -> bool:
    """Whether a parameter has one value for all rows, ``[n, ...]``, and not one for each, ``[rows, n, ...]``."""
    return tensor.dim() == len(PARAMETERS[name].shape) + (PARAMETERS[name].per != "world")


class ParameterArrays:
    """A model whose parameters are copied from tensors at each call, with a place for their gradients.

    Quaternions of placements are normalised and inertias made symmetric on the way.

    Args:
        base: topology and types.
        names: the parameters that an operation reads; the model has no others.
        tensors: their values, for their shapes.
        needed: those that get a gradient.

    Attributes:
        model: for the kernels; ``tidy`` brings it up to date with the tensors of the last ``load``.
    """

    def __init__(
        self, base: DeviceModel, names: Sequence[str], tensors: Sequence[torch.Tensor], needed: frozenset[str]
    ):
        self.names = names
        self.given = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]
        self.gradients = {
            name: torch.zeros_like(tensor) for name, tensor in zip(names, self.given, strict=True) if name in needed
        }
        self.model = copy.copy(base)
        self.model.forget_double()
        self._launches: list[Any] = []
        self.model.parameters = {
            name: self._array(name, tensor) for name, tensor in zip(names, self.given, strict=True)
        }

    def load(self, tensors: Sequence[torch.Tensor]) -> None:
        """Take the values of tensors."""
        if self.given:
            torch._foreach_copy_(self.given, list(tensors))

    def tidy(self) -> None:
        """Make the model's arrays of what was loaded."""
        for launch in self._launches:
            launch.launch()

    def clear_gradients(self) -> None:
        """Set all gradients to zero."""
        for name in self.gradients:
            self.model.parameters[name].grad.zero_()

    def take_gradient(self, name: str) -> torch.Tensor:
        """A copy of the gradient in a tensor that was loaded."""
        gradient = self.gradients[name].clone()
        if PARAMETERS[name].shape == (7,):
            # The kernels give it tangent to the sphere, for a quaternion of unit length.
            raw = self.given[self.names.index(name)]
            gradient[..., 3:] /= raw[..., 3:].norm(dim=-1, keepdim=True)
        return gradient

    def _array(self, name: str, tensor: torch.Tensor) -> wp.array:
        dtype = self.model.parameter_dtype(name)
        gradient = self.gradients.get(name)
        grad = None if gradient is None else as_array(_by_rows(name, gradient), dtype)
        given = as_array(_by_rows(name, tensor), dtype)
        kernels = parameter_kernels(self.model.types.scalar)
        kernel = {(7,): kernels.unit_poses, (3, 3): kernels.symmetric_parts}.get(PARAMETERS[name].shape)
        if kernel is None:
            given.grad = grad
            return given
        tidy = wp.empty(given.shape, dtype=dtype, device=given.device)
        tidy.grad = grad
        self._launches.append(wp.launch(kernel, given.shape, [given], [tidy], device=given.device, record_cmd=True))
        return tidy


def _by_rows(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A view ``[rows, n, ...]`` with one row for a shared parameter, and n = 1 for one of the world."""
    if is_shared(name, tensor):
        tensor = tensor.unsqueeze(0)
    return tensor.unsqueeze(1) if PARAMETERS[name].per == "world" else tensor
