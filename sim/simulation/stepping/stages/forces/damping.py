"""Joint damping after the constraints: velocities at the end of a step."""

from typing import Any

import warp as wp

from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.solver.mujoco.integrators.damping import damping_kernels


class Damping(Stage):
    """No damping after the constraints, since it is among the forces.

    Args:
        step: workspace of the step.

    Attributes:
        qd_solved: velocities solved with the constraints [world, dof].
        damping_loss: decrease of velocities by damping; None without damping here.
        damping_weight: weight of the adjoint for the mass matrix and damping.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        self.qd_solved = wp.zeros_like(step.qd_next) if step.stopped else step.qd_next
        self.damping_loss: wp.array = step.device_model.none(step.scalar)
        self.damping_weight = self.damping_loss

    def damp(self) -> None:
        """Compute qd_next from qd_solved."""

    def adjoint(self) -> None:
        """Propagate the adjoint of qd_next to qd_solved."""

    def motion_adjoint(self) -> None:
        """Add the adjoint of forces of motion that damping depends on."""


class ImplicitDamping(Damping):
    """Implicit joint damping of MuJoCo's law.

    Attributes:
        servo_damping: velocity gains of actuators on the diagonal [dof, ...]; no rows if they are explicit.
        damped_l, damped_d: Cholesky factors of the mass matrix with damping.
        damping_scratch: scratch of the forward and backward pass.
    """

    has_servos = False

    def __init__(self, step: Workspace):
        super().__init__(step)
        groups, nv = step.groups, step.model.nv
        self.qd_solved = wp.zeros_like(step.qd_next)
        self.damping_loss = wp.zeros_like(step.qd_next)
        self.damping_weight = wp.zeros_like(step.qd_next)
        self.servo_damping = groups.scalars(nv if self.has_servos and step.model.nu else 0)
        self.damped_l, self.damped_d = groups.scalars(int(step.model.dof_depth.sum())), groups.scalars(nv)
        self.damping_scratch = groups.scalars(nv)

    def damp(self) -> None:
        """Solve the system of the mass matrix with damping."""
        self._step.launch(self._kernels.damp, self._step.groups.num_groups)

    def adjoint(self) -> None:
        """Solve the system for the adjoint; store damping_weight for the mass matrix and damping."""
        self._step.launch(self._kernels.damping_adjoint, self._step.groups.num_groups)

    @property
    def _kernels(self) -> Any:
        return damping_kernels(self._step.scalar, self._step.groups.lanes)


def damping_of_euler(step: Workspace) -> Damping:
    """Return the damping of Euler's method for the step's contact law."""
    return ImplicitDamping(step) if step.by_mujoco else Damping(step)
