"""Passes over the trees of a model in a step: by a thread per tree, or by a team of threads per world."""

from typing import Any

import warp as wp

from sim.dynamics.bodies import KinematicsArrays, run_kinematics
from sim.dynamics.team_passes import team_passes
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.dynamics.aba import aba_kernels
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.dynamics.rnea import rnea_adjoint_kernels


class TreePasses(Stage):
    """Passes by a thread per tree and lane group. Arrays are those of the stages that ask for them."""

    def find_poses(self, arrays: KinematicsArrays) -> None:
        """Compute poses, motion subspaces and inertias of links; recorded on an active tape."""
        run_kinematics(self._step.device_model, self._step.q, arrays, lanes=self._step.groups.lanes)

    def accelerate(self, **given: Any) -> None:
        """Compute accelerations without constraints, and factors of the mass matrix.

        Args:
            given: arguments that differ from those of the step; with ``link_damping`` links have matrices besides
                their inertias.
        """
        step, groups = self._step, self._step.groups
        kernels = aba_kernels(step.scalar, groups.lanes)
        step.launch(
            kernels.damped_aba if "link_damping" in given else kernels.aba,
            self._trees,
            friction_loss=step.device_model.none(step.scalar),  # dry friction is a constraint here
            **given,
        )
        step.dynamics.velocity.to_worlds()
        kernel = factor_kernels(step.scalar, groups.lanes).factor_mass_matrix
        step.launch(kernel, (step.dof_threads, groups.num_groups), threads=step.dof_threads)

    def mass_adjoint(self) -> None:
        """Propagate the adjoint of the mass matrix to inertias and motion subspaces."""
        self._step.launch(factor_kernels(self._step.scalar, self._step.groups.lanes).mass_matrix_adjoint, self._trees)

    def motion_adjoint(self, **given: Any) -> None:
        """Propagate the adjoint of accelerations as one of inverse dynamics."""
        step = self._step
        step.launch(rnea_adjoint_kernels(step.scalar, step.groups.lanes).rnea_adjoint, self._trees, **given)

    @property
    def _trees(self) -> tuple[int, int]:
        return (self._step.model.num_trees, self._step.groups.num_groups)


class TeamTreePasses(TreePasses):
    """Passes by a team of threads per world. Links with matrices besides their inertias have a thread per tree.

    Args:
        step: workspace of the step.

    Attributes:
        link_levels: links by their depth.
        column_force, column_motion: scratch of the mass matrix's adjoint [dof, world].
    """

    column_force: wp.array
    column_motion: wp.array

    def __init__(self, step: Workspace):
        super().__init__(step)
        levels = step.device_model.levels()
        self.link_levels: Any = levels.links
        self._teams = team_passes(levels, step.threads_per_world, step.scalar, step.device, step.num_worlds)

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        step = self._step
        self.column_force, self.column_motion = (
            step.worlds_last(step.model.nv, step.device_model.types.spatial) for _ in range(2)
        )

    def find_poses(self, arrays: KinematicsArrays) -> None:
        """Compute poses, motion subspaces and inertias of links; recorded on an active tape."""
        run_kinematics(self._step.device_model, self._step.q, arrays, teams=self._teams)

    def accelerate(self, **given: Any) -> None:
        """Compute accelerations without constraints, and factors of the mass matrix."""
        if "link_damping" in given:
            super().accelerate(**given)
            return
        # Dry friction is a constraint here.
        self._launch(self._teams.aba, friction_loss=self._step.device_model.none(self._step.scalar), **given)

    def mass_adjoint(self) -> None:
        """Propagate the adjoint of the mass matrix to inertias and motion subspaces."""
        self._launch(self._teams.mass_adjoint)

    def motion_adjoint(self, **given: Any) -> None:
        """Propagate the adjoint of accelerations as one of inverse dynamics."""
        self._launch(self._teams.rnea_adjoint, **given)

    def _launch(self, kernel: wp.Kernel, **given: Any) -> None:
        self._step.launch(kernel, self._teams.dim, self._teams.given, **given)
