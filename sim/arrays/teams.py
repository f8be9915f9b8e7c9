"""Links by their depth, for teams of threads that process those of a level together, see :mod:`warp_kernels.team`."""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, integer_array
from sim.errors import ModelError
from sim.model.checks import is_whole
from sim.model.model import Model
from warp_kernels.dynamics.team.levels import LinkLevels
from warp_kernels.team import WIDTHS


def require_width(where: str, threads_per_world: int) -> None:
    """Check the number of threads of a world. Raises ModelError naming the caller ``where``."""
    if not is_whole(threads_per_world, 1) or threads_per_world not in (1, *WIDTHS):
        raise ModelError(f"{where}: threads_per_world is {threads_per_world!r}; it must be 1, 8, 16 or 32")


def by_depth(depth: np.ndarray, least: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the first entry of each depth in a list of items by depth, with their number at the end, and the list.

    Args:
        depth: of each item.
        least: smallest number of depths.
    """
    starts = np.concatenate([[0], np.cumsum(np.bincount(depth, minlength=least))])
    return starts, np.argsort(depth, kind="stable")


class Levels(NamedTuple):
    """Links by their depth, for kernels, and the number of links of the largest level."""

    links: Any
    widest: int


def link_levels(model: Model, device: wp.Device, visited: np.ndarray | None = None) -> Levels:
    """Return links by their depth, and what is below them.

    Args:
        model: the model.
        device: device of the arrays.
        visited: the links to process, with all links above each of them. Default: all.
    """
    links = np.arange(model.num_links) if visited is None else visited
    depth = np.zeros(model.num_links, dtype=int)
    children: list[list[int]] = [[] for _ in range(model.num_links)]
    for link in links:
        parent = model.link_parent[link]
        if parent >= 0:
            depth[link] = depth[parent] + 1
            children[parent].append(int(link))
    below: list[list[tuple[int, int]]] = [[] for _ in range(model.nv)]
    for k, above in enumerate(model.dof_parent):
        while above >= 0:
            below[above].append((k, int(model.dof_row_start[k] + model.dof_depth[above])))
            above = model.dof_parent[above]
    start, by_level = by_depth(depth[links])
    child_start, child = _concatenated(children)
    below_start, entries = _concatenated(below)
    pairs = np.reshape(entries, (-1, 2))
    arrays: dict[str, np.ndarray] = {
        "start": start, "link": links[by_level], "child_start": child_start, "child": child, "tree": model.link_tree,
        "dof_link": model.dof_link, "below_start": below_start, "below": pairs[:, 0], "below_at": pairs[:, 1],
    }  # fmt: skip
    struct = fill(LinkLevels, **{name: integer_array(array, device) for name, array in arrays.items()})
    return Levels(struct, int(np.diff(start).max(initial=1)))


def _concatenated(lists: list[list[Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first entry of each list in all of them, with their number at the end, and the entries."""
    starts = np.concatenate([[0], np.cumsum([len(each) for each in lists])])
    return starts, np.array([entry for each in lists for entry in each], dtype=np.int64)
