"""Checks of a viewer's arguments."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.dynamics.arguments import require_coordinates
from sim.errors import ModelError
from sim.model.checks import as_numbers
from sim.model.model import Model


def pose(model: Model, num_worlds: int, value: Any) -> np.ndarray:
    """Broadcast coordinates [nq] or [num_worlds, nq] to [num_worlds, nq].

    Raises:
        ModelError: for a wrong shape, non-finite values, or a zero quaternion.
    """
    q = as_numbers("show: q", value)
    shapes = ((model.nq,), (num_worlds, model.nq))
    if q.shape not in shapes:
        raise ModelError(f"show: q has shape {q.shape}; the model has {model.nq} coordinates: expected {shapes[0]} or "
                         f"{shapes[1]}")  # fmt: skip
    q = np.array(np.broadcast_to(q, shapes[1]))
    require_coordinates(model, "show", q[None])
    return q


def motion(model: Model, num_worlds: int, value: Any) -> np.ndarray:
    """Return coordinates [states, num_worlds, nq], or [states, nq] for one world, as [states, num_worlds, nq].

    Raises:
        ModelError: for a wrong shape, non-finite values, or a zero quaternion.
    """
    q = as_numbers("play: q", value)
    full = q[:, None] if q.ndim == 2 and num_worlds == 1 else q
    if full.ndim != 3 or not len(full) or full.shape[1:] != (num_worlds, model.nq):
        raise ModelError(
            f"play: q has shape {q.shape}; the model has {model.nq} coordinates and the viewer {num_worlds} "
            f"world{'' if num_worlds == 1 else 's'}; expected [states, {num_worlds}, {model.nq}]"
        )
    require_coordinates(model, "play", full)
    return full


def starts(model: Model, num_worlds: int, value: Any) -> np.ndarray:
    """Return the first motions of a search, from [states, starts, nq]; a diverging motion keeps its last finite pose.

    Raises:
        ModelError: for a wrong shape, or fewer starts than worlds.
    """
    q = as_numbers("watch: q", value)
    if q.ndim != 3 or not len(q) or q.shape[1] < num_worlds or q.shape[2] != model.nq:
        raise ModelError(
            f"watch: q has shape {q.shape}; the viewer shows {num_worlds} worlds of {model.nq} coordinates; expected "
            "[states, starts, nq] with at least as many starts as worlds"
        )
    q = np.array(q[:, :num_worlds])
    for world in range(num_worlds):
        bad = ~np.isfinite(q[:, world]).all(axis=1)
        if bad.any():
            first = int(np.argmax(bad))
            q[first:, world] = q[first - 1, world] if first else model.q0
    require_coordinates(model, "watch", q)
    return q


def readings(num_worlds: int, states: int, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Check curves [states or steps, num_worlds] or [..., k] by name; return them with a trailing k.

    Raises:
        ModelError: naming the curves, for a wrong shape or non-finite values.
    """
    found = {}
    for name, value in values.items():
        array = as_numbers(f"play: readings '{name}'", value)
        full = array[..., None] if array.ndim == 2 else array
        if full.ndim != 3 or len(full) not in (states, states - 1) or not len(full) or full.shape[1] != num_worlds:
            raise ModelError(
                f"play: readings '{name}' have shape {array.shape}; expected [{states}, {num_worlds}], or a third "
                f"dimension for "
                "several curves"
            )
        if not np.isfinite(full).all():
            raise ModelError(f"play: readings '{name}' aren't finite")
        found[name] = full
    return found


def link_gradients(model: Model, num_worlds: int, states: int, value: Any) -> np.ndarray:
    """Check gradients [steps, num_worlds, num_links, 3], with at most as many steps as states.

    Raises:
        ModelError: for a wrong shape or non-finite values.
    """
    array = as_numbers("play: gradients", value)
    shape = (num_worlds, model.num_links, 3)
    if array.ndim != 4 or array.shape[1:] != shape or len(array) > states:
        raise ModelError(
            f"play: gradients have shape {array.shape}; give [at most {states}, {', '.join(map(str, shape))}]"
        )
    if not np.isfinite(array).all():
        raise ModelError(f"play: gradients aren't finite in step {np.argwhere(~np.isfinite(array))[0][0]}")
    return array


def vectors(points: Any, directions: Any, worlds: Any, num_worlds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Check vectors [n, 3] at points [n, 3] of worlds [n].

    Raises:
        ModelError: for wrong shapes, non-finite values, or a world that does not exist.
    """
    origins, arrows = as_numbers("show_gradients: points", points), as_numbers("show_gradients: vectors", directions)
    if origins.ndim != 2 or origins.shape[1] != 3 or arrows.shape != origins.shape:
        raise ModelError(
            f"show_gradients: points have shape {origins.shape} and vectors {arrows.shape}; expected [n, 3] for both"
        )
    if not (np.isfinite(origins).all() and np.isfinite(arrows).all()):
        raise ModelError("show_gradients: points or vectors aren't finite")
    try:
        owners = np.broadcast_to(np.asarray(worlds, dtype=int), len(origins))
    except ValueError:
        raise ModelError(f"show_gradients: worlds is {worlds!r}; give one index, or one per point") from None
    if len(owners) and not 0 <= owners.min() <= owners.max() < num_worlds:
        raise ModelError(f"show_gradients: indices in worlds must lie between 0 and {num_worlds - 1}")
    return origins, arrows, owners


def inputs(model: Model, num_worlds: int, value: Any) -> np.ndarray | None:
    """Check inputs of the actuators [nu] or [num_worlds, nu]; return None for None.

    Raises:
        ModelError: for a wrong shape.
    """
    if value is None:
        return None
    control = as_numbers("offer_simulation: control", value)
    shapes = ((model.nu,), (num_worlds, model.nu))
    if control.shape not in shapes:
        raise ModelError(f"offer_simulation: control has shape {control.shape}; expected {shapes[0]} or {shapes[1]}")
    return control
