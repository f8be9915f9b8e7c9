"""A box that is thrown at floor and wall: it bounces, tumbles and slides while a known force pushes it.

It has two halves of different masses. Its motion determines friction, restitution and both masses. Without the push it
would only determine the ratio of the masses, since gravity, friction and impacts all act in proportion to them.

The box bounces off the wall only; the floor has no restitution. The motion may jump where two corners hit the wall in
one time step rather than in two, but is continuous where a landing moves to another step. The time of the first
impact on the wall hardly depends on the unknowns.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from sim import ModelBuilder
from sim.errors import ModelError
from sim.model.builder.properties import Surface
from sim.model.model import Model

HALF_EXTENTS = (0.12, 0.08, 0.06)
WALL = 0.68  # x of the wall [m]
HEIGHT = 0.22
ROTATION = (0.45, 0.26, -0.53)  # initial rotation vector [rad]
VELOCITY = (4.0, 0.15, -1.0)
SPIN = (-3.0, -0.5, -2.8)
PUSH = (0.0, 7.5, 0.0)  # at the centre of the box [N]
STEPS = 400
DT = 2.0e-3
WALL_SHOWN = (0.02, 1.1, 0.12)  # half extents of the visible part
WALL_COLOR = (0.62, 0.66, 0.70, 1.0)
COLORS = ((0.20, 0.45, 0.70, 1.0), (0.90, 0.62, 0.20, 1.0))
# Unknowns in this order, with units and ranges.
UNKNOWNS = ("friction", "restitution", "rear mass", "front mass")
UNITS = ("", "", "kg", "kg")
LEAST = np.array([0.15, 0.3, 0.4, 0.4])
MOST = np.array([0.5, 0.7, 1.2, 1.2])
TYPICAL = (0.3, 0.5, 0.6, 1.0)


@dataclass(frozen=True)
class BoxScene:
    """Scene for estimating the unknowns.

    Attributes:
        model: floor, wall and box. A pair's friction and restitution are products. Floor and wall have friction 1; the
            wall has restitution 1, the floor 0.
        box: index of the box's colliding geometry.
        q0: initial coordinates [nq].
        qd0: initial velocities [nv].
        push: the known force on the box, as a joint force [nv].
        steps: number of time steps.
        dt: time step [s].
    """

    model: Model
    box: int
    q0: np.ndarray
    qd0: np.ndarray
    push: np.ndarray
    steps: int
    dt: float


def build(
    dtype: str = "float64", *, unknowns: tuple[float, float, float, float] = TYPICAL, push: bool = True
) -> BoxScene:
    """Build the scene.

    Args:
        dtype: "float32" or "float64".
        unknowns: friction, restitution, and the masses of the rear (-x) and the front half [kg].
        push: apply the known force.

    Raises:
        ModelError: for masses that are not positive and finite.
    """
    friction, restitution, *masses = unknowns
    if not (np.isfinite(masses).all() and min(masses) > 0.0):
        raise ModelError(f"unknowns: the masses are {masses}; they must be positive")
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=1.0, restitution=0.0))
    facing_back = Rotation.from_euler("y", -90.0, degrees=True).as_quat()
    builder.add_geometry(
        "world", "plane", name="wall", position=(WALL, 0.0, 0.0), orientation=facing_back,
        surface=Surface(friction=1.0, restitution=1.0), visible=False,
    )  # fmt: skip
    builder.add_geometry(
        "world", "box", name="the visible part of the wall", size=WALL_SHOWN,
        position=(WALL + WALL_SHOWN[0], WALL_SHOWN[1] - 0.2, WALL_SHOWN[2]), collides=False, rgba=WALL_COLOR,
    )  # fmt: skip
    mass, com, inertia = (value[0].numpy() for value in body(torch.tensor(masses, dtype=torch.float64)))
    builder.add_link("box", mass=float(mass), com=com, inertia=inertia)
    length, width, height = HALF_EXTENTS
    for name, side, color in zip(("rear", "front"), (-0.5, 0.5), COLORS, strict=True):
        builder.add_geometry(
            "box", "box", name=name, size=(0.5 * length, width, height), position=(side * length, 0.0, 0.0),
            collides=False, rgba=color,
        )  # fmt: skip
    builder.add_geometry(
        "box",
        "box",
        name="hull",
        size=HALF_EXTENTS,
        surface=Surface(friction=friction, restitution=restitution),
        visible=False,
    )
    builder.add_joint(
        "free", "free", child="box", position=(0.0, 0.0, HEIGHT),
        orientation=tuple(Rotation.from_rotvec(ROTATION).as_quat()),
    )  # fmt: skip
    model = builder.finalize(dtype)
    box = next(index for index, geometry in enumerate(model.geometries) if geometry.name == "hull")
    force = np.array([*PUSH, 0.0, 0.0, 0.0]) if push else np.zeros(6)
    return BoxScene(model, box, model.q0.copy(), np.array([*VELOCITY, *SPIN]), force, STEPS, DT)


def body(masses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the box as one body made of two solid halves. Differentiable.

    Args:
        masses: masses of the rear and the front half [..., 2], kg.

    Returns:
        mass [..., 1], centre of mass in the frame of the box [..., 1, 3] and inertia about it [..., 1, 3, 3], shaped
        like the parameters of a model with one link.
    """
    length, width, height = HALF_EXTENTS
    rear, front = masses[..., :1], masses[..., 1:]
    mass = rear + front
    axis = masses.new_tensor([1.0, 0.0, 0.0])
    com = (0.5 * length * (front - rear) / mass)[..., None] * axis
    x, y, z = 0.25 * length**2, width**2, height**2
    halves = torch.diag(masses.new_tensor([y + z, x + z, x + y])) / 3.0
    # Their centres are one length apart: parallel axis theorem with the reduced mass.
    apart = length**2 * (torch.eye(3, dtype=masses.dtype, device=masses.device) - torch.outer(axis, axis))
    inertia = mass[..., None, None] * halves + (rear * front / mass)[..., None, None] * apart
    return mass, com, inertia


def parameters(scene: BoxScene, unknowns: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return parameters of a simulator, per world, from the unknowns. Differentiable.

    Args:
        scene: the scene.
        unknowns: values of :data:`UNKNOWNS` [num_worlds, 4].
    """
    chosen = {}
    for column, name in enumerate(("friction", "restitution")):
        base = torch.as_tensor(scene.model.parameters[name]).to(unknowns)
        is_box = torch.zeros_like(base)
        is_box[scene.box] = 1.0
        chosen[name] = base * (1.0 - is_box) + unknowns[:, column, None] * is_box
    chosen["mass"], chosen["com"], chosen["inertia"] = body(unknowns[:, 2:])
    return chosen


def random_boxes(seed: int, count: int) -> np.ndarray:
    """Return unknowns of random boxes [count, 4]; the same for the same seed."""
    return np.random.default_rng(seed).uniform(LEAST, MOST, (count, len(UNKNOWNS)))
