"""Shapes of a world: those fixed to links, ground and terrain, and pairs that never touch."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.checks import is_whole, names_in, number, require_names, require_type
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
from sim.model.triangles.check import static_mesh
from warp_kernels import types as codes


class Shapes(WorldSpec):
    """The methods of :class:`sim.ModelBuilder` for shapes."""

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
        friction: float = 1.0,
        restitution: float = 0.0,
        torsional_friction: float = 0.0,
        rolling_friction: float = 0.0,
        contact_stiffness: float = np.inf,
        contact_damping: float = 0.0,
        friction_rule: str = "product",
        contact_priority: int = 0,
        softness: Softness = DEFAULT_SOFTNESS,
        softness_mix: float = 1.0,
        contact_margin: float = 0.0,
        contact_gap: float = 0.0,
        rgba: Sequence[float] = (0.7, 0.7, 0.7, 1.0),
        collides: bool = True,
        visible: bool = True,
        group: int = 1,
        mask: int = -1,
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
            friction: Coulomb friction; a pair uses the product of the two, see ``friction_rule``.
            restitution: a pair uses the product of the two.
            torsional_friction: moment about the normal per normal force [m]; a pair uses the sum of the two.
            rolling_friction: moment about the tangents per normal force [m]; a pair uses the sum of the two.
            contact_stiffness: stiffness in contact [N/m], infinite for hard; those of a pair are in series.
            contact_damping: damping in contact [N s/m] of a compliant geometry.
            friction_rule: "product"; or "maximum", as in MuJoCo: of two geometries that both have it, a pair uses the
                larger friction, torsional and rolling friction.
            contact_priority: of two geometries with different ones, that with the higher alone decides the friction,
                torsional and rolling friction of the pair.
            softness: of contacts under :class:`sim.MujocoContact`, as are the two that follow. Of two geometries
                that with the higher priority decides, or both by their mix.
            softness_mix: the weight of its softness beside that of another geometry; MuJoCo's ``solmix``.
            contact_margin: distance at which contacts begin to act [m]; a pair uses the sum of the two.
            contact_gap: how far beyond that they count for actuators that pull at contacts [m]; likewise.
            rgba: red, green, blue and opacity, 0 to 1.
            collides: whether it takes part in contact.
            visible: whether it is drawn.
            group: bits of the groups it belongs to.
            mask: bits of the groups it collides with; both sides must agree.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, sizes that are not positive, heights that are not a grid, a mesh or
                heights that the type doesn't have, negative friction, restitution or colours outside 0 to 1, an unknown
                friction rule, or groups that aren't whole.
        """
        require_names("add_geometry", link=link)
        if name is None:
            name = f"{link}/geometry_{self.shapes_of[link]}"
        check_name(name, self.geometries, "geometry")
        where = f"geometry '{name}'"
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
            group=group,
            mask=mask,
            friction_rule=friction_rule,
            contact_priority=contact_priority,
            softness=softness,
            softness_mix=number(where, "softness_mix", softness_mix),
            contact_margin=number(where, "contact_margin", contact_margin),
            contact_gap=number(where, "contact_gap", contact_gap),
        )
        spec = GeometrySpec(
            link=link,
            geometry=geometry,
            friction=number(where, "friction", friction),
            restitution=number(where, "restitution", restitution),
            torsional_friction=number(where, "torsional_friction", torsional_friction),
            rolling_friction=number(where, "rolling_friction", rolling_friction),
            contact_stiffness=number(where, "contact_stiffness", contact_stiffness),
            contact_damping=number(where, "contact_damping", contact_damping),
        )
        check_geometry(spec)
        self.geometries[name] = spec
        self.shapes_of[link] += 1
        return name

    def add_ground(
        self,
        *,
        height: float = 0.0,
        friction: float = 1.0,
        restitution: float = 1.0,
        name: str = "ground",
        orientation: Vector = IDENTITY_QUATERNION,
        torsional_friction: float = 0.0,
        rolling_friction: float = 0.0,
        contact_stiffness: float = np.inf,
        contact_damping: float = 0.0,
        friction_rule: str = "product",
        contact_priority: int = 0,
        softness: Softness = DEFAULT_SOFTNESS,
        softness_mix: float = 1.0,
        contact_margin: float = 0.0,
        contact_gap: float = 0.0,
        rgba: Sequence[float] = (0.82, 0.84, 0.86, 1.0),
        collides: bool = True,
        visible: bool = True,
        group: int = 1,
        mask: int = -1,
    ) -> str:
        """Add the plane z = height. Its restitution of 1 leaves that of a pair to the other body.

        Args:
            height: its height [m].
            friction: Coulomb friction; a pair uses the product of the two.
            restitution: restitution; a pair uses the product of the two.
            name: its name.
            orientation: of a slope, quaternion xyzw; its normal is the z axis turned by it.
            torsional_friction: as for :meth:`add_geometry`, like all that follow.
            rolling_friction: moment about the tangents per normal force [m].
            contact_stiffness: stiffness in contact [N/m], infinite for hard.
            contact_damping: damping in contact [N s/m] of a compliant ground.
            friction_rule: "product" or "maximum".
            contact_priority: of two geometries the one with the higher decides the friction.
            softness: of contacts under :class:`sim.MujocoContact`, as are the two that follow.
            softness_mix: the weight of its softness beside that of another geometry.
            contact_margin: distance at which contacts begin to act [m].
            contact_gap: how far beyond that they count for actuators that pull at contacts [m].
            rgba: colour.
            collides: whether it takes part in contact.
            visible: whether it is drawn.
            group: bits of the groups it belongs to.
            mask: bits of the groups it collides with.

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
            friction=friction,
            restitution=restitution,
            torsional_friction=torsional_friction,
            rolling_friction=rolling_friction,
            contact_stiffness=contact_stiffness,
            contact_damping=contact_damping,
            friction_rule=friction_rule,
            contact_priority=contact_priority,
            softness=softness,
            softness_mix=softness_mix,
            contact_margin=contact_margin,
            contact_gap=contact_gap,
            rgba=rgba,
            collides=collides,
            visible=visible,
            group=group,
            mask=mask,
        )

    def add_heightfield(
        self,
        heights: npt.ArrayLike,
        *,
        spacing: float | Vector | None = None,
        half_extents: Vector | None = None,
        friction: float = 1.0,
        restitution: float = 1.0,
        name: str = "heightfield",
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        torsional_friction: float = 0.0,
        rolling_friction: float = 0.0,
        contact_stiffness: float = np.inf,
        contact_damping: float = 0.0,
        friction_rule: str = "product",
        contact_priority: int = 0,
        softness: Softness = DEFAULT_SOFTNESS,
        softness_mix: float = 1.0,
        contact_margin: float = 0.0,
        contact_gap: float = 0.0,
        rgba: Sequence[float] = (0.62, 0.58, 0.5, 1.0),
        collides: bool = True,
        visible: bool = True,
        group: int = 1,
        mask: int = -1,
    ) -> str:
        """Add terrain that doesn't move: triangles over a grid of points, solid below.

        The grid is centred on the origin of the terrain's frame. Each cell has two triangles, divided along the
        diagonal from the corner of smallest x and y to that of largest. Beyond its border there is no ground.

        Args:
            heights: heights over the plane z = 0 of that frame [m], [rows, columns] with at least two of each; rows
                along y, columns along x, both towards the positive side.
            spacing: distance of neighbouring points [m], along x and y if two; give this or ``half_extents``.
            half_extents: of the whole grid along x and y [m].
            friction: Coulomb friction; a pair uses the product of the two.
            restitution: restitution; 1 leaves that of a pair to the other body.
            name: its name.
            position: origin of the terrain's frame in the world [m].
            orientation: of that frame, quaternion xyzw.
            torsional_friction: as for :meth:`add_geometry`, like all that follow.
            rolling_friction: moment about the tangents per normal force [m].
            contact_stiffness: stiffness in contact [N/m], infinite for hard.
            contact_damping: damping in contact [N s/m] of compliant terrain.
            friction_rule: "product" or "maximum".
            contact_priority: of two geometries the one with the higher decides the friction.
            softness: of contacts under :class:`sim.MujocoContact`, as are the two that follow.
            softness_mix: the weight of its softness beside that of another geometry.
            contact_margin: distance at which contacts begin to act [m].
            contact_gap: how far beyond that they count for actuators that pull at contacts [m].
            rgba: colour.
            collides: whether it takes part in contact.
            visible: whether it is drawn.
            group: bits of the groups it belongs to.
            mask: bits of the groups it collides with.

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
            friction=friction,
            restitution=restitution,
            torsional_friction=torsional_friction,
            rolling_friction=rolling_friction,
            contact_stiffness=contact_stiffness,
            contact_damping=contact_damping,
            friction_rule=friction_rule,
            contact_priority=contact_priority,
            softness=softness,
            softness_mix=softness_mix,
            contact_margin=contact_margin,
            contact_gap=contact_gap,
            rgba=rgba,
            collides=collides,
            visible=visible,
            group=group,
            mask=mask,
        )

    def add_static_mesh(
        self,
        vertices: npt.ArrayLike,
        faces: npt.ArrayLike,
        *,
        scale: float | Vector = 1.0,
        friction: float = 1.0,
        restitution: float = 1.0,
        name: str = "mesh",
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        torsional_friction: float = 0.0,
        rolling_friction: float = 0.0,
        contact_stiffness: float = np.inf,
        contact_damping: float = 0.0,
        friction_rule: str = "product",
        contact_priority: int = 0,
        softness: Softness = DEFAULT_SOFTNESS,
        softness_mix: float = 1.0,
        contact_margin: float = 0.0,
        contact_gap: float = 0.0,
        rgba: Sequence[float] = (0.62, 0.58, 0.5, 1.0),
        collides: bool = True,
        visible: bool = True,
        group: int = 1,
        mask: int = -1,
    ) -> str:
        """Add triangles that don't move, such as a scanned room, a tray or a bowl; they need not be convex.

        Bodies are on the side from which the triangles turn counter-clockwise. Behind them it is solid, as deep as half
        of a body. The mesh may be closed, or open like terrain: bodies roll off its border. Vertices at one place are
        joined, and triangles without area are left out.

        Args:
            vertices: in the mesh's frame [n, 3], m.
            faces: vertices of each triangle [m, 3].
            scale: of the vertices, one or [3], positive.
            friction: Coulomb friction; a pair uses the product of the two.
            restitution: restitution; 1 leaves that of a pair to the other body.
            name: its name.
            position: origin of the mesh's frame in the world [m].
            orientation: of that frame, quaternion xyzw.
            torsional_friction: as for :meth:`add_geometry`, like all that follow.
            rolling_friction: moment about the tangents per normal force [m].
            contact_stiffness: stiffness in contact [N/m], infinite for hard.
            contact_damping: damping in contact [N s/m] of a compliant mesh.
            friction_rule: "product" or "maximum".
            contact_priority: of two geometries the one with the higher decides the friction.
            softness: of contacts under :class:`sim.MujocoContact`, as are the two that follow.
            softness_mix: the weight of its softness beside that of another geometry.
            contact_margin: distance at which contacts begin to act [m].
            contact_gap: how far beyond that they count for actuators that pull at contacts [m].
            rgba: colour.
            collides: whether it takes part in contact.
            visible: whether it is drawn.
            group: bits of the groups it belongs to.
            mask: bits of the groups it collides with.

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
            friction=friction,
            restitution=restitution,
            torsional_friction=torsional_friction,
            rolling_friction=rolling_friction,
            contact_stiffness=contact_stiffness,
            contact_damping=contact_damping,
            friction_rule=friction_rule,
            contact_priority=contact_priority,
            softness=softness,
            softness_mix=softness_mix,
            contact_margin=contact_margin,
            contact_gap=contact_gap,
            rgba=rgba,
            collides=collides,
            visible=visible,
            group=group,
            mask=mask,
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
