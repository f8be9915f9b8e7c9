"""Shapes of a world: geometries of links, ground and terrain, and excluded pairs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.builder.aliases import deprecated_keywords
from sim.model.builder.properties import DEFAULT_SURFACE, SURFACE_FIELDS, Surface
from sim.model.checks import as_numbers, is_single, is_whole, names_in, number, require_names, require_type, two_numbers
from sim.model.geometries import Geometry, Mesh
from sim.model.looks.looks import DEFAULT_MATERIAL, Material
from sim.model.shapes.triangles import static_mesh
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
    texture_coordinates,
)
from sim.model.specs import (
    GEOMETRY_CODES,
    IDENTITY_QUATERNION,
    WORLD,
    GeometrySpec,
    Vector,
    WorldSpec,
)
from warp_kernels import types as codes


class Shapes(WorldSpec):
    """Methods of :class:`sim.ModelBuilder` for shapes."""

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
        material: Material = DEFAULT_MATERIAL,
        collides: bool = True,
        visible: bool = True,
    ) -> str:
        """Add a shape to a link.

        Args:
            link: name of the link, or "world".
            type: "plane", "sphere", "capsule", "box", "convex", "cylinder", "ellipsoid", "heightfield" or "mesh", or
                its code in :mod:`warp_kernels.types`.
            name: unique name. Default: made from the link's.
            size: size [m]: sphere (radius); capsule and cylinder (radius, half length), along z; box half extents;
                ellipsoid semi-axes; heightfield (half extent along x, along y, scale of its heights); mesh scale along
                x, y and z. Omit sizes that a shape doesn't have, or set them to zero.
            position: in the link frame [m].
            orientation: in the link frame, quaternion xyzw.
            mesh: mesh whose hull is a convex mesh, or a triangle mesh as of :meth:`add_static_mesh`.
            heights: heights of a heightfield, see :meth:`add_heightfield`.
            surface: friction, restitution, compliance and collision groups.
            rgba: red, green, blue and opacity, 0 to 1.
            material: roughness, metallic and texture.
            collides: whether the shape takes part in contact.
            visible: whether the shape is drawn.

        Returns:
            the name of the geometry.

        Raises:
            ModelError: for a duplicate name, sizes that are not positive, heights that are not a grid, a mesh or
                heights that the type doesn't have, and colours outside 0 to 1.
        """
        require_names("add_geometry", link=link)
        if name is None:
            name = f"{link}/geometry_{self.shapes_of[link]}"
        check_name(name, self.geometries, "geometry")
        where = f"geometry '{name}'"
        require_type(f"{where}: surface", surface, Surface, "a sim.Surface")
        require_type(f"{where}: material", material, Material, "a sim.Material")
        texture_coordinates(where, mesh)
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
            material=material,
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
            friction_direction=None if surface.friction_direction is None else tuple(surface.friction_direction),
            friction_angle=surface.friction_angle,
        )
        spec = GeometrySpec(
            link=link,
            geometry=geometry,
            friction=surface.friction,
            friction_across=0.0 if surface.friction_across is None else surface.friction_across,
            restitution=0.0 if surface.restitution is None else surface.restitution,
            torsional_friction=surface.torsional_friction,
            rolling_friction=surface.rolling_friction,
            contact_stiffness=surface.stiffness,
            contact_damping=surface.damping,
            surface_velocity=surface.velocity,
            surface_spin=surface.spin,
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
        material: Material = DEFAULT_MATERIAL,
        collides: bool = True,
        visible: bool = True,
    ) -> str:
        """Add the plane z = height. Its restitution is 1 by default, so that the other body decides that of a pair.

        Args:
            height: height [m].
            name: name of the plane.
            orientation: orientation of a slope, quaternion xyzw; its normal is the rotated z axis.
            surface: friction, restitution, compliance and collision groups.
            rgba: colour.
            material: roughness, metallic and texture.
            collides: whether the plane takes part in contact.
            visible: whether the plane is drawn.

        Returns:
            the name of the plane.

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
            material=material,
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
        material: Material = DEFAULT_MATERIAL,
        collides: bool = True,
        visible: bool = True,
    ) -> str:
        """Add static terrain: triangles over a grid of points, solid below.

        The grid is centred on the origin of the terrain's frame. Each cell has two triangles, divided along the
        diagonal from the corner of smallest x and y to that of largest. There is no ground beyond its border.

        Args:
            heights: heights over the plane z = 0 of the terrain's frame [m], [rows, columns] with at least two of each;
                rows along y, columns along x, both in the positive direction.
            spacing: distance of neighbouring points [m], along x and y if two; give this or ``half_extents``.
            half_extents: half extents of the grid along x and y [m].
            name: name of the heightfield.
            position: origin of the terrain's frame in the world [m].
            orientation: orientation of that frame, quaternion xyzw.
            surface: friction, restitution, compliance and collision groups.
            rgba: colour.
            material: roughness, metallic and texture.
            collides: whether the terrain takes part in contact.
            visible: whether the terrain is drawn.

        Returns:
            the name of the heightfield.

        Raises:
            ModelError: for heights that are not finite or not a grid, a spacing or extent that is not positive, and as
                :meth:`add_geometry`.
        """
        where = f"geometry '{name}'"
        if (spacing is None) == (half_extents is None):
            raise ModelError(f"{where}: give either spacing or half_extents")
        rows, columns = height_grid(where, heights).shape
        if half_extents is not None:
            x, y = finite(f"{where}: half_extents", half_extents, (2,))
        else:
            step = finite(f"{where}: spacing", (spacing, spacing) if is_single(spacing) else spacing, (2,))  # type: ignore[arg-type]
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
            material=material,
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
        material: Material = DEFAULT_MATERIAL,
        collides: bool = True,
        visible: bool = True,
    ) -> str:
        """Add a static triangle mesh, such as a scanned room, a tray or a bowl. It need not be convex.

        Bodies are on the side from which the triangles are counter-clockwise. Behind it the mesh is solid down to half
        of a body's size. It may be closed, or open like terrain: bodies roll off its border. Duplicate vertices are
        merged, and triangles without area are dropped.

        Args:
            vertices: vertices in the mesh's frame [n, 3], m.
            faces: vertex indices of each triangle [m, 3].
            scale: scale of the vertices, one or [3], positive.
            name: name of the mesh.
            position: origin of the mesh's frame in the world [m].
            orientation: orientation of that frame, quaternion xyzw.
            surface: friction, restitution, compliance and collision groups.
            rgba: colour.
            material: roughness, metallic and texture.
            collides: whether the mesh takes part in contact.
            visible: whether the mesh is drawn.

        Returns:
            the name of the mesh.

        Raises:
            ModelError: for numbers that aren't finite, faces of unknown vertices, an edge of more than two triangles,
                neighbouring triangles of opposite orientation, and as :meth:`add_geometry`.
        """
        return self.add_geometry(
            WORLD,
            codes.MESH,
            name=name,
            size=(scale, scale, scale) if is_single(scale) else scale,  # type: ignore[arg-type]
            position=position,
            orientation=orientation,
            mesh=Mesh(as_numbers("add_static_mesh: vertices", vertices), _as_array("add_static_mesh: faces", faces)),
            surface=_ground_surface(surface),
            rgba=rgba,
            material=material,
            collides=collides,
            visible=visible,
        )

    def exclude_collision(self, link_a: str, link_b: str) -> None:
        """Exclude collisions between two links. Links joined by a joint never collide."""
        require_names("exclude_collision", link_a=link_a, link_b=link_b)
        self.excluded.add(frozenset((link_a, link_b)))

    def exclude_group(self, links: Iterable[str]) -> None:
        """Exclude collisions between any two of these links, as :meth:`exclude_collision` of each pair with less
        memory.
        """
        self.excluded_groups.append(frozenset(names_in("exclude_group: links", links)))

    def exclude_geometries(self, geometry_a: str, geometry_b: str) -> None:
        """Exclude collisions between two geometries, but not between others of their links."""
        geometry_pair(geometry_a, geometry_b)
        self.excluded_geometries.add(frozenset((geometry_a, geometry_b)))

    def set_pair_friction(
        self,
        geometry_a: str,
        geometry_b: str,
        *,
        friction: float | tuple[float, float],
        torsional_friction: float = 0.0,
        rolling_friction: float | tuple[float, float] = 0.0,
    ) -> None:
        """Set the friction of a pair of geometries, instead of combining theirs.

        Its numbers are parameters with gradients: ``pair_friction``, ``pair_torsional_friction`` and
        ``pair_rolling_friction``; if friction or rolling friction has two numbers, also ``pair_friction_across`` and
        ``pair_rolling_friction_across``. The index of a pair is that of its name in ``model.pair_names``.

        Two numbers are those of the two tangents of a contact, like MuJoCo's five numbers of a pair. The first tangent
        follows the ``friction_direction`` of a geometry. If neither has one it is MuJoCo's: the axis of a capsule on a
        plane, otherwise the world's y axis, or its z axis where the normal is within 60 degrees of y.

        Args:
            geometry_a: name of one geometry.
            geometry_b: name of another.
            friction: Coulomb friction, or that along the first and along the second tangent.
            torsional_friction: moment about the normal per normal force [m].
            rolling_friction: moment about the tangents per normal force [m], or those about the first and the second.

        Raises:
            ModelError: for a pair of the same geometry, and for a negative friction. ``finalize`` refuses unknown
                names.
        """
        where = geometry_pair(geometry_a, geometry_b)
        slide, slide_across = _of_tangents(where, "friction", friction)
        roll, roll_across = _of_tangents(where, "rolling_friction", rolling_friction)
        finite_and_not_negative(where, "torsional_friction", torsional_friction)
        both = not (is_single(friction) and is_single(rolling_friction))
        across = (slide_across, roll_across) if both else (None, None)
        values = (slide, across[0], float(torsional_friction), roll, across[1])
        self.pair_frictions[frozenset((geometry_a, geometry_b))] = values

    def set_pair_softness(
        self,
        geometry_a: str,
        geometry_b: str,
        *,
        softness: Softness = DEFAULT_SOFTNESS,
        contact_margin: float = 0.0,
        contact_gap: float = 0.0,
    ) -> None:
        """Set softness and margin of the contacts of a pair of geometries, instead of combining theirs.

        They apply to :class:`sim.MujocoContact`, and have no gradient.

        Args:
            geometry_a: name of one geometry.
            geometry_b: name of another.
            softness: softness of the contacts.
            contact_margin: distance at which contacts become active [m].
            contact_gap: additional distance at which contacts count for adhesion actuators [m].

        Raises:
            ModelError: for a pair of the same geometry, and for a negative margin or gap. ``finalize`` refuses unknown
                names.
        """
        where = geometry_pair(geometry_a, geometry_b)
        require_type(f"{where}: softness", softness, Softness, "a sim.Softness")
        finite_and_not_negative(where, "contact_margin", contact_margin)
        finite_and_not_negative(where, "contact_gap", contact_gap)
        self.pair_softness[frozenset((geometry_a, geometry_b))] = (softness, float(contact_margin), float(contact_gap))


def _as_array(name: str, given: npt.ArrayLike) -> np.ndarray:
    """Return numbers as an array of their own type. Raises ModelError for anything else."""
    as_numbers(name, given)
    return np.asarray(given)


def one_or_two(first: float, second: float) -> float | tuple[float, float]:
    """Return the friction of both tangents as one number if they are alike."""
    return first if first == second else (first, second)


def _of_tangents(where: str, label: str, given: float | tuple[float, float]) -> tuple[float, float]:
    """Return friction along both tangents. Raises ModelError for values that are negative or not finite."""
    one = is_single(given)
    first, second = (number(where, label, given),) * 2 if one else two_numbers(where, label, given)
    for value in (first, second):
        finite_and_not_negative(where, label, value)
    return first, second


def _ground_surface(surface: Surface) -> Surface:
    """Return the surface of a static geometry, whose restitution is 1 by default."""
    require_type("surface", surface, Surface, "a sim.Surface")
    return surface if surface.restitution is not None else replace(surface, restitution=1.0)
