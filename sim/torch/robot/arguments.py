"""Argument checks of a robot's methods, and the batch shape that arguments broadcast to."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np
import torch

from sim.errors import ModelError
from sim.model.checks import require_flags, require_type
from sim.model.model import Model
from sim.torch.arrays import require_dense
from sim.torch.modes import not_compiled


class Arguments:
    """Expected shapes, dtype and device of the arguments of a model's methods.

    Args:
        model: the model.
    """

    def __init__(self, model: Model):
        self.inner: dict[str, tuple[int | None, ...]] = {
            **dict.fromkeys(("q", "q0", "q1"), (model.nq,)),
            **dict.fromkeys(("qd", "qdd", "tau"), (model.nv,)),
            "wrench": (model.num_links, 6),
            "wrenches": (None, 6),
            "link_pose": (model.num_links, 7),
            **dict.fromkeys(("origin", "direction"), (None, 3)),
        }
        self.parameters = {name: value.shape for name, value in model.parameters.items()}

    def batch(self, inputs: Mapping[str, torch.Tensor], like: torch.Tensor) -> torch.Size:
        """Return the batch shape to which inputs [..., n] are broadcast.

        Args:
            inputs: tensors by the names of arguments.
            like: a tensor of the robot's dtype on its device.

        Raises:
            ModelError: for a wrong shape, dtype or device, and for batch shapes that don't broadcast.
        """
        shapes = [self._batch_shape(name, value, like) for name, value in inputs.items()]
        try:
            # PyTorch's function imports SymPy.
            return torch.Size(np.broadcast_shapes(*shapes))
        except ValueError:
            listed = ", ".join(f"{name} {tuple(value.shape)}" for name, value in inputs.items())
            raise ModelError(f"batch shapes don't fit each other: {listed}") from None

    def _batch_shape(self, name: str, value: torch.Tensor, like: torch.Tensor) -> torch.Size:
        require_dense(name, value)
        inner = self.inner[name]
        split = value.dim() - len(inner)
        if split < 0 or not _fits(value.shape[split:], inner):
            expected = ", ".join(["...", *("*" if size is None else str(size) for size in inner)])
            raise ModelError(f"{name} has shape {tuple(value.shape)}; expected ({expected})")
        check_like(name, value, like)
        return value.shape[:split]

    def check_parameters(
        self, names: Sequence[str], values: Sequence[torch.Tensor], rows: int, like: torch.Tensor
    ) -> None:
        """Check that parameters have the model's shapes, or one value for each row, and the robot's dtype and device.

        Raises:
            ModelError: if one differs.
        """
        for name, value in zip(names, values, strict=True):
            single = self.parameters[name]
            if value.shape != single and value.shape != (rows, *single):
                raise ModelError(
                    f"parameter '{name}' has shape {tuple(value.shape)}; expected {single}, or {(rows, *single)} for "
                    "one value in each row"
                )
            if value.dtype != like.dtype or value.device != like.device:
                raise ModelError(
                    f"parameter '{name}' is {value.dtype} on {value.device}, but 'mass' is {like.dtype} on "
                    f"{like.device}"
                )


def stacked_wrenches(wrench: Mapping[str, torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """Join external wrenches [..., 6], given by the names of frames, into one tensor [..., frames, 6].

    Raises:
        ModelError: for anything but a dictionary of tensors of the dtype and device of ``like``, for a wrong shape, and
            for batch shapes that don't broadcast.
    """
    require_type("wrench", wrench, Mapping, "a dictionary from names of frames to tensors, or a tensor")
    for name, each in wrench.items():
        require_type(f"wrench on '{name}'", each, torch.Tensor, "a torch.Tensor")
        if each.dim() < 1 or each.shape[-1] != 6:
            raise ModelError(f"wrench on '{name}' has shape {tuple(each.shape)}; expected (..., 6)")
        check_like(f"wrench on '{name}'", each, like)
    try:
        return torch.stack(torch.broadcast_tensors(*wrench.values()), dim=-2)
    except RuntimeError:
        listed = ", ".join(f"wrench on '{name}' {tuple(each.shape)}" for name, each in wrench.items())
        raise ModelError(f"batch shapes don't fit each other: {listed}") from None


def check_like(name: str, value: torch.Tensor, like: torch.Tensor) -> None:
    """Raise ModelError unless an argument has the dtype and device of ``like``, a parameter of the robot."""
    if value.dtype != like.dtype or value.device != like.device:
        raise ModelError(
            f"{name} is {value.dtype} on {value.device}, but the robot is {like.dtype} on {like.device}; move one of "
            "them with .to()"
        )


def with_or_without(method: str, passive: bool) -> str:
    """Return the key of a method with or without passive forces. Raises ModelError unless the switch is a bool."""
    require_flags(method, passive=passive)
    return method if passive else f"{method} without passive forces"


def over_a_second(velocity: torch.Tensor, time: float) -> torch.Tensor:
    """Return the velocity [..., nv] that moves as far in one second as the given one in a time [s].

    With it one operation serves all times; otherwise each time would be captured separately. Anything but a tensor of
    floats is returned as it is, to be rejected by its name later.
    """
    if time == 1.0 or not (isinstance(velocity, torch.Tensor) and velocity.is_floating_point()):
        return velocity
    return time * velocity


@not_compiled("the value of a tensor can't be traced by torch.compile")
def one_number(name: str, value: object) -> float:
    """Return a constant of a call as a Python float, from a number or from a tensor or array that holds a single one.

    Raises:
        ModelError: for anything else, for NaN and for a tensor that requires a gradient.
    """
    if isinstance(value, torch.Tensor):
        if value.requires_grad and torch.is_grad_enabled():
            raise ModelError(f"{name} requires a gradient, but a call takes it as a constant; use {name}.detach()")
        if torch._C._functorch.is_functorch_wrapped_tensor(value):
            raise ModelError(f"{name} is batched by torch.func.vmap; it must be one number for all")
    if isinstance(value, torch.Tensor):
        require_dense(name, value)
    if isinstance(value, torch.Tensor | np.ndarray) and math.prod(value.shape) == 1:
        value = value.item()
    if isinstance(value, bool | np.void) or not isinstance(value, Real) or math.isnan(value):
        found = f"has shape {tuple(value.shape)}" if isinstance(value, torch.Tensor | np.ndarray) else f"is {value!r}"
        raise ModelError(f"{name} {found}; expected one number")
    return float(value)


def check_shared(model: Model, values: Mapping[str, torch.Tensor], user: str) -> None:
    """Raise ModelError if a parameter, by its name, doesn't have the model's shape, which its ``user`` needs."""
    for name, value in values.items():
        single = model.parameters[name].shape
        if value.shape != single:
            raise ModelError(
                f"parameter '{name}' has shape {tuple(value.shape)}; {user} needs one value for all rows, of shape "
                f"{single}; set one, such as robot.{name} = robot.{name}[0]"
            )


def _fits(shape: torch.Size, inner: tuple[int | None, ...]) -> bool:
    if None not in inner:
        return shape == inner
    return all(there == size for there, size in zip(shape, inner, strict=True) if size is not None)


def geometry_values(
    model: Model, function: str, names: Sequence[str], given: Mapping[str, torch.Tensor], like: torch.Tensor
) -> list[torch.Tensor]:
    """Return the parameters of a function, with the model's for those that aren't given.

    Args:
        model: the model.
        function: name of the function, for errors.
        names: of the parameters, in order.
        given: those of the call.
        like: a tensor of the robot's dtype on its device.

    Raises:
        ModelError: for a parameter that isn't among the names, or a model without geometries, such as one of a file
            read without them.
    """
    if not model.num_geometries:
        raise ModelError(
            f"{function}: the robot has no geometries; load its file with collision=True or visual=True, or make the "
            "robot from a model that has geometries"
        )
    for name in given:
        if name not in names:
            raise ModelError(f"{function}: unknown parameter '{name}'; known: {', '.join(names)}")
    return [
        given[name] if name in given else torch.as_tensor(model.parameters[name], dtype=like.dtype, device=like.device)
        for name in names
    ]
