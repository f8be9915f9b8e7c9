"""Parameters of a robot as tensors, for the kernels of an operation."""

import copy
import functools
from collections.abc import Sequence
from typing import Any

import torch
import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.model.parameters import PARAMETERS
from sim.torch.arrays import as_array
from warp_kernels.parameters import parameter_kernels


@functools.cache
def number_of_dims(name: str) -> int:
    """Of a parameter that has one value for all rows, ``[n, ...]``; one with a value for each row has one more."""
    return len(PARAMETERS[name].shape) + (PARAMETERS[name].per != "world")


class ParameterArrays:
    """A model whose parameters are tensors, with a place for their gradients.

    Quaternions of placements are normalised and inertias made symmetric on the way.

    Args:
        base: topology and types.
        names: the parameters that an operation reads; the model has no others.
        tensors: their values, contiguous.
        needed: those that get a gradient.

    Attributes:
        model: for the kernels; ``tidy`` brings it up to date with what the tensors hold.
        gradients: in the tensors that are needed, once ``finish_gradients`` has come after the kernels.
    """

    def __init__(
        self, base: DeviceModel, names: Sequence[str], tensors: Sequence[torch.Tensor], needed: frozenset[str]
    ):
        self.given = dict(zip(names, tensors, strict=True))
        self.gradients = {name: torch.zeros_like(tensor) for name, tensor in self.given.items() if name in needed}
        self.model = copy.copy(base)
        self.model.forget_double()
        self._launches: list[Any] = []
        self._last_launches: list[Any] = []
        self.model.parameters = {name: self._array(name, tensor) for name, tensor in self.given.items()}

    def load(self, tensors: Sequence[torch.Tensor]) -> None:
        """Take the values of other tensors."""
        if tensors:
            torch._foreach_copy_(list(self.given.values()), list(tensors))

    def tidy(self) -> None:
        """Make the model's arrays of what the tensors hold."""
        for launch in self._launches:
            launch.launch()

    def clear_gradients(self) -> None:
        """Set all gradients to zero, before the kernels add to them."""
        for name in self.gradients:
            self.model.parameters[name].grad.zero_()

    def finish_gradients(self) -> None:
        """Make gradients in the tensors of those in the model's arrays."""
        for launch in self._last_launches:
            launch.launch()

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
        self._launches.append(_launch(kernel, given, tidy))
        if grad is not None and kernel is kernels.unit_poses:
            self._last_launches.append(_launch(kernels.given_pose_gradients, given, grad))
        return tidy


def _launch(kernel: wp.Kernel, given: wp.array, result: wp.array) -> Any:
    return wp.launch(kernel, given.shape, [given], [result], device=given.device, record_cmd=True)


def _by_rows(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A view ``[rows, n, ...]`` with one row for a shared parameter, and n = 1 for one of the world."""
    if tensor.dim() == number_of_dims(name):
        tensor = tensor.unsqueeze(0)
    return tensor.unsqueeze(1) if PARAMETERS[name].per == "world" else tensor
