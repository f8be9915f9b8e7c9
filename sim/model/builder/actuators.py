"""Actuators of a world."""

from dataclasses import asdict

import numpy as np

from sim.errors import ModelError
from sim.model.builder.aliases import deprecated_keywords
from sim.model.builder.properties import ACTUATOR_FIELDS, NO_ACTIVATION, NO_GAINS, Activation, Gains
from sim.model.checks import number, require_names, require_type, two_numbers
from sim.model.joint_types import is_scalar
from sim.model.spec_checks import check_actuator, check_name, finite
from sim.model.specs import ACTUATOR_CODES, DYNAMICS_CODES, ActuatorSpec, Vector, WorldSpec
from warp_kernels import types as codes


class Actuators(WorldSpec):
    """The method of :class:`sim.ModelBuilder` for actuators."""

    @deprecated_keywords(ACTUATOR_FIELDS)
    def add_actuator(
        self,
        joint: str | None = None,
        kind: str = "torque",
        *,
        tendon: str | None = None,
        frame: str | None = None,
        reference: str | None = None,
        force_axis: Vector = (0.0, 0.0, 0.0),
        torque_axis: Vector = (0.0, 0.0, 0.0),
        adhesion: str | None = None,
        name: str | None = None,
        gear: float = 1.0,
        gains: Gains = NO_GAINS,
        activation: Activation = NO_ACTIVATION,
        force_limit: float | tuple[float, float] | None = None,
        control_range: tuple[float, float] = (-np.inf, np.inf),
    ) -> str:
        """Drive a joint, a tendon, a frame or contacts; the simulator takes its input u in ``control``.

        Through its gear the actuator sees the position g q and the velocity g qd, and its force F acts on the joint as
        g F. With q and qd those at the end of the step (docs/actuators.md):

        - "torque": F = u.
        - "position": F = kp (u - g q) - kd g qd, with the target u [rad or m] in units of the actuator.
        - "velocity": F = kd (u - g qd), with the target u [rad/s or m/s].
        - "affine": F = gain u + offset - (kp + kp_per_input u) g q - (kd + kd_per_input u) g qd.

        On a tendon it sees g times the length and pulls with g F, both of the beginning of the step, as in these cases:

        - On a frame, such as a propeller's, it pushes with the force g F ``force_axis`` and the torque g F
          ``torque_axis``, both along the frame's axes. Its position is zero. With a reference they are along its axes,
          and act on it the other way round; the position is ``force_axis`` times the displacement from there plus
          ``torque_axis`` times the rotation vector. Joints that move both have no part in it.
        - As an adhesion it pulls the contacts of a link together with g F, shared equally. A contact counts where its
          distance is less than ``contact_margin`` and ``contact_gap`` of both geometries together.

        With an activation the actuator has a state w, part of :attr:`sim.State.act`, which replaces u in F.

        Args:
            joint: name of a joint that was added before.
            kind: "torque", "position", "velocity" or "affine".
            tendon: name of a tendon that was added before, in place of a joint.
            frame: name of a frame or a link, in place of a joint.
            reference: of an actuator on a frame, the frame or link that it counts from, or "world"; None for none.
            force_axis: of an actuator on a frame, force per F [3].
            torque_axis: likewise torque per F [3], m.
            adhesion: name of a link, in place of a joint.
            name: unique name; that of the joint, tendon, frame or link if left out.
            gear: g; not zero.
            gains: kp, kd and the other gains of the law; see :class:`sim.Gains` for those of each kind.
            activation: how a state of the actuator follows its input. Default: no state.
            force_limit: largest F either way [N m or N], or least and greatest F; None for the joint's ``effort`` (of a
                URDF file, that of its limit) divided by the gear, and none on a tendon; ``numpy.inf`` for none.
            control_range: least and greatest input; u is clamped between them.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown joint or tendon, several or nothing to drive, a joint that is
                neither revolute nor prismatic, an unknown kind, a gain that the kind doesn't have, a missing gain,
                a gear of zero, an empty range, and a range of forces with a single infinite bound.
        """
        name = str(joint or tendon or frame or adhesion) if name is None else name
        check_name(name, self.actuators, "actuator")
        where = f"actuator '{name}'"
        driven = {"joint": joint, "tendon": tendon, "frame": frame, "adhesion": adhesion, "reference": reference}
        given = {label: value for label, value in driven.items() if value is not None}
        require_names(where, kind=kind, **given)
        require_type(f"{where}: gains", gains, Gains, "a sim.Gains")
        require_type(f"{where}: activation", activation, Activation, "a sim.Activation")
        axes = [
            finite(f"{where}: {label}", axis, (3,))
            for label, axis in (("force_axis", force_axis), ("torque_axis", torque_axis))
        ]
        _check_driven(where, (joint, tendon, frame, adhesion), reference, axes)
        if kind not in ACTUATOR_CODES:
            raise ModelError(f"{where}: unknown kind '{kind}'; known are {', '.join(ACTUATOR_CODES)}")
        effort = np.inf
        if joint is not None:
            effort = self._effort(where, joint, force_limit is None)
        elif tendon is not None and tendon not in self.tendons:
            raise ModelError(f"{where}: unknown tendon '{tendon}'; add the tendon first")
        gear = number(where, "gear", gear)
        if force_limit is None:
            force_limit = effort / abs(gear) if gear else np.inf
        force_centre, force_limit = _centre_and_limit(where, force_limit)
        spec = ActuatorSpec(
            name=name,
            joint=joint,
            tendon=tendon,
            frame=frame,
            reference=reference,
            adhesion=adhesion,
            force_axis=axes[0],
            torque_axis=axes[1],
            kind=ACTUATOR_CODES[kind],
            gear=gear,
            **asdict(gains),
            force_centre=force_centre,
            force_limit=force_limit,
            control_range=two_numbers(where, "control_range", control_range),
            dynamics=DYNAMICS_CODES[activation.kind],
            time_constant=activation.time_constant,
            act_range=activation.range,
            act_early=activation.early,
        )
        check_actuator(spec, kind)
        self.actuators[name] = spec
        return name

    def _effort(self, where: str, joint: str, needed: bool) -> float:
        """The effort limit of a joint that is to be driven; raises ModelError where it can't be."""
        if joint not in self.joints:
            raise ModelError(f"{where}: unknown joint '{joint}'; add the joint first")
        driven = self.joints[joint]
        if driven.type == codes.FIXED:
            raise ModelError(f"{where}: joint '{joint}' is fixed; there is nothing to drive")
        if not is_scalar(driven.type):
            raise ModelError(
                f"{where}: joint '{joint}' is neither revolute nor prismatic; drive it with joint forces, tau"
            )
        if needed and driven.effort == 0.0:
            raise ModelError(f"{where}: joint '{joint}' has an effort limit of zero; give force_limit")
        return driven.effort


