"""Layout of coordinates and degrees of freedom, and their paths to the roots."""

from dataclasses import dataclass

import numpy as np

from sim.model.compile.bodies import Body
from sim.model.joint_types import JOINT_TYPES


@dataclass(frozen=True)
class DofLayout:
    """Integer arrays of :class:`sim.Model` that follow from the joints, with ``dofs`` of each joint [num_links]."""

    dofs: np.ndarray
    link_parent: np.ndarray
    link_tail_dof: np.ndarray
    joint_q_start: np.ndarray
    joint_qd_start: np.ndarray
    dof_link: np.ndarray
    dof_parent: np.ndarray
    dof_depth: np.ndarray
    dof_q: np.ndarray

    def per_dof(self, values: list[float]) -> np.ndarray:
        """Return values per joint [num_links] as values per degree of freedom [nv]."""
        return np.repeat(np.array(values, dtype=np.float64), self.dofs)

    def of_dofs(self, values: list[float | np.ndarray]) -> np.ndarray:
        """Return the concatenated values of joints: one number each for all degrees of freedom, or an array of them."""
        rows = [np.broadcast_to(value, (count,)) for value, count in zip(values, self.dofs.tolist(), strict=True)]
        return np.concatenate([np.zeros(0), *rows])


def lay_out_dofs(bodies: list[Body]) -> DofLayout:
    """Return the indices of the coordinates and degrees of freedom of a model's links."""
    types = [JOINT_TYPES[body.joint.type] for body in bodies]
    dofs = np.array([type.dofs for type in types], dtype=np.int32)
    link_parent = np.array([body.parent for body in bodies], dtype=np.int32)
    q_start = _starts([type.coordinates for type in types])
    qd_start = _starts(dofs)
    dof_parent, tail = _dof_paths(link_parent, qd_start, dofs)
    dof_link = np.repeat(np.arange(len(bodies)), dofs).astype(np.int32)
    depth = np.zeros(len(dof_link), dtype=np.int32)
    for k, previous in enumerate(dof_parent):
        depth[k] = depth[previous] + 1 if previous >= 0 else 0
    scalar = [type.scalar for type in types]
    return DofLayout(
        dofs=dofs,
        link_parent=link_parent,
        link_tail_dof=tail,
        joint_q_start=q_start,
        joint_qd_start=qd_start,
        dof_link=dof_link,
        dof_parent=dof_parent,
        dof_depth=depth,
        dof_q=np.array([q_start[link] if scalar[link] else -1 for link in dof_link], dtype=np.int32),
    )


def _starts(counts: list[int] | np.ndarray) -> np.ndarray:
    """Return the start of each run in a concatenation of runs of these lengths."""
    return np.concatenate([[0], np.cumsum(counts)])[:-1].astype(np.int32)


def _dof_paths(parent: np.ndarray, qd_start: np.ndarray, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the previous degree of freedom on the path to the root, and the deepest one of each link."""
    dof_parent = np.full(int(dofs.sum()), -1, dtype=np.int32)
    tail = np.full(len(parent), -1, dtype=np.int32)
    for link, (up, start, count) in enumerate(zip(parent, qd_start, dofs, strict=True)):
        last = tail[up] if up >= 0 else -1
        for k in range(start, start + count):
            dof_parent[k] = last
            last = k
        tail[link] = last
    return dof_parent, tail
