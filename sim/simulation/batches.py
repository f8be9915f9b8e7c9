"""Batches of arrays that a user gives: checked, broadcast to all worlds, and copied to the device."""

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.host_memory import AnyArray, HostArray, as_warp, rows_of
from sim.errors import ModelError
from sim.model.checks import as_numbers, is_whole
from sim.model.model import Model

# Accepted for batches: NumPy arrays, nested lists, PyTorch tensors without gradient, and Warp arrays.
ArrayLike = npt.ArrayLike | wp.array
# Why an input of a model has no entries.
NO_ENTRIES = {
    "control": ": the model has no actuators; add them with add_actuator",
    "kinematic_qd": ": the model has no kinematic joints",
    "active": ": no constraint of the model switches; add one with active=True or active=False",
}


class Batches:
    """Conversion of states and inputs to Warp arrays.

    Args:
        model: the model of one world.
        num_worlds: number of worlds.
        device: device of the arrays.
    """

    def __init__(self, model: Model, num_worlds: int, device: wp.Device):
        self.num_worlds = num_worlds
        self.device = device
        self.scalar, self.dtype = model.scalar, model.dtype

    def array(self, value: ArrayLike, ndim: int, name: str) -> wp.array:
        """Return a contiguous Warp array of the model's dtype; ``value`` itself if it is one.

        Raises:
            ModelError: for a Warp array of another dtype or on another device, and for one with a gradient that is not
                contiguous.
        """
        if isinstance(value, wp.array):
            # A copy would cut the gradient of the given array, so only arrays without gradient are copied.
            if value.dtype != self.scalar:
                raise ModelError(
                    f"{name} has dtype {value.dtype.__name__}, but the model has {self.dtype}; convert one"
                )
            if value.device != self.device:
                raise ModelError(
                    f"{name} is on device {value.device}, but the simulator is on {self.device}; move one of them"
                )
            if value.is_contiguous:
                return value
            if value.requires_grad:
                raise ModelError(f"{name} requires a gradient but is not contiguous; give a contiguous array")
            value = value.numpy()
        array = np.ascontiguousarray(value, dtype=np.float64)
        return wp.array(array, dtype=self.scalar, device=self.device, ndim=ndim)

    def of_worlds(self, value: ArrayLike, size: int, name: str) -> wp.array:
        """Return an array [num_worlds, size], from that shape or [size]. Raises ModelError for another shape."""
        return as_warp(self.rows_of_worlds(value, size, name))

    def rows_of_worlds(self, value: ArrayLike | HostArray, size: int, name: str) -> AnyArray:
        """Return rows as :meth:`of_worlds`, but on a CPU without wrapping host arrays in Warp arrays."""
        shape = (self.num_worlds, size)
        if isinstance(value, HostArray):
            if value.shape == shape and value.dtype == self.scalar and self.device.is_cpu:
                return value
            value = value.warp()
        given = value if isinstance(value, wp.array) else as_numbers(name, value)
        if isinstance(given, np.ndarray) and given.shape == (size,):
            given = np.broadcast_to(given, shape)
        if tuple(given.shape) != shape:
            raise ModelError(f"{name} has shape {tuple(given.shape)}; expected {shape}{_reason(name, size)}")
        return self.array(given, 2, name) if isinstance(given, wp.array) else rows_of(given, self.scalar, self.device)

    def of_one_step(self, value: ArrayLike | None, size: int, name: str) -> wp.array | None:
        """Return the input of a single step as that of a rollout, with its gradient."""
        if value is None:
            return None
        value = self.of_worlds(value, size, name)
        whole = value.reshape((1, *value.shape))
        if value.requires_grad:
            whole.grad = value.grad.reshape(whole.shape)
        return whole

    def of_steps(self, value: ArrayLike | None, size: int, name: str, steps: object = None) -> wp.array | None:
        """Return an array [steps, num_worlds, size], from that shape, [steps, size], or [size] with a number of steps.

        Raises:
            ModelError: for another shape.
        """
        if value is None:
            return None
        shape = (self.num_worlds, size)
        if not isinstance(value, wp.array):
            value = as_numbers(name, value)
            if value.shape == (size,) and is_whole(steps, 0):
                value = np.broadcast_to(value, (steps, *shape))  # type: ignore[arg-type]
            if value.ndim == 2 and value.shape[1] == size:
                value = np.repeat(value[:, None], self.num_worlds, axis=1)
        if value.ndim != 3 or tuple(value.shape[1:]) != shape:
            hint = (
                "; give the number of steps by steps=" if tuple(value.shape) in ((), (size,)) else _reason(name, size)
            )
            raise ModelError(f"{name} has shape {tuple(value.shape)}; expected (steps, {shape[0]}, {shape[1]}){hint}")
        return self.array(value, 3, name)


def _reason(name: str, size: int) -> str:
    """Return why an input has no entries, for an error."""
    return NO_ENTRIES.get(name, "") if size == 0 else ""
