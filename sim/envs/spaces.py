"""Gymnasium's spaces of observations and actions."""

import importlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sim.errors import ModelError

if TYPE_CHECKING:
    import gymnasium


def observation_space(
    groups: Mapping[str, tuple[int, ...]], images: Collection[str], dtype: np.dtype, only: str | None
) -> "gymnasium.spaces.Box | gymnasium.spaces.Dict":
    """Return the space of one environment's observations: a dictionary of boxes, or one box.

    Args:
        groups: shapes of one environment's observations, by name.
        images: names of the groups that are pictures, of bytes.
        dtype: dtype of all others.
        only: the group whose box it is; None for a dictionary of all.

    Raises:
        ModelError: if gymnasium isn't installed.
    """
    spaces = _gymnasium_spaces("single_observation_space")
    boxes = {
        name: spaces.Box(0, 255, shape, np.uint8) if name in images else spaces.Box(-np.inf, np.inf, shape, dtype)
        for name, shape in groups.items()
    }
    return spaces.Dict(boxes) if only is None else boxes[only]


def action_box(low: torch.Tensor, high: torch.Tensor, dtype: np.dtype) -> "gymnasium.spaces.Box":
    """Return the space of actions between bounds [num_actions]. Raises ModelError if gymnasium isn't installed."""
    below, above = (bound.cpu().numpy().astype(dtype) for bound in (low, high))
    return _gymnasium_spaces("single_action_space").Box(below, above, dtype=dtype)


def _gymnasium_spaces(asked: str) -> Any:
    """Return gymnasium's module of spaces."""
    try:
        return importlib.import_module("gymnasium.spaces")
    except ModuleNotFoundError:
        raise ModelError(f"{asked} is a space of the package gymnasium: pip install 'backswing[rl]'") from None