def _check_driven(where: str, driven: tuple[str | None, ...], reference: str | None, axes: list[np.ndarray]) -> None:
    """Refuse several things to drive or none, and what only an actuator on a frame has."""
    if sum(each is not None for each in driven) != 1:
        raise ModelError(f"{where}: give either its joint, its tendon, its frame, or the link of its adhesion")
    if driven[2] is None:
        if reference is not None or any(axis.any() for axis in axes):
            raise ModelError(f"{where}: reference, force_axis and torque_axis are of actuators on a frame")
    elif not any(axis.any() for axis in axes):
        raise ModelError(f"{where}: force_axis and torque_axis are zero; it would push nowhere")


def _centre_and_limit(where: str, given: float | tuple[float, float]) -> tuple[float, float]:
    """Middle of a range of forces, and how far they may be from it; of a single number zero and that."""
    if np.ndim(given) == 0:
        limit = number(where, "force_limit", given)
        if not limit >= 0.0:
            raise ModelError(f"{where}: force_limit is {limit}; it must not be negative")
        return 0.0, limit
    lower, upper = two_numbers(where, "force_limit", given)
    if not lower <= upper or np.isinf(lower) != np.isinf(upper):
        raise ModelError(
            f"{where}: force_limit is ({lower}, {upper}); the first must not be greater than the second, and both "
            "finite or none"
        )
    return (0.0, np.inf) if np.isinf(lower) else ((lower + upper) / 2.0, (upper - lower) / 2.0)
