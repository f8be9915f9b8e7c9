"""A step of MuJoCo's integrator "implicit": velocity gains, and all forces of motion itself, are implicit."""

from typing import Any

import warp as wp

from sim.simulation.stepping.integrators.implicit_fast import ServoDampedStep
from warp_kernels.dynamics.rnea_adjoint import rnea_adjoint_kernels
from warp_kernels.solver.mujoco.integrators.implicit import implicit_integrator_kernels


class ImplicitStep(ServoDampedStep):
    """Under MuJoCo's law: as by Euler but for these; see :mod:`warp_kernels.solver.mujoco.integrators.implicit`."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        t, m, scalar = self.device_model.types, self.model, self.scalar
        self._kernels = implicit_integrator_kernels(scalar)

        self.carried, self.carried_rate = (
            self.worlds_last(m.num_links, t.inertia),
            self.worlds_last(m.num_links, t.inertia),
        )
        self.carried_momentum, self.turn = self.worlds_last(m.num_links, t.spatial), self.worlds_last(m.nv, t.spatial)
        self.implicit_lower, self.implicit_upper = (self.worlds_last(int(m.dof_depth.sum())) for _ in range(2))
        self.implicit_diagonal, self.implicit_scratch = self.worlds_last(m.nv), self.worlds_last(m.nv)
        self.damping_push, self.shifted_qd, self.shifted_weight = (wp.zeros_like(self.damping_loss) for _ in range(3))
        self._no_weight: wp.array = wp.zeros((1, 1), dtype=t.vec3, device=self.device)
        self._no_change = wp.zeros_like(self.damping_loss)

    def damp(self) -> None:
        """Take the step with the matrix of forces of motion, from qd_solved to qd_next."""
        self._find_servo_damping()
        self.launch(
            self._kernels.implicit_matrix,
            self._trees_of_worlds,
            heavy_tendon=self.tendons.heavy.heavy_tendon,
            tendon_armature=self.device_model.parameter_arrays("tendon_armature")["tendon_armature"],
        )
        self.launch(self._kernels.factor_implicit, self.num_worlds)
        self.launch(self._kernels.implicit_velocity, self.num_worlds)

    def damping_adjoint(self) -> None:
        """From the adjoint of qd_next to those of qd_solved and of the matrix."""
        self.launch(self._kernels.implicit_velocity_adjoint, self.num_worlds)
        self._servo_damping_adjoint()

    def motion_adjoint(self) -> None:
        """As for any step, and of the forces of motion from which the matrix is made."""
        super().motion_adjoint()
        velocity_bar, acceleration_bar, force = self.motion_scratch
        for sign in (1.0, -1.0):
            dim = (self.model.nv, self.num_worlds)
            self.launch(self._kernels.begin_bias_adjoint, dim, sign=self.scalar(sign))
            self.launch_over_groups(
                rnea_adjoint_kernels(self.scalar, self.groups.lanes).rnea_adjoint,
                self._trees_of_groups,
                qd=self.shifted_qd,
                qdd=self._no_change,
                gravity=self._no_weight,
                motion_weight=self.shifted_weight,
                common_wrench=None,
                lift=None,
                direction=self.groups.bias_force,
                velocity_bar=velocity_bar,
                acceleration_bar=acceleration_bar,
                force=force,
                qd_bar=self.qd.grad,
                qdd_bar=None,
                gravity_bar=None,
                common_wrench_bar=None,
                lift_bar=None,
            )
