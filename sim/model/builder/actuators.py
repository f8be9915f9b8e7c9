"""Actuators of a world."""

import numpy as np

from sim.errors import ModelError
from sim.model.joint_types import is_scalar
from sim.model.spec_checks import check_actuator, check_name
from sim.model.specs import ACTUATOR_CODES, ActuatorSpec, WorldSpec


class Actuators(WorldSpec):
    """The method of :class:`sim.ModelBuilder` for actuators."""

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
        control_range: tuple[float, float] = (-np.inf, np.inf),
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
            control_range: least and greatest input; u is clamped between them.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown joint or one that is neither revolute nor prismatic, an unknown
                kind, a gain that the kind doesn't have, a missing gain, values that are negative or not finite, and an
                empty range.
        """
        name = joint if name is None else name
        check_name(name, self.actuators, "actuator")
        where = f"actuator '{name}'"
        if joint not in self.joints:
            raise ModelError(f"{where}: unknown joint '{joint}'; add the joint first")
        if kind not in ACTUATOR_CODES:
            raise ModelError(f"{where}: unknown kind '{kind}'; known are {', '.join(ACTUATOR_CODES)}")
        driven = self.joints[joint]
        if not is_scalar(driven.type):
            raise ModelError(
                f"{where}: joint '{joint}' is neither revolute nor prismatic; drive it with joint forces, tau"
            )
        if force_limit is None:
            if driven.effort == 0.0:
                raise ModelError(f"{where}: joint '{joint}' has an effort limit of zero; give force_limit")
            force_limit = driven.effort / abs(gear) if gear else np.inf
        spec = ActuatorSpec(
            name=name,
            joint=joint,
            kind=ACTUATOR_CODES[kind],
            gear=float(gear),
            kp=float(kp),
            kd=float(kd),
            force_limit=float(force_limit),
            control_range=_range(where, control_range),
        )
        check_actuator(spec, kind)
        self.actuators[name] = spec
        return name


def _range(where: str, given: tuple[float, float]) -> tuple[float, float]:
    """Two numbers."""
    try:
        lower, upper = (float(bound) for bound in given)
    except (TypeError, ValueError):
        raise ModelError(f"{where}: control_range is {given!r}; it must be two numbers") from None
    return lower, upper
