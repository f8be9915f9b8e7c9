"""Geometries of a model: shapes with their meshes and materials, and what pairs of them have of their own."""

from dataclasses import dataclass, field

import numpy as np

from sim.model.looks.looks import DEFAULT_MATERIAL, Material
from sim.model.softness import DEFAULT_SOFTNESS, Softness


@dataclass(frozen=True)
class HullFaces:
    """Flat faces of a convex hull.

    Attributes:
        polygons: vertices of each face, counter-clockwise seen from outside.
        normals: outward unit normal of each face [f, 3].
    """

    polygons: tuple[tuple[int, ...], ...] = ()
    normals: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))


@dataclass(frozen=True)
class Mesh:
    """A triangle mesh in the frame of its geometry, in metres.

    Attributes:
        vertices: positions [nv, 3].
        faces: vertex indices [nf, 3].
        uv: texture coordinates at each corner of each face [nf, 3, 2]; (0, 0) is the lower left corner of the image,
            (1, 1) the upper right one. None for a mesh without.
        hull_faces: flat faces of a convex mesh, as MuJoCo's compiler merges its triangles, for contacts with planes
            under MuJoCo's law; None to merge them here.
    """

    vertices: np.ndarray
    faces: np.ndarray
    uv: np.ndarray | None = None
    hull_faces: HullFaces | None = None

    def __repr__(self) -> str:
        return f"Mesh({len(self.vertices)} vertices, {len(self.faces)} faces)"


@dataclass(frozen=True)
class Geometry:
    """Shape of a link.

    Attributes:
        name: unique name.
        link: index of the link; -1 is the world.
        type: one of the geometry codes of :mod:`warp_kernels.types`.
        placement: pose in the link frame, position and quaternion xyzw [7].
        size: sphere (radius, 0, 0); capsule and cylinder (radius, half length, 0), axis z; box half extents;
            ellipsoid semi-axes; scale of a convex or triangle mesh; heightfield half extents along x and y and scale of
            its heights; plane zeros, normal z.
        mesh: hull of a convex mesh, or a triangle or visual mesh as read; None for primitives.
        heights: heights of a heightfield over its frame's plane z = 0 [rows, columns], rows along y, columns along x.
        rgba: colour; material: roughness, metallic and texture.
        collides: whether it takes part in contact.
        visible: whether it is drawn.
        group: bits of its collision groups; mask: bits of the groups that it collides with.
        softness: softness of its contacts; this and the next three are described in :class:`sim.Surface`.
        softness_mix: weight of its softness in the mix with another.
        contact_margin: distance at which its contacts become active [m].
        contact_gap: additional distance at which contacts count for adhesion actuators [m].
        weighed_at: centre of mass of the link that it was added to, before others were welded to that [3], m; its
            inverse mass scales the softness.
        friction_rule, contact_priority: rule that combines the friction of a pair, see
            :meth:`sim.ModelBuilder.add_geometry`.
        friction_direction: unit vector in its frame along which its friction is ``friction``, and across which it is
            ``friction_across``; None for the same friction in all directions.
        friction_angle: angle by which that direction is turned about the outward normal of a contact [rad].
    """

    name: str
    link: int
    type: int
    placement: np.ndarray
    size: np.ndarray
    mesh: Mesh | None = None
    heights: np.ndarray | None = None
    rgba: tuple[float, float, float, float] = (0.7, 0.7, 0.7, 1.0)
    material: Material = DEFAULT_MATERIAL
    collides: bool = True
    visible: bool = True
    group: int = 1
    mask: int = -1
    friction_rule: str = "product"
    contact_priority: int = 0
    softness: Softness = DEFAULT_SOFTNESS
    softness_mix: float = 1.0
    contact_margin: float = 0.0
    contact_gap: float = 0.0
    weighed_at: tuple[float, ...] = (0.0, 0.0, 0.0)
    friction_direction: tuple[float, ...] | None = None
    friction_angle: float = 0.0


@dataclass(frozen=True)
class PairFriction:
    """Pair of geometries with its own friction, see :meth:`sim.ModelBuilder.set_pair_friction`.

    Its numbers are parameters: ``pair_friction``, ``pair_torsional_friction`` and ``pair_rolling_friction``, and where
    both tangents have their own, ``pair_friction_across`` and ``pair_rolling_friction_across``.

    Attributes:
        a: index of one geometry.
        b: index of the other; a < b.
        is_isotropic: whether both tangents have the same friction.
    """

    a: int
    b: int
    is_isotropic: bool


@dataclass(frozen=True)
class PairSoftness:
    """Softness of a pair of geometries, see :meth:`sim.ModelBuilder.set_pair_softness`.

    Attributes:
        a: index of one geometry.
        b: index of the other; a < b.
        softness: softness of their contacts under MuJoCo's law.
        contact_margin: distance at which contacts become active [m].
        contact_gap: additional distance at which contacts count for adhesion actuators [m].
    """

    a: int
    b: int
    softness: Softness
    contact_margin: float
    contact_gap: float = 0.0
