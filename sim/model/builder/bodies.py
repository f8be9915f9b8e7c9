"""Free solid bodies of one shape."""

from collections.abc import Sequence
from typing import Any

from sim.errors import ModelError
from sim.model.builder.aliases import deprecated_keywords
from sim.model.builder.geometries import Shapes
from sim.model.builder.links_and_joints import LinksAndJoints
from sim.model.builder.properties import DEFAULT_SURFACE, SURFACE_FIELDS, Surface
from sim.model.looks.looks import DEFAULT_MATERIAL, Material
from sim.model.model import Part
from sim.model.shapes.inertia import solid_mass_properties
from sim.model.spec_checks import check_name, finite, solid_mass
from sim.model.specs import GEOMETRY_CODES, IDENTITY_QUATERNION, Vector

# Names of arguments with three sizes.
SIZE_NAMES = {"box": "half_extents", "ellipsoid": "semi_axes"}


class Bodies(LinksAndJoints, Shapes):
    """Methods of :class:`sim.ModelBuilder` that add a link, its free joint and its shape at once."""

    @deprecated_keywords(SURFACE_FIELDS)
    def add_sphere(
        self,
        *,
        radius: float,
        mass: float | None = None,
        density: float | None = None,
        name: str | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        surface: Surface = DEFAULT_SURFACE,
        rgba: Sequence[float] = (0.7, 0.7, 0.7, 1.0),
        material: Material = DEFAULT_MATERIAL,
        collides: bool = True,
        visible: bool = True,
    ) -> Part:
        """Add a free solid sphere.

        Args:
            radius: radius [m].
            mass: mass [kg]; give this or the density.
            density: density [kg/m^3].
            name: name of the link. Default: made from its kind.
            position: initial position of the centre in the world [m].
            orientation: initial orientation in the world, quaternion xyzw.
            surface: friction, restitution, compliance and collision groups.
            rgba: colour.
            material: roughness, metallic and texture.
            collides: whether the body takes part in contact.
            visible: whether the body is drawn.

        Returns:
            a part with the link, its free joint ``<name>_free`` and the geometry ``<name>/geometry``.

        Raises:
            ModelError: for a size, mass or density that is not positive, and as :meth:`add_geometry`.
        """
        return self._add_body(
            "sphere",
            name,
            (radius, 0.0, 0.0),
            mass,
            density,
            position=position,
            orientation=orientation,
            surface=surface,
            rgba=rgba,
            material=material,
            collides=collides,
            visible=visible,
        )

    @deprecated_keywords(SURFACE_FIELDS)
    def add_box(
        self,
        *,
        half_extents: Vector,
        mass: float | None = None,
        density: float | None = None,
        name: str | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        surface: Surface = DEFAULT_SURFACE,
        rgba: Sequence[float] = (0.7, 0.7, 0.7, 1.0),
        material: Material = DEFAULT_MATERIAL,
        collides: bool = True,
        visible: bool = True,
    ) -> Part:
        """Add a free solid box.

        Args:
            half_extents: half extents along the axes [m], [3].
            mass: mass [kg]; give this or the density.
            density: density [kg/m^3].
            name: name of the link. Default: made from its kind.

        The other arguments, the result and the errors are those of :meth:`add_sphere`.
        """
        return self._add_body(
            "box",
            name,
            half_extents,
            mass,
            density,
            position=position,
            orientation=orientation,
            surface=surface,
            rgba=rgba,
            material=material,
            collides=collides,
            visible=visible,
        )

    @deprecated_keywords(SURFACE_FIELDS)
    def add_capsule(
        self,
        *,
        radius: float,
        half_length: float,
        mass: float | None = None,
        density: float | None = None,
        name: str | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        surface: Surface = DEFAULT_SURFACE,
        rgba: Sequence[float] = (0.7, 0.7, 0.7, 1.0),
        material: Material = DEFAULT_MATERIAL,
        collides: bool = True,
        visible: bool = True,
    ) -> Part:
        """Add a free solid capsule along z.

        Args:
            radius: radius [m].
            half_length: half length of the cylinder between its hemispheres [m].
            mass: mass [kg]; give this or the density.
            density: density [kg/m^3].
            name: name of the link. Default: made from its kind.

        The other arguments, the result and the errors are those of :meth:`add_sphere`.
        """
        return self._add_body(
            "capsule",
            name,
            (radius, half_length, 0.0),
            mass,
            density,
            position=position,
            orientation=orientation,
            surface=surface,
            rgba=rgba,
            material=material,
            collides=collides,
            visible=visible,
        )

    @deprecated_keywords(SURFACE_FIELDS)
    def add_cylinder(
        self,
        *,
        radius: float,
        half_length: float,
        mass: float | None = None,
        density: float | None = None,
        name: str | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        surface: Surface = DEFAULT_SURFACE,
        rgba: Sequence[float] = (0.7, 0.7, 0.7, 1.0),
        material: Material = DEFAULT_MATERIAL,
        collides: bool = True,
        visible: bool = True,
    ) -> Part:
        """Add a free solid cylinder along z.

        Args:
            radius: radius [m].
            half_length: half length [m].
            mass: mass [kg]; give this or the density.
            density: density [kg/m^3].
            name: name of the link. Default: made from its kind.

        The other arguments, the result and the errors are those of :meth:`add_sphere`.
        """
        return self._add_body(
            "cylinder",
            name,
            (radius, half_length, 0.0),
            mass,
            density,
            position=position,
            orientation=orientation,
            surface=surface,
            rgba=rgba,
            material=material,
            collides=collides,
            visible=visible,
        )

    @deprecated_keywords(SURFACE_FIELDS)
    def add_ellipsoid(
        self,
        *,
        semi_axes: Vector,
        mass: float | None = None,
        density: float | None = None,
        name: str | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        surface: Surface = DEFAULT_SURFACE,
        rgba: Sequence[float] = (0.7, 0.7, 0.7, 1.0),
        material: Material = DEFAULT_MATERIAL,
        collides: bool = True,
        visible: bool = True,
    ) -> Part:
        """Add a free solid ellipsoid.

        Args:
            semi_axes: semi-axes along the axes [m], [3].
            mass: mass [kg]; give this or the density.
            density: density [kg/m^3].
            name: name of the link. Default: made from its kind.

        The other arguments, the result and the errors are those of :meth:`add_sphere`.
        """
        return self._add_body(
            "ellipsoid",
            name,
            semi_axes,
            mass,
            density,
            position=position,
            orientation=orientation,
            surface=surface,
            rgba=rgba,
            material=material,
            collides=collides,
            visible=visible,
        )

    def _free_name(self, kind: str) -> str:
        """Return the first name made from a kind that no link has."""
        while f"{kind}_{self.unnamed[kind]}" in self.links:
            self.unnamed[kind] += 1
        return f"{kind}_{self.unnamed[kind]}"

    def _add_body(
        self,
        kind: str,
        name: str | None,
        size: Vector,
        mass: float | None,
        density: float | None,
        *,
        position: Vector,
        orientation: Vector,
        **looks: Any,
    ) -> Part:
        """Add a free solid body of one geometry; ``looks`` are further arguments of :meth:`add_geometry`."""
        name = self._free_name(kind) if name is None or (isinstance(name, str) and not name) else name
        size = finite(f"{kind} '{name}': {SIZE_NAMES.get(kind, 'size')}", size, (3,))
        volume, inertia = solid_mass_properties(GEOMETRY_CODES[kind], size)
        mass = solid_mass(f"{kind} '{name}'", volume, mass, density)
        joint = f"{name}_free"
        check_name(joint, self.joints, "joint")
        self.add_link(name, mass=mass, inertia=mass * inertia)
        try:
            self.add_joint(joint, "free", child=name, position=position, orientation=orientation)
            self.add_geometry(name, kind, name=f"{name}/geometry", size=size, **looks)
        except (ModelError, TypeError):
            self.links.pop(name)
            self.joints.pop(joint, None)
            raise
        return self.add_part(name, [name], [joint])
