"""The throw: a 9-DoF arm with a ball in its hand, and a target for the ball.

The arm stands on the ground with its hand behind its shoulder, palm up, and the ball at rest in it. The joint torques
of every step are free; after the last step the ball should be at the target.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from sim import ModelBuilder
from sim.dynamics.dynamics import inverse_dynamics
from sim.dynamics.kinematics import forward_kinematics
from sim.errors import ModelError
from sim.model.builder.properties import Surface
from sim.model.model import Model, Part

ARM_URDF = Path(__file__).parent / "robots" / "arm.urdf"
BALL_RADIUS = 0.035
BALL_MASS = 0.1
# Rest position of the ball, in the frame of the hand (see arm.urdf).
BALL_IN_HAND = np.array([0.048, 0.0, 0.085])
# Upper arm back and up, forearm back and down, hand level with the palm up: the pitches add up to -90 degrees.
START_POSE = np.array([0.0, -0.9, 0.0, -1.2, 0.0, 2.1 - np.pi / 2.0, 0.0, 0.0, 0.0])
STEPS = 1000
DT = 1.0e-3
# Initial guess of an optimisation: after this time [s], this torque [N m] at the sixth joint, the wrist, is added to
# the torques that hold the arm. It bends the palm away, and the ball drops.
DROP_TIME = 0.5
DROP_JOINT, DROP_TORQUE = 5, -3.75
TARGET = (1.5, 0.0, 0.5)
# To come to rest on the ground the ball needs more time, and rolling friction: it decelerates by 4 m/s^2.
SETTLING_STEPS = 2500
ROLLING_FRICTION = 0.02
# Ranges of random targets, out of the hand's reach: azimuth [rad], distance from the arm's axis and height [m].
AZIMUTH_RANGE = (-0.35, 0.35)
DISTANCE_RANGE = (1.2, 1.8)
HEIGHT_RANGE = (0.2, 0.8)
# Range of distances of random targets on the ground [m].
SETTLING_DISTANCE_RANGE = (1.2, 2.2)


@dataclass(frozen=True)
class ThrowScene:
    """Scene for optimising the throw.

    Attributes:
        model: ground, arm and ball.
        arm: the part with the nine joints; ``model.qd_slice(arm)`` are the degrees of freedom with a motor.
        ball: the part with the ball.
        q0: initial coordinates [nq].
        qd0: initial velocities [nv], zero.
        hold: motor torques that keep arm and ball at rest in the initial pose [nv]; zero for the ball [N m, N].
        steps: number of time steps.
        dt: time step [s].
        target: target of the ball's centre after the last step, world frame [3].
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
        """Slice of q with the position of the ball's centre in the world frame [m]."""
        start = self.model.q_slice(self.ball).start
        return slice(start, start + 3)

    @property
    def drop(self) -> np.ndarray:
        """Return an initial guess of the torques [steps, nv]: they hold the arm still, then let the ball drop.

        The final position of a dropped ball depends on the position and velocity at its release. A ball that is held
        ends in the hand, and an optimisation from there stretches the arm out towards the target instead of throwing.
        """
        tau = np.tile(self.hold, (self.steps, 1))
        tau[round(DROP_TIME / self.dt) :, self.model.qd_slice(self.arm).start + DROP_JOINT] += DROP_TORQUE
        return tau

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
    rolling_friction: float = 0.0,
) -> ThrowScene:
    """Build the scene.

    Args:
        target: target of the ball's centre after the last step, world frame [m].
        dtype: "float32" or "float64" (for checks).
        steps: number of time steps.
        dt: time step [s].
        friction: Coulomb friction of all contacts.
        restitution: restitution of the ball on the ground.
        rolling_friction: rolling friction of the ball [m].

    Raises:
        ModelError: if the target is not three finite numbers, or steps or dt are not positive.
    """
    goal = np.asarray(target, dtype=np.float64)
    if goal.shape != (3,) or not np.isfinite(goal).all():
        raise ModelError(f"target is {target!r}; it must be three finite numbers")
    if steps < 1 or not (np.isfinite(dt) and dt > 0.0):
        raise ModelError(f"steps is {steps} and dt is {dt}; both must be positive")
    builder = ModelBuilder()
    # A pair's friction is a product, so one factor of each pair is 1.
    builder.add_ground(surface=Surface(friction=friction))
    arm = builder.add_urdf(ARM_URDF, friction=1.0, restitution=0.0)
    alone = builder.finalize(dtype)
    hand = forward_kinematics(alone, START_POSE[None], frames=["hand"]).numpy()[0, 0].astype(np.float64)
    centre = hand[:3] + Rotation.from_quat(hand[3:]).apply(BALL_IN_HAND)
    ball = builder.add_sphere(
        radius=BALL_RADIUS, mass=BALL_MASS, name="ball", position=centre,
        surface=Surface(friction=friction, restitution=restitution, rolling_friction=rolling_friction),
        rgba=(0.86, 0.16, 0.14, 1.0),
    )  # fmt: skip
    model = builder.finalize(dtype)
    q0 = model.q0.copy()
    q0[model.q_slice(arm)] = START_POSE
    hold = np.zeros(model.nv)
    hold[model.qd_slice(arm)] = holding_torques(alone, START_POSE, centre)
    return ThrowScene(model, arm, ball, q0, np.zeros(model.nv), hold, steps, dt, goal)


