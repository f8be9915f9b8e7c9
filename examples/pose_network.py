"""A network that proposes joint coordinates for the pose of a frame and refines them."""

import torch
from torch.nn.functional import silu

import sim.torch
from examples.learning import reach
from sim.torch.robot.inverse_kinematics import rotation_between

WIDTH, BLOCKS = 256, 3
UNIT = (0.1, 0.05)  # scale of the errors given to the network: angle [rad] and distance [m]
STEP = 0.1  # step of a joint, relative to half its range, for an output of one and an error of one


class Reachable:
    """Reachable poses of a robot's frame: those of random coordinates within the limits.

    Args:
        robot: a robot with revolute and prismatic joints.
        frame: name of the frame.

    Attributes:
        robot, frame: the arguments.
        moving: joints that move the frame; the others stay at the robot's initial coordinates [joints].
        middle, half: middle and half width of the range of each; a whole turn without limits [joints].

    Raises:
        ModelError: for an unknown frame, or one that no joint moves.
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
        """Return all coordinates [..., nq] from those of the moving joints, -1 to 1 between their limits [...,
        joints].
        """
        q = self.robot.initial_coordinates().expand(*x.shape[:-1], -1)
        return q.index_copy(-1, self.moving, self.middle + self.half * x)

    def draw(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Draw random coordinates [count, nq], uniform within the limits."""
        chance = torch.rand(count, len(self.moving), generator=generator, dtype=self.middle.dtype)
        return self.coordinates(2.0 * chance.to(self.middle.device) - 1.0)

    def poses(self, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute positions [..., 3] [m] and quaternions xyzw [..., 4] of the frame."""
        return self.robot.forward_kinematics(q, self.frame)

    def missing(self, q: torch.Tensor, position: torch.Tensor, quaternion: torch.Tensor) -> torch.Tensor:
        """Compute the error from the frame to targets, along the frame's axes: rotation vector [rad], then displacement
        [m].

        Args:
            q: coordinates [..., nq].
            position: positions of the targets [..., 3] [m].
            quaternion: quaternions xyzw of the targets [..., 4].

        Returns:
            errors [..., 6], in the shape to which all arguments broadcast.
        """
        there, turned = self.poses(q)
        turn = rotation_between(*torch.broadcast_tensors(turned, quaternion))
        return torch.cat([turned_back(turn, turned), turned_back(position - there, turned)], dim=-1)


def turned_back(vector: torch.Tensor, quaternion: torch.Tensor) -> torch.Tensor:
    """Rotate a vector [..., 3] into the axes of a frame with orientation xyzw [..., 4]."""
    axis, w = -quaternion[..., :3], quaternion[..., 3:]
    across = 2.0 * torch.linalg.cross(axis, vector)
    return vector + w * across + torch.linalg.cross(axis, across)


class Residual(torch.nn.Module):
    """A residual network."""

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
        """Return outputs [..., outputs] for inputs [..., inputs]."""
        x = silu(self.enter(x))
        for block in self.blocks:
            x = x + block(x)
        leave: torch.Tensor = self.leave(silu(x))
        return leave


class PoseNetwork(torch.nn.Module):
    """Network that proposes coordinates for target poses, and refines them in passes.

    There are several proposals for each target, since many coordinates have the same pose. A tanh keeps them within the
    limits. A pass gets the coordinates and the frame's remaining error along the frame's axes. It learns a matrix that
    it multiplies with this error, like an inverse Jacobian. A pose that is already right is thus left unchanged, and
    small errors are corrected as well as large ones.

    Args:
        reachable: the robot and its frame.
        proposals: number of proposals per target.
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
        # Products of a quaternion's entries: like a rotation matrix, they do not depend on its sign.
        self.first, self.second = torch.triu_indices(4, 4)
        self.proposer = Residual(3 + len(self.first), proposals * joints)
        self.corrector = Residual(3 * joints + 6, joints * 6)
        self.to(reachable.middle)

    def forward(self, position: torch.Tensor, quaternion: torch.Tensor) -> torch.Tensor:
        """Return proposals [..., proposals, nq] for positions [..., 3] [m] and quaternions xyzw [..., 4]."""
        turn = quaternion[..., self.first] * quaternion[..., self.second]
        x = self.proposer(torch.cat([(position - self.centre) / self.extent, turn], dim=-1))
        return self.reachable.coordinates(x.unflatten(-1, (self.proposals, -1)).tanh())

    def improve(self, q: torch.Tensor, missing: torch.Tensor) -> torch.Tensor:
        """Return coordinates [..., nq] after a pass, within the limits, from the previous ones and their errors [...,
        6].
        """
        own = q[..., self.reachable.moving]
        x = (own - self.reachable.middle) / self.reachable.half
        missing = missing / self.unit
        matrix = self.corrector(torch.cat([x, own.sin(), own.cos(), missing.tanh()], dim=-1)).unflatten(-1, (-1, 6))
        step = STEP * (matrix @ missing[..., None])[..., 0]
        return self.reachable.coordinates((x + step).clamp(-1.0, 1.0))
