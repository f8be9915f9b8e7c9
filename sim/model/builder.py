"""ModelBuilder: describe one world, check it, and make a :class:`sim.Model` of it."""

import itertools
import os
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.compile import compile_model
from sim.model.equalities import AnchorSpec, CouplingSpec
from sim.model.mass_properties import solid
from sim.model.model import Geometry, Keyframe, Mesh, Model, Part
from sim.model.spec_checks import (
    check_actuator,
    check_geometry,
    check_joint,
    check_link,
    finite,
    height_grid,
    initial_coordinates,
    pose,
    solid_mass,
    unit,
)
from sim.model.specs import (
    ACTUATOR_CODES,
    GEOMETRY_CODES,
    IDENTITY_QUATERNION,
    JOINT_CODES,
    POSITIVE_SIZES,
    WORLD,
    ActuatorSpec,
    GeometrySpec,
    JointSpec,
    LinkSpec,
    Vector,
)
from warp_kernels import types as codes


class ModelBuilder:
    """Collects links, joints, geometries and actuators of one world; :meth:`finalize` checks them and makes the model.

    Args:
        gravity: gravity in the world frame [m/s^2].
    """

    def __init__(self, gravity: Vector = (0.0, 0.0, -9.81)):
        self.gravity = finite("gravity", gravity, (3,))
        self.links: dict[str, LinkSpec] = {}
        self.joints: dict[str, JointSpec] = {}
        self.geometries: dict[str, GeometrySpec] = {}
        self.actuators: dict[str, ActuatorSpec] = {}
        self.frames: dict[str, tuple[str, np.ndarray]] = {}
        self.parts: list[Part] = []
        self.anchors: dict[str, AnchorSpec] = {}
        self.couplings: dict[str, CouplingSpec] = {}
        self.excluded: set[frozenset[str]] = set()
        self.excluded_geometries: set[frozenset[str]] = set()

    # ---- the general calls -------------------------------------------------------------------------------------

    def add_link(
        self,
        name: str,
        *,
        mass: float | None = None,
        com: Vector = (0.0, 0.0, 0.0),
        inertia: npt.ArrayLike | None = None,
        allow_unphysical: bool = False,
    ) -> str:
        """Add a rigid link. Every link needs a joint, see :meth:`add_joint`.

        Args:
            name: unique name.
            mass: mass [kg]; None for a link without inertial data, which kinematics accept and dynamics refuse.
            com: centre of mass in the link frame [m].
            inertia: rotational inertia about the centre of mass in link axes [kg m^2], [3, 3] or its diagonal [3].
            allow_unphysical: accept principal moments that no body has, as in many published robot files;
                :meth:`finalize` still refuses them where they leave a moving body with a negative one.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, a negative mass, values that are not finite, an inertia that is not
                symmetric, or (unless allowed) not positive semidefinite or against the triangle inequality.
        """
        self._unused(name, self.links, "link")
        if name == WORLD:
            raise ModelError(f"link '{name}': this name stands for the world; choose another")
        if name in self.frames:
            raise ModelError(f"link '{name}': a frame of this name exists already; choose another")
        tensor = np.zeros((3, 3)) if inertia is None else np.asarray(inertia, dtype=np.float64)
        tensor = np.diag(tensor) if tensor.shape == (3,) else tensor
        spec = LinkSpec(name, mass, finite(f"link '{name}': com", com, (3,)), tensor)
        check_link(spec, allow_unphysical=allow_unphysical)
        self.links[name] = spec
        return name

    def add_joint(
        self,
        name: str,
        type: str,
        *,
        child: str,
        parent: str = WORLD,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        axis: Vector = (0.0, 0.0, 1.0),
        lower: float = -np.inf,
        upper: float = np.inf,
        effort: float = np.inf,
        velocity: float = np.inf,
        damping: float = 0.0,
        armature: float = 0.0,
        stiffness: float = 0.0,
        rest_position: float = 0.0,
        friction_loss: float = 0.0,
        limit_margin: float = 0.0,
        limit_stiffness: float = np.inf,
        limit_damping: float = 0.0,
        swing_limit: float = np.inf,
        twist_limit: float = np.inf,
        q0: Vector | None = None,
    ) -> str:
        """Connect a link to its parent.

        Args:
            name: unique name.
            type: "fixed", "revolute", "continuous", "prismatic", "spherical" or "free".
            child: the link that the joint moves.
            parent: the link that carries it, or "world". A free joint needs the world.
            position: origin of the joint frame in the parent link [m]; for a free joint, the initial position.
            orientation: its orientation, quaternion xyzw; for a free joint, the initial orientation.
            axis: axis of a revolute or prismatic joint in the joint frame, or that of a spherical joint's limits;
                normalised here.
            lower: lower limit [rad or m].
            upper: upper limit [rad or m].
            effort: largest force of what drives the joint [N m or N]: the default limit of its actuators.
            velocity: largest speed [rad/s or m/s], kept as data.
            damping: viscous damping.
            armature: rotor inertia.
            stiffness: spring constant about ``rest_position``; revolute and prismatic only.
            rest_position: position at which the spring is at rest.
            friction_loss: dry friction [N m or N].
            limit_margin: how far before a limit it begins to bear [rad or m], as MuJoCo's margin.
            limit_stiffness: stiffness of the limits [N m/rad or N/m]; infinite: hard.
            limit_damping: damping of compliant limits [N m s/rad or N s/m].
            swing_limit: largest angle between the axis and the axis that the child carries [rad]; spherical only.
            twist_limit: largest angle by which the child turns about the axis, either way [rad]; spherical only.
            q0: initial coordinates; default zero, brought inside the limits.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown type, a zero axis, crossed limits, negative or non-finite
                properties, or properties that the joint type doesn't have.
        """
        self._unused(name, self.joints, "joint")
        if type not in JOINT_CODES:
            raise ModelError(f"joint '{name}': unknown type '{type}'; known are {', '.join(JOINT_CODES)}")
        code = JOINT_CODES[type]
        where = f"joint '{name}'"
        if code == codes.FREE and parent != WORLD:
            raise ModelError(f"{where}: a free joint needs the world as parent, not '{parent}'")
        unit_axis = finite(f"{where}: axis", axis, (3,))
        if code in (codes.REVOLUTE, codes.PRISMATIC) or np.isfinite([swing_limit, twist_limit]).any():
            unit_axis = unit(unit_axis, f"{where}: the axis is zero; give it a direction")
        if type == "continuous":
            lower, upper = -np.inf, np.inf
        spec = JointSpec(
            name, code, parent, child, pose(where, position, orientation), unit_axis, float(lower), float(upper),
            float(effort), float(velocity), float(damping), float(armature), float(stiffness), float(rest_position),
            float(friction_loss), float(limit_margin), float(limit_stiffness), float(limit_damping),
            float(swing_limit), float(twist_limit),
        )  # fmt: skip
        check_joint(spec, type)
        spec.q0 = initial_coordinates(spec, q0)
        if code == codes.FREE:
            spec.placement = pose(where, (0.0, 0.0, 0.0), IDENTITY_QUATERNION)  # it is in q0
        self.joints[name] = spec
        return name

    def add_geometry(
        self,
        link: str,
        type: int | str,
        *,
        name: str | None = None,
        size: Vector = (0.0, 0.0, 0.0),
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
        rgba: Sequence[float] = (0.7, 0.7, 0.7, 1.0),
        collides: bool = True,
        visible: bool = True,
        group: int = 1,
        mask: int = -1,
    ) -> str:
        """Fix a shape to a link.

        Args:
            link: name of the link, or "world".
            type: "plane", "sphere", "capsule", "box", "convex", "cylinder", "ellipsoid" or "heightfield", or its code
                in :mod:`warp_kernels.types`.
            name: unique name; made from the link's if left out.
            size: see :class:`sim.model.model.Geometry` [m].
            position: in the link frame [m].
            orientation: in the link frame, quaternion xyzw.
            mesh: for a convex mesh, its hull.
            heights: for a heightfield, see :meth:`add_heightfield`.
            friction: Coulomb friction; a pair uses the product of the two.
            restitution: a pair uses the product of the two.
            torsional_friction: moment about the normal per normal force [m]; a pair uses the sum of the two.
            rolling_friction: moment about the tangents per normal force [m]; a pair uses the sum of the two.
            contact_stiffness: stiffness in contact [N/m], infinite for hard; those of a pair are in series.
            contact_damping: damping in contact [N s/m] of a compliant geometry.
            rgba: colour.
            collides: whether it takes part in contact.
            visible: whether it is drawn.
            group: bits of the groups it belongs to.
            mask: bits of the groups it collides with; both sides must agree.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, sizes that are not positive, heights that are no grid, negative friction,
                or restitution outside 0 to 1.
        """
        if name is None:
            number = sum(spec.link == link for spec in self.geometries.values())
            name = f"{link}/geometry_{number}"
        self._unused(name, self.geometries, "geometry")
        where = f"geometry '{name}'"
        extents = finite(f"{where}: size", size, (3,))
        code = GEOMETRY_CODES.get(type, -1) if isinstance(type, str) else type
        if code not in POSITIVE_SIZES:
            raise ModelError(f"{where}: unknown geometry type {type!r}; known are {', '.join(GEOMETRY_CODES)}")
        grid = height_grid(where, heights) if code == codes.HEIGHTFIELD else None
        colour = tuple(finite(f"{where}: rgba", rgba, (4,)).tolist())
        geometry = Geometry(
            name, -1, code, pose(where, position, orientation), extents, mesh, grid, colour,
            collides, visible, group, mask,
        )  # fmt: skip
        spec = GeometrySpec(
            link, geometry, float(friction), float(restitution), float(torsional_friction), float(rolling_friction),
            float(contact_stiffness), float(contact_damping),
        )  # fmt: skip
        check_geometry(spec)
        self.geometries[name] = spec
        return name

    def add_actuator(
        self,
        joint: str,
        kind: str = "torque",
        *,
        name: str | None = None,
        gear: float = 1.0,
        kp: float = 0.0,
        kd: float = 0.0,
        force_limit: float | None = None,
    ) -> str:
        """Drive a revolute or prismatic joint; the simulator takes its input u in ``control``.

        Through its gear the actuator sees the position g q and the velocity g qd, and its force F acts on the joint as
        g F. With q and qd those at the end of the step (docs/actuators.md):

        - "torque": F = u.
        - "position": F = kp (u - g q) - kd g qd, with the target u [rad or m] in units of the actuator.
        - "velocity": F = kd (u - g qd), with the target u [rad/s or m/s].

        Args:
            joint: name of a joint that was added before.
            kind: "torque", "position" or "velocity".
            name: unique name; the joint's if left out.
            gear: g; not zero.
            kp: position gain of a "position" actuator.
            kd: velocity gain of a "position" or "velocity" actuator.
            force_limit: largest |F| [N m or N]; None for the joint's ``effort`` (of a URDF file, that of its limit)
                divided by the gear, ``numpy.inf`` for none.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown joint or one that is neither revolute nor prismatic, an unknown
                kind, a gain that the kind doesn't have or lacks, values that are negative or not finite.
        """
        name = joint if name is None else name
        self._unused(name, self.actuators, "actuator")
        where = f"actuator '{name}'"
        if joint not in self.joints:
            raise ModelError(f"{where}: unknown joint '{joint}'; add the joint first")
        if kind not in ACTUATOR_CODES:
            raise ModelError(f"{where}: unknown kind '{kind}'; known are {', '.join(ACTUATOR_CODES)}")
        driven = self.joints[joint]
        if driven.type not in (codes.REVOLUTE, codes.PRISMATIC):
            raise ModelError(
                f"{where}: joint '{joint}' is neither revolute nor prismatic; drive it with joint forces, tau"
            )
        if force_limit is None:
            if driven.effort == 0.0:
                raise ModelError(f"{where}: joint '{joint}' has an effort limit of zero; give force_limit")
            force_limit = driven.effort / abs(gear) if gear else np.inf
        spec = ActuatorSpec(
            name, joint, ACTUATOR_CODES[kind], float(gear), float(kp), float(kd), float(force_limit)
        )  # fmt: skip
        check_actuator(spec, kind)
        self.actuators[name] = spec
        return name

    def add_frame(
        self, name: str, link: str, position: Vector = (0.0, 0.0, 0.0), orientation: Vector = IDENTITY_QUATERNION
    ) -> str:
        """Name a frame fixed to a link. Every link is a frame of its own name already."""
        if not name:
            raise ModelError("a frame needs a name that is not empty")
        if name in self.frames or name in self.links:
            raise ModelError(f"frame '{name}': a frame or link of this name exists already")
        self.frames[name] = (link, pose(f"frame '{name}'", position, orientation))
        return name

    def exclude_collision(self, link_a: str, link_b: str) -> None:
        """Never let two links touch each other. Links joined by a joint never do."""
        self.excluded.add(frozenset((link_a, link_b)))

    def exclude_geometries(self, geometry_a: str, geometry_b: str) -> None:
        """Never let two geometries touch each other, while others of their links may."""
        if geometry_a == geometry_b:
            raise ModelError(f"geometry '{geometry_a}': it can't touch itself; name two geometries")
        self.excluded_geometries.add(frozenset((geometry_a, geometry_b)))

    # ---- constraints beyond the tree of joints -----------------------------------------------------------------

    def add_point_constraint(
        self,
        name: str,
        link_a: str,
        link_b: str,
        *,
        position_a: Vector = (0.0, 0.0, 0.0),
        position_b: Vector | None = None,
    ) -> str:
        """Hold a point of one link on a point of another, as MuJoCo's ``connect``: closes a loop by a ball joint.

        Collisions of the two stay as they are; see :meth:`exclude_collision`.

        Args:
            name: unique name.
            link_a: first link, or "world".
            link_b: second link, or "world".
            position_a: the point in link_a [m].
            position_b: the point in link_b [m]; None for where the first one is in the initial configuration.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name or positions that are not finite.
        """
        b = None if position_b is None else pose(f"constraint '{name}': b", position_b, IDENTITY_QUATERNION)
        a = pose(f"constraint '{name}': a", position_a, IDENTITY_QUATERNION)
        return self._add_anchor(AnchorSpec(name, link_a, link_b, a, b, welded=False))

    def add_weld_constraint(
        self,
        name: str,
        link_a: str,
        link_b: str,
        *,
        position_a: Vector = (0.0, 0.0, 0.0),
        orientation_a: Vector = IDENTITY_QUATERNION,
        position_b: Vector | None = None,
        orientation_b: Vector | None = None,
    ) -> str:
        """Hold a frame of one link on a frame of another, as MuJoCo's ``weld``.

        Frames near the place where the weld bears most make the solver converge fastest. Collisions of the two links
        stay as they are; see :meth:`exclude_collision`.

        Args:
            name: unique name.
            link_a: first link, or "world".
            link_b: second link, or "world".
            position_a: origin of the frame in link_a [m].
            orientation_a: its orientation, quaternion xyzw.
            position_b: origin in link_b [m]; None together with orientation_b: where the frame of link_a is in the
                initial configuration.
            orientation_b: orientation in link_b, quaternion xyzw.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, only one of position_b and orientation_b, or values that are not finite.
        """
        if (position_b is None) != (orientation_b is None):
            raise ModelError(f"constraint '{name}': give both position_b and orientation_b, or neither")
        b = None
        if position_b is not None and orientation_b is not None:
            b = pose(f"constraint '{name}': b", position_b, orientation_b)
        a = pose(f"constraint '{name}': a", position_a, orientation_a)
        return self._add_anchor(AnchorSpec(name, link_a, link_b, a, b, welded=True))

    def add_joint_coupling(self, joint: str, other: str, *, ratio: float = 1.0, offset: float = 0.0) -> str:
        """Make a joint follow another: q = ratio * q_other + offset, as URDF's ``mimic`` and MuJoCo's ``joint``.

        Both move; forces on either act on both, as through a gear. The initial coordinate of ``joint`` becomes the one
        that fits; :meth:`finalize` refuses rings of followers.

        Args:
            joint: name of the revolute or prismatic joint that follows.
            other: name of the joint that it follows.
            ratio: coordinate per coordinate of the other.
            offset: coordinate where the other's is zero [rad or m].

        Returns:
            the name of the joint.

        Raises:
            ModelError: for a joint that follows itself, or another one already; a ratio or offset that is not finite.
        """
        where = f"coupling of joint '{joint}' with '{other}'"
        if joint == other:
            raise ModelError(f"{where}: a joint can't follow itself")
        if joint in self.couplings:
            raise ModelError(f"{where}: it follows '{self.couplings[joint].other}' already")
        if not (np.isfinite(ratio) and np.isfinite(offset)):
            raise ModelError(f"{where}: ratio {ratio} and offset {offset} must be finite")
        self.couplings[joint] = CouplingSpec(joint, other, float(ratio), float(offset))
        return joint

    def _add_anchor(self, spec: AnchorSpec) -> str:
        self._unused(spec.name, self.anchors, "constraint")
        self.anchors[spec.name] = spec
        return spec.name

    def add_part(
        self,
        name: str,
        links: Sequence[str],
        joints: Sequence[str],
        *,
        keyframes: Mapping[str, Keyframe] | None = None,
        timestep: float | None = None,
    ) -> Part:
        """Group links and joints under a name, for :meth:`sim.Model.q_slice`; see :class:`sim.model.model.Part`."""
        part = Part(name, tuple(links), tuple(joints), keyframes or {}, timestep)
        self.parts.append(part)
        return part

    # ---- whole things ------------------------------------------------------------------------------------------

    def add_ground(
        self,
        *,
        height: float = 0.0,
        friction: float = 1.0,
        restitution: float = 1.0,
        name: str = "ground",
        **options: object,
    ) -> str:
        """Add the plane z = height. Its restitution of 1 leaves that of a pair to the other body.

        Further options are those of :meth:`add_geometry`, such as contact_stiffness.
        """
        options.setdefault("rgba", (0.82, 0.84, 0.86, 1.0))
        return self.add_geometry(
            WORLD, codes.PLANE, name=name, position=(0.0, 0.0, height), friction=friction, restitution=restitution,
            **options,  # type: ignore[arg-type]
        )  # fmt: skip

    def add_heightfield(
        self,
        heights: npt.ArrayLike,
        *,
        spacing: float | Vector | None = None,
        half_extents: Vector | None = None,
        friction: float = 1.0,
        restitution: float = 1.0,
        name: str = "heightfield",
        **options: object,
    ) -> str:
        """Add terrain that doesn't move: triangles over a grid of points, solid below.

        The grid is centred on the origin of the terrain's frame. Each cell has two triangles, divided along the
        diagonal from its corner of least x and y to that of greatest. Beyond its border nothing is supported.

        Args:
            heights: heights over the plane z = 0 of that frame [m], [rows, columns] with at least two of each; rows
                along y, columns along x, both towards the positive side.
            spacing: distance of neighbouring points [m], along x and y if two; give this or ``half_extents``.
            half_extents: of the whole grid along x and y [m].
            friction: Coulomb friction; a pair uses the product of the two.
            restitution: that of 1 leaves a pair's to the other body.
            name: its name.
            options: those of :meth:`add_geometry`, such as position and orientation.

        Returns:
            the name.

        Raises:
            ModelError: for heights that are not finite or no grid, a spacing or extent that is not positive, or what
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
        options.setdefault("rgba", (0.62, 0.58, 0.5, 1.0))
        return self.add_geometry(
            WORLD, codes.HEIGHTFIELD, name=name, size=(x, y, 1.0), heights=heights, friction=friction,
            restitution=restitution, **options,  # type: ignore[arg-type]
        )  # fmt: skip

    def add_sphere(
        self, *, radius: float, mass: float | None = None, density: float | None = None, name: str | None = None,
        **options: object,
    ) -> Part:  # fmt: skip
        """Add a free solid sphere.

        Args:
            radius: its radius [m].
            mass: its mass [kg]; give this or the density.
            density: its density [kg/m^3].
            name: name of its link; made from its kind if left out.
            options: position and orientation at the start, in the world, and those of :meth:`add_geometry` but its
                shape.

        Raises:
            ModelError: for a size, mass or density that is not positive, or what :meth:`add_geometry` refuses.
        """
        return self._add_body("sphere", name, (radius, 0.0, 0.0), mass, density, options)

    def add_box(
        self, *, half_extents: Vector, mass: float | None = None, density: float | None = None, name: str | None = None,
        **options: object,
    ) -> Part:  # fmt: skip
        """Add a free solid box; half_extents [3] along its axes [m]. The rest as for :meth:`add_sphere`."""
        return self._add_body("box", name, half_extents, mass, density, options)

    def add_capsule(
        self, *, radius: float, half_length: float, mass: float | None = None, density: float | None = None,
        name: str | None = None, **options: object,
    ) -> Part:  # fmt: skip
        """Add a free solid capsule along z; half_length is that of its cylinder. The rest as for :meth:`add_sphere`."""
        return self._add_body("capsule", name, (radius, half_length, 0.0), mass, density, options)

    def add_cylinder(
        self, *, radius: float, half_length: float, mass: float | None = None, density: float | None = None,
        name: str | None = None, **options: object,
    ) -> Part:  # fmt: skip
        """Add a free solid cylinder along z. The rest as for :meth:`add_sphere`."""
        return self._add_body("cylinder", name, (radius, half_length, 0.0), mass, density, options)

    def add_ellipsoid(
        self, *, semi_axes: Vector, mass: float | None = None, density: float | None = None, name: str | None = None,
        **options: object,
    ) -> Part:  # fmt: skip
        """Add a free solid ellipsoid; semi_axes [3] along its axes [m]. The rest as for :meth:`add_sphere`."""
        return self._add_body("ellipsoid", name, semi_axes, mass, density, options)

    def add_urdf(self, path: str | os.PathLike[str], **options: object) -> Part:
        """Add the robot of a URDF file; see :func:`sim.importers.urdf.add_urdf` for the options."""
        from sim.importers.urdf.importer import add_urdf  # here, since the importer builds on this class

        return add_urdf(self, path, **options)  # type: ignore[arg-type]

    def add_usd(self, path: str | os.PathLike[str], **options: object) -> list[Part]:
        """Add what a USD file describes in UsdPhysics; see :func:`sim.importers.usd.add_usd` for the options."""
        from sim.importers.usd.importer import add_usd  # here, since the importer builds on this class

        return add_usd(self, path, **options)  # type: ignore[arg-type]

    def add_mjcf(self, path: str | os.PathLike[str], **options: object) -> Part:
        """Add what an MJCF file holds; see :func:`sim.importers.mjcf.add_mjcf` for the options."""
        from sim.importers.mjcf.importer import add_mjcf  # here, since the importer builds on this class

        return add_mjcf(self, path, **options)  # type: ignore[arg-type]

    def finalize(self, dtype: str = "float32", *, collapse_fixed: bool = True) -> Model:
        """Check everything and make the model.

        Args:
            dtype: "float32" or "float64" (for checks).
            collapse_fixed: merge links behind fixed joints into the link that carries them; they stay as named frames.
                Without it each keeps its own parameters.

        Raises:
            ModelError: naming the link or joint at fault: unknown parent or child, a cycle, two parents, no joint, a
                moving link without mass or with a negative moment of inertia.
        """
        return compile_model(self, dtype, collapse_fixed)

    def _add_body(
        self,
        kind: str,
        name: str | None,
        size: Vector,
        mass: float | None,
        density: float | None,
        options: dict[str, object],
    ) -> Part:
        """A free solid body of one geometry."""
        name = name or next(free for k in itertools.count() if (free := f"{kind}_{k}") not in self.links)
        size = finite(f"{kind} '{name}': size", size, (3,))
        volume, inertia = solid(GEOMETRY_CODES[kind], size)
        mass = solid_mass(f"{kind} '{name}'", volume, mass, density)
        placement = {key: options.pop(key) for key in ("position", "orientation") if key in options}
        self._unused(f"{name}_free", self.joints, "joint")
        self.add_link(name, mass=mass, inertia=mass * inertia)
        try:
            self.add_joint(f"{name}_free", "free", child=name, **placement)  # type: ignore[arg-type]
            self.add_geometry(name, kind, name=f"{name}/geometry", size=size, **options)  # type: ignore[arg-type]
        except (ModelError, TypeError):
            self.links.pop(name)
            self.joints.pop(f"{name}_free", None)
            raise
        return self.add_part(name, [name], [f"{name}_free"])

    def _unused(self, name: str, taken: dict, what: str) -> None:
        one = f"an {what}" if what == "actuator" else f"a {what}"
        if not name:
            raise ModelError(f"{one} needs a name that is not empty")
        if name in taken:
            raise ModelError(
                f"{what} '{name}': {one} of this name exists already; give each its own, or a robot its own name="
            )
