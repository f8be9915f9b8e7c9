"""A network that proposes joint coordinates for the pose of a frame and improves them, and how far they are from it."""

import torch
from torch.nn.functional import silu

import sim.torch
from examples.learning import reach
from sim.torch.robot.inverse_kinematics import rotation_between

WIDTH, BLOCKS = 256, 3
UNIT = (0.1, 0.05)  # of the errors that the network sees: angle [rad] and distance [m]
STEP = 0.1  # of a joint's half range, that an output of one takes it for an error of one


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

    def missing(self, q: torch.Tensor, position: torch.Tensor, quaternion: torch.Tensor) -> torch.Tensor:
        """What the frame lacks to targets, along its own axes: rotation vector [rad], then displacement [m].

        Args:
            q: coordinates [..., nq].
            position: of the targets [..., 3] [m].
            quaternion: of the targets, xyzw [..., 4].

        Returns:
            [..., 6], of the shape that all broadcast to.
        """
        there, turned = self.poses(q)
        turn = rotation_between(*torch.broadcast_tensors(turned, quaternion))
        return torch.cat([turned_back(turn, turned), turned_back(position - there, turned)], dim=-1)


def turned_back(vector: torch.Tensor, quaternion: torch.Tensor) -> torch.Tensor:
    """A vector [..., 3] along the axes of a frame whose orientation is a quaternion xyzw [..., 4]."""
    axis, w = -quaternion[..., :3], quaternion[..., 3:]
    across = 2.0 * torch.linalg.cross(axis, vector)
    return vector + w * across + torch.linalg.cross(axis, across)


class Residual(torch.nn.Module):
    """A residual network of some layers."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.enter = torch.nn.Linear(inputs, WIDTH)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.SiLU(), torch.nn.Linear(WIDTH, WIDTH)
            )
            for _ in range(BLOCKS)
        )
        self.leave = torch.nn.Linear(WIDTH, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs [..., outputs] for inputs [..., inputs]."""
        x = silu(self.enter(x))
        for block in self.blocks:
            x = x + block(x)
        leave: torch.Tensor = self.leave(silu(x))
        return leave


class PoseNetwork(torch.nn.Module):
    """Proposals of coordinates for target poses, and passes that bring coordinates closer to their targets.

    Several proposals for each target, since many coordinates have the same pose; a tanh keeps them within the limits.
    A pass sees the coordinates and what the frame still lacks to its target along its own axes, and learns a matrix for
    it, as the inverse of the Jacobian would be: what is right already stays, and a smaller error is treated as well as
    a larger one.

    Args:
        reachable: the robot and its frame.
        proposals: how many for each target.
    """

    centre: torch.Tensor
    extent: torch.Tensor
    unit: torch.Tensor

    def __init__(self, reachable: Reachable, proposals: int):
        super().__init__()
        self.reachable, self.proposals = reachable, proposals
        joints = len(reachable.moving)
        positions, _ = reachable.poses(reachable.draw(1024, torch.Generator().manual_seed(0)))
        self.register_buffer("centre", positions.mean(0))
        self.register_buffer("extent", positions.std().clamp(min=1e-6))
        self.register_buffer("unit", torch.tensor(UNIT).repeat_interleave(3))
        # Products of a quaternion's entries: like those of a rotation matrix, they don't know its sign.
        self.first, self.second = torch.triu_indices(4, 4)
        self.proposer = Residual(3 + len(self.first), proposals * joints)
        self.corrector = Residual(3 * joints + 6, joints * 6)
        self.to(reachable.middle)

    def forward(self, position: torch.Tensor, quaternion: torch.Tensor) -> torch.Tensor:
        """Proposals [..., proposals, nq] for positions [..., 3] [m] and quaternions xyzw [..., 4]."""
        turn = quaternion[..., self.first] * quaternion[..., self.second]
        x = self.proposer(torch.cat([(position - self.centre) / self.extent, turn], dim=-1))
        return self.reachable.coordinates(x.unflatten(-1, (self.proposals, -1)).tanh())

    def improve(self, q: torch.Tensor, missing: torch.Tensor) -> torch.Tensor:
        """Coordinates [..., nq] after a pass, within the limits, from those before it and what they miss [..., 6]."""
        own = q[..., self.reachable.moving]
        x = (own - self.reachable.middle) / self.reachable.half
        missing = missing / self.unit
        matrix = self.corrector(torch.cat([x, own.sin(), own.cos(), missing.tanh()], dim=-1)).unflatten(-1, (-1, 6))
        step = STEP * (matrix @ missing[..., None])[..., 0]
        return self.reachable.coordinates((x + step).clamp(-1.0, 1.0))
