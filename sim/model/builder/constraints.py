"""Constraints beyond the tree of joints: coincident points and frames, coupled joints."""

import numpy as np

from sim.errors import ModelError
from sim.model.checks import is_positive, number, require_names, require_type
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.model.spec_checks import break_load, check_name, pose
from sim.model.specs import IDENTITY_QUATERNION, AnchorSpec, CouplingSpec, Vector, WorldSpec


class Constraints(WorldSpec):
    """Methods of :class:`sim.ModelBuilder` for constraints."""

    def add_point_constraint(
        self,
        name: str,
        link_a: str,
        link_b: str,
        *,
        position_a: Vector = (0.0, 0.0, 0.0),
        position_b: Vector | None = None,
        softness: Softness = DEFAULT_SOFTNESS,
        active: bool | None = None,
        break_force: float = np.inf,
    ) -> str:
        """Constrain a point of one link to a point of another, as MuJoCo's ``connect``; it closes a loop by a ball
        joint.

        Collisions between the two links are not affected, see :meth:`exclude_collision`.

        Args:
            name: unique name.
            link_a: first link, or "world".
            link_b: second link, or "world".
            position_a: the point in link_a [m].
            position_b: the point in link_b [m]. Default: where the first point is in the initial configuration.
            softness: softness under MuJoCo's law.
            active: whether the constraint is on at first; :func:`sim.attach` and :func:`sim.detach` switch it in each
                world. Default: on, and none of the model can be switched unless another one has ``active``, or one
                breaks.
            break_force: force above which the constraint breaks [N]: in the steps after it is off, see
                :class:`sim.State`. Default: it never breaks.

        Returns:
            the name of the constraint.

        Raises:
            ModelError: for a duplicate name or positions that are not finite.
        """
        b = None if position_b is None else pose(f"constraint '{name}': b", position_b, IDENTITY_QUATERNION)
        a = pose(f"constraint '{name}': a", position_a, IDENTITY_QUATERNION)
        return self._add_anchor(
            AnchorSpec(
                name=name,
                link_a=link_a,
                link_b=link_b,
                anchor_a=a,
                anchor_b=b,
                welded=False,
                softness=softness,
                active=active,
                break_force=break_load(f"constraint '{name}'", "break_force", break_force),
            )
        )

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
        softness: Softness = DEFAULT_SOFTNESS,
        torque_scale: float = 1.0,
        active: bool | None = None,
        break_force: float = np.inf,
        break_torque: float = np.inf,
    ) -> str:
        """Constrain a frame of one link to a frame of another, as MuJoCo's ``weld``.

        The solver converges fastest if the frames are where the weld carries most of its load. Collisions between the
        two links are not affected, see :meth:`exclude_collision`.

        Args:
            name: unique name.
            link_a: first link, or "world".
            link_b: second link, or "world".
            position_a: origin of the frame in link_a [m].
            orientation_a: orientation of the frame in link_a, quaternion xyzw.
            position_b: origin of the frame in link_b [m]. Default, together with orientation_b: where the frame of
                link_a is in the initial configuration.
            orientation_b: orientation of the frame in link_b, quaternion xyzw.
            softness: softness under MuJoCo's law.
            torque_scale: weight of rotations relative to displacements under that law [m].
            active: whether the constraint is on at first; :func:`sim.attach` and :func:`sim.detach` switch it in each
                world. Default: on, and none of the model can be switched unless another one has ``active``, or one
                breaks.
            break_force: force above which the constraint breaks [N]: in the steps after it is off, see
                :class:`sim.State`. Default: it never breaks.
            break_torque: torque about the origin of the frame above which it breaks, too [N m].

        Returns:
            the name of the constraint.

        Raises:
            ModelError: for a duplicate name, only one of position_b and orientation_b, and values that are not finite.
        """
        if (position_b is None) != (orientation_b is None):
            raise ModelError(f"constraint '{name}': give both position_b and orientation_b, or neither")
        b = None
        if position_b is not None and orientation_b is not None:
            b = pose(f"constraint '{name}': b", position_b, orientation_b)
        a = pose(f"constraint '{name}': a", position_a, orientation_a)
        if not is_positive(torque_scale):
            raise ModelError(f"constraint '{name}': torque_scale is {torque_scale!r}; it must be positive")
        return self._add_anchor(
            AnchorSpec(
                name=name,
                link_a=link_a,
                link_b=link_b,
                anchor_a=a,
                anchor_b=b,
                welded=True,
                softness=softness,
                torque_scale=float(torque_scale),
                active=active,
                break_force=break_load(f"constraint '{name}'", "break_force", break_force),
                break_torque=break_load(f"constraint '{name}'", "break_torque", break_torque),
            )
        )

    def add_joint_coupling(
        self,
        joint: str,
        other: str,
        *,
        ratio: float = 1.0,
        offset: float = 0.0,
        softness: Softness = DEFAULT_SOFTNESS,
        active: bool | None = None,
        break_force: float = np.inf,
    ) -> str:
        """Couple a joint to another: q = ratio * q_other + offset, as URDF's ``mimic`` and MuJoCo's ``joint``.

        A force on either acts on both, as through a gear. The initial coordinate of ``joint`` is set to match; cyclic
        couplings make :meth:`finalize` raise an error.

        Args:
            joint: name of the revolute or prismatic joint that follows.
            other: name of the joint that it follows.
            ratio: coordinate per coordinate of the other.
            offset: coordinate at which the other's is zero [rad or m].
            softness: softness under MuJoCo's law.
            active: whether the constraint is on at first; :func:`sim.attach` and :func:`sim.detach` switch it in each
                world. Default: on, and none of the model can be switched unless another one has ``active``, or one
                breaks.
            break_force: force on ``joint`` above which the coupling breaks [N m or N]: in the steps after it
                is off, see :class:`sim.State`. Default: it never breaks.

        Returns:
            the name of the joint.

        Raises:
            ModelError: for a joint that follows itself or already follows another, and values that are not finite.
        """
        where = f"coupling of joint '{joint}' with '{other}'"
        require_names(where, joint=joint, other=other)
        if joint == other:
            raise ModelError(f"{where}: a joint can't follow itself")
        if joint in self.couplings:
            raise ModelError(f"{where}: it already follows '{self.couplings[joint].other}'")
        require_type(f"{where}: softness", softness, Softness, "a sim.Softness")
        ratio, offset = number(where, "ratio", ratio), number(where, "offset", offset)
        if not (np.isfinite(ratio) and np.isfinite(offset)):
            raise ModelError(f"{where}: ratio {ratio} and offset {offset} must be finite")
        require_type(f"{where}: active", active, (bool, type(None)), "True, False or None")
        load = break_load(where, "break_force", break_force)
        self.couplings[joint] = CouplingSpec(
            joint=joint, other=other, ratio=ratio, offset=offset, softness=softness, active=active, break_force=load
        )
        return joint

    def _add_anchor(self, spec: AnchorSpec) -> str:
        check_name(spec.name, self.anchors, "constraint")
        require_names(f"constraint '{spec.name}'", link_a=spec.link_a, link_b=spec.link_b)
        require_type(f"constraint '{spec.name}': softness", spec.softness, Softness, "a sim.Softness")
        require_type(f"constraint '{spec.name}': active", spec.active, (bool, type(None)), "True, False or None")
        self.anchors[spec.name] = spec
        return spec.name
