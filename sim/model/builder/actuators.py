"""Actuators of a world."""

from dataclasses import asdict

import numpy as np

from sim.errors import ModelError
from sim.model.builder.aliases import deprecated_keywords
from sim.model.builder.properties import NO_ACTIVATION, NO_GAINS, OLD_ACTUATOR_FIELDS, Activation, DCMotor, Delay, Gains
from sim.model.checks import is_single, number, require_names, require_type, two_numbers
from sim.model.joint_types import is_scalar
from sim.model.spec_checks import check_actuator, check_name, finite
from sim.model.specs import ACTUATOR_CODES, DYNAMICS_CODES, ActuatorSpec, Vector, WorldSpec
from sim.model.tendons.muscles import Muscle
from warp_kernels import types as codes


class Actuators(WorldSpec):
    """Method of :class:`sim.ModelBuilder` for actuators."""

    @deprecated_keywords(OLD_ACTUATOR_FIELDS)
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
        muscle: Muscle | None = None,
        delay: Delay | None = None,
        motor: DCMotor | None = None,
        force_limit: float | tuple[float, float] | None = None,
        control_range: tuple[float, float] = (-np.inf, np.inf),
    ) -> str:
        """Add an actuator that drives a joint, a tendon, a frame or contacts, by its input u in ``control``.

        With the gear g, an actuator on a joint sees the position g q and the velocity g qd, and its force F acts on the
        joint as g F. q and qd are those at the end of the step (docs/actuators.md):

        - "torque": F = u.
        - "position": F = kp (u - g q) - kd g qd, with the target u [rad or m] in units of the actuator.
        - "velocity": F = kd (u - g qd), with the target u [rad/s or m/s].
        - "affine": F = gain u + offset - (kp + kp_per_input u) g q - (kd + kd_per_input u) g qd.

        An actuator on a tendon sees g times its length, and pulls with g F. It is explicit, that is, uses the state at
        the beginning of the step, as are these:

        - On a frame, such as a propeller's, the actuator applies the force g F ``force_axis`` and the torque g F
          ``torque_axis``, both along the frame's axes; its position is zero. With a reference, both are along the axes
          of the reference and the opposite acts on it; the position is ``force_axis`` times the displacement from the
          reference plus ``torque_axis`` times the rotation vector. Joints that move both frames have no part in it.
        - As an adhesion, the actuator pulls the contacts of a link together with g F, shared equally. A contact counts
          if its distance is less than the sum of ``contact_margin`` and ``contact_gap`` of both geometries.

        A "muscle" pulls with a force that depends on its activation, length and velocity, also those at the beginning
        of the step; it acts on a joint or a tendon.

        With an activation the actuator has a state w, part of :attr:`sim.State.act`, which replaces u in F. With a
        delay it has as many states as it remembers inputs, after all others.

        Args:
            joint: name of a joint that was added before.
            kind: "torque", "position", "velocity", "affine" or "muscle".
            tendon: name of a tendon that was added before, instead of a joint.
            frame: name of a frame or a link, instead of a joint.
            reference: frame or link that an actuator on a frame is relative to, or "world". Default: none.
            force_axis: force per F of an actuator on a frame [3].
            torque_axis: torque per F, likewise [3], m.
            adhesion: name of a link, instead of a joint.
            name: unique name. Default: that of the joint, tendon, frame or link.
            gear: g; not zero.
            gains: kp, kd and the other gains of the law; see :class:`sim.Gains` for those of each kind.
            activation: dynamics of the actuator's state, see :class:`sim.Activation`. Default: no state.
            muscle: properties of a "muscle".
            delay: delay of the input, see :class:`sim.Delay`. Default: none.
            motor: speed-torque curve of an actuator on a joint, see :class:`sim.DCMotor`. Default: none.
            force_limit: maximum magnitude of F [N m or N], or minimum and maximum of F; ``numpy.inf`` for no limit.
                Default: the joint's ``effort`` (in a URDF file, that of its limit) divided by the gear; no limit on a
                tendon.
            control_range: minimum and maximum input; u is clamped to it.

        Returns:
            the name of the actuator.

        Raises:
            ModelError: for a duplicate name, an unknown joint or tendon, several targets or none, a joint that is
                neither revolute nor prismatic, an unknown kind, a gain that the kind doesn't have, a missing gain or
                muscle, a gear of zero, an empty range, and a range of forces with a single infinite bound.
        """
        targets = {"joint": joint, "tendon": tendon, "frame": frame, "adhesion": adhesion, "reference": reference}
        require_names("add_actuator", **{label: value for label, value in targets.items() if value is not None})
        name = str(joint or tendon or frame or adhesion) if name is None else name
        check_name(name, self.actuators, "actuator")
        where = f"actuator '{name}'"
        require_names(where, kind=kind)
        require_type(f"{where}: gains", gains, Gains, "a sim.Gains")
        require_type(f"{where}: activation", activation, Activation, "a sim.Activation")
        require_type(f"{where}: motor", motor, (DCMotor, type(None)), "a sim.DCMotor")
        require_type(f"{where}: delay", delay, (Delay, type(None)), "a sim.Delay")
        require_type(f"{where}: muscle", muscle, (Muscle, type(None)), "a sim.Muscle")
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
            fall_time=activation.fall_time,
            smoothing=activation.smoothing,
            muscle=muscle,
            integral_limit=activation.integral_limit,
            resistance=activation.resistance,
            stall_force=motor.stall_force if motor else 0.0,
            no_load_speed=motor.no_load_speed if motor else 0.0,
            delay=delay.time if delay else 0.0,
            delay_samples=delay.samples if delay else 0,
        )
        check_actuator(spec, kind)
        self.actuators[name] = spec
        return name

    def _effort(self, where: str, joint: str, needed: bool) -> float:
        """Return the effort limit of a joint to drive; raise ModelError if it can't be driven."""
        if joint not in self.joints:
            raise ModelError(f"{where}: unknown joint '{joint}'; add the joint first")
        driven = self.joints[joint]
        if driven.type == codes.FIXED:
            raise ModelError(f"{where}: joint '{joint}' is fixed; drive a joint that moves")
        if not is_scalar(driven.type):
            raise ModelError(
                f"{where}: joint '{joint}' is neither revolute nor prismatic; drive it by joint forces (tau)"
            )
        if needed and driven.effort == 0.0:
            raise ModelError(f"{where}: joint '{joint}' has an effort limit of zero; give force_limit")
        return driven.effort


