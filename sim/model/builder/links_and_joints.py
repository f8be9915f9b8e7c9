"""Links, their joints, named frames, and parts of a world."""

from collections.abc import Container, Mapping, Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.builder.aliases import deprecated_keywords
from sim.model.builder.properties import JOINT_FIELDS, NO_LIMITS, NO_SPRING, Limits, Spring, limits_of
from sim.model.checks import as_numbers, names_in, number, require_choice, require_names, require_type
from sim.model.frames import MountedCamera
from sim.model.joint_types import joint_type
from sim.model.looks.lights import Light, MountedLight
from sim.model.model import Keyframe, MujocoOptions, Part
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.model.spec_checks import (
    check_joint,
    check_link,
    check_name,
    check_text,
    finite,
    initial_coordinates,
    pose,
    rest_position,
    unit,
)
from sim.model.specs import IDENTITY_QUATERNION, WORLD, JointSpec, LinkSpec, Vector, WorldSpec
from warp_kernels import types as codes

Followed = Literal["link", "point", "centre of mass"]  # by a camera


class LinksAndJoints(WorldSpec):
    """Methods of :class:`sim.ModelBuilder` for the tree of links."""

    def add_link(
        self,
        name: str,
        *,
        mass: float | None = None,
        com: Vector = (0.0, 0.0, 0.0),
        inertia: npt.ArrayLike | None = None,
        gravity_compensation: float | None = None,
        allow_unphysical: bool = False,
    ) -> str:
        """Add a rigid link. Every link needs a joint, see :meth:`add_joint`.

        Args:
            name: unique name.
            mass: mass [kg]. None for a link without inertial data: kinematics accepts it, and dynamics once the
                parameter ``mass`` is set.
            com: centre of mass in the link frame [m].
            inertia: rotational inertia about the centre of mass in link axes [kg m^2], [3, 3] or its diagonal [3].
            gravity_compensation: fraction of the link's weight that a passive force at its centre of mass compensates,
                1 for a link that floats. If no link has one, not even zero, the model has no such parameter. A link on
                a fixed joint is not merged into one with another fraction.
            allow_unphysical: accept principal moments that no physical body has, as in many published robot files;
                :meth:`finalize` still refuses a moving body with a negative moment.

        Returns:
            the name of the link.

        Raises:
            ModelError: for a duplicate name, a negative mass, values that are not finite, and an inertia that is not
                symmetric, or (unless allowed) not positive semidefinite or against the triangle inequality.
        """
        check_name(name, self.links, "link")
        if name == WORLD:
            raise ModelError(f"link '{name}': this name is reserved for the world; choose another name")
        if name in self.frames:
            raise ModelError(f"link '{name}': a frame of this name exists already; choose another name")
        where = f"link '{name}'"
        tensor = np.zeros((3, 3)) if inertia is None else as_numbers(f"{where}: inertia", inertia)
        tensor = np.diag(tensor) if tensor.shape == (3,) else tensor
        spec = LinkSpec(
            name=name,
            mass=None if mass is None else number(where, "mass", mass),
            com=finite(f"{where}: com", com, (3,)),
            inertia=tensor,
            gravity_compensation=(
                None if gravity_compensation is None else number(where, "gravity_compensation", gravity_compensation)
            ),
        )
        check_link(spec, allow_unphysical=allow_unphysical)
        self.links[name] = spec
        return name

    @deprecated_keywords(JOINT_FIELDS)
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
        limits: Limits | tuple[float, float] = NO_LIMITS,
        spring: Spring = NO_SPRING,
        armature: float = 0.0,
        friction_loss: float = 0.0,
        friction_softness: Softness = DEFAULT_SOFTNESS,
        kinematic: bool = False,
        q0: float | Vector | None = None,
    ) -> str:
        """Connect a link to its parent.

        Args:
            name: unique name.
            type: "fixed", "revolute", "continuous", "prismatic", "spherical" or "free".
            child: the link that the joint moves.
            parent: the parent link, or "world". A free joint requires the world.
            position: origin of the joint frame in the parent link [m]; for a free joint, the initial position.
            orientation: orientation of the joint frame, quaternion xyzw; for a free joint, the initial orientation.
            axis: axis of a revolute or prismatic joint, or of a spherical joint's limits, in the joint frame;
                normalised here.
            limits: limits of position, effort and velocity; or lower and upper limit of a revolute or prismatic joint
                [rad or m].
            spring: spring and viscous damper; of a spherical or free joint the spring pulls towards a reference pose.
            armature: rotor inertia [kg m^2 or kg].
            friction_loss: dry friction [N m or N].
            friction_softness: softness of the dry friction, under :class:`sim.MujocoContact`.
            kinematic: prescribe the motion of the joint. Its entries of qd are an input of each step, ``kinematic_qd``,
                or keep the values of the state, whatever forces act; q is integrated from them, as for other joints.
                The body pushes, lifts and carries others at that velocity. With type "fixed" the body doesn't move
                within a step, and its pose may differ between worlds (parameter ``joint_placement``), as of MuJoCo's
                ``mocap`` bodies; the link is not merged into its parent.
            q0: initial coordinates, one number for a revolute or prismatic joint. Default: zero, clamped to the limits.

        Returns:
            the name of the joint.

        Raises:
            ModelError: for a duplicate name, an unknown type, a zero axis, negative or non-finite properties, and
                properties that the joint type doesn't have.
        """
        check_name(name, self.joints, "joint")
        where = f"joint '{name}'"
        require_names(where, type=type, child=child, parent=parent)
        kind = joint_type(name, type)
        code = kind.code
        if code == codes.FREE and parent != WORLD:
            raise ModelError(f"{where}: a free joint requires parent='world', but parent is '{parent}'")
        unit_axis = finite(f"{where}: axis", axis, (3,))
        limits = limits_of(where, limits)
        require_type(f"{where}: spring", spring, Spring, "a sim.Spring")
        if kind.has_axis or np.isfinite([limits.swing, limits.twist]).any():
            unit_axis = unit(unit_axis, f"{where}: the axis is zero; give it a direction")
        if type == "continuous" and not (limits.lower == -np.inf and limits.upper == np.inf):
            raise ModelError(
                f"{where}: a continuous joint can't have limits {limits.lower!r} and {limits.upper!r}; use type "
                "'revolute'"
            )
        spec = JointSpec(
            name=name,
            type=code,
            parent=parent,
            child=child,
            placement=pose(where, position, orientation),
            axis=unit_axis,
            lower=limits.lower,
            upper=limits.upper,
            effort=limits.effort,
            velocity=limits.velocity,
            damping=number(where, "spring.damping", spring.damping),
            armature=number(where, "armature", armature),
            stiffness=number(where, "spring.stiffness", spring.stiffness),
            friction_loss=number(where, "friction_loss", friction_loss),
            limit_margin=limits.margin,
            limit_stiffness=limits.stiffness,
            limit_damping=limits.damping,
            swing_limit=limits.swing,
            twist_limit=limits.twist,
            rotation_limit=limits.rotation,
            limit_softness=limits.softness,
            friction_softness=friction_softness,
            kinematic=kinematic,
        )
        check_joint(spec, type)
        spec.q0 = initial_coordinates(spec, q0)
        spec.rest_position = rest_position(spec, spring.rest)
        if code == codes.FREE:
            spec.placement = pose(where, (0.0, 0.0, 0.0), IDENTITY_QUATERNION)  # it is in q0
        self.joints[name] = spec
        return name

    def add_frame(
        self, name: str, link: str, position: Vector = (0.0, 0.0, 0.0), orientation: Vector = IDENTITY_QUATERNION
    ) -> str:
        """Add a named frame on a link. Every link already is a frame of its own name."""
        check_text(name, "a frame")
        require_names(f"frame '{name}'", link=link)
        if name in self.frames or name in self.links:
            raise ModelError(f"frame '{name}': a frame or link of this name exists already; choose another name")
        self.frames[name] = (link, pose(f"frame '{name}'", position, orientation))
        return name

    def add_camera(
        self,
        name: str,
        link: str = WORLD,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        *,
        fov: float = 45.0,
        follows: Followed = "link",
        point: Vector = (0.0, 0.0, 0.0),
    ) -> str:
        """Add a camera to a link; it looks along its -z axis, with x to the right and y up.

        :func:`sim.render.view_of` looks through it, as does ``backswing render --camera``.

        Args:
            name: unique name.
            link: link that it moves with, or "world".
            position: position in the link frame [m]; of a camera that doesn't turn with the link, its offset from what
                it follows, along world axes.
            orientation: orientation in the link frame, quaternion xyzw, or in the world for one that doesn't turn.
            fov: vertical field of view, between 0 and 180 [degrees].
            follows: "link": move and turn with it; "point": move with a point of the link, without turning; "centre of
                mass": move with that of the link and of all links that it carries, without turning.
            point: the point in the link frame [m].

        Returns:
            The name.

        Raises:
            ModelError: for a name in use, or an invalid value.

        Example:
            >>> import sim
            >>> scene = sim.ModelBuilder()
            >>> scene.add_ground()
            'ground'
            >>> scene.add_camera("above", position=(0.0, 0.0, 3.0), fov=60.0)
            'above'
        """
        where = f"camera '{name}'"
        _check_mounted("camera", name, link, follows, self.cameras)
        if not 0.0 < number(where, "fov", fov) < 180.0:
            raise ModelError(f"{where}: fov is {fov}; it must lie between 0 and 180 degrees")
        placement = pose(where, position, orientation)
        x, y, z = finite(f"{where}: point", point, (3,)).tolist()
        self.cameras[name] = (link, MountedCamera(name, -1, placement, float(fov), follows, (x, y, z)))
        return name

    def add_light(
        self,
        name: str,
        light: Light,
        link: str = WORLD,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        *,
        follows: Followed = "link",
        point: Vector = (0.0, 0.0, 0.0),
    ) -> str:
        """Add a light to a link; it shines along its -z axis. Pictures show the model's lights instead of sun and sky.

        Args:
            name: unique name.
            light: the light.
            link: link that it moves with, or "world".
            position, orientation, follows, point: as for :meth:`add_camera`.

        Returns:
            The name.

        Raises:
            ModelError: for a name in use, an invalid value, or a sky with a texture on a link.

        Example:
            >>> import sim
            >>> scene = sim.ModelBuilder()
            >>> scene.add_light("from above", sim.Light("directional", color=(0.7, 0.7, 0.7)))
            'from above'
        """
        where = f"light '{name}'"
        _check_mounted("light", name, link, follows, self.lights)
        require_type(f"{where}: light", light, Light, "a sim.Light")
        if light.texture is not None and (link, follows) != (WORLD, "link"):
            raise ModelError(f"{where}: a sky with a texture doesn't move; add it to the world")
        placement = pose(where, position, orientation)
        x, y, z = finite(f"{where}: point", point, (3,)).tolist()
        self.lights[name] = (link, MountedLight(name, light, -1, placement, follows, (x, y, z)))
        return name

    def add_part(
        self,
        name: str,
        links: Sequence[str],
        joints: Sequence[str],
        *,
        keyframes: Mapping[str, Keyframe] | None = None,
        timestep: float | None = None,
        mujoco: MujocoOptions | None = None,
    ) -> Part:
        """Group links and joints under a name, for :meth:`sim.Model.q_slice`; see :class:`sim.model.model.Part`."""
        check_text(name, "a part")
        where = f"part '{name}'"
        held = names_in(f"{where}: links", links), names_in(f"{where}: joints", joints)
        part = Part(name, *held, keyframes or {}, timestep, mujoco)
        self.parts.append(part)
        return part


def _check_mounted(kind: str, name: str, link: str, follows: str, taken: Container[str]) -> None:
    """Raise ModelError for a camera or light with a name in use, an invalid link or something unknown to follow."""
    check_text(name, f"a {kind}")
    where = f"{kind} '{name}'"
    require_names(where, link=link)
    if name in taken:
        raise ModelError(f"{where}: a {kind} of this name exists already; choose another name")
    require_choice(f"{where}: follows", follows, get_args(Followed))
