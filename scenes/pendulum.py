"""A chain of n links hung from a point that swings in a plane: chaotic for n > 1, in closed form for small swings."""

from dataclasses import dataclass

import numpy as np

from sim import ModelBuilder
from sim.errors import ModelError
from sim.model.builder.properties import Spring
from sim.model.model import Model
from sim.model.shapes.geometry_types import capsule_inertia
from sim.model.specs import WORLD, Vector
from warp_kernels import types as codes


@dataclass(frozen=True)
class PendulumScene:
    """Pendulum.

    Attributes:
        model: the links, each hinged about y; at q = 0 they hang straight down.
        q0: initial coordinates [nq], the angle of each link relative to the one above [rad].
        qd0: initial velocities [nv], zero.
    """

    model: Model
    q0: np.ndarray
    qd0: np.ndarray


def build(
    links: int = 2,
    dtype: str = "float32",
    *,
    length: float = 0.5,
    mass: float = 1.0,
    radius: float = 0.03,
    damping: float = 0.0,
    angle: float = 1.0,
    gravity: Vector = (0.0, 0.0, -9.81),
) -> PendulumScene:
    """Build a pendulum of equal solid capsules without collision.

    Args:
        links: number of links.
        dtype: "float32" or "float64" (for checks).
        length: distance from one joint to the next [m].
        mass: mass of each link [kg].
        radius: radius of each link [m], less than half its length.
        damping: damping of each joint [N m s/rad].
        angle: initial angle of the first joint; the others start straight [rad].
        gravity: gravity in the world frame [m/s^2].

    Raises:
        ModelError: for less than one link, or a radius too large for the length.
    """
    if links < 1:
        raise ModelError(f"links is {links}; a pendulum needs at least one")
    half_length = 0.5 * length - radius
    if not half_length > 0.0:
        raise ModelError(f"radius is {radius} m; it must be less than half the link's length, {length} m")
    builder = ModelBuilder(gravity=gravity)
    middle = (0.0, 0.0, -0.5 * length)
    for k in range(links):
        name = f"link_{k}"
        builder.add_link(name, mass=mass, com=middle, inertia=capsule_inertia(radius, half_length, mass))
        parent, hinge = (WORLD, (0.0, 0.0, links * length)) if k == 0 else (f"link_{k - 1}", (0.0, 0.0, -length))
        builder.add_joint(
            f"hinge_{k}",
            "continuous",
            child=name,
            parent=parent,
            position=hinge,
            axis=(0.0, 1.0, 0.0),
            spring=Spring(damping=damping),
        )
        shade = 0.35 + 0.5 * (k % 2)
        builder.add_geometry(
            name,
            codes.CAPSULE,
            size=(radius, half_length, 0.0),
            position=middle,
            collides=False,
            rgba=(shade, 0.45, 0.25, 1.0),
        )
    model = builder.finalize(dtype)
    q0 = np.zeros(model.nq)
    q0[0] = angle
    return PendulumScene(model, q0, np.zeros(model.nv))
