"""Launches of kernels of teams, and links by their depth, see :mod:`warp_kernels.team`."""

from typing import Any

import numpy as np

from sim.arrays.allocation import fill
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.dynamics.team.levels import LinkLevels
from warp_kernels.team import WIDTHS, lanes_of_team


def team_width(step: Workspace) -> int:
    """Return the threads of a team. The width makes no difference on a CPU, which has one kernel for all of them."""
    return max(WIDTHS) if step.device.is_cpu else step.threads_per_world


def team_threads(step: Workspace, width: int | None = None) -> tuple[int, int]:
    """Return the dimensions of a launch of teams of ``width`` threads. Default: those of the step."""
    return step.num_worlds, lanes_of_team(step.device, width or step.threads_per_world)


def tree_width(step: Workspace, largest_level: int) -> int:
    """Return the threads of a team that processes links: no more than the largest level has, as far as there are
    teams of that width; more worlds share a warp then.
    """
    enough = [width for width in WIDTHS if width >= largest_level]
    return team_width(step) if step.device.is_cpu else min([step.threads_per_world, *enough[:1]])


def by_depth(depth: np.ndarray, least: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the first entry of each depth in a list of items by depth, with their number at the end, and the list.

    Args:
        depth: of each item.
        least: smallest number of depths.
    """
    starts = np.concatenate([[0], np.cumsum(np.bincount(depth, minlength=least))])
    return starts, np.argsort(depth, kind="stable")


def link_levels(step: Workspace) -> Any:
    """Return the struct of links by their depth, and of what is below them."""
    model = step.model
    depth = np.zeros(model.num_links, dtype=int)
    children: list[list[int]] = [[] for _ in range(model.num_links)]
    for link, parent in enumerate(model.link_parent):
        if parent >= 0:
            depth[link] = depth[parent] + 1
            children[parent].append(link)
    below: list[list[tuple[int, int]]] = [[] for _ in range(model.nv)]
    for k, above in enumerate(model.dof_parent):
        while above >= 0:
            below[above].append((k, int(model.dof_row_start[k] + model.dof_depth[above])))
            above = model.dof_parent[above]
    start, links = by_depth(depth)
    child_start, child = _concatenated(children)
    below_start, entries = _concatenated(below)
    pairs = np.reshape(entries, (-1, 2))
    arrays: dict[str, np.ndarray] = {
        "start": start, "link": links, "child_start": child_start, "child": child, "tree": model.link_tree,
        "dof_link": model.dof_link, "below_start": below_start, "below": pairs[:, 0], "below_at": pairs[:, 1],
    }  # fmt: skip
    return fill(LinkLevels, **{name: step.integers(array) for name, array in arrays.items()})


def _concatenated(lists: list[list[Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first entry of each list in all of them, with their number at the end, and the entries."""
    starts = np.concatenate([[0], np.cumsum([len(each) for each in lists])])
    return starts, np.array([entry for each in lists for entry in each], dtype=np.int64)
