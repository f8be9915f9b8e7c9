"""Integrators, by name: Euler's method for both laws, the midpoint step of the hard law, and others of MuJoCo's.

"implicit" integrates velocity gains and all velocity-dependent forces of motion implicitly; "implicitfast" velocity
gains and the gyroscopic forces of free bodies.
"""

from typing import Any

import warp as wp

from sim.errors import ModelError
from sim.simulation.stepping.midpoint import MidpointStep
from sim.simulation.stepping.pipeline import Step
from sim.simulation.stepping.runge_kutta import RungeKuttaStep
from sim.simulation.stepping.stages.forces.damping import Damping, ImplicitDamping
from sim.simulation.stepping.tendon_layout import free_bodies
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.solver.mujoco.integrators.damping import servo_damping_kernels
from warp_kernels.solver.mujoco.integrators.implicit import implicit_integrator_kernels
from warp_kernels.solver.mujoco.integrators.spin import spin_kernels


class ServoDamping(ImplicitDamping):
    """Base of the integrators with implicit velocity gains."""

    has_servos = True

    def _find_servo_damping(self) -> None:
        step = self._step
        if step.model.nu:
            step.launch(servo_damping_kernels(step.scalar).add_servo_damping, step.num_worlds)

    def _servo_damping_adjoint(self) -> None:
        step = self._step
        if step.model.nu:
            step.launch(servo_damping_kernels(step.scalar).servo_damping_adjoint, step.num_worlds)


class Implicit(ServoDamping):
    """Integrator "implicit"; see :mod:`warp_kernels.solver.mujoco.integrators.implicit`.

    Attributes:
        composite_inertia, composite_rate, composite_momentum, turn: of links and degrees of freedom, for the matrix.
        implicit_lower, implicit_upper, implicit_diagonal: the matrix and its factors.
        implicit_scratch: scratch of the forward and backward pass [dof, world].
        damping_push, shifted_qd, shifted_weight: point and direction in which inverse dynamics is differentiated.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        t, m, worlds = step.device_model.types, step.model, step.worlds_last
        self.composite_inertia, self.composite_rate = (worlds(m.num_links, t.inertia) for _ in range(2))
        self.composite_momentum, self.turn = worlds(m.num_links, t.spatial), worlds(m.nv, t.spatial)
        self.implicit_lower, self.implicit_upper = (worlds(int(m.dof_depth.sum())) for _ in range(2))
        self.implicit_diagonal, self.implicit_scratch = worlds(m.nv), worlds(m.nv)
        self.damping_push, self.shifted_qd, self.shifted_weight = (wp.zeros_like(self.damping_loss) for _ in range(3))
        self._no_weight: wp.array = wp.zeros((1, 1), dtype=t.vec3, device=step.device)
        self._no_change = wp.zeros_like(self.damping_loss)

    def damp(self) -> None:
        """Solve the system with the matrix of forces of motion."""
        self._find_servo_damping()
        step = self._step
        step.launch(
            self._implicit_kernels.implicit_matrix,
            (step.model.num_trees, step.num_worlds),
            heavy_tendon=step.tendons.heavy.heavy_tendon if step.tendons else None,
            tendon_armature=step.device_model.parameter_arrays("tendon_armature")["tendon_armature"],
        )
        step.launch(self._implicit_kernels.factor_implicit, step.num_worlds)
        step.launch(self._implicit_kernels.implicit_velocity, step.num_worlds)

    def adjoint(self) -> None:
        """Propagate the adjoint of qd_next to qd_solved and the matrix."""
        self._step.launch(self._implicit_kernels.implicit_velocity_adjoint, self._step.num_worlds)
        self._servo_damping_adjoint()

    def motion_adjoint(self) -> None:
        """Add the adjoint of the forces of motion in the matrix, by differences along two directions."""
        step = self._step
        for sign in (1.0, -1.0):
            dim = (step.model.nv, step.num_worlds)
            step.launch(self._implicit_kernels.begin_bias_adjoint, dim, sign=step.scalar(sign))
            step.dynamics.motion_adjoint(
                qd=self.shifted_qd,
                qdd=self._no_change,
                gravity=self._no_weight,
                motion_weight=self.shifted_weight,
                common_wrench=None,
                lift=None,
                qd_bar=step.qd.grad,
                gravity_bar=None,
                common_wrench_bar=None,
                lift_bar=None,
            )

    @property
    def _implicit_kernels(self) -> Any:
        return implicit_integrator_kernels(self._step.scalar)


class ImplicitFast(ServoDamping):
    """Integrator "implicitfast".

    Attributes:
        spinning_tree: bodies that turn freely.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        trees = free_bodies(step.model)
        self.spinning_tree = step.integers(trees)
        self._spinning = (len(trees), step.num_worlds)

    def damp(self) -> None:
        """Damp as Euler's method, with velocity gains on the diagonal; then turn free bodies with implicit gyroscopic
        forces.
        """
        self._find_servo_damping()
        super().damp()
        if self._spinning[0]:
            self._step.launch(spin_kernels(self._step.scalar).spin, self._spinning)

    def adjoint(self) -> None:
        """Propagate the adjoint of qd_next to qd_solved and the gains."""
        super().adjoint()
        if self._spinning[0]:
            self._step.launch(spin_kernels(self._step.scalar).spin_adjoint, self._spinning)
        self._servo_damping_adjoint()


class ExplicitStep(Step):
    """Euler's method with explicit joint damping, as MuJoCo's if a file disables the flag eulerdamp."""

    damping_of = Damping


class ImplicitStep(Step):
    """MuJoCo's integrator "implicit"."""

    damping_of = Implicit


class ImplicitFastStep(Step):
    """MuJoCo's integrator "implicitfast"."""

    damping_of = ImplicitFast


INTEGRATORS = {
    "euler": Step,
    "explicit": ExplicitStep,
    "implicit": ImplicitStep,
    "implicitfast": ImplicitFastStep,
    "rk4": RungeKuttaStep,
    "midpoint": MidpointStep,
}


def require_integrator(integrator: str, by_mujoco: bool) -> None:
    """Raise ModelError for an unknown integrator, or one that the contact law doesn't have."""
    if not isinstance(integrator, str) or integrator not in INTEGRATORS:
        raise ModelError(f"Simulator: integrator is {integrator!r}; it must be {' or '.join(map(repr, INTEGRATORS))}")
    if integrator == "midpoint" and by_mujoco:
        raise ModelError(
            "Simulator: integrator='midpoint' requires hard contact; choose contact=sim.HardContact(), or "
            "integrator='rk4', which is of fourth order"
        )
    if integrator not in ("euler", "midpoint") and not by_mujoco:
        raise ModelError(
            f"Simulator: integrator='{integrator}' requires MuJoCo's contact; choose contact=sim.MujocoContact(), or "
            "integrator='midpoint', which is of second order, or 'euler'"
        )
