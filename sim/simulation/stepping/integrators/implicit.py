"""MuJoCo's integrator "implicit": velocity gains, and all forces of motion itself, are implicit."""

from typing import Any

import warp as wp

from sim.simulation.stepping.integrators.implicit_fast import ServoDamping
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.solver.mujoco.integrators.implicit import implicit_integrator_kernels


class Implicit(ServoDamping):
    """As Euler's method but for these; see :mod:`warp_kernels.solver.mujoco.integrators.implicit`.

    Attributes:
        carried, carried_rate, carried_momentum, turn: of links and degrees of freedom, for the matrix.
        implicit_lower, implicit_upper, implicit_diagonal: the matrix and its factors.
        implicit_scratch: scratch of both ways [dof, world].
        damping_push, shifted_qd, shifted_weight: where and in which direction inverse dynamics is differentiated.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        t, m, worlds = step.device_model.types, step.model, step.worlds_last
        self.carried, self.carried_rate = (worlds(m.num_links, t.inertia) for _ in range(2))
        self.carried_momentum, self.turn = worlds(m.num_links, t.spatial), worlds(m.nv, t.spatial)
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
        """From the adjoint of qd_next to those of qd_solved and of the matrix."""
        self._step.launch(self._implicit_kernels.implicit_velocity_adjoint, self._step.num_worlds)
        self._servo_damping_adjoint()

    def motion_adjoint(self) -> None:
        """Add that of the forces of motion from which the matrix is made, by differences of two directions."""
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
