"""Checks of a task's settings, and of what its methods return."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from sim.envs.state import CARRIED, NewEpisodes, TaskState
from sim.envs.task import Task
from sim.errors import ModelError
from sim.model.checks import is_whole, names_in, number, require_flags, require_type
from sim.model.model import Model
from sim.torch.arrays import TORCH_DTYPES, require_tensor

POLICY = "policy"  # the group of observations that policies see
INPUTS = ("tau", "control", "kinematic_qd", "active")  # a model's inputs


def require_settings(task: Task, num_actions: object) -> None:
    """Raise ModelError for invalid or out-of-range settings of a task, including action bounds."""
    name = type(task).__name__
    for what, value in (("frame_skip", task.frame_skip), ("num_actions", num_actions)):
        if not is_whole(value, 1):
            raise ModelError(f"{name}: {what} is {value!r}; it must be a whole number of at least 1")
    require_flags(name, time_is_final=task.time_is_final)
    if not number(name, "max_episode_length", task.max_episode_length) >= 1.0:
        raise ModelError(f"{name}: max_episode_length is {task.max_episode_length!r}; it must be at least 1")


def bound_of(task: Task, what: str, num_actions: int, device: torch.device) -> torch.Tensor:
    """Return a bound of actions [num_actions]. Raises ModelError for anything else."""
    name, given = type(task).__name__, getattr(task, what)
    try:
        bound = torch.as_tensor(given, dtype=TORCH_DTYPES[task.dtype], device=device)
    except (TypeError, ValueError, RuntimeError):
        raise ModelError(f"{name}: {what} is {given!r}; it must be a number, or one for each entry") from None
    if bound.shape not in ((), (num_actions,)):
        raise ModelError(f"{name}: {what} has shape {tuple(bound.shape)}; expected one number, or {num_actions}")
    return bound.expand(num_actions).clone()


def require_state(said: str, state: TaskState, count: int, model: Model) -> None:
    """Raise ModelError, starting with ``said``, for a state that isn't one of this number of environments."""
    given = {"q": state.q, "qd": state.qd, "act": state.act}
    expected = {"q": (count, model.nq), "qd": (count, model.nv), "act": (count, model.na) if model.na else None}
    for what in ("data", "readings", "carried"):
        require_type(f"what {said} as {what}", getattr(state, what), Mapping, "a dictionary")
    for name in state.carried:
        if name not in CARRIED:
            raise ModelError(f"{said} '{name}' as carried; it may be {' or '.join(CARRIED)}")
    for name, value in (given | {"steps": state.steps, **state.data, **state.readings, **state.carried}).items():
        if not isinstance(value, torch.Tensor) and not (value is None and name in given):
            raise ModelError(f"{said} {name} as a {type(value).__name__}; expected a torch.Tensor")
    for name, value in given.items():
        shape = None if value is None else tuple(value.shape)
        if shape != expected[name]:
            raise ModelError(f"{said} {name} {shape}; expected {expected[name]}")
        if value is not None and value.dtype != TORCH_DTYPES[model.dtype]:
            raise ModelError(f"{said} {name} of {value.dtype}; expected {TORCH_DTYPES[model.dtype]}")
    if state.steps.shape != (count,):
        raise ModelError(f"{said} steps {tuple(state.steps.shape)}; expected ({count},)")
    for name, value in state.data.items():
        if name in (*given, "steps"):
            raise ModelError(f"{said} data '{name}', which is the name of a part of every state; choose another")
        if value.shape[:1] != (count,):
            raise ModelError(f"{said} data '{name}' {tuple(value.shape)}; expected ({count}, ...)")


def require_logged(task: Task, state: TaskState) -> None:
    """Raise ModelError for a name in a task's ``logged`` that isn't among its data."""
    for name in names_in(f"{type(task).__name__}.logged", task.logged):
        if name not in state.data:
            known = ", ".join(state.data) or "none"
            raise ModelError(f"{type(task).__name__}.logged has '{name}', but the data of its states are {known}")


def said_of(task: Task, method: str) -> str:
    """Return the subject of messages about what a task's method returned."""
    return f"what {type(task).__name__}.{method} returned"


def first_state(task: Task, new: NewEpisodes, model: Model) -> TaskState:
    """Return a task's initial states, with states of actuators, which are zero unless the task sets them."""
    first = task.begin(new)
    method = "sample_state" if type(task).begin is Task.begin else "begin"
    require_type(said_of(task, method), first, TaskState, "a TaskState, as self.episodes(q, qd) makes one")
    if first.act is None and model.na:
        first = replace(first, act=first.qd.new_zeros(len(new), model.na))
    require_state(f"{type(task).__name__}.{method} returned", first, len(new), model)
    return first


