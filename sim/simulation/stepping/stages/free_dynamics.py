"""Free dynamics of a step: accelerations without constraints, and Cholesky factors of the mass matrix."""

from typing import Any

import warp as wp

from sim.arrays.launch import Twin
from sim.simulation.stepping.workspace import Stage, Workspace


class FreeDynamics(Stage):
    """Stage of the articulated-body algorithm, which also factors the mass matrix as L^T D L.

    Args:
        step: workspace of the step.

    Attributes:
        qdd: accelerations [world, dof].
        velocity: spatial velocities of links [link, ...].
        acceleration, bias_force, articulated, factor_u, innovation: of the algorithm [link or dof, group]. The adjoint
            uses the first two as scratch.
        factor_d, factor_l: the factors [entry, ...].
        response: scratch of products with the inverse of the mass matrix [dof, ...].
        mass_bar, mass_bar_diagonal: adjoint of the mass matrix, off its diagonal and on it.
        solver_mass_bar, solver_mass_bar_diagonal: contribution of regularisation; without rows if that is constant.
        composite: scratch of the mass matrix's adjoint.
        motion_weight: direction in which inverse dynamics is differentiated [world, dof].
        motion_scratch: scratch of that adjoint.
    """

    mass_bar: Twin
    mass_bar_diagonal: Twin
    solver_mass_bar: Twin
    solver_mass_bar_diagonal: Twin
    composite: wp.array
    motion_weight: wp.array
    motion_scratch: tuple[wp.array, ...]

    def __init__(self, step: Workspace):
        super().__init__(step)
        model, groups = step.model, step.groups
        t, links, nv = groups.types, model.num_links, model.nv
        self.qdd = wp.zeros_like(step.qd)
        self.velocity = groups.copies(links, "spatial")
        self.acceleration, self.bias_force = (groups.of_groups(links, t.spatial) for _ in range(2))
        self.articulated = groups.of_groups(links, t.articulated)
        self.factor_u, self.innovation = groups.of_groups(nv, t.spatial), groups.of_groups(nv, t.real)
        self._entries = int(model.dof_depth.sum())
        self.factor_d, self.factor_l = groups.scalars(nv), groups.scalars(self._entries)
        self.response = groups.scalars(nv)

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        step, groups, links = self._step, self._step.groups, self._step.model.num_links
        self.motion_scratch = tuple(groups.of_groups(links, groups.types.spatial) for _ in range(3))
        self.motion_weight = wp.zeros_like(step.qd, requires_grad=False)
        own = int(step.newton and step.max_constraints > 0 and not step.by_mujoco)
        self.solver_mass_bar = groups.scalars(own * self._entries)
        self.solver_mass_bar_diagonal = groups.scalars(own * step.model.nv)
        self.mass_bar, self.mass_bar_diagonal = groups.scalars(self._entries), groups.scalars(step.model.nv)
        self.composite = groups.of_groups(links, groups.types.inertia)

    def accelerate(self) -> None:
        """Compute accelerations and factors."""
        springs = self._step.pose_springs
        self._accelerate(dt=self._step.ahead, **(springs.replaced if springs else {}))

    def _accelerate(self, **given: Any) -> None:
        self._step.trees.accelerate(tau=self._step.actuation.joint_force, **given)

    def couple(self) -> None:
        """Change accelerations by an implicit rule for forces of motion, which reads errors of constraints."""

    @property
    def free_step(self) -> dict[str, Any]:
        """Return arguments of the adjoint of the free step that differ from those of the step."""
        return {}

    def free_step_adjoint(self) -> None:
        """Propagate the adjoint of accelerations to the forces that differ from those of Euler's method."""

    def mass_adjoint(self) -> None:
        """Propagate the adjoint of the mass matrix to inertias, motion subspaces and armatures."""
        step = self._step
        if step.max_constraints or step.by_mujoco:
            step.trees.mass_adjoint()

    def motion_adjoint(self, **given: Any) -> None:
        """Propagate the adjoint of accelerations to motion, forces and inertias, as an adjoint of inverse dynamics.

        Args:
            given: arguments that differ from those of the step.
        """
        velocity_bar, acceleration_bar, force = self.motion_scratch
        self._step.trees.motion_adjoint(
            direction=self.bias_force,
            velocity_bar=velocity_bar,
            acceleration_bar=acceleration_bar,
            force=force,
            **{"qdd_bar": None, **given},
        )

    @property
    def _trees(self) -> tuple[int, int]:
        return (self._step.model.num_trees, self._step.groups.num_groups)
