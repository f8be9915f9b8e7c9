"""MuJoCo's integrator "implicitfast": velocity gains and free bodies' gyroscopic forces are implicit."""

from sim.simulation.stepping.stages.damping import ImplicitDamping
from sim.simulation.stepping.tendons.layout import free_bodies
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.solver.mujoco.integrators.servo_damping import servo_damping_kernels
from warp_kernels.solver.mujoco.integrators.spin import spin_kernels


class ServoDamping(ImplicitDamping):
    """What the integrators with implicit velocity gains share."""

    has_servos = True

    def _find_servo_damping(self) -> None:
        step = self._step
        if step.model.nu:
            step.launch(servo_damping_kernels(step.scalar).add_servo_damping, step.num_worlds)

    def _servo_damping_adjoint(self) -> None:
        step = self._step
        if step.model.nu:
            step.launch(servo_damping_kernels(step.scalar).servo_damping_adjoint, step.num_worlds)


class ImplicitFast(ServoDamping):
    """As Euler's method but for these.

    Attributes:
        spinning_tree: bodies that turn freely.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        trees = free_bodies(step.model)
        self.spinning_tree = step.integers(trees)
        self._spinning = (len(trees), step.num_worlds)

    def damp(self) -> None:
        """As by Euler, with velocity gains on the diagonal; then free bodies turn with implicit gyroscopic forces."""
        self._find_servo_damping()
        super().damp()
        if self._spinning[0]:
            self._step.launch(spin_kernels(self._step.scalar).spin, self._spinning)

    def adjoint(self) -> None:
        """From the adjoint of qd_next to those of qd_solved and of the gains."""
        super().adjoint()
        if self._spinning[0]:
            self._step.launch(spin_kernels(self._step.scalar).spin_adjoint, self._spinning)
        self._servo_damping_adjoint()
