"""Pendulum: lift the tip of a chain of links to its highest point."""

import math

import torch

from sim.envs.state import TaskState
from sim.envs.task import Task
from sim.errors import ModelError
from sim.importers.formats import ModelBuilder
from sim.model.checks import is_whole, number
from sim.model.model import Model
from sim.model.specs import WORLD
from warp_kernels.types import CAPSULE

MOST_LINKS = 1000  # larger chains take hours to build, and their mass matrix exceeds the precision of floats
LENGTH = 0.5  # of a link [m]
TORQUE = 10.0  # of an action of 1 [N m]
FIRST_MASS, MASS, TIP_MASS = (
    1.0,
    2.16,
    0.01,
)  # at the far end of the first link, of the others, and more at the tip [kg]


class Pendulum(Task):
    """n links that start at rest along y and swing about x; the best return is n² / 2.

    The pendulum of Qiao et al. (ICML 2021, table 4), with the masses of its published code. Observations are the
    velocities, the positions of the joints and the tip, and the time; the reward is d_prev² - d², and an additional -
    d² at the end, with the distance d of the tip to its highest point: the return is n² / 2 - 2 d_end².

    Args:
        links: n, up to 1000.
        substeps: steps of the simulation for each action. The paper has 1; with it, chains of three links or more gain
            energy from the integration error, and the best motions fail with a smaller step.
        noise: half-width of the uniform noise on initial angles and velocities [rad, rad/s]; the paper has none.
        dtype: "float32" or "float64".
    """

    max_episode_length = 100
    time_is_final = True

    def __init__(self, links: int = 1, substeps: int = 8, noise: float = 0.0, dtype: str = "float32"):
        super().__init__(dtype)
        if not is_whole(links, 1) or not is_whole(substeps, 1):
            raise ModelError(f"Pendulum: links is {links!r} and substeps {substeps!r}; both must be at least 1")
        if links > MOST_LINKS:
            raise ModelError(f"Pendulum: links is {links}; at most {MOST_LINKS} can be simulated")
        if not 0.0 <= number("Pendulum", "noise", noise) < math.inf:
            raise ModelError(f"Pendulum: noise is {noise!r}; it must be finite and not negative")
        self.links = int(links)
        self.noise = noise
        self.frame_skip = int(substeps)
        self.dt = 1 / 60 / self.frame_skip

    def model(self) -> Model:
        """Return links with a point mass at their far end, which swing freely."""
        builder = ModelBuilder(gravity=(0.0, 0.0, -9.8))
        middle = (0.0, 0.5 * LENGTH, 0.0)
        for k in range(self.links):
            mass = (FIRST_MASS if k == 0 else MASS) + (TIP_MASS if k == self.links - 1 else 0.0)
            builder.add_link(f"link_{k}", mass=mass, com=(0.0, LENGTH, 0.0), inertia=(0.0, 0.0, 0.0))
            parent, position = (WORLD, (0.0, 0.0, 0.0)) if k == 0 else (f"link_{k - 1}", (0.0, LENGTH, 0.0))
            builder.add_joint(
                f"hinge_{k}", "continuous", child=f"link_{k}", parent=parent, position=position, axis=(1.0, 0.0, 0.0)
            )
            builder.add_actuator(f"hinge_{k}", gear=TORQUE)
            along_y = (-(0.5**0.5), 0.0, 0.0, 0.5**0.5)
            builder.add_geometry(
                f"link_{k}", CAPSULE, size=(0.03, 0.5 * LENGTH - 0.03, 0.0), position=middle, orientation=along_y,
                collides=False,
            )  # fmt: skip
        return builder.finalize(self.dtype)

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """Sample states at rest along y, plus noise."""
        q, qd = (self.uniform((n, self.links), generator, -self.noise, self.noise) for _ in range(2))
        return self.episodes(q, qd)

    def points(self, state: TaskState) -> torch.Tensor:
        """Return the positions of the joints and the tip, in the plane of y and z [n, links + 1, 2]."""
        angle = state.q.cumsum(dim=1)
        ends = LENGTH * torch.stack([angle.cos(), angle.sin()], dim=-1).cumsum(dim=1)
        return torch.cat([torch.zeros_like(ends[:, :1]), ends], dim=1)

    def observe(self, state: TaskState) -> torch.Tensor:
        """Return velocities [links], points [3 (links + 1)], and the elapsed fraction of the episode."""
        points = self.points(state)
        flat = torch.cat([torch.zeros_like(points[..., :1]), points], dim=-1).flatten(1)
        time = (state.steps / self.max_episode_length).to(flat.dtype)
        return torch.cat([state.qd, flat, time[:, None]], dim=1)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        """Return the reduction of the tip's squared distance to its goal."""
        distance = self.squared_distance(after)
        at_end = (after.steps >= self.max_episode_length).to(distance.dtype)
        return self.squared_distance(before) - (1.0 + at_end) * distance

    def squared_distance(self, state: TaskState) -> torch.Tensor:
        """Return the squared distance of the tip to its highest reachable point [n]."""
        tip = self.points(state)[:, -1]
        goal = tip.new_tensor([0.0, LENGTH * self.links])
        return (tip - goal).square().sum(dim=1)
