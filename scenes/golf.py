"""Golf: a linkage with a club hits a ball off a tee, and the ball rolls to rest on the ground.

The club starts drawn back. The joint torques of every step are free; at the end the ball should lie at the target.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim import ModelBuilder
from sim.errors import ModelError
from sim.model.builder.properties import Surface
from sim.model.model import Model, Part

GOLFER_URDF = Path(__file__).parent / "robots" / "golfer.urdf"
SHOULDER_HEIGHT = 1.27
BALL_RADIUS = 0.0214
BALL_MASS = 0.046
TEE = (0.012, 0.012, 0.015)  # half extents of the block under the ball
# Head and ball touch slightly past the lowest point of the swing.
TEE_POSITION = (0.05, 0.0)
# Drawn back: the arm behind the shoulder, the wrist cocked.
START_POSE = np.array([0.0, 0.9, 0.4])
# Like short grass: a rolling ball decelerates by about 3.9 m/s^2.
ROLLING_FRICTION = 0.012
STEPS = 2000
DT = 2.0e-3
TARGET = (3.0, 0.3)
# Ranges of random targets: azimuth [rad] and distance from the tee [m].
AZIMUTH_RANGE = (-0.3, 0.3)
DISTANCE_RANGE = (2.0, 6.0)


@dataclass(frozen=True)
class GolfScene:
    """Scene for optimising the shot.

    Attributes:
        model: ground, tee, golfer and ball.
        golfer: the part with the three joints; ``model.qd_slice(golfer)`` are the degrees of freedom with a motor.
        ball: the part with the ball.
        q0: initial coordinates [nq], with the ball at rest on the tee.
        qd0: initial velocities [nv], zero.
        steps: number of time steps.
        dt: time step [s].
        target: where the ball's centre should be after the last step, world frame [3].
    """

    model: Model
    golfer: Part
    ball: Part
    q0: np.ndarray
    qd0: np.ndarray
    steps: int
    dt: float
    target: np.ndarray

    @property
    def ball_position(self) -> slice:
        """Slice of q with the position of the ball's centre in the world frame [m]."""
        start = self.model.q_slice(self.ball).start
        return slice(start, start + 3)


def build(
    target: tuple[float, float] = TARGET,
    dtype: str = "float32",
    *,
    steps: int = STEPS,
    dt: float = DT,
    friction: float = 0.4,
    restitution: float = 0.7,
    rolling_friction: float = ROLLING_FRICTION,
) -> GolfScene:
    """Build the scene.

    Args:
        target: where the ball should lie at the end, x and y on the ground in the world frame [m].
        dtype: "float32" or "float64" (for checks).
        steps: number of time steps.
        dt: time step [s].
        friction: Coulomb friction of the ball.
        restitution: restitution of the ball on the club; on the ground it is half of that.
        rolling_friction: rolling friction of the ball [m].

    Raises:
        ModelError: if the target is not two finite numbers, or steps or dt are not positive.
    """
    goal = np.asarray(target, dtype=np.float64)
    if goal.shape != (2,) or not np.isfinite(goal).all():
        raise ModelError(f"target is {target!r}; it must be two finite numbers")
    if steps < 1 or not (np.isfinite(dt) and dt > 0.0):
        raise ModelError(f"steps is {steps} and dt is {dt}; both must be positive")
    builder = ModelBuilder()
    # A pair's friction and restitution are products, so one factor of each pair is 1.
    builder.add_ground(surface=Surface(friction=1.0, restitution=0.5))
    tee = (*TEE_POSITION, TEE[2])
    # The tee only touches the ball: the club must pass through it.
    builder.add_geometry(
        "world", "box", name="tee", size=TEE, position=tee, surface=Surface(friction=1.0, group=2, mask=2)
    )
    golfer = builder.add_urdf(GOLFER_URDF, position=(0.0, 0.0, SHOULDER_HEIGHT), friction=1.0, restitution=1.0)
    ball = builder.add_sphere(
        radius=BALL_RADIUS, mass=BALL_MASS, name="ball", position=(*TEE_POSITION, 2.0 * TEE[2] + BALL_RADIUS),
        surface=Surface(friction=friction, restitution=restitution, rolling_friction=rolling_friction, group=3),
        rgba=(0.95, 0.95, 0.95, 1.0),
    )  # fmt: skip
    model = builder.finalize(dtype)
    q0 = model.q0.copy()
    q0[model.q_slice(golfer)] = START_POSE
    return GolfScene(model, golfer, ball, q0, np.zeros(model.nv), steps, dt, np.array([*goal, BALL_RADIUS]))


def random_targets(seed: int, count: int) -> np.ndarray:
    """Return random targets on the ground within reach, x and y in the world frame [count, 2]; the same for the same
    seed.
    """
    rng = np.random.default_rng(seed)
    azimuth = rng.uniform(*AZIMUTH_RANGE, count)
    distance = rng.uniform(*DISTANCE_RANGE, count)
    return np.stack([TEE_POSITION[0] + distance * np.cos(azimuth), distance * np.sin(azimuth)], axis=1)
