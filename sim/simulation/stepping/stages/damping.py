"""The velocities of a step's end from those that constraints leave, by joint damping."""

from typing import Any

import warp as wp

from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.solver.mujoco.integrators.damping import damping_kernels


class Damping(Stage):
    """Nothing is left to do: damping is among the forces.

    Args:
        step: the step's workspace.

    Attributes:
        qd_solved: velocities that the constraints leave [world, dof].
        damping_loss: what damping takes of a velocity; None where nothing is taken afterwards.
        damping_weight: of the adjoint, for what reaches the mass matrix and damping.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        self.qd_solved = step.qd_next
        self.damping_loss: wp.array = step.device_model.none(step.scalar)
        self.damping_weight = self.damping_loss

    def damp(self) -> None:
        """From qd_solved to qd_next."""

    def adjoint(self) -> None:
        """From the adjoint of qd_next to that of qd_solved."""

    def motion_adjoint(self) -> None:
        """Add what the damping of a step has to do with forces of motion."""


class ImplicitDamping(Damping):
    """Implicit joint damping of MuJoCo's law.

    Attributes:
        servo_damping: velocity gains of actuators on the diagonal [dof, ...]; no rows where they are explicit.
        damped_l, damped_d: factors of the mass matrix with damping.
        damping_scratch: of both ways.
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
        """Solve it for the adjoint; damping_weight is kept for what reaches the mass matrix and damping."""
        self._step.launch(self._kernels.damping_adjoint, self._step.groups.num_groups)

    @property
    def _kernels(self) -> Any:
        return damping_kernels(self._step.scalar, self._step.groups.lanes)


def damping_of_euler(step: Workspace) -> Damping:
    """Return the damping of Euler's method by the step's law."""
    return ImplicitDamping(step) if step.by_mujoco else Damping(step)
