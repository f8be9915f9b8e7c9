"""A racecar before a gap between two parked cars, in which it should stand at the end.

One input steers both front wheels, and each rear wheel has a motor. The brakes, friction in the joints, are off.
"""

from dataclasses import dataclass

import numpy as np

from scenes.racecar import RACECAR_URDF, WHEEL_RADIUS
from sim import ModelBuilder
from sim.errors import ModelError
from sim.model.builder.properties import Gains, Surface
from sim.model.model import Model, Part

HALF_LENGTH, HALF_WIDTH = 0.19, 0.16  # of the car with its wheels [m]
PARKED = (0.19, 0.14, 0.06)  # half extents of a parked car [m]
GAP = (1.0, 0.45, 1.0)  # length of the gap; from the start to its middle, to the right and backwards [m]
FRICTION = 1.0
STEERING, TORQUE = 0.45, 0.3  # largest angle of the front wheels [rad], and torque on each rear wheel [N m]
REAR = ("rear_left_wheel_joint", "rear_right_wheel_joint")
DRAG = 0.01  # of the motor, at each rear wheel [N m s/rad]
DT, STEPS = 0.01, 300
# Ranges of random gaps: length, sideways, behind [m].
LEAST, MOST = (0.95, 0.4, 1.0), (1.2, 0.5, 1.3)


@dataclass(frozen=True)
class ParkingScene:
    """Scene for optimising how a car parks.

    Attributes:
        model: ground, parked cars and the car, with three actuators: the angle of the front wheels [rad], and the
            torques of the left and right rear wheel [N m], positive forwards.
        car: the part with the car; its chassis comes first in q and qd.
        q0: initial coordinates [nq].
        target: target of the car's centre at the end: x and y [m]. The car should point along x.
        parked: middles of the parked cars [2, 2], m.
        steps: number of time steps.
        dt: time step [s].
    """

    model: Model
    car: Part
    q0: np.ndarray
    target: np.ndarray
    parked: np.ndarray
    steps: int
    dt: float


def build(gap: tuple[float, float, float] = GAP, dtype: str = "float32", *, solid: bool = True) -> ParkingScene:
    """Build the scene.

    Args:
        gap: length of the gap, and from the start to its middle, to the right and backwards [m].
        dtype: "float32" or "float64" (for checks).
        solid: make the parked cars collide; otherwise they are only drawn.

    Raises:
        ModelError: for a gap that isn't three finite numbers, or so short or near that the cars touch.
    """
    sizes = np.asarray(gap, dtype=np.float64)
    if sizes.shape != (3,) or not np.isfinite(sizes).all():
        raise ModelError(f"gap is {gap!r}; it must be three finite numbers")
    length, sideways, behind = sizes
    if length <= 2.0 * HALF_LENGTH or sideways <= HALF_WIDTH + PARKED[1]:
        raise ModelError(
            f"gap is {gap!r}; it must be longer than the car, {2.0 * HALF_LENGTH} m, and more than "
            f"{HALF_WIDTH + PARKED[1]} m to the right, so that the cars don't touch"
        )
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=FRICTION))
    target = np.array([-behind, -sideways])
    ahead = np.array([0.5 * length + PARKED[0], 0.0])
    parked = np.stack([target + ahead, target - ahead])
    for name, (x, y) in zip(("front", "back"), parked, strict=True):
        builder.add_geometry(
            "world", "box", name=name, size=PARKED, position=(x, y, PARKED[2] + 0.01), surface=Surface(friction=0.5),
            collides=solid,
            rgba=(0.45, 0.5, 0.58, 1.0),
        )  # fmt: skip
    car = builder.add_urdf(RACECAR_URDF, floating_base=True, position=(0.0, 0.0, WHEEL_RADIUS), self_collision=False)
    builder.add_joint_coupling("front_right_steering_joint", "front_left_steering_joint")
    builder.add_actuator(
        "front_left_steering_joint", "position", gains=Gains(kp=20.0, kd=0.5), control_range=(-STEERING, STEERING)
    )
    for joint in REAR:
        builder.add_actuator(joint, control_range=(-TORQUE, TORQUE))
    model = builder.finalize(dtype)
    model.parameters["friction_loss"][:] = 0.0  # brakes
    for joint in REAR:
        model.parameters["damping"][model.qd_slice(joint)] = DRAG
    return ParkingScene(model, car, model.q0.copy(), target, parked, STEPS, DT)


def random_gaps(seed: int, count: int) -> np.ndarray:
    """Return random gaps [count, 3], m."""
    return np.random.default_rng(seed).uniform(LEAST, MOST, (count, 3))
