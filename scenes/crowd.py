"""Many bodies in one world: quadrupeds that collide with each other, and loose balls or boxes, apart or in a heap."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scenes.quadruped import LEG_LENGTH, LEGS, QUADRUPED_URDF, standing_height, standing_legs
from sim import ModelBuilder
from sim.model.builder.properties import Surface
from sim.model.model import Model, Part
from warp_kernels.types import CAPSULE

SIZE = 0.05  # radius of a ball, half the edge of a box [m]
MASS = 0.2  # mass of each [kg]


@dataclass(frozen=True)
class Crowd:
    """World full of bodies.

    Attributes:
        model: ground and bodies.
        q0: initial coordinates [nq].
        qd0: initial velocities [nv], zero.
    """

    model: Model
    q0: np.ndarray
    qd0: np.ndarray


def quadrupeds(count: int, dtype: str = "float32", *, spacing: tuple[float, float] = (0.7, 0.4)) -> Crowd:
    """Build quadrupeds that stand in a square, each with colliding capsules around trunk and calves.

    Args:
        count: number of robots.
        dtype: "float32" or "float64" (for checks).
        spacing: distance between robots along and across their trunks [m]; below (0.6, 0.2) their capsules overlap.
    """
    builder = ModelBuilder()
    robots = []
    for robot in _robots_in_square(builder, count, spacing):
        robots.append(robot)
        along = (0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5))
        builder.add_geometry(
            f"{robot.name}/trunk", CAPSULE, size=(0.09, 0.2, 0.0), orientation=along, surface=Surface(friction=0.5)
        )
        for leg in LEGS:
            calf = f"{robot.name}/{leg}_calf"
            middle = (0.0, 0.0, -0.5 * LEG_LENGTH)
            builder.add_geometry(
                calf, CAPSULE, size=(0.015, 0.4 * LEG_LENGTH, 0.0), position=middle, surface=Surface(friction=0.5)
            )
            for link in builder.links:
                if link.startswith(f"{robot.name}/") and link != calf:
                    builder.exclude_collision(calf, link)
    return _standing(builder, robots, dtype)


def herd(
    count: int, dtype: str = "float32", *, spacing: tuple[float, float] = (1.0, 1.0), friction: float = 0.8
) -> Crowd:
    """Build quadrupeds that stand in a square and collide only with their feet.

    Args:
        count: number of robots.
        dtype: "float32" or "float64" (for checks).
        spacing: distance between robots along and across their trunks [m].
        friction: of the ground.
    """
    builder = ModelBuilder()
    robots = list(_robots_in_square(builder, count, spacing, friction))
    return _standing(builder, robots, dtype)


def _robots_in_square(
    builder: ModelBuilder, count: int, spacing: tuple[float, float], friction: float = 0.8
) -> Iterator[Part]:
    """Add the ground, then one robot after the other, colliding only with their feet."""
    builder.add_ground(surface=Surface(friction=friction))
    columns = int(np.ceil(np.sqrt(count)))
    for number in range(count):
        position = (spacing[0] * (number // columns), spacing[1] * (number % columns), standing_height())
        name = f"robot{number}"
        robot = builder.add_urdf(QUADRUPED_URDF, name=name, floating_base=True, position=position, friction=1.0)
        for key, spec in list(builder.geometries.items()):
            if spec.geometry.collides and spec.link.startswith(f"{name}/") and not spec.link.endswith("_foot"):
                del builder.geometries[key]
        yield robot


def _standing(builder: ModelBuilder, robots: list[Part], dtype: str) -> Crowd:
    model = builder.finalize(dtype)
    q0 = model.q0.copy()
    for robot in robots:
        q0[model.q_slice(robot)][7:] = standing_legs()
    return Crowd(model, q0, np.zeros(model.nv))


def springs(crowd: Crowd, stiffness: float = 200.0, damping: float = 5.0) -> dict[str, np.ndarray]:
    """Return parameters with springs in all joints that hold the initial pose [N m/rad, N m s/rad]."""
    model = crowd.model
    joints = model.dof_q >= 0
    return {
        "stiffness": stiffness * joints,
        "damping": damping * joints,
        "rest_position": np.where(joints, crowd.q0[model.dof_q], 0.0),
    }


def loose(
    shape: str, count: int, dtype: str = "float32", *, spacing: float = 2.0 * SIZE, height: float = 0.0, layers: int = 1
) -> Crowd:
    """Build balls or boxes in square layers.

    Args:
        shape: "ball" or "box".
        count: number of bodies.
        dtype: "float32" or "float64" (for checks).
        spacing: distance between bodies, sideways and upwards; at 2 SIZE they just touch [m].
        height: height of the lowest bodies above the ground [m].
        layers: number of layers; every second one is shifted by a quarter of the spacing.
    """
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=0.8))
    side = int(np.ceil(np.sqrt(count / layers)))
    for number in range(count):
        layer, cell = divmod(number, side * side)
        shift = 0.25 * (layer % 2)
        position = (
            spacing * (cell // side + shift), spacing * (cell % side + shift), SIZE + height + spacing * layer
        )  # fmt: skip
        if shape == "ball":
            builder.add_sphere(radius=SIZE, mass=MASS, position=position, surface=Surface(friction=0.8))
        else:
            builder.add_box(
                half_extents=(SIZE, SIZE, SIZE), mass=MASS, position=position, surface=Surface(friction=0.8)
            )
    model = builder.finalize(dtype)
    return Crowd(model, model.q0.copy(), np.zeros(model.nv))
