"""A step of MuJoCo's integrator "implicitfast": velocity gains and free bodies' gyroscopic forces are implicit."""

from typing import Any

from sim.simulation.stepping.pipeline import Step
from sim.simulation.stepping.tendons.layout import free_bodies
from warp_kernels.solver.mujoco.integrators.servo_damping import servo_damping_kernels
from warp_kernels.solver.mujoco.integrators.spin import spin_kernels


class ServoDampedStep(Step):
    """What the integrators with implicit velocity gains share."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        dofs = self.model.nv if self.model.nu else 0
        self.servo_damping, self.groups.servo_damping = self.groups.scalars(dofs)

    def _find_servo_damping(self) -> None:
        if self.model.nu:
            self.launch(servo_damping_kernels(self.scalar).add_servo_damping, self.num_worlds)

    def _servo_damping_adjoint(self) -> None:
        if self.model.nu:
            self.launch(servo_damping_kernels(self.scalar).servo_damping_adjoint, self.num_worlds)


class ImplicitFastStep(ServoDampedStep):
    """Under MuJoCo's law: as by Euler but for these."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        trees = free_bodies(self.model)
        self.spinning_tree = self._integers(trees)
        self._spinning = (len(trees), self.num_worlds)

    def damp(self) -> None:
        """As by Euler, with velocity gains on the diagonal; then free bodies turn with implicit gyroscopic forces."""
        self._find_servo_damping()
        super().damp()
        if self._spinning[0]:
            self.launch(spin_kernels(self.scalar).spin, self._spinning)

    def damping_adjoint(self) -> None:
        """From the adjoint of qd_next to those of qd_solved and of the gains."""
        super().damping_adjoint()
        if self._spinning[0]:
            self.launch(spin_kernels(self.scalar).spin_adjoint, self._spinning)
        self._servo_damping_adjoint()
