"""Saved states of environments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from sim.envs.returned import require_state
from sim.envs.state import Episodes, TaskState
from sim.errors import ModelError
from sim.model.checks import require_type
from sim.model.model import Model
from sim.torch.arrays import TORCH_DTYPES, require_tensor

KEPT = ("q", "qd", "steps", "data", "ended", "returns", "parameters", "generator")  # in every saved state


def saved(state: TaskState, episodes: Episodes, generator: torch.Generator) -> dict[str, Any]:
    """Return everything that determines the future of an environment, as tensors in new memory."""
    state, episodes = state.clone(), episodes.clone()
    return {
        "q": state.q,
        "qd": state.qd,
        "act": state.act,
        "steps": state.steps,
        "data": dict(state.data),
        "readings": dict(state.readings),
        "carried": dict(state.carried),
        "ended": episodes.ended,
        "returns": episodes.returns,
        "terms": dict(episodes.terms),
        "parameters": {name: value.clone() for name, value in state.parameters.items()},
        "generator": generator.get_state(),
    }


def restored(
    given: Mapping[str, Any], num_envs: int, model: Model, first: TaskState, source: torch.Generator
) -> tuple[TaskState, Episodes]:
    """Return copies of what :func:`saved` returned, and set the source of random numbers.

    Args:
        given: what was saved.
        num_envs: number of environments.
        model: their model.
        first: state of a new episode, whose data, readings and parameters have the names, shapes and dtypes of all.
        source: source of random numbers.

    Raises:
        ModelError: for anything else; nothing is changed then.
    """
    require_type("set_state: state", given, Mapping, "the result of get_state")
    if missing := [name for name in KEPT if name not in given]:
        raise ModelError(f"set_state: the state lacks '{missing[0]}'; give the result of get_state")
    said, dtype = "set_state: the state has", TORCH_DTYPES[model.dtype]
    read = given.get("readings", {})
    state = TaskState(
        given["q"], given["qd"], given["steps"], given["data"], given.get("act"), read, carried=given.get("carried", {})
    )
    require_state(said, state, num_envs, model)
    for part in ("data", "readings", "parameters"):
        found, known = given.get(part, {}), getattr(first, part)
        if found.keys() != known.keys():
            raise ModelError(f"{said} the {part} {sorted(found)}; the task has {sorted(known)}")
        for name, value in known.items():
            require_tensor(f"set_state: '{name}'", found[name], (num_envs, *value.shape[1:]), value.dtype)
    episodes = Episodes(given["ended"], given["returns"], given.get("terms", {}))
    require_tensor("set_state: 'ended'", episodes.ended, (num_envs,), torch.bool)
    for name, value in {"returns": episodes.returns, **episodes.terms}.items():
        require_tensor(f"set_state: '{name}'", value, (num_envs,), dtype)
    parameters = {name: value.clone() for name, value in given["parameters"].items()}
    try:
        source.set_state(given["generator"].cpu())  # torch.load may have mapped it to a GPU with the rest
    except (AttributeError, TypeError, RuntimeError) as error:
        raise ModelError(f"{said} another generator: {error}") from None
    return replace(state.clone(), parameters=parameters, generator=source), episodes.clone()
