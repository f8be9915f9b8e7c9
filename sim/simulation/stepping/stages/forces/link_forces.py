"""Forces on links besides weight: gyroscopic forces, drag and gravity compensation."""

import numpy as np
import warp as wp

from sim.arrays.launch import clear
from sim.simulation.stepping.stages.forces.drag import Drag
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.dynamics.gyroscopic import base_lift_kernels, gyroscopic_kernels
from warp_kernels.dynamics.link_forces import gravity_compensation_kernels


class LinkForces(Stage):
    """Stage of wrenches on links; its arrays have no rows if the model has no such forces.

    Args:
        step: workspace of the step.

    Attributes:
        links_of_worlds: links whose inertias and wrenches are read or written world by world.
        turning_link: links that turn freely, whose gyroscopic forces follow the midpoint rule.
        lifted_link: floating bases whose gyroscopic forces are computed with those of their trees.
        spin: angular velocities of that rule [turning link, world].
        drag: drag of a medium; None in models without one.
        common_wrench: sum of the forces on a link [link, ...].
        lift: force that keeps the centre of mass of a floating base on a straight path [tree, ...].
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        model, t = step.model, step.device_model.types
        self.drag = Drag(step) if len(model.drag_boxes.link) else None
        self._turning, self._lifted = len(step.turning), len(step.lifted)
        self.turning_link, self.lifted_link = step.integers(step.turning), step.integers(step.lifted)
        self.spin = step.worlds_last(self._turning, t.vec3)
        every = step.by_mujoco or model.compensated
        alone = np.union1d(step.turning, step.lifted).astype(int)
        self.links_of_worlds = np.arange(model.num_links) if every else alone
        forced = len(alone) or model.compensated or self.drag
        self.common_wrench = step.groups.copies(model.num_links if forced else 0, "spatial", self.links_of_worlds)
        self.lift = step.groups.copies(model.num_trees if len(step.floating) else 0, "vec3")

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        copies = [*self.common_wrench.differentiated(), *self.lift.differentiated()]
        return [self.spin, *copies]

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        if self.drag:
            self.drag.prepare_adjoint()

    def find(self) -> None:
        """Compute the sum of the wrenches; nonlinear terms are recorded on an active tape."""
        step = self._step
        if step.model.compensated:
            clear(self.common_wrench.worlds)
        elif self.drag:
            clear(self.common_wrench.groups)
        if self._turning:
            kernel = gyroscopic_kernels(step.scalar).gyroscopic_wrench
            step.launch(kernel, (self._turning, step.num_worlds), tape=True)
        if self._lifted:
            kernel = base_lift_kernels(step.scalar).base_lift
            step.launch(kernel, (self._lifted, step.num_worlds), tape=True)
        if step.model.compensated:
            kernel = gravity_compensation_kernels(step.scalar).compensate_gravity
            step.launch(kernel, (step.model.num_links, step.num_worlds))
        for copies in (self.common_wrench, self.lift):
            if copies.worlds.shape[0]:
                copies.from_worlds()
        if self.drag:
            self.drag.add()

    def adjoint(self) -> None:
        """Propagate the adjoints of wrenches to drag, to gravity compensation, and from lane groups to worlds."""
        step = self._step
        if self.drag:
            self.drag.adjoint()
        for copies in (self.common_wrench, self.lift):
            if copies.worlds.shape[0]:
                copies.adjoint_to_worlds()
        if step.model.compensated:
            kernel = gravity_compensation_kernels(step.scalar).compensate_gravity_adjoint
            step.launch(kernel, (step.model.num_links, step.num_worlds))
