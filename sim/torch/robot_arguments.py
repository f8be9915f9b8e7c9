"""Arguments of a robot's methods: checked, broadcast against each other, with their batch dimensions made one."""

from collections.abc import Mapping, Sequence

import torch

from sim.errors import ModelError
from sim.model import Model


class Arguments:
    """What the arguments of a model's methods look like.

    Args:
        model: the model.
    """

    def __init__(self, model: Model):
        self.inner: dict[str, tuple[int | None, ...]] = {
            **dict.fromkeys(("q", "q0", "q1"), (model.nq,)),
            **dict.fromkeys(("qd", "qdd", "tau"), (model.nv,)),
            "wrench": (model.num_links, 6),
            "wrenches": (None, 6),
        }
        self.parameters = {name: value.shape for name, value in model.parameters.items()}
        self._shapes: dict[tuple[str, ...], list[tuple[int, ...]]] = {}

    def flatten(
        self, inputs: Mapping[str, torch.Tensor | None], like: torch.Tensor
    ) -> tuple[list[torch.Tensor | None], torch.Size, int]:
        """Inputs [..., n] as [rows, n].

        Args:
            inputs: tensors by the names of arguments; None for one that isn't given.
            like: a tensor of the robot's dtype on its device.

        Returns:
            the flat inputs, the shape of the batch, its number of rows.

        Raises:
            ModelError: for a wrong shape, dtype or device, and for batch shapes that don't fit each other.
        """
        first, dtype, device = next(iter(inputs.values())), like.dtype, like.device
        if isinstance(first, torch.Tensor) and first.dim() > 0:
            rows, inner = first.shape[0], self.inner
            # What comes most often is found out with least; whatever is unlike that gets a second look.
            others = [
                name
                for name, x in inputs.items()
                if x is not None
                and not (
                    isinstance(x, torch.Tensor)
                    and x.shape == (rows, *inner[name])
                    and x.dtype is dtype
                    and x.device == device
                )
            ]
            if not others:
                return list(inputs.values()), first.shape[:1], rows
        shapes = [self._batch_shape(name, value, like) for name, value in inputs.items() if value is not None]
        batch = shapes[0]
        if shapes.count(batch) != len(shapes):
            try:
                batch = torch.broadcast_shapes(*shapes)
            except RuntimeError:
                given = ((name, value) for name, value in inputs.items() if value is not None)
                told = ", ".join(f"{name} {tuple(value.shape)}" for name, value in given)
                raise ModelError(f"batch shapes don't fit each other: {told}") from None
        rows = batch.numel()
        flat = [None if x is None else _flat(x, len(self.inner[name]), batch, rows) for name, x in inputs.items()]
        return flat, batch, rows

    def _batch_shape(self, name: str, value: torch.Tensor, like: torch.Tensor) -> torch.Size:
        if not isinstance(value, torch.Tensor):
            raise ModelError(f"{name} is a {type(value).__name__}; expected a torch.Tensor")
        inner = self.inner[name]
        split = value.dim() - len(inner)
        if split < 0 or not _fits(value.shape[split:], inner):
            expected = ", ".join(["...", *("frames" if size is None else str(size) for size in inner)])
            raise ModelError(f"{name} has shape {tuple(value.shape)}; expected ({expected})")
        if value.dtype != like.dtype or value.device != like.device:
            raise ModelError(
                f"{name} is {value.dtype} on {value.device}, but the robot is {like.dtype} on {like.device}; move one "
                "of them with .to()"
            )
        return value.shape[:split]

    def check_parameters(
        self, names: Sequence[str], values: Sequence[torch.Tensor], rows: int, like: torch.Tensor
    ) -> None:
        """Check that parameters have the model's shapes, or one value for each row, and the robot's dtype and device.

        Raises:
            ModelError: if one hasn't.
        """
        dtype, device = like.dtype, like.device
        fits = [x.shape for x in values] == self._shapes_of(tuple(names))
        if fits and not [x for x in values if x.dtype is not dtype or x.device != device]:
            return
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

    def _shapes_of(self, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        if names not in self._shapes:
            self._shapes[names] = [self.parameters[name] for name in names]
        return self._shapes[names]


def _fits(shape: torch.Size, inner: tuple[int | None, ...]) -> bool:
    if None not in inner:
        return shape == inner
    return all(there == size for there, size in zip(shape, inner, strict=True) if size is not None)


def _flat(value: torch.Tensor, inner_dims: int, batch: torch.Size, rows: int) -> torch.Tensor:
    """An argument [..., *inner] as [rows, *inner], itself if it is that already."""
    if len(batch) == 1 and value.dim() == 1 + inner_dims and value.shape[0] == rows:
        return value
    inner = value.shape[value.dim() - inner_dims :]
    return value.expand(*batch, *inner).reshape(rows, *inner)
