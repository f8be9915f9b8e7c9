"""Parameters of a robot as tensors, for the kernels of an operation."""

import copy
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import record
from sim.model.parameters import PARAMETERS, number_of_dims
from sim.torch.arrays import as_array
from warp_kernels.parameters import parameter_kernels


class ParameterArrays:
    """A model whose parameters are tensors, with memory for their gradients.

    Quaternions of placements are normalised and inertias symmetrised first, see :meth:`normalised`.

    Args:
        base: topology and types.
        names: names of the parameters that an operation reads; the model has no others.
        tensors: their values, contiguous.
        needed: names of those that get a gradient.

    Attributes:
        model: the model for the kernels.
        gradients: gradients in the tensors of the needed parameters.
    """

    def __init__(
        self, base: DeviceModel, names: Sequence[str], tensors: Sequence[torch.Tensor], needed: frozenset[str]
    ):
        self.tensors = dict(zip(names, tensors, strict=True))
        self.gradients = {name: torch.zeros_like(tensor) for name, tensor in self.tensors.items() if name in needed}
        self.model = copy.copy(base)
        self.model.forget_double()
        self._normalisations: list[Any] = []
        self._projections: list[Any] = []
        self.model.parameters = {name: self._array(name, tensor) for name, tensor in self.tensors.items()}

    def load(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy the values of other tensors."""
        if tensors:
            torch._foreach_copy_(list(self.tensors.values()), list(tensors))

    @contextmanager
    def normalised(self) -> Iterator[DeviceModel]:
        """Yield the model with the tensors' present values; after the launches in this context, project the
        gradients.
        """
        for name in self.gradients:
            self.model.parameters[name].grad.zero_()
        self.normalise_parameters()
        yield self.model
        self.project_gradients()

    def normalise_parameters(self) -> None:
        """Compute the model's arrays from the tensors."""
        for launch in self._normalisations:
            launch.launch()

    def project_gradients(self) -> None:
        """Compute the gradients in the tensors from those in the model's arrays."""
        for launch in self._projections:
            launch.launch()

    def _array(self, name: str, tensor: torch.Tensor) -> wp.array:
        dtype = self.model.parameter_dtype(name)
        gradient = self.gradients.get(name)
        grad = None if gradient is None else as_array(_by_rows(name, gradient), dtype)
        given = as_array(_by_rows(name, tensor), dtype)
        kernels, shape = parameter_kernels(self.model.types.scalar), PARAMETERS[name].shape
        if shape not in ((7,), (3, 3)):
            given.grad = grad
            return given
        recorded = functools.partial(record, dim=given.shape, device=given.device, given=given)
        normalised = wp.empty(given.shape, dtype=dtype, device=given.device)
        normalised.grad = grad
        if shape == (3, 3):
            self._normalisations.append(recorded(kernels.symmetric_parts, matrix=normalised))
            return normalised
        self._normalisations.append(recorded(kernels.unit_poses, pose=normalised))
        if grad is not None:
            self._projections.append(recorded(kernels.given_pose_gradients, gradient=grad))
        return normalised


def _by_rows(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return a view ``[rows, n, ...]`` with one row for a shared parameter, and n = 1 for one of the world."""
    if tensor.dim() == number_of_dims(name):
        tensor = tensor.unsqueeze(0)
    return tensor.unsqueeze(1) if PARAMETERS[name].per == "world" else tensor
