"""The throw: a 9-DoF arm with a ball in its hand, and a target for the ball.

The arm stands on the ground with the hand behind its shoulder, the palm up and the ball at rest in it. Joint torques
are free at every step; after the last one the ball should be at the target.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from sim.builder import ModelBuilder
from sim.errors import ModelError
from sim.model import Model, Part
from sim.render.poses import link_poses
from warp_kernels import types as codes

ARM_URDF = Path(__file__).parent / "robots" / "arm.urdf"
BALL_RADIUS = 0.035
BALL_MASS = 0.1
# Where the ball rests, in the frame of the hand (see arm.urdf).
BALL_IN_HAND = np.array([0.048, 0.0, 0.085])
# Upper arm back and up, forearm back and down, the hand level with the palm up: the pitches sum up to -90 degrees.
START_POSE = np.array([0.0, -0.9, 0.0, -1.2, 0.0, 2.1 - np.pi / 2.0, 0.0, 0.0, 0.0])
STEPS = 1000
DT = 1.0e-3
TARGET = (1.5, 0.0, 0.5)
# Random targets lie here: azimuth [rad], distance from the arm's axis and height [m], all out of the hand's reach.
AZIMUTH_RANGE = (-0.35, 0.35)
DISTANCE_RANGE = (1.2, 1.8)
HEIGHT_RANGE = (0.2, 0.8)


@dataclass(frozen=True)
class ThrowScene:
    """What an optimisation of the throw needs.

    Attributes:
        model: ground, arm and ball.
        arm: the part with the nine joints; ``model.qd_slice(arm)`` are the degrees of freedom with a motor.
        ball: the part with the ball.
        q0: start coordinates [nq].
        qd0: start velocities [nv], zero.
        hold: motor torques that keep arm and ball at rest in the start pose [nv]; zero for the ball [N m, N].
        steps: number of time steps.
        dt: their length [s].
        target: where the ball's centre should be after the last step, world frame [3].
    """

    model: Model
    arm: Part
    ball: Part
    q0: np.ndarray
    qd0: np.ndarray
    hold: np.ndarray
    steps: int
    dt: float
    target: np.ndarray

    @property
    def ball_position(self) -> slice:
        """The slice of q that holds the position of the ball's centre in the world frame [m]."""
        start = self.model.q_slice(self.ball).start
        return slice(start, start + 3)

    @property
    def ball_link(self) -> int:
        """Index of the ball's link."""
        return self.model.link(self.ball.links[0])


def build(
    target: tuple[float, float, float] = TARGET,
    dtype: str = "float32",
    *,
    steps: int = STEPS,
    dt: float = DT,
    friction: float = 0.8,
    restitution: float = 0.0,
) -> ThrowScene:
    """Make the scene.

    Args:
        target: where the ball's centre should be after the last step, world frame [m].
        dtype: "float32" or "float64" (for checks).
        steps: number of time steps.
        dt: their length [s].
        friction: Coulomb friction between all that touch.
        restitution: restitution of the ball on the ground.

    Raises:
        ModelError: for a target that is not three finite numbers, steps or dt that are not positive.
    """
    goal = np.asarray(target, dtype=np.float64)
    if goal.shape != (3,) or not np.isfinite(goal).all():
        raise ModelError(f"target is {target!r}; it must be three finite numbers")
    if steps < 1 or not (np.isfinite(dt) and dt > 0.0):
        raise ModelError(f"steps is {steps} and dt is {dt}; both must be positive")
    builder = ModelBuilder()
    # A pair's friction is the product of the two, so one factor of each pair is 1.
    builder.add_ground(friction=friction)
    arm = builder.add_urdf(ARM_URDF, friction=1.0, restitution=0.0)
    alone = builder.finalize(dtype)
    hand = alone.frame("hand")
    reference = link_poses(alone, START_POSE)[hand.link]
    centre = _apply(reference, _apply(hand.placement, BALL_IN_HAND))
    ball = builder.add_sphere(
        radius=BALL_RADIUS, mass=BALL_MASS, name="ball", position=centre, friction=friction, restitution=restitution,
        rgba=(0.86, 0.16, 0.14, 1.0),
    )  # fmt: skip
    model = builder.finalize(dtype)
    q0 = model.q0.copy()
    q0[model.q_slice(arm)] = START_POSE
    hold = holding_torques(model, q0, carried={"ball": "hand"})
    return ThrowScene(model, arm, ball, q0, np.zeros(model.nv), hold, steps, dt, goal)


def random_targets(seed: int, count: int) -> np.ndarray:
    """Targets that a throw can reach and the hand can't, world frame [count, 3]; the same for the same seed."""
    rng = np.random.default_rng(seed)
    azimuth = rng.uniform(*AZIMUTH_RANGE, count)
    distance = rng.uniform(*DISTANCE_RANGE, count)
    height = rng.uniform(*HEIGHT_RANGE, count)
    return np.stack([distance * np.cos(azimuth), distance * np.sin(azimuth), height], axis=1)


def holding_torques(model: Model, q: np.ndarray, carried: dict[str, str]) -> np.ndarray:
    """Motor torques that hold a model still against gravity, from the principle of virtual work.

    Args:
        model: the model.
        q: joint coordinates [nq].
        carried: names of free bodies, each with the name of the link or frame that it rests on as if fixed there.

    Returns:
        torques [nv]; zero for free joints [N m, N].
    """
    gravity = model.parameters["gravity"]
    poses = link_poses(model, q)
    weights = [
        (model.link_names[link], link, _apply(poses[link], model.parameters["com"][link]))
        for link in range(model.num_links)
    ]
    torques = np.zeros(model.nv)
    for name, link, point in weights:
        force = model.parameters["mass"][link] * gravity
        dof = model.link_tail_dof[model.frame(carried[name]).link if name in carried else link]
        while dof >= 0:
            torques[dof] -= force @ _point_velocity(model, poses, int(dof), point)
            dof = model.dof_parent[dof]
    return torques


def _point_velocity(model: Model, poses: np.ndarray, dof: int, point: np.ndarray) -> np.ndarray:
    """Velocity of a point that moves with a revolute or prismatic degree of freedom at unit speed; zero for others."""
    if model.dof_q[dof] < 0:
        return np.zeros(3)
    link = int(model.dof_link[dof])
    # The axis is the same in the joint frame and in the frame of the link, which turns about it.
    axis = _apply(poses[link], model.joint_axis[link]) - poses[link, :3]
    if model.joint_type[link] == codes.PRISMATIC:
        return axis
    return np.cross(axis, point - poses[link, :3])


def _apply(pose: np.ndarray, point: np.ndarray) -> np.ndarray:
    return pose[:3] + Rotation.from_quat(pose[3:]).apply(point)
