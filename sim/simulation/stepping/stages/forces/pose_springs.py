"""Springs of spherical and free joints in a step."""

import numpy as np
import warp as wp

from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.actuators.joint_force import joint_force_kernels
from warp_kernels.dynamics.pose_springs import pose_spring_kernels
from warp_kernels.solver.midpoint.pose_spring_weights import pose_spring_weight_kernels


class PoseSprings(Stage):
    """Stage of the springs of spherical and free joints; a model without such springs has no such stage.

    Its forces, at the position of the step, are joint forces. What a spring changes within the step is damping, as
    of a joint whose damping grows by the step's duration times the stiffness; of a midpoint step it is weighted.

    Args:
        step: workspace of the step.

    Attributes:
        sprung: degrees of freedom with these springs.
        sprung_damping: damping of all joints with the springs' share [world, dof]; no rows if springs are explicit or
            weighted.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        model = step.model
        self.sprung = step.integers(np.flatnonzero(model.sprung_dofs))
        self.sprung_dof = step.integers(model.sprung_dofs.astype(np.int32))
        self._implicit = not (step.by_mujoco or step.weighted)
        self.sprung_damping: wp.array = (
            wp.zeros_like(step.qd) if self._implicit else step.device_model.none(step.scalar)
        )
        self._weights = pose_spring_weight_kernels(step.scalar, step.groups.lanes)

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [self.sprung_damping]

    def pull(self) -> None:
        """Add the forces of springs to the joint forces, and compute their damping; recorded on an active tape."""
        step = self._step
        if not (step.model.nu or step.tendons):
            step.launch(joint_force_kernels(step.scalar).begin_joint_force, (step.model.nv, step.num_worlds))
        kernels = pose_spring_kernels(step.scalar)
        dim = (len(step.model.sprung_links), step.num_worlds)
        step.launch(kernels.pose_spring_forces, dim, tape=True, sign=step.scalar(1.0))
        if self._implicit:
            step.launch(kernels.damping_with_springs, (step.model.nv, step.num_worlds), tape=True)

    @property
    def replaced(self) -> dict[str, wp.array]:
        """Return the parameters that the free dynamics has in place of the model's, by name."""
        return {"damping": self.sprung_damping} if self._implicit else {}

    def weigh(self) -> None:
        """Add the weighted terms of a midpoint step to the damping and the diagonal of the mass matrix."""
        step = self._step
        step.launch(self._weights.weigh_pose_springs, self._dofs, joints=step.impulses.joints)

    def weigh_adjoint(self) -> None:
        """Propagate the adjoint of these terms to the stiffness."""
        step = self._step
        step.launch(
            self._weights.weigh_pose_springs_adjoint, self._dofs, joints=step.impulses.joints,
            joints_bar=step.impulses.joints_bar,
        )  # fmt: skip

    @property
    def _dofs(self) -> tuple[int, int]:
        return (self.sprung.shape[0], self._step.groups.num_groups)