def build_settling(target: tuple[float, float], dtype: str = "float32", *, steps: int = SETTLING_STEPS) -> ThrowScene:
    """Build the scene in which the ball should come to rest on the ground.

    Args:
        target: where the ball should lie after the last step, x and y in the world frame [m].
        dtype: "float32" or "float64".
        steps: number of time steps.

    Raises:
        ModelError: as :func:`build`.
    """
    return build((*target, BALL_RADIUS), dtype, steps=steps, rolling_friction=ROLLING_FRICTION)


def random_positions(seed: int, count: int) -> np.ndarray:
    """Return random targets on the ground, x and y in the world frame [count, 2]; the same for the same seed."""
    rng = np.random.default_rng(seed)
    azimuth = rng.uniform(*AZIMUTH_RANGE, count)
    distance = rng.uniform(*SETTLING_DISTANCE_RANGE, count)
    return np.stack([distance * np.cos(azimuth), distance * np.sin(azimuth)], axis=1)


def random_targets(seed: int, count: int) -> np.ndarray:
    """Return random targets within reach of a throw but not of the hand, world frame [count, 3]; the same for the same
    seed.
    """
    rng = np.random.default_rng(seed)
    azimuth = rng.uniform(*AZIMUTH_RANGE, count)
    distance = rng.uniform(*DISTANCE_RANGE, count)
    height = rng.uniform(*HEIGHT_RANGE, count)
    return np.stack([distance * np.cos(azimuth), distance * np.sin(azimuth), height], axis=1)


def holding_torques(arm: Model, q: np.ndarray, ball: np.ndarray) -> np.ndarray:
    """Compute motor torques that hold the arm still with the ball in its hand.

    Args:
        arm: a model of the arm alone.
        q: joint coordinates [9].
        ball: position of the ball in the hand, world frame [m].

    Returns:
        torques [9] in N m, and in N for the fingers.
    """
    link = arm.frame("hand").link
    carrier = forward_kinematics(arm, q[None]).numpy()[0, link, :3]
    weight = BALL_MASS * arm.parameters["gravity"]
    wrench = np.zeros((1, arm.num_links, 6))
    wrench[0, link] = np.concatenate([np.cross(ball - carrier, weight), weight])
    rest = np.zeros((1, arm.nv))
    return inverse_dynamics(arm, q[None], rest, rest, wrench).numpy()[0].astype(np.float64)
