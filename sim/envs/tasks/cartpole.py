"""CartpoleSwingup: swing a pole up by moving the cart that it hangs from."""

import math

import torch

from sim.envs.state import TaskState
from sim.envs.task import Task
from sim.importers.formats import ModelBuilder
from sim.model.model import Model
from sim.model.shapes.geometry_types import capsule_inertia
from warp_kernels.types import BOX, CAPSULE

FORCE = 20.0  # of an action of 1 [N]
HALF_LENGTH, RADIUS = 0.5, 0.03  # of the pole [m]


class CartpoleSwingup(Task):
    """A cart of 1 kg on a rail along x and a pole of 0.1 kg, initially hanging; an angle of zero is upright.

    Observations are position and velocity of the cart, sine and cosine of the angle, and its rate. The reward is
    -θ² - 0.1 θ̇² - 0.05 x² - 0.1 ẋ², with θ between -π and π.
    """

    dt = 1 / 240
    frame_skip = 4
    max_episode_length = 240

    def model(self) -> Model:
        """Return the cart and its pole, without collision."""
        builder = ModelBuilder()
        builder.add_link("cart", mass=1.0, inertia=(0.01, 0.01, 0.01))
        builder.add_joint("rail", "prismatic", child="cart", axis=(1.0, 0.0, 0.0))
        inertia = capsule_inertia(RADIUS, HALF_LENGTH - RADIUS, 0.1)
        builder.add_link("pole", mass=0.1, com=(0.0, 0.0, HALF_LENGTH), inertia=inertia)
        builder.add_joint("hinge", "continuous", child="pole", parent="cart", axis=(0.0, 1.0, 0.0))
        builder.add_actuator("rail", gear=FORCE)
        builder.add_geometry("cart", BOX, size=(0.15, 0.1, 0.06), collides=False, rgba=(0.35, 0.45, 0.6, 1.0))
        builder.add_geometry(
            "pole", CAPSULE, size=(RADIUS, HALF_LENGTH - RADIUS, 0.0), position=(0.0, 0.0, HALF_LENGTH),
            collides=False, rgba=(0.85, 0.45, 0.25, 1.0),
        )  # fmt: skip
        return builder.finalize(self.dtype)

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """Sample angles about hanging, π ± π/2, and a cart near the middle."""
        position = self.uniform((n, 1), generator, -0.24, 0.24)
        angle = self.uniform((n, 1), generator, 0.5 * math.pi, 1.5 * math.pi)
        return self.episodes(torch.cat([position, angle], dim=1), self.uniform((n, 2), generator, -0.25, 0.25))

    def observe(self, state: TaskState) -> torch.Tensor:
        """Return x, ẋ, sin θ, cos θ, θ̇."""
        x, angle = state.q.unbind(dim=1)
        return torch.stack([x, state.qd[:, 0], angle.sin(), angle.cos(), state.qd[:, 1]], dim=1)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        """Return the reward, see the class."""
        x, angle = after.q.unbind(dim=1)
        xd, rate = after.qd.unbind(dim=1)
        upright = torch.atan2(angle.sin(), angle.cos())
        return -upright.square() - 0.1 * rate.square() - 0.05 * x.square() - 0.1 * xd.square()
