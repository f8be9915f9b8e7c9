"""Drag of a medium, and its linearisation in a step from the middle."""

from typing import Any

import numpy as np
import warp as wp

from sim.model.shapes.inertia import box_mobilities
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.dynamics.drag import drag_kernels
from warp_kernels.solver.midpoint.link_damping import link_damping_kernels


class Drag:
    """Wrenches of a medium on the links of a step; see :mod:`warp_kernels.dynamics.drag`.

    Args:
        step: workspace of the step.

    Attributes:
        drag_start: first box of each tree, and their number [num_trees + 1].
        drag_link, drag_size, drag_placement: link, edges and placement of each box, sorted by link.
        drag_mobility: inverse inertias that weigh the damping of its motion, and of its turns [box].
        drag_motion: velocities of links [link, group].
        link_damping: D in a step from the middle, otherwise without rows; at the end of the step summed over subtrees
            [link, group].
        drag_motion_bar: scratch.
    """

    drag_motion_bar: wp.array

    def __init__(self, step: Workspace):
        self._step = step
        model, boxes, one = step.model, step.model.drag_boxes, step.device_model.types
        order = np.argsort(boxes.link, kind="stable")
        first_link = np.append(model.tree_link_start[:-1], model.num_links)
        self.drag_start = step.integers(np.searchsorted(boxes.link[order], first_link))
        self.drag_link = step.integers(boxes.link[order])
        self.drag_size: wp.array = wp.array(boxes.size[order], dtype=one.vec3, device=step.device)
        self.drag_placement: wp.array = wp.array(boxes.placement[order][None], dtype=one.transform, device=step.device)
        mobility = box_mobilities(model)[order] if step.weighted else np.zeros((0, 2))
        self.drag_mobility: wp.array = wp.array(mobility, dtype=one.vec2, device=step.device)
        t, damped = step.groups.types, model.num_links if step.weighted else 0
        self.drag_motion = step.groups.of_groups(model.num_links, t.spatial)
        self.link_damping = step.groups.of_groups(damped, t.articulated)

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        self.drag_motion_bar = wp.zeros_like(self.drag_motion)
        self.link_damping.grad = wp.zeros_like(self.link_damping)

    def add(self) -> None:
        """Add the wrenches to those on links, and compute D."""
        self._launch(self._drag.drag)

    def write_masses(self, step: Workspace) -> None:
        """Sum D over subtrees, and add the damping to entries of the mass matrix."""
        self._launch(self._damping.damping_masses)

    def damping_adjoint(self) -> None:
        """Compute the adjoint of D, and add to that of motion subspaces."""
        self._launch(self._damping.damping_adjoint)

    def adjoint(self) -> None:
        """Add the adjoints of wrenches and D to those of motion and parameters."""
        self._launch(self._drag.drag_adjoint)

    @property
    def _drag(self) -> Any:
        return drag_kernels(self._step.scalar, self._step.weighted, self._step.groups.lanes)

    @property
    def _damping(self) -> Any:
        return link_damping_kernels(self._step.scalar, self._step.groups.lanes)

    def _launch(self, kernel: wp.Kernel) -> None:
        self._step.launch(kernel, (self._step.model.num_trees, self._step.groups.num_groups), self)
