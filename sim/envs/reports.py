"""Results of a step by name: terms of the reward, failures, and the log of episodes that ended."""

from collections.abc import Mapping
from typing import Any

import torch

from sim.envs import returned
from sim.envs.state import TaskState
from sim.envs.task import Task
from sim.errors import ModelError


def named_results(
    task: Task,
    state: TaskState,
    sums: Mapping[str, torch.Tensor],
    reasons: Mapping[str, torch.Tensor],
    not_finite: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor,
) -> dict[str, Any]:
    """Return what a step reports by name, see :meth:`sim.envs.VectorEnv.step`.

    Args:
        task: the task.
        state: the state after the step, before any reset.
        sums: sum of each term of the reward over the episodes so far [num_envs].
        reasons: masks of failures by reason [num_envs].
        not_finite: mask of the environments that went bad [num_envs].
        terminated: mask of the episodes that ended by a failure or as bad [num_envs].
        truncated: mask of the episodes that ended by their length [num_envs].
    """
    logged = task.logged
    if not (sums or reasons or logged):
        return {}
    found: dict[str, Any] = {"reward_terms": dict(sums), "failures": reasons}
    ended = terminated | truncated
    if bool(ended.any()):
        ends = {**reasons, "time": truncated & ~terminated, "not_finite": not_finite}
        found["log"] = _log(sums, ends, {name: state.data[name] for name in logged}, ended)
    return found


def summed(
    task: Task,
    sums: Mapping[str, torch.Tensor],
    terms: Mapping[str, torch.Tensor],
    bad: torch.Tensor,
    waiting: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Return the sum of each term of the reward over the episodes so far.

    Args:
        task: the task.
        sums: the sums before this step [num_envs]; empty in the first one.
        terms: the terms of this step [num_envs].
        bad: mask of the environments whose terms don't count [num_envs].
        waiting: mask of the episodes that are over and wait for a reset [num_envs].

    Raises:
        ModelError: for other terms than before.
    """
    if sums and terms.keys() != sums.keys():
        said = returned.said_of(task, "reward")
        raise ModelError(f"{said} has the terms {sorted(terms)}, before {sorted(sums)}; always return the same ones")
    return {
        name: (sums.get(name, 0.0) + value.detach().masked_fill(bad, 0.0)).masked_fill(waiting, 0.0)
        for name, value in terms.items()
    }


def _log(
    terms: Mapping[str, torch.Tensor],
    ends: Mapping[str, torch.Tensor],
    data: Mapping[str, torch.Tensor],
    ended: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Return means of reward terms and data over the episodes that ended, and the number of ends by reason."""
    found = {f"reward/{name}": value[ended].mean() for name, value in terms.items()}
    found |= {f"end/{name}": mask.sum() for name, mask in ends.items()}
    return found | {f"data/{name}": value.detach()[ended].double().mean() for name, value in data.items()}