def parameters_of(task: Task, count: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return a task's random parameters for new episodes."""
    parameters, said = task.randomise(count, generator), said_of(task, "randomise")
    require_type(said, parameters, Mapping, "a dictionary")
    for name, value in parameters.items():
        require_tensor(f"{said} for '{name}'", value, (count, *getattr(value, "shape", ())[1:]))
    return dict(parameters)


def inputs_of(task: Task, before: TaskState, action: torch.Tensor) -> Mapping[str, torch.Tensor]:
    """Return a model's inputs for actions, which are clamped."""
    inputs = task.inputs(before, action)
    if not isinstance(inputs, Mapping) or not set(inputs).issubset(INPUTS):
        said = ", ".join(map(repr, inputs)) if isinstance(inputs, Mapping) else f"a {type(inputs).__name__}"
        raise ModelError(f"{type(task).__name__}.inputs returned {said}; expected {', '.join(map(repr, INPUTS))}")
    return inputs


def advanced(task: Task, before: TaskState, action: torch.Tensor, after: TaskState, bad: torch.Tensor) -> TaskState:
    """Return the state after a step with its new data; bad environments [n] keep theirs, without history."""
    changes = _changes(task, "advance", task.advance(before, action, after), after, dict(after.data))
    if not changes:
        return after
    kept = {
        name: torch.where(bad.view(-1, *[1] * (value.dim() - 1)), before.data[name].detach(), value)
        for name, value in changes.items()
    }
    return replace(after, data={**after.data, **kept})


def with_events(task: Task, state: TaskState) -> TaskState:
    """Return the state with which the next step begins."""
    numbers = {name: value for name in ("q", "qd", "act") if (value := getattr(state, name)) is not None}
    changes = _changes(task, "events", task.events(state), state, {**state.data, **numbers})
    if not changes:
        return state
    moved: dict[str, Any] = {name: changes.pop(name) for name in numbers if name in changes}
    carried = dict(state.carried)
    if "q" in moved and "q_low" in carried:
        carried["q_low"] = torch.where((moved["q"] == state.q).all(1, keepdim=True), carried["q_low"], 0.0)
    return replace(state, **moved, data={**state.data, **changes}, carried=carried)


def _changes(
    task: Task, method: str, changes: Mapping[str, torch.Tensor], state: TaskState, known: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return a task's changes of a state by name, each of the shape and dtype of what it changes."""
    said = said_of(task, method)
    if not isinstance(changes, Mapping):
        raise ModelError(f"{said} is a {type(changes).__name__}; it must be a dictionary of what changes")
    for name, value in changes.items():
        if name not in known:
            raise ModelError(
                f"{said} has '{name}', which no state has; it may have {', '.join(known) or 'nothing'}. Give the first "
                f"value of '{name}' as data in sample_state"
            )
        require_tensor(f"{said} for '{name}'", value, tuple(known[name].shape), known[name].dtype)
    return dict(changes)


def reward_of(
    task: Task, before: TaskState, action: torch.Tensor, after: TaskState
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the reward of a step [n], and its terms [n], if it has terms, in the task's dtype."""
    given, said, shape = task.reward(before, action, after), said_of(task, "reward"), (len(after.q),)
    dtype = TORCH_DTYPES[task.dtype]
    if not isinstance(given, Mapping):
        require_tensor(said, given, shape)
        return given.to(dtype), {}
    if not given:
        raise ModelError(f"{said} has no terms; give at least one")
    for name, value in given.items():
        require_tensor(f"{said} for '{name}'", value, shape)
    terms = {name: value.to(dtype) for name, value in given.items()}
    return torch.stack(list(terms.values())).sum(dim=0), terms


def failures_of(task: Task, after: TaskState) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return a mask of the episodes that have failed [n], and masks by reason, if they have names."""
    given, said, shape = task.terminated(after), said_of(task, "terminated"), (len(after.q),)
    if not isinstance(given, Mapping):
        require_tensor(said, given, shape, torch.bool)
        return given, {}
    if not given:
        raise ModelError(f"{said} has no masks; give at least one")
    for name, value in given.items():
        require_tensor(f"{said} for '{name}'", value, shape, torch.bool)
    return torch.stack(list(given.values())).any(dim=0), dict(given)


def groups_of(task: Task, seen: object) -> dict[str, tuple[int, ...]]:
    """Return the shapes of one environment's groups of observations, from those of one environment.

    A tensor is the group "policy". Raises ModelError for anything that isn't observations.
    """
    said = said_of(task, "observe")
    if not isinstance(seen, Mapping):
        size = int(seen.shape[-1]) if isinstance(seen, torch.Tensor) and seen.dim() else 0
        require_tensor(said, seen, (1, size))
        return {POLICY: (size,)}
    if POLICY not in seen:
        raise ModelError(f"{said} has the groups {sorted(seen)}; one of them must be '{POLICY}', for the policy")
    for name, value in seen.items():
        require_tensor(f"{said} for '{name}'", value, (1, *getattr(value, "shape", ())[1:]))
    return {name: tuple(value.shape[1:]) for name, value in seen.items()}


def images_of(seen: torch.Tensor | Mapping[str, torch.Tensor]) -> frozenset[str]:
    """Return the names of the groups of observations that are images: of uint8, and not a policy's numbers."""
    named = seen if isinstance(seen, Mapping) else {}
    return frozenset(name for name, value in named.items() if name != POLICY and value.dtype == torch.uint8)


def observations_of(
    task: Task,
    seen: torch.Tensor | Mapping[str, torch.Tensor],
    count: int,
    groups: Mapping[str, tuple[int, ...]],
    images: frozenset[str],
) -> dict[str, torch.Tensor]:
    """Return groups of observations of environments, each of its shape, in the task's dtype; images stay uint8."""
    said, dtype = said_of(task, "observe"), TORCH_DTYPES[task.dtype]
    named = seen if isinstance(seen, Mapping) else {POLICY: seen}
    if named.keys() != groups.keys():
        raise ModelError(f"{said} has the groups {sorted(named)}, before {sorted(groups)}; always return the same ones")
    for name, value in named.items():
        kind = torch.uint8 if name in images else None
        require_tensor(f"{said} for '{name}'" if named is seen else said, value, (count, *groups[name]), kind)
    return {name: value if name in images else value.to(dtype) for name, value in named.items()}
