"""Kinematics of a step, and its last stage: positions from velocities."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, gradients_of, zeros
from sim.model.model import Model
from sim.simulation.stepping.lane_groups import share
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.kinematics.recentre import recentre_kernels


class Kinematics(Stage):
    """Stage of link poses, and of their integration.

    Args:
        step: workspace of the step.
        links_of_worlds: links whose inertias are read world by world.

    Attributes:
        pose, link_inertia: poses and spatial inertias of links from their tree's origin, along world axes [link, ...].
        origin: origins of trees [tree, ...].
        q_low, q_low_next: low words of positions before and after the step [world, n].
        origin_low: low words of these origins [tree, world], see :mod:`warp_kernels.kinematics.low_words`.
        subspace: motion subspaces [dof, ...].
        floating_link, floating: bases whose centre of mass moves along a straight line in a step, as indices and as a
            mask of links.
        kinematic_dof: degrees of freedom with prescribed motion [nk].
        kinematic_carries: 1 for those that carry joints which forces move [nk].
        motions, motions_bar: struct of origins and motion subspaces of worlds, and that of their gradients.
    """

    motions_bar: Any

    def __init__(self, step: Workspace, links_of_worlds: np.ndarray):
        super().__init__(step)
        model, groups = step.model, step.groups
        self.pose = groups.copies(model.num_links, "transform")
        self.origin = groups.copies(model.num_trees, "vec3")
        num_low, t = step.device_model.num_low, step.device_model.types
        self.q_low, self.q_low_next = (zeros((step.num_worlds, num_low), step.scalar, step.device) for _ in range(2))
        self.origin_low = step.worlds_last(model.num_trees if num_low else 0, t.vec3)
        self.subspace = groups.copies(model.nv, "spatial")
        self.link_inertia = groups.copies(model.num_links, "inertia", links_of_worlds)
        self._copies = [self.pose, self.origin, self.subspace, self.link_inertia]
        self._of_groups = self._arrays_of_groups()
        self.floating_link = step.integers(step.floating)
        self.floating = step.integers(np.isin(np.arange(model.num_links), step.floating))
        self.kinematic_dof = step.integers(model.kinematic_dofs)
        self.kinematic_carries = step.integers(carrying(model))
        self._bases = (len(step.floating), step.num_worlds)
        self.motions: Any = self._gathered()

    def _arrays_of_groups(self) -> Any:
        """Return the outputs of forward kinematics, with scratch of their adjoint."""
        step, groups = self._step, self._step.groups
        turn_bar, shift_bar = (groups.of_groups(step.model.num_links, groups.types.vec3) for _ in range(2))
        buffered = 2 * step.model.nq * groups.lanes if groups.lanes > 1 else 0
        return SimpleNamespace(
            pose=self.pose.groups,
            origin=self.origin.groups,
            subspace=self.subspace.groups,
            link_inertia=self.link_inertia.groups,
            turn_bar=turn_bar,
            shift_bar=shift_bar,
            q_bar_buffer=zeros((buffered,), step.scalar, step.device),
        )

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [array for copies in self._copies for array in copies.differentiated()]

    def gather(self) -> None:
        """Gather the structs anew, because the arrays now have gradients."""
        self.motions = self._gathered()
        self.motions_bar = gradients_of(self.motions)

    def _gathered(self) -> Any:
        return fill(self._step.structs.Motions, origin=self.origin.worlds, subspace=self.subspace.worlds)

    def find(self) -> None:
        """Compute poses, motion subspaces and inertias of links; recorded on an active tape."""
        self._step.trees.find_poses(self._of_groups)
        share(self._copies)

    @property
    def _drift(self) -> dict[str, Any]:
        return {"qd_path": self._step.drift_velocity, "dt": self._step.drift_time}

    def integrate(self) -> None:
        """Integrate q with the drift velocity to q_next; floating bases turn about their centres of mass."""
        step = self._step
        kernel, threads = integrate_kernels(step.scalar).integrate, step.link_threads
        step.launch(kernel, (threads, step.num_worlds), threads=threads, qd=step.drift_velocity, dt=step.drift_time)
        if self._bases[0]:
            step.launch(recentre_kernels(step.scalar).recentre, self._bases, **self._drift)

    def integrate_adjoint(self) -> None:
        """Propagate the adjoint of q_next to q and the drift velocity."""
        step = self._step
        if self._bases[0]:
            step.launch(recentre_kernels(step.scalar).recentre_adjoint, self._bases, **self._drift)
        kernel, threads = integrate_kernels(step.scalar).integrate_adjoint, step.link_threads
        velocity = step.drift_velocity
        step.launch(
            kernel, (threads, step.num_worlds), threads=threads, qd=velocity, qd_bar=velocity.grad, dt=step.drift_time
        )

    def accelerate_centres(self, acceleration: wp.array) -> None:
        """Compute the acceleration of coordinates with which centres of floating bases don't accelerate [world,
        dof].
        """
        if self._bases[0]:
            kernel = recentre_kernels(self._step.scalar).path_acceleration
            self._step.launch(kernel, self._bases, tape=True, qdd=acceleration)


def carrying(model: Model) -> np.ndarray:
    """Return 1 for each kinematic degree of freedom in a path with joints that forces move, 0 for the others [nk]."""
    carries = np.zeros(model.nv, dtype=bool)
    for dof in range(model.nv):
        path = [dof]
        while model.dof_parent[path[-1]] >= 0:
            path.append(int(model.dof_parent[path[-1]]))
        carries[path] |= not model.prescribed[path].all()
    return carries[model.kinematic_dofs].astype(np.int32)
