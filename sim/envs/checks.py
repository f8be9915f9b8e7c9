"""Checks of what a task says and returns, and of states that are given to an environment."""

from collections.abc import Mapping

import torch

from sim.envs.task import DTYPES, Task, TaskState
from sim.errors import ModelError
from sim.model.checks import is_whole, number, require_type
from sim.model.model import Model


def require_settings(task: Task, num_actions: object) -> None:
    """Raise ModelError for numbers of a task that are none, or out of range, and of actions."""
    name = type(task).__name__
    for what, value in (("frame_skip", task.frame_skip), ("num_actions", num_actions)):
        if not is_whole(value, 1):
            raise ModelError(f"{name}: {what} is {value!r}; it must be a whole number of at least 1")
    if not number(name, "max_episode_length", task.max_episode_length) >= 1.0:
        raise ModelError(f"{name}: max_episode_length is {task.max_episode_length!r}; it must be at least 1")


def bound_of(task: Task, what: str, num_actions: int, device: torch.device) -> torch.Tensor:
    """A bound of actions [num_actions]. Raises ModelError where it is something else."""
    name, given = type(task).__name__, getattr(task, what)
    try:
        bound = torch.as_tensor(given, dtype=DTYPES[task.dtype], device=device)
    except (TypeError, ValueError, RuntimeError):
        raise ModelError(f"{name}: {what} is {given!r}; it must be a number, or one for each entry") from None
    if bound.shape not in ((), (num_actions,)):
        raise ModelError(f"{name}: {what} has shape {tuple(bound.shape)}; expected one number, or {num_actions}")
    return bound.expand(num_actions).clone()


def require_state(said: str, state: TaskState, count: int, model: Model) -> None:
    """Raise ModelError, beginning with what is ``said``, for a state that isn't one of this many environments."""
    given = {"q": state.q, "qd": state.qd, "act": state.act}
    expected = {"q": (count, model.nq), "qd": (count, model.nv), "act": (count, model.na) if model.na else None}
    require_type(f"what {said} as data", state.data, Mapping, "a dictionary")
    for name, value in (given | {"steps": state.steps, **state.data}).items():
        if not isinstance(value, torch.Tensor | None):
            raise ModelError(f"{said} {name} as a {type(value).__name__}; expected a torch.Tensor")
    for name, value in given.items():
        shape = None if value is None else tuple(value.shape)
        if shape != expected[name]:
            raise ModelError(f"{said} {name} {shape}; expected {expected[name]}")
        if value is not None and value.dtype != DTYPES[model.dtype]:
            raise ModelError(f"{said} {name} of {value.dtype}; expected {DTYPES[model.dtype]}")
    if state.steps.shape != (count,):
        raise ModelError(f"{said} steps {tuple(state.steps.shape)}; expected ({count},)")
    for name, value in state.data.items():
        if value.shape[:1] != (count,):
            raise ModelError(f"{said} data '{name}' {tuple(value.shape)}; expected ({count}, ...)")
