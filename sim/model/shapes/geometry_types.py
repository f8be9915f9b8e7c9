"""Types of geometry outside of the kernels: one table entry each, from which the rest of ``sim`` reads.

``warp_kernels/collision`` has the kernels of each type; ``sim/model/shapes/hulls.py`` vertices and faces of types that
collide as hulls, and ``sim/render/tessellation.py`` the triangles for drawing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from warp_kernels import types as codes


@dataclass(frozen=True)
class GeometryType:
    """Type of geometry. Sizes are those of :class:`sim.model.geometries.Geometry`.

    Attributes:
        code: code in :mod:`warp_kernels.types`.
        name: name in :meth:`sim.ModelBuilder.add_geometry`.
        title: name in messages.
        sizes: number of leading sizes that must be positive.
        rank: order of types in a pair that a sensor reads; MuJoCo's order.
        support: ``support(size, direction)`` returns the maximum extent from the origin along a unit vector in the
            geometry's frame [m]; None for types with a mesh or heights, and for unbounded ones.
        solid: ``solid(size)`` returns the volume [m^3] and the principal moments about the origin per unit mass [m^2]
            [3]; None for types that aren't solid primitives.
    """

    code: int
    name: str
    title: str
    sizes: int
    rank: int
    support: Callable[[np.ndarray, np.ndarray], float] | None = None
    solid: Callable[[Sequence[float]], tuple[float, np.ndarray]] | None = None

    def extents(self, size: np.ndarray) -> np.ndarray:
        """Return the half extents along the axes, for a type with a ``support`` [m] [3]."""
        assert self.support is not None
        return np.array([self.support(size, axis) for axis in np.eye(3)])


def capsule_inertia(radius: float, half_length: float, mass: float) -> np.ndarray:
    """Return the principal moments [3] of a solid capsule along z, made of a cylinder and two hemispheres."""
    length = 2.0 * half_length
    cylinder = mass * length / (length + 4.0 * radius / 3.0)
    balls = mass - cylinder
    axial = cylinder * radius**2 / 2.0 + balls * 0.4 * radius**2
    ends = 0.4 * radius**2 + half_length**2 + 0.75 * half_length * radius
    across = cylinder * (radius**2 / 4.0 + length**2 / 12.0) + balls * ends
    return np.array([across, across, axial])


def _solid_cylinder(size: Sequence[float]) -> tuple[float, np.ndarray]:
    radius, half_length, _ = size
    across = radius**2 / 4.0 + half_length**2 / 3.0
    return 2.0 * np.pi * radius**2 * half_length, np.array([across, across, radius**2 / 2.0])


def _solid_capsule(size: Sequence[float]) -> tuple[float, np.ndarray]:
    radius, half_length, _ = size
    volume = np.pi * radius**2 * (2.0 * half_length + 4.0 / 3.0 * radius)
    return volume, capsule_inertia(radius, half_length, 1.0)


def _squares(size: Sequence[float]) -> np.ndarray:
    x, y, z = size
    return np.array([y * y + z * z, x * x + z * z, x * x + y * y])


GEOMETRY_TYPES = {
    each.code: each
    for each in (
        GeometryType(codes.PLANE, "plane", "plane", 0, rank=0),
        GeometryType(
            codes.SPHERE, "sphere", "sphere", 1, rank=2,
            support=lambda size, direction: size[0],
            solid=lambda size: (4.0 / 3.0 * np.pi * size[0] ** 3, np.full(3, 0.4 * size[0] * size[0])),
        ),
        GeometryType(
            codes.CAPSULE, "capsule", "capsule", 2, rank=3,
            support=lambda size, direction: size[0] + size[1] * abs(direction[2]),
            solid=_solid_capsule,
        ),
        GeometryType(
            codes.BOX, "box", "box", 3, rank=6,
            support=lambda size, direction: np.abs(direction) @ size,
            solid=lambda size: (8.0 * size[0] * size[1] * size[2], _squares(size) / 3.0),
        ),
        GeometryType(codes.CONVEX, "convex", "convex mesh", 3, rank=7),
        GeometryType(
            codes.CYLINDER, "cylinder", "cylinder", 2, rank=5,
            support=lambda size, direction: (
                size[0] * np.hypot(direction[0], direction[1]) + size[1] * abs(direction[2])
            ),
            solid=_solid_cylinder,
        ),
        GeometryType(
            codes.ELLIPSOID, "ellipsoid", "ellipsoid", 3, rank=4,
            support=lambda size, direction: float(np.linalg.norm(direction * size)),
            solid=lambda size: (4.0 / 3.0 * np.pi * size[0] * size[1] * size[2], _squares(size) / 5.0),
        ),
        GeometryType(codes.HEIGHTFIELD, "heightfield", "heightfield", 3, rank=1),
        GeometryType(codes.MESH, "mesh", "triangle mesh", 3, rank=8),
    )
}  # fmt: skip
