"""Actuators of an MJCF file: motors, servos and velocity drives on joints with one degree of freedom."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.importers.mjcf.reader import Reader
from sim.importers.mjcf.tree import joint_type
from sim.model.conventions import MUJOCO_INFINITY


@dataclass(frozen=True)
class _Law:
    """A force law of :meth:`sim.ModelBuilder.add_actuator`; ``factor`` is the file's force per force here."""

    kind: str
    kp: float = 0.0
    kd: float = 0.0
    factor: float = 1.0


class _NoLawError(Exception):
    """Why an actuator of the file has no counterpart here."""


def add_actuators(reader: Reader) -> dict[str, int]:
    """Add the actuators that have a counterpart; the others go into the reader's notes.

    Returns:
        the index in MuJoCo's ``ctrl`` of the input of each actuator, by its name here.

    Raises:
        ImportFileError: naming the actuator.
    """
    file = reader.file
    if file.model.opt.disableflags & int(file.mujoco.mjtDisableBit.mjDSBL_ACTUATION):
        return {}
    inputs: dict[str, int] = {}
    count = int(file.array("nactuator", file.model.nu))
    for actuator in range(count):
        try:
            law = _law(reader, actuator)
        except _NoLawError as reason:
            reader.notes.append(f"left out: {file.label('actuator', actuator)}, {reason}")
            continue
        inputs[_add(reader, actuator, law)] = _control(reader, actuator)
    return inputs


def _law(reader: Reader, actuator: int) -> _Law:
    """The force law; raises _NoLawError."""
    model, mujoco = reader.file.model, reader.file.mujoco
    transmission = mujoco.mjtTrn(int(model.actuator_trntype[actuator])).name
    if transmission not in ("mjTRN_JOINT", "mjTRN_JOINTINPARENT"):
        raise _NoLawError(
            f"which acts on a {transmission.removeprefix('mjTRN_').lower()}; only joints have actuators here"
        )
    kind = joint_type(reader, int(model.actuator_trnid[actuator, 0]))
    if kind not in ("revolute", "prismatic"):
        raise _NoLawError(f"on a {kind} joint; drive it with joint forces, tau")
    if model.actuator_dyntype[actuator] != int(mujoco.mjtDyn.mjDYN_NONE):
        raise _NoLawError("which has an internal state (dyntype); filter its input instead")
    if reader.file.array("actuator_delay", np.zeros(actuator + 1))[actuator] > 0.0:
        raise _NoLawError("which has a delay; delay its input instead")
    biased = model.actuator_biastype[actuator] == int(mujoco.mjtBias.mjBIAS_AFFINE)
    if model.actuator_gaintype[actuator] != int(mujoco.mjtGain.mjGAIN_FIXED) or not (
        biased or model.actuator_biastype[actuator] == int(mujoco.mjtBias.mjBIAS_NONE)
    ):
        raise _NoLawError("whose force law is not that of a motor, servo or velocity drive")
    gain = float(model.actuator_gainprm[actuator, 0])
    offset, stiffness, damping = (0.0 - float(x) if biased else 0.0 for x in model.actuator_biasprm[actuator, :3])
    if offset == stiffness == damping == 0.0 and gain != 0.0:
        return _Law("torque", factor=gain)
    if offset == 0.0 and stiffness == gain > 0.0 and damping >= 0.0:
        return _Law("position", kp=gain, kd=damping)
    if offset == stiffness == 0.0 and damping == gain > 0.0:
        return _Law("velocity", kd=gain)
    raise _NoLawError(
        f"whose force {gain:.6g} u - {offset:.6g} - {stiffness:.6g} length - {damping:.6g} velocity is not that of "
        "a motor, servo or velocity drive"
    )


def _add(reader: Reader, actuator: int, law: _Law) -> str:
    model, builder = reader.file.model, reader.builder
    joint = reader.joints[int(model.actuator_trnid[actuator, 0])]
    name = reader.name("actuator", actuator, joint.removeprefix(reader.prefix), builder.actuators)
    output = int(reader.file.array("actuator_outadr", np.arange(actuator + 1))[actuator])
    gear = float(model.actuator_gear[output, 0]) * law.factor
    limit = _force_limit(reader, actuator) / abs(law.factor)
    if gear:
        limit = min(limit, builder.joints[joint].effort / abs(gear))
    options: dict[str, Any] = {"gear": gear, "kp": law.kp, "kd": law.kd, "force_limit": limit}
    options["control_range"] = _control_range(reader, actuator)
    with reader.file.located("actuator", actuator, f"actuator '{name}'"):
        return builder.add_actuator(joint, law.kind, name=name, **options)


def _force_limit(reader: Reader, actuator: int) -> float:
    model = reader.file.model
    if not model.actuator_forcelimited[actuator]:
        return np.inf
    lower, upper = (float(bound) for bound in model.actuator_forcerange[actuator])
    if lower != -upper:
        reader.notes.append(
            f"{reader.file.label('actuator', actuator)}: forcerange [{lower}, {upper}] is not symmetric; "
            f"{max(-lower, upper)} is used in both directions"
        )
    return max(-lower, upper)


def _control_range(reader: Reader, actuator: int) -> tuple[float, float]:
    """Between what an input is clipped."""
    model, control = reader.file.model, _control(reader, actuator)
    if not model.actuator_ctrllimited[control]:
        return -np.inf, np.inf
    lower, upper = (float(bound) for bound in model.actuator_ctrlrange[control])
    return (lower if lower > -MUJOCO_INFINITY else -np.inf), (upper if upper < MUJOCO_INFINITY else np.inf)


def _control(reader: Reader, actuator: int) -> int:
    """Index of an actuator's input in MuJoCo's ``ctrl``."""
    return int(reader.file.array("actuator_ctrladr", np.arange(actuator + 1))[actuator])
