"""Actuators of an MJCF file: those with affine force laws on tendons and on joints with one degree of freedom."""

from typing import Any

import numpy as np

from sim.importers.force_laws import ForceLaw, NoForceLawError, affine_law
from sim.importers.mjcf.reader import Reader
from sim.importers.mjcf.tree import joint_type
from sim.model.conventions import MUJOCO_INFINITY
from sim.model.model import ACTUATOR_KIND_NAMES
from sim.model.specs import DYNAMICS_CODES
from warp_kernels.activation.dynamics import SHORTEST


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
        except NoForceLawError as reason:
            reader.notes.append(f"left out: {file.label('actuator', actuator)}, {reason}")
            continue
        name = reader.actuators[actuator] = _add(reader, actuator, law)
        inputs[name] = _control(reader, actuator)
    return inputs


def _law(reader: Reader, actuator: int) -> ForceLaw:
    """The force law; raises NoForceLawError."""
    model, mujoco = reader.file.model, reader.file.mujoco
    transmission = mujoco.mjtTrn(int(model.actuator_trntype[actuator])).name
    if transmission not in ("mjTRN_JOINT", "mjTRN_JOINTINPARENT", "mjTRN_TENDON"):
        raise NoForceLawError(
            f"which acts on a {transmission.removeprefix('mjTRN_').lower()}; only joints and tendons have actuators "
            "here"
        )
    driven = int(model.actuator_trnid[actuator, 0])
    if transmission != "mjTRN_TENDON":
        kind = joint_type(reader, driven)
        if kind not in ("revolute", "prismatic"):
            raise NoForceLawError(f"on a {kind} joint; drive it with joint forces, tau")
    _dynamics(reader, actuator)
    if reader.file.array("actuator_delay", np.zeros(actuator + 1))[actuator] > 0.0:
        raise NoForceLawError("which has a delay; delay its input instead")
    gain = _linear(model.actuator_gaintype[actuator], model.actuator_gainprm[actuator], mujoco.mjtGain, "GAIN")
    bias = _linear(model.actuator_biastype[actuator], model.actuator_biasprm[actuator], mujoco.mjtBias, "BIAS")
    return affine_law(gain, bias)


def _linear(type: int, numbers: np.ndarray, kinds: Any, name: str) -> tuple[float, float, float]:
    """Gain or bias: a constant and what goes with length and velocity; raises NoForceLawError for other kinds."""
    if type == int(getattr(kinds, f"mj{name}_AFFINE")):
        return float(numbers[0]), float(numbers[1]), float(numbers[2])
    label = kinds(int(type)).name.removeprefix(f"mj{name}_").lower()
    if label not in ("fixed", "none"):
        raise NoForceLawError(f"whose force law ({name.lower()}type {label}) has no counterpart here")
    return (float(numbers[0]) if label == "fixed" else 0.0), 0.0, 0.0


def _add(reader: Reader, actuator: int, law: ForceLaw) -> str:
    model, builder = reader.file.model, reader.builder
    driven = int(model.actuator_trnid[actuator, 0])
    of_tendon = _is_of_tendon(reader, actuator)
    label = reader.tendons[driven] if of_tendon else reader.joints[driven]
    name = reader.name("actuator", actuator, label.removeprefix(reader.prefix), builder.actuators)
    output = int(reader.file.array("actuator_outadr", np.arange(actuator + 1))[actuator])
    gear = float(model.actuator_gear[output, 0]) * law.factor
    options: dict[str, Any] = {"gear": gear, **law.gains, "control_range": _control_range(reader, actuator)}
    options["force_limit"] = _force_range(reader, actuator, law.factor, gear)
    options |= _dynamics(reader, actuator)
    with reader.file.located("actuator", actuator, f"actuator '{name}'"):
        return builder.add_actuator(
            None if of_tendon else label, ACTUATOR_KIND_NAMES[law.kind], tendon=label if of_tendon else None, name=name,
            **options,
        )  # fmt: skip


def _dynamics(reader: Reader, actuator: int) -> dict[str, Any]:
    """How the state of an actuator follows its input, if it has one; raises NoForceLawError for other dynamics."""
    model, kinds = reader.file.model, reader.file.mujoco.mjtDyn
    name = kinds(int(model.actuator_dyntype[actuator])).name.removeprefix("mjDYN_").lower()
    if name == "none":
        return {}
    if name not in DYNAMICS_CODES or int(model.actuator_actnum[actuator]) != 1:
        raise NoForceLawError(f"whose state follows its input by a law (dyntype {name}) that has no counterpart here")
    found: dict[str, Any] = {"dynamics": name, "act_early": bool(model.actuator_actearly[actuator])}
    if name != "integrator":
        found["time_constant"] = max(float(model.actuator_dynprm[actuator, 0]), SHORTEST)
    if model.actuator_actlimited[actuator]:
        lower, upper = (float(bound) for bound in model.actuator_actrange[actuator])
        unbounded = lower <= -MUJOCO_INFINITY, upper >= MUJOCO_INFINITY
        found["act_range"] = (-np.inf if unbounded[0] else lower), (np.inf if unbounded[1] else upper)
    return found


def _is_of_tendon(reader: Reader, actuator: int) -> bool:
    return bool(reader.file.model.actuator_trntype[actuator] == int(reader.file.mujoco.mjtTrn.mjTRN_TENDON))


def _force_range(reader: Reader, actuator: int, factor: float, gear: float) -> tuple[float, float]:
    """Between what the force here is held: the range of the actuator, and that of its joint within it."""
    model, joint = reader.file.model, int(reader.file.model.actuator_trnid[actuator, 0])
    bounds = np.array([-np.inf, np.inf])
    if model.actuator_forcelimited[actuator]:
        bounds = np.sort(model.actuator_forcerange[actuator] / factor)
    if not _is_of_tendon(reader, actuator) and model.jnt_actfrclimited[joint] and gear:
        bounds = np.clip(bounds, *np.sort(model.jnt_actfrcrange[joint] / gear))
    return float(bounds[0]), float(bounds[1])


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
