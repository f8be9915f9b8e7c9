"""A network that proposes joint coordinates for the pose of a frame, and how far proposals are from it."""

import torch

import sim.torch
from examples.learning import reach
from sim.torch.robot_ik import rotation_between

WIDTH, BLOCKS = 256, 3


class Reachable:
    """Poses that a frame of a robot can have: those of random coordinates within the limits.

    Args:
        robot: of revolute and prismatic joints.
        frame: its frame.

    Attributes:
        robot, frame: as given.
        moving: joints that move the frame; the others stay at the robot's initial coordinates [joints].
        middle, half: of the range of each; a whole turn where it has no limits [joints].

    Raises:
        ModelError: for an unknown frame, or one that nothing moves.
    """

    def __init__(self, robot: sim.torch.Robot, frame: str):
        self.robot, self.frame = robot, frame
        middle, half = reach(robot)
        anywhere = middle + half * (
            2.0 * torch.rand(8, robot.nq, generator=torch.Generator().manual_seed(0)).to(middle) - 1.0
        )
        self.moving = robot.jacobian(anywhere, frame).abs().amax((0, 1)).nonzero()[:, 0]
        if not len(self.moving):
            raise sim.ModelError("no joint moves it")
        self.middle, self.half = middle[self.moving], half[self.moving]

    def coordinates(self, x: torch.Tensor) -> torch.Tensor:
        """All coordinates [..., nq] where the moving joints go from -1 to 1 between their limits [..., joints]."""
        q = self.robot.initial_coordinates().expand(*x.shape[:-1], -1)
        return q.index_copy(-1, self.moving, self.middle + self.half * x)

    def draw(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Random coordinates [count, nq], uniform within the limits."""
        chance = torch.rand(count, len(self.moving), generator=generator, dtype=self.middle.dtype)
        return self.coordinates(2.0 * chance.to(self.middle.device) - 1.0)

    def poses(self, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions [..., 3] [m] and quaternions xyzw [..., 4] of the frame."""
        return self.robot.forward_kinematics(q, self.frame)

    def errors(
        self, q: torch.Tensor, position: torch.Tensor, quaternion: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """How far the frame is from targets: distances [m] and angles [rad], of the shape that all broadcast to."""
        there, turned = self.poses(q)
        turn = rotation_between(*torch.broadcast_tensors(turned, quaternion))
        return (position - there).norm(dim=-1), turn.norm(dim=-1)


class PoseNetwork(torch.nn.Module):
    """Several proposals of coordinates for each target pose, since many coordinates have the same pose.

    A residual network; a tanh keeps what it proposes within the limits.

    Args:
        reachable: the robot and its frame.
        proposals: how many for each target.
    """

    centre: torch.Tensor
    extent: torch.Tensor

    def __init__(self, reachable: Reachable, proposals: int):
        super().__init__()
        self.reachable, self.proposals = reachable, proposals
        positions, _ = reachable.poses(reachable.draw(1024, torch.Generator().manual_seed(0)))
        self.register_buffer("centre", positions.mean(0))
        self.register_buffer("extent", positions.std().clamp(min=1e-6))
        # Products of a quaternion's entries: like those of a rotation matrix, they don't know its sign.
        self.first, self.second = torch.triu_indices(4, 4)
        self.enter = torch.nn.Linear(3 + len(self.first), WIDTH)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.SiLU(), torch.nn.Linear(WIDTH, WIDTH)
            )
            for _ in range(BLOCKS)
        )
        self.leave = torch.nn.Linear(WIDTH, proposals * len(reachable.moving))
        self.to(reachable.middle)

    def forward(self, position: torch.Tensor, quaternion: torch.Tensor) -> torch.Tensor:
        """Proposals [..., proposals, nq] for positions [..., 3] [m] and quaternions xyzw [..., 4]."""
        turn = quaternion[..., self.first] * quaternion[..., self.second]
        x = torch.nn.functional.silu(self.enter(torch.cat([(position - self.centre) / self.extent, turn], dim=-1)))
        for block in self.blocks:
            x = x + block(x)
        x = self.leave(torch.nn.functional.silu(x)).unflatten(-1, (self.proposals, -1))
        return self.reachable.coordinates(x.tanh())
