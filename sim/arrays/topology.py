"""Integer arrays of a model's trees that only kernels need: forks, slides, low words and ancestors."""

import numpy as np

from sim.model.model import Model
from warp_kernels.types import FIXED, FREE, PRISMATIC


def forks(link_parent: np.ndarray) -> np.ndarray:
    """Return 1 for links with a child that is not the next link, otherwise 0 [num_links]."""
    found = np.zeros(len(link_parent), dtype=np.int32)
    apart = (link_parent >= 0) & (link_parent < np.arange(len(link_parent)) - 1)
    found[link_parent[apart]] = 1
    return found


def last_slides(model: Model) -> np.ndarray:
    """Return the last of the prismatic joints that each tree begins with, or its root [num_trees]."""
    found = np.array(model.tree_link_start[:-1], dtype=np.int32)
    for tree, root in enumerate(found):
        link = int(root)
        while model.joint_type[link] in (FIXED, PRISMATIC):
            if model.joint_type[link] == PRISMATIC:
                found[tree] = link
            link += 1
            if link == model.num_links or model.link_parent[link] != link - 1:
                break
    return found


def low_words(model: Model, slides: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the first low word of the position of each link's joint, -1 for none [num_links], and their number.

    In single precision free joints have them, and the slides that trees begin with, see
    :mod:`warp_kernels.kinematics.low_words`.

    Args:
        model: the model.
        slides: last of the slides that each tree begins with, or its root [num_trees].
    """
    starts, count = np.full(model.num_links, -1, dtype=np.int32), 0
    if model.dtype == "float32":
        for root, last in zip(model.tree_link_start[:-1], slides, strict=True):
            for link in range(root, last + 1):
                size = {FREE: 3, PRISMATIC: 1}.get(int(model.joint_type[link]), 0)
                starts[link] = count if size else -1
                count += size
    return starts, count


def packed_ancestors(model: Model) -> np.ndarray:
    """Return the ancestors of each degree of freedom k at ``dof_row_start[k]`` plus depth."""
    ancestors = np.zeros(int(model.dof_depth.sum()), dtype=np.int32)
    start, end = model.dof_row_start, model.dof_row_start + model.dof_depth
    for k, above in enumerate(model.dof_parent):
        if above >= 0:
            ancestors[start[k] : end[k] - 1] = ancestors[start[above] : end[above]]
            ancestors[end[k] - 1] = above
    return ancestors