def _check_driven(where: str, driven: tuple[str | None, ...], reference: str | None, axes: list[np.ndarray]) -> None:
    """Raise ModelError for several targets or none, and for options of actuators on frames without a frame."""
    if sum(each is not None for each in driven) != 1:
        raise ModelError(f"{where}: give exactly one of joint, tendon, frame and adhesion")
    if driven[2] is None:
        if reference is not None or any(axis.any() for axis in axes):
            raise ModelError(f"{where}: reference, force_axis and torque_axis require frame")
    elif not any(axis.any() for axis in axes):
        raise ModelError(f"{where}: force_axis and torque_axis are zero; give one of them")


def _centre_and_limit(where: str, given: float | tuple[float, float]) -> tuple[float, float]:
    """Return the middle of a range of forces and half its width; for a single number, zero and the number."""
    if is_single(given):
        limit = number(where, "force_limit", given)
        if not limit >= 0.0:
            raise ModelError(f"{where}: force_limit is {limit}; it must not be negative")
        return 0.0, limit
    lower, upper = two_numbers(where, "force_limit", given)
    if not lower <= upper or np.isinf(lower) != np.isinf(upper):
        raise ModelError(
            f"{where}: force_limit is ({lower}, {upper}); the first must not exceed the second, and both must be "
            "finite or both infinite"
        )
    return (0.0, np.inf) if np.isinf(lower) else ((lower + upper) / 2.0, (upper - lower) / 2.0)
