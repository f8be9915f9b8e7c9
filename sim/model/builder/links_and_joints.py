"""Links, the joints that carry them, named frames, and parts of a world."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.checks import as_numbers, names_in, number, require_names
from sim.model.joint_types import joint_type
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
    unit,
)
from sim.model.specs import IDENTITY_QUATERNION, WORLD, JointSpec, LinkSpec, Vector, WorldSpec
from warp_kernels import types as codes


class LinksAndJoints(WorldSpec):
    """The methods of :class:`sim.ModelBuilder` that make the tree of links."""

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
            mass: mass [kg]; None for a link without inertial data, which kinematics accepts, and dynamics once
                the parameter ``mass`` gives it one.
            com: centre of mass in the link frame [m].
            inertia: rotational inertia about the centre of mass in link axes [kg m^2], [3, 3] or its diagonal [3].
            gravity_compensation: share of the link's weight that a force at its centre of mass bears, 1 for a link that
                floats: a passive force, as those of springs. If no link of the model has one, not even zero, the model
                has no such parameter. A link on a fixed joint is not merged into one with another share.
            allow_unphysical: accept principal moments that no physical body has, as in many published robot files;
                :meth:`finalize` still refuses them where they leave a moving body with a negative one.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, a negative mass, values that are not finite, an inertia that is not
                symmetric, or (unless allowed) not positive semidefinite or against the triangle inequality.
        """
        check_name(name, self.links, "link")
        if name == WORLD:
            raise ModelError(f"link '{name}': this name is reserved for the world; choose another")
        if name in self.frames:
            raise ModelError(f"link '{name}': a frame of this name exists already; choose another")
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
        rotation_limit: float = np.inf,
        limit_softness: Softness = DEFAULT_SOFTNESS,
        friction_softness: Softness = DEFAULT_SOFTNESS,
        kinematic: bool = False,
        q0: float | Vector | None = None,
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
            effort: largest driving force [N m or N]: the default force limit of the joint's actuators.
            velocity: largest speed [rad/s or m/s]; stored, not enforced.
            damping: viscous damping.
            armature: rotor inertia.
            stiffness: spring constant about ``rest_position``; revolute and prismatic only.
            rest_position: position at which the spring is at rest.
            friction_loss: dry friction [N m or N].
            limit_margin: distance before a limit at which it becomes active [rad or m], as MuJoCo's margin.
            limit_stiffness: stiffness of the limits [N m/rad or N/m]; infinite: hard.
            limit_damping: damping of compliant limits [N m s/rad or N s/m].
            swing_limit: largest angle between the axis and the axis that the child carries [rad]; spherical only.
            twist_limit: largest angle by which the child turns about the axis, either way [rad]; spherical only.
            rotation_limit: largest angle by which the child turns about whichever axis [rad]; spherical only.
            limit_softness: of the limits, under :class:`sim.MujocoContact`.
            friction_softness: of the dry friction, likewise.
            kinematic: the motion of the joint is prescribed. Its entries of qd keep the values that the state has at
                the beginning of a step, whatever forces act; q is integrated from them, as for other joints. So the
                body pushes, lifts and carries others at that velocity. With type "fixed" the body stands still in every
                step, at a pose that may differ between worlds: the parameter ``joint_placement``, as of MuJoCo's
                ``mocap`` bodies; the link is not merged into its parent.
            q0: initial coordinates, of a revolute or prismatic joint one number; default zero, brought inside the
                limits.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown type, a zero axis, crossed limits, negative or non-finite
                properties, or properties that the joint type doesn't have.
        """
        check_name(name, self.joints, "joint")
        where = f"joint '{name}'"
        require_names(where, type=type, child=child, parent=parent)
        kind = joint_type(name, type)
        code = kind.code
        if code == codes.FREE and parent != WORLD:
            raise ModelError(f"{where}: a free joint needs the world as parent, not '{parent}'")
        unit_axis = finite(f"{where}: axis", axis, (3,))
        if kind.has_axis or np.isfinite([swing_limit, twist_limit]).any():
            unit_axis = unit(unit_axis, f"{where}: the axis is zero; give it a direction")
        if type == "continuous" and not (lower == -np.inf and upper == np.inf):
            raise ModelError(f"{where}: a continuous joint has no limits {lower!r} and {upper!r}; make it revolute")
        spec = JointSpec(
            name=name,
            type=code,
            parent=parent,
            child=child,
            placement=pose(where, position, orientation),
            axis=unit_axis,
            lower=number(where, "lower", lower),
            upper=number(where, "upper", upper),
            effort=number(where, "effort", effort),
            velocity=number(where, "velocity", velocity),
            damping=number(where, "damping", damping),
            armature=number(where, "armature", armature),
            stiffness=number(where, "stiffness", stiffness),
            rest_position=number(where, "rest_position", rest_position),
            friction_loss=number(where, "friction_loss", friction_loss),
            limit_margin=number(where, "limit_margin", limit_margin),
            limit_stiffness=number(where, "limit_stiffness", limit_stiffness),
            limit_damping=number(where, "limit_damping", limit_damping),
            swing_limit=number(where, "swing_limit", swing_limit),
            twist_limit=number(where, "twist_limit", twist_limit),
            rotation_limit=number(where, "rotation_limit", rotation_limit),
            limit_softness=limit_softness,
            friction_softness=friction_softness,
            kinematic=kinematic,
        )
        check_joint(spec, type)
        spec.q0 = initial_coordinates(spec, q0)
        if code == codes.FREE:
            spec.placement = pose(where, (0.0, 0.0, 0.0), IDENTITY_QUATERNION)  # it is in q0
        self.joints[name] = spec
        return name

    def add_frame(
        self, name: str, link: str, position: Vector = (0.0, 0.0, 0.0), orientation: Vector = IDENTITY_QUATERNION
    ) -> str:
        """Name a frame fixed to a link. Every link already is a frame of its own name."""
        check_text(name, "a frame")
        require_names(f"frame '{name}'", link=link)
        if name in self.frames or name in self.links:
            raise ModelError(f"frame '{name}': a frame or link of this name exists already")
        self.frames[name] = (link, pose(f"frame '{name}'", position, orientation))
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
