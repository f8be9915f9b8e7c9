"""Passes over the links of worlds by teams of threads, see :mod:`warp_kernels.dynamics.team`."""

from typing import Any, NamedTuple

import warp as wp

from sim.arrays.allocation import zeros
from sim.arrays.teams import Levels
from warp_kernels.dynamics.team.articulated import team_articulated_kernels
from warp_kernels.dynamics.team.jacobian import team_jacobian_kernels
from warp_kernels.dynamics.team.kinematics import team_kinematics_adjoint_kernels, team_kinematics_kernels
from warp_kernels.dynamics.team.mass_matrix import team_mass_adjoint_kernels, team_mass_matrix_kernels
from warp_kernels.dynamics.team.motion import team_motion_adjoint_kernels, team_motion_kernels
from warp_kernels.team import WIDTHS, lanes_of_team


class TeamPasses(NamedTuple):
    """Kernels of the passes and their launches.

    Attributes:
        variant: precision and threads of a team, the arguments of the factories of the kernels.
        dim: dimensions of a launch.
        given: arguments of every kernel.
    """

    variant: tuple[Any, int]
    dim: tuple[int, int]
    given: dict[str, Any]

    @property
    def kinematics(self) -> wp.Kernel:
        """Return the kernel of forward kinematics."""
        return team_kinematics_kernels(*self.variant).team_kinematics

    @property
    def kinematics_adjoint(self) -> wp.Kernel:
        """Return the kernel of the adjoint of kinematics."""
        return team_kinematics_adjoint_kernels(*self.variant).team_kinematics_adjoint

    @property
    def jacobian(self) -> wp.Kernel:
        """Return the kernel of Jacobians of frames."""
        return team_jacobian_kernels(*self.variant).team_frame_jacobian

    @property
    def aba(self) -> wp.Kernel:
        """Return the kernel of the articulated-body algorithm."""
        return team_articulated_kernels(*self.variant).team_aba

    @property
    def rnea(self) -> wp.Kernel:
        """Return the kernel of inverse dynamics."""
        return team_motion_kernels(*self.variant).team_rnea

    @property
    def rnea_adjoint(self) -> wp.Kernel:
        """Return the kernel of the adjoint of inverse dynamics."""
        return team_motion_adjoint_kernels(*self.variant).team_rnea_adjoint

    @property
    def crba(self) -> wp.Kernel:
        """Return the kernel of the mass matrix."""
        return team_mass_matrix_kernels(*self.variant).team_crba

    @property
    def mass_adjoint(self) -> wp.Kernel:
        """Return the kernel of the adjoint of the mass matrix, packed."""
        return team_mass_adjoint_kernels(*self.variant).team_mass_matrix_adjoint

    @property
    def crba_adjoint(self) -> wp.Kernel:
        """Return the kernel of the adjoint of the mass matrix, whole."""
        return team_mass_matrix_kernels(*self.variant).team_crba_adjoint


def team_passes(levels: Levels, threads_per_world: int, scalar: Any, device: wp.Device, worlds: int) -> TeamPasses:
    """Return the passes for a number of worlds.

    Teams are no wider than the largest level needs, as far as there are teams of that width; more worlds share a warp
    then. The width makes no difference on a CPU, which has one kernel for all of them.
    """
    enough = [width for width in WIDTHS if width >= levels.widest]
    width = max(WIDTHS) if device.is_cpu else min([threads_per_world, *enough[:1]])
    given = {"link_levels": levels.links, "scratch": zeros((worlds, 0), scalar, device)}
    return TeamPasses((scalar, width), (worlds, lanes_of_team(device, width)), given)
