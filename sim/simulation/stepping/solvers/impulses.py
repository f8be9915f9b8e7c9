"""Velocities from impulses by the Cholesky factors of the mass matrix, world by world or by lane groups."""

from typing import Any

import warp as wp

from sim.arrays.allocation import fill, gradients_of
from sim.arrays.launch import Twin
from sim.simulation.stepping.workspace import Stage
from warp_kernels.solver.impulse import impulse_kernels
from warp_kernels.solver.impulse_groups import impulse_group_kernels

# Parameters of the free step, fields of the kernels' struct.
JOINTS = ("damping", "armature", "stiffness", "rest_position")


class Impulses(Stage):
    """Velocities after a step from impulses and free accelerations, world by world.

    Args:
        step: workspace of the step.

    Attributes:
        weight: adjoint of velocities times the inverse mass matrix [dof, ...].
        by_groups: whether factors are applied to all worlds of a lane group at once.
    """

    by_groups = False
    weight: Twin

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        self.weight = self._step.groups.scalars(self._step.model.nv)

    @property
    def joints(self) -> Any:
        """Return the parameters of joints that the free step has to do with."""
        arrays = self._step.device_model.parameter_arrays(*JOINTS)
        return fill(self._step.structs.JointParameters, **{**arrays, **self._replaced})

    @property
    def joints_bar(self) -> Any:
        """Return their gradients, without rows where none is wanted."""
        found = self._step.parameter_gradients_of(self._step.structs.JointParameters, {name: name for name in JOINTS})
        for name, array in self._replaced.items():
            setattr(found, name, array.grad)
        return found

    @property
    def _replaced(self) -> dict[str, wp.array]:
        """Return the arrays in place of parameters, by name."""
        return self._step.pose_springs.replaced if self._step.pose_springs else {}

    @property
    def beginning(self) -> Any:
        """Return what the step begins with."""
        step = self._step
        return fill(step.structs.Beginning, q=step.q, qd=step.qd, tau=step.tau)

    @property
    def beginning_bar(self) -> Any:
        """Return the gradients of what the step begins with."""
        return gradients_of(self.beginning)

    def apply(self) -> None:
        """Add M^-1 J^T times the impulses to the free velocities."""
        self._step.launch(impulse_kernels(self._step.scalar).apply_impulses, self._step.num_worlds)

    def begin_adjoint(self) -> None:
        """Compute ``weight``, M^-1 times the adjoint of velocities, and the adjoint of impulses."""
        self._step.launch(impulse_kernels(self._step.scalar).velocity_adjoint, self._step.num_worlds)

    def finish_adjoint(self) -> None:
        """Add the contribution of constraints to ``weight``; propagate it to free accelerations and the factors."""
        step = self._step
        self._finish_weights()
        step.launch_over_dofs(impulse_kernels(step.scalar).free_step_adjoint, **step.dynamics.free_step)

    def _finish_weights(self) -> None:
        """Add the contribution of constraints to ``weight``."""
        self._step.launch(impulse_kernels(self._step.scalar).weight_adjoint, self._step.num_worlds)


class ImpulsesOfGroups(Impulses):
    """Velocities from impulses for all worlds of a lane group at once."""

    by_groups = True

    def apply(self) -> None:
        """Add M^-1 J^T times the impulses to the free velocities."""
        step = self._step
        step.launch(impulse_kernels(step.scalar).push_impulses, step.num_worlds)
        step.launch(self._kernels.apply_pushes, step.groups.num_groups)

    def begin_adjoint(self) -> None:
        """Compute ``weight`` from the adjoint of velocities."""
        self._step.launch(self._kernels.begin_weights, self._step.groups.num_groups)

    def finish_adjoint(self) -> None:
        """Propagate ``weight`` as by worlds; a solver whose adjoint is by groups has finished the weights."""
        step, groups = self._step, self._step.groups.num_groups
        if not step.solver.adjoint_by_groups:
            step.launch(impulse_kernels(step.scalar).push_weights, step.num_worlds)
            step.launch(self._kernels.finish_weights, groups)
        step.launch(self._kernels.free_step_adjoints, groups, **step.dynamics.free_step)

    @property
    def _kernels(self) -> Any:
        return impulse_group_kernels(self._step.scalar, self._step.groups.lanes)
