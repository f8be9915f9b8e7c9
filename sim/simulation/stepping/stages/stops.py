"""The stage of stops: free bodies and limbs are not carried through static triangle meshes."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill
from sim.arrays.launch import active_tape
from sim.model.geometries import Geometry
from sim.model.model import Model
from sim.simulation.stepping.collision import radius_of
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.stops.bodies import STOPS, StopPairs, stop_kernels
from warp_kernels.stops.trees import TreePairs, tree_stop_kernels
from warp_kernels.types import CONVEX, FIXED, FREE, PRISMATIC, REVOLUTE


class Stops(Stage):
    """Reduces velocities that would carry a body through a mesh; see :mod:`warp_kernels.stops`.

    Args:
        step: the step's workspace.

    Attributes:
        stop_pairs: struct of the free bodies and the meshes that they may touch.
        tree_pairs: struct of the articulated trees and the meshes that they may touch.
        stop_pair, stop_triangle: pair and triangle of each stop of a body, in order [STOPS * bodies, world].
        stop_shift: change of each body's displacement [bodies, world], m.
        slowing_pair, slowing_triangle: pair and triangle that slow a tree down [trees, world].
        slowed_share: share of the step for which a slowed tree moves [trees, world].
        closing_rate: velocity of its centre along the triangle's normal then [trees, world], m/s.
        tree_share: share of the step for which each tree moves [trees, world].
        carried_point, carried_end: the centre in links and trees after that share [links or trees, world], m.
        qd_unstopped: the velocity along which positions would move without stops [world, dof].
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        bodies, trees = step.collision.on_meshes
        self.stop_pairs, self.tree_pairs = self._body_pairs(bodies, trees), self._tree_pairs(trees)
        self._bodies, self._trees = ((len(pairs), step.num_worlds) for pairs in (bodies, trees))
        vec3 = step.device_model.types.vec3
        self.stop_pair, self.stop_triangle = (step.worlds_last(STOPS * len(bodies), wp.int32) for _ in range(2))
        self.stop_shift = step.worlds_last(len(bodies), vec3)
        self.slowing_pair, self.slowing_triangle = (step.worlds_last(len(trees), wp.int32) for _ in range(2))
        self.slowed_share, self.closing_rate, self.tree_share = (step.worlds_last(len(trees)) for _ in range(3))
        self.carried_end = step.worlds_last(len(trees), vec3)
        self.carried_point = step.worlds_last(step.model.num_links if trees else 0, vec3)
        self._solved = step.joint_damping.qd_solved
        self.qd_unstopped = wp.zeros_like(self._solved) if step.bouncing else self._solved

    def _body_pairs(self, bodies: dict[int, list[tuple[int, int]]], trees: Iterable[int]) -> Any:
        model = self._step.model
        dof = np.full(model.nv, -1)
        for number, link in enumerate(bodies):
            start = model.joint_qd_start[link]
            dof[start : start + 3] = 3 * number + np.arange(3)
        number_of = {tree: number for number, tree in enumerate(trees)}
        dof_tree = [number_of.get(int(model.link_tree[link]), -1) for link in model.dof_link]
        further = {"link": list(bodies), "dof": dof, "dof_tree": dof_tree}
        return fill(StopPairs, **self._integers(further | pair_arrays(bodies.values())))

    def _tree_pairs(self, trees: dict[int, list[tuple[int, int]]]) -> Any:
        model = self._step.model
        bodies = [model.geometries[body] for pairs in trees.values() for body, _mesh in pairs]
        paths = [self._path(body.link) for body in bodies]
        levers = [levers_of(model, body, path) for body, path in zip(bodies, paths, strict=True)]
        arrays = {
            "path_start": np.cumsum([0, *map(len, paths)]),
            "path": [link for path in paths for link in path],
            "lever_start": np.cumsum([0, *map(len, levers)]),
            "lever_dof": [dof for lever in levers for dof in lever],
        }
        lever: wp.array = wp.array(
            [each for lever in levers for each in lever.values()], dtype=float, device=self._step.device
        )
        return fill(TreePairs, **self._integers(arrays | pair_arrays(trees.values())), lever=lever)

    def _path(self, link: int) -> list[int]:
        path = [link]
        while (parent := int(self._step.model.link_parent[path[-1]])) >= 0:
            path.append(parent)
        return path

    def _integers(self, arrays: dict[str, Any]) -> dict[str, wp.array]:
        return {name: self._step.integers(np.asarray(each, dtype=int)) for name, each in arrays.items()}

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        of_trees = [self.tree_share, self.carried_point, self.carried_end]
        return [self.stop_shift, *of_trees, self._solved, *([self.qd_unstopped] if self._step.bouncing else [])]

    def find(self) -> None:
        """Compute qd_next and qd_path from qd_solved and qd_unstopped; recorded on an active tape."""
        step = self._step
        kernels, tree_kernels = stop_kernels(step.scalar), tree_stop_kernels(step.scalar)
        if self._bodies[0]:
            step.launch(kernels.find_stops, self._bodies)
            if active_tape() is not None:
                step.launch(kernels.stop_shifts, self._bodies, tape=True)
        if self._trees[0]:
            step.launch(tree_kernels.find_tree_stops, self._trees)
            if active_tape() is not None:
                step.launch(tree_kernels.tree_shares, self._trees, tape=True)
        dofs = (step.model.nv, step.num_worlds)
        step.launch(kernels.apply_stops, dofs, tape=True, bouncing=int(step.bouncing))


def pair_arrays(items: Sequence[list[tuple[int, int]]] | Any) -> dict[str, np.ndarray]:
    """Return where the pairs of each item start, and their geometries."""
    pairs = np.array([pair for item in items for pair in item]).reshape(-1, 2)
    return {"start": np.cumsum([0, *map(len, items)]), "body": pairs[:, 0], "mesh": pairs[:, 1]}


def levers_of(model: Model, body: Geometry, path: list[int]) -> dict[int, float]:
    """Return the largest speed that a unit velocity of each degree of freedom gives to a geometry's centre.

    path: links from that of the geometry to the root.
    """
    levers = {}
    length = float(np.linalg.norm(body.placement[:3])) + (radius_of(body) if body.type == CONVEX else 0.0)
    for link in path:
        kind, start = model.joint_type[link], model.joint_qd_start[link]
        if kind == PRISMATIC:
            levers[start] = 1.0
            length = np.inf
        elif kind == FREE:
            levers |= dict.fromkeys(range(start, start + 3), 1.0)
            start += 3
        if kind != FIXED and kind != PRISMATIC:
            levers |= dict.fromkeys(range(start, start + (1 if kind == REVOLUTE else 3)), length)
        length += float(np.linalg.norm(model.parameters["joint_placement"][link][:3]))
    return levers
