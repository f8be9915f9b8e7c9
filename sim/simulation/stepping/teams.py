"""Launches of kernels of teams in a step, see :mod:`warp_kernels.team`."""

from sim.simulation.stepping.workspace import Workspace
from warp_kernels.team import WIDTHS, lanes_of_team


def team_width(step: Workspace) -> int:
    """Return the threads of a team. The width makes no difference on a CPU, which has one kernel for all of them."""
    return max(WIDTHS) if step.device.is_cpu else step.threads_per_world


def team_threads(step: Workspace) -> tuple[int, int]:
    """Return the dimensions of a launch of teams."""
    return step.num_worlds, lanes_of_team(step.device, step.threads_per_world)
