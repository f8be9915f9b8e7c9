"""Shapes of a world: those fixed to links, ground and terrain, and pairs that never touch."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.builder.aliases import deprecated_keywords
from sim.model.builder.properties import DEFAULT_SURFACE, SURFACE_FIELDS, Surface
from sim.model.checks import is_whole, names_in, require_names, require_type
from sim.model.model import Geometry, Mesh
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.model.spec_checks import (
    check_geometry,
    check_name,
    colour,
    finite,
    finite_and_not_negative,
    geometry_pair,
    geometry_size,
    height_grid,
    pose,
)
from sim.model.specs import (
    GEOMETRY_CODES,
    IDENTITY_QUATERNION,
    WORLD,
    GeometrySpec,
    Vector,
    WorldSpec,
)
from sim.model.triangles import static_mesh
from warp_kernels import types as codes


class Shapes(WorldSpec):
    """The methods of :class:`sim.ModelBuilder` for shapes."""

    @deprecated_keywords(SURFACE_FIELDS)
    def add_geometry(
        self,
        link: str,
        type: int | str,
        *,
        name: str | None = None,
        size: float | Vector = (0.0, 0.0, 0.0),
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        mesh: Mesh | None = None,
        heights: npt.ArrayLike | None = None,
        surface: Surface = DEFAULT_SURFACE,
        rgba: Sequence[float] = (0.7, 0.7, 0.7, 1.0),
        collides: bool = True,
        visible: bool = True,
    ) -> str:
        """Fix a shape to a link.

        Args:
            link: name of the link, or "world".
            type: "plane", "sphere", "capsule", "box", "convex", "cylinder", "ellipsoid", "heightfield" or "mesh", or
                its code in :mod:`warp_kernels.types`.
            name: unique name; made from the link's if left out.
            size: sphere (radius); capsule and cylinder (radius, half length), along z; box half extents; ellipsoid
                semi-axes; heightfield (half extent along x, along y, scale of its heights); scale of a mesh along x, y
                and z. What a shape doesn't have is left out or zero [m].
            position: in the link frame [m].
            orientation: in the link frame, quaternion xyzw.
            mesh: for a convex mesh, its hull; for a triangle mesh, see :meth:`add_static_mesh`.
            heights: for a heightfield, see :meth:`add_heightfield`.
            surface: friction, restitution, compliance and collision groups.
            rgba: red, green, blue and opacity, 0 to 1.
            collides: whether it takes part in contact.
            visible: whether it is drawn.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, sizes that are not positive, heights that are not a grid, a mesh or
                heights that the type doesn't have, or colours outside 0 to 1.
        """
        require_names("add_geometry", link=link)
        if name is None:
            name = f"{link}/geometry_{self.shapes_of[link]}"
        check_name(name, self.geometries, "geometry")
        where = f"geometry '{name}'"
        require_type(f"{where}: surface", surface, Surface, "a sim.Surface")
        code = GEOMETRY_CODES.get(type, -1) if isinstance(type, str) else type
        if not is_whole(code, 0) or code not in GEOMETRY_CODES.values():
            raise ModelError(f"{where}: unknown geometry type {type!r}; known are {', '.join(GEOMETRY_CODES)}")
        extents = geometry_size(f"{where}: size", code, size)
        grid = None if heights is None and code != codes.HEIGHTFIELD else height_grid(where, heights)
        mesh = static_mesh(where, mesh) if code == codes.MESH else mesh
        geometry = Geometry(
            name=name,
            link=-1,  # finalize() numbers the links
            type=code,
            placement=pose(where, position, orientation),
            size=extents,
            mesh=mesh,
            heights=grid,
            rgba=colour(where, rgba),
            collides=collides,
            visible=visible,
            group=surface.group,
            mask=surface.mask,
            friction_rule=surface.friction_rule,
            contact_priority=surface.priority,
            softness=surface.softness,
            softness_mix=surface.softness_mix,
            contact_margin=surface.margin,
            contact_gap=surface.gap,
        )
        spec = GeometrySpec(
            link=link,
            geometry=geometry,
            friction=surface.friction,
            restitution=0.0 if surface.restitution is None else surface.restitution,
            torsional_friction=surface.torsional_friction,
            rolling_friction=surface.rolling_friction,
            contact_stiffness=surface.stiffness,
            contact_damping=surface.damping,
        )
        check_geometry(spec)
        self.geometries[name] = spec
        self.shapes_of[link] += 1
        return name

    @deprecated_keywords(SURFACE_FIELDS)
    def add_ground(
        self,
        *,
        height: float = 0.0,
        name: str = "ground",
        orientation: Vector = IDENTITY_QUATERNION,
        surface: Surface = DEFAULT_SURFACE,
        rgba: Sequence[float] = (0.82, 0.84, 0.86, 1.0),
        collides: bool = True,
        visible: bool = True,
    ) -> str:
        """Add the plane z = height. Its restitution of 1 leaves that of a pair to the other body.

        Args:
            height: its height [m].
            name: its name.
            orientation: of a slope, quaternion xyzw; its normal is the z axis turned by it.
            surface: friction, restitution, compliance and collision groups.
            rgba: colour.
            collides: whether it takes part in contact.
            visible: whether it is drawn.

        Returns:
            the name.

        Raises:
            ModelError: see :meth:`add_geometry`.
        """
        return self.add_geometry(
            WORLD,
            codes.PLANE,
            name=name,
            position=(0.0, 0.0, height),
            orientation=orientation,
            surface=_ground_surface(surface),
            rgba=rgba,
            collides=collides,
            visible=visible,
        )

    @deprecated_keywords(SURFACE_FIELDS)
    def add_heightfield(
        self,
        heights: npt.ArrayLike,
        *,
        spacing: float | Vector | None = None,
        half_extents: Vector | None = None,
        name: str = "heightfield",
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        surface: Surface = DEFAULT_SURFACE,
        rgba: Sequence[float] = (0.62, 0.58, 0.5, 1.0),
        collides: bool = True,
        visible: bool = True,
    ) -> str:
        """Add terrain that doesn't move: triangles over a grid of points, solid below.

        The grid is centred on the origin of the terrain's frame. Each cell has two triangles, divided along the
        diagonal from the corner of smallest x and y to that of largest. Beyond its border there is no ground.

        Args:
            heights: heights over the plane z = 0 of that frame [m], [rows, columns] with at least two of each; rows
                along y, columns along x, both towards the positive side.
            spacing: distance of neighbouring points [m], along x and y if two; give this or ``half_extents``.
            half_extents: of the whole grid along x and y [m].
            name: its name.
            position: origin of the terrain's frame in the world [m].
            orientation: of that frame, quaternion xyzw.
            surface: friction, restitution, compliance and collision groups.
            rgba: colour.
            collides: whether it takes part in contact.
            visible: whether it is drawn.

        Returns:
            the name.

        Raises:
            ModelError: for heights that are not finite or not a grid, a spacing or extent that is not positive, or what
                :meth:`add_geometry` refuses.
        """
        where = f"geometry '{name}'"
        if (spacing is None) == (half_extents is None):
            raise ModelError(f"{where}: give either spacing or half_extents")
        rows, columns = height_grid(where, heights).shape
        if half_extents is not None:
            x, y = finite(f"{where}: half_extents", half_extents, (2,))
        else:
            step = finite(f"{where}: spacing", (spacing, spacing) if np.ndim(spacing) == 0 else spacing, (2,))  # type: ignore[arg-type]
            x, y = 0.5 * step * (columns - 1, rows - 1)
        return self.add_geometry(
            WORLD,
            codes.HEIGHTFIELD,
            name=name,
            size=(x, y, 1.0),
            position=position,
            orientation=orientation,
            heights=heights,
            surface=_ground_surface(surface),
            rgba=rgba,
            collides=collides,
            visible=visible,
        )

    @deprecated_keywords(SURFACE_FIELDS)
    def add_static_mesh(
        self,
        vertices: npt.ArrayLike,
        faces: npt.ArrayLike,
        *,
        scale: float | Vector = 1.0,
        name: str = "mesh",
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        surface: Surface = DEFAULT_SURFACE,
        rgba: Sequence[float] = (0.62, 0.58, 0.5, 1.0),
        collides: bool = True,
        visible: bool = True,
    ) -> str:
        """Add triangles that don't move, such as a scanned room, a tray or a bowl; they need not be convex.

        Bodies are on the side from which the triangles turn counter-clockwise. Behind them it is solid, as deep as half
        of a body. The mesh may be closed, or open like terrain: bodies roll off its border. Vertices at one place are
        joined, and triangles without area are left out.

        Args:
            vertices: in the mesh's frame [n, 3], m.
            faces: vertices of each triangle [m, 3].
            scale: of the vertices, one or [3], positive.
            name: its name.
            position: origin of the mesh's frame in the world [m].
            orientation: of that frame, quaternion xyzw.
            surface: friction, restitution, compliance and collision groups.
            rgba: colour.
            collides: whether it takes part in contact.
            visible: whether it is drawn.

        Returns:
            the name.

        Raises:
            ModelError: for numbers that aren't finite, faces of unknown vertices, an edge of more than two triangles,
                triangles beside each other that turn opposite ways, and what :meth:`add_geometry` refuses.
        """
        return self.add_geometry(
            WORLD,
            codes.MESH,
            name=name,
            size=(scale, scale, scale) if np.ndim(scale) == 0 else scale,  # type: ignore[arg-type]
            position=position,
            orientation=orientation,
            mesh=Mesh(np.asarray(vertices), np.asarray(faces)),
            surface=_ground_surface(surface),
            rgba=rgba,
            collides=collides,
            visible=visible,
        )

    def exclude_collision(self, link_a: str, link_b: str) -> None:
        """Never let two links collide. Links joined by a joint never do."""
        require_names("exclude_collision", link_a=link_a, link_b=link_b)
        self.excluded.add(frozenset((link_a, link_b)))

    def exclude_group(self, links: Iterable[str]) -> None:
        """Never let any two of these links collide, as :meth:`exclude_collision` of each pair, in less memory."""
        self.excluded_groups.append(frozenset(names_in("exclude_group: links", links)))

    def exclude_geometries(self, geometry_a: str, geometry_b: str) -> None:
        """Never let two geometries collide, while others of their links may."""
        geometry_pair(geometry_a, geometry_b)
        self.excluded_geometries.add(frozenset((geometry_a, geometry_b)))

    def set_pair_friction(
        self,
        geometry_a: str,
        geometry_b: str,
        *,
        friction: float,
        torsional_friction: float = 0.0,
        rolling_friction: float = 0.0,
    ) -> None:
        """Give two geometries a friction that doesn't follow from theirs. It is no parameter: it has no gradient.

        Args:
            geometry_a: name of one geometry.
            geometry_b: name of another.
            friction: Coulomb friction.
            torsional_friction: moment about the normal per normal force [m].
            rolling_friction: moment about the tangents per normal force [m].

        Raises:
            ModelError: for one geometry twice, and for a negative friction. ``finalize`` refuses unknown names.
        """
        where = geometry_pair(geometry_a, geometry_b)
        values = {"friction": friction, "torsional_friction": torsional_friction, "rolling_friction": rolling_friction}
        for label, value in values.items():
            finite_and_not_negative(where, label, value)
        slide, spin, roll = map(float, values.values())
        self.pair_frictions[frozenset((geometry_a, geometry_b))] = (slide, spin, roll)

    def set_pair_softness(
        self,
        geometry_a: str,
        geometry_b: str,
        *,
        softness: Softness = DEFAULT_SOFTNESS,
        contact_margin: float = 0.0,
        contact_gap: float = 0.0,
    ) -> None:
        """Give the contacts of two geometries a softness and a margin that don't follow from theirs.

        They are those of :class:`sim.MujocoContact`, and have no gradient.

        Args:
            geometry_a: name of one geometry.
            geometry_b: name of another.
            softness: of their contacts.
            contact_margin: the distance at which these begin to act [m].
            contact_gap: how far beyond that they count for actuators that pull at contacts [m].

        Raises:
            ModelError: for one geometry twice, and for a negative margin or gap. ``finalize`` refuses unknown names.
        """
        where = geometry_pair(geometry_a, geometry_b)
        require_type(f"{where}: softness", softness, Softness, "a sim.Softness")
        finite_and_not_negative(where, "contact_margin", contact_margin)
        finite_and_not_negative(where, "contact_gap", contact_gap)
        self.pair_softness[frozenset((geometry_a, geometry_b))] = (softness, float(contact_margin), float(contact_gap))


def _ground_surface(surface: Surface) -> Surface:
    """The surface of what doesn't move: by default its restitution is 1."""
    require_type("surface", surface, Surface, "a sim.Surface")
    return surface if surface.restitution is not None else replace(surface, restitution=1.0)
