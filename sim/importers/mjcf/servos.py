"""Controllers and electric motors of an MJCF file: ``pid``, ``dcmotor`` and the plugin mujoco.pid."""

from dataclasses import replace
from typing import Any

import numpy as np

from sim.importers.force_laws import ForceLaw, NoForceLawError, affine_law
from sim.importers.mjcf.reader import Reader
from sim.model.builder.properties import DCMotor
from warp_kernels import types as codes

# Parameters of a motor that Backswing doesn't have: of its dynamics, and of its bias.
UNSUPPORTED = {1: "a limited rate of current", 2: "thermal resistance", 5: "LuGre friction", 7: "a limited slew rate"}


PID_PLUGIN = "mujoco.pid"
# Its attributes, in its order.
PID_NUMBERS = ("kp", "ki", "kd", "imax", "slewmax")


def servo_gains(mujoco: Any) -> tuple[int, ...]:
    """Return MuJoCo's types of gain of controllers and motors; empty in versions without them."""
    names = ("mjGAIN_PID", "mjGAIN_DCMOTOR")
    return tuple(int(getattr(mujoco.mjtGain, name)) for name in names if hasattr(mujoco.mjtGain, name))


def has_plugin(reader: Reader, actuator: int) -> bool:
    """Return whether the force of an actuator comes from a plugin."""
    return bool(reader.file.array("actuator_plugin", np.full(actuator + 1, -1))[actuator] >= 0)


def of_plugin(reader: Reader, actuator: int) -> tuple[ForceLaw, dict[str, Any]]:
    """Return law and state of an actuator with the plugin mujoco.pid. Raise NoForceLawError for another plugin.

    Its integral takes part in the force of the same step, and is clamped to a largest force.
    """
    file, model = reader.file, reader.file.model
    if file.elements["actuator"][actuator].plugin.plugin_name != PID_PLUGIN:
        raise NoForceLawError("whose force comes from a plugin")
    start = int(model.plugin_attradr[model.actuator_plugin[actuator]])
    words = bytes(np.asarray(model.plugin_attr[start:], dtype=np.uint8)).split(b"\0")[: len(PID_NUMBERS)]
    try:
        given = {name: float(word) for name, word in zip(PID_NUMBERS, words, strict=True) if word}
    except ValueError:
        raise NoForceLawError(f"whose plugin {PID_PLUGIN} has a value that is no number") from None
    if "slewmax" in given or model.actuator_dyntype[actuator] != file.mujoco.mjtDyn.mjDYN_NONE:
        raise NoForceLawError(f"whose plugin {PID_PLUGIN} has a slew rate or a state of its input")
    if not given.get("kp", 0.0) > 0.0:
        raise NoForceLawError(f"whose plugin {PID_PLUGIN} has no kp")
    law = ForceLaw(codes.POSITION, kp=given["kp"], kd=given.get("kd", 0.0))
    ki = given.get("ki", 0.0)
    if not ki:
        return law, {}
    most = given["imax"] / ki if "imax" in given else np.inf
    return law, {"dynamics": "pid", "ki": ki, "act_early": True, "act_range": (-most, most)}


def servo_law(reader: Reader, actuator: int) -> ForceLaw:
    """Return the law of a controller or motor. Raise NoForceLawError for one with other features."""
    law = _motor_law(reader, actuator) if _is_motor(reader, actuator) else _controller_law(reader, actuator)
    if law.kind != codes.POSITION and servo_state(reader, actuator).get("dynamics") == "pid":
        raise NoForceLawError("with integral action, but without a position input or kp")
    return law


def _controller_law(reader: Reader, actuator: int) -> ForceLaw:
    model = reader.file.model
    if model.actuator_dynprm[actuator, 1] > 0.0:
        raise NoForceLawError("with a limited slew rate")
    offset, kp, kd = model.actuator_biasprm[actuator, :3].tolist()
    return _with_input(reader, actuator, -kp, -kd, offset)


def _motor_law(reader: Reader, actuator: int) -> ForceLaw:
    model, inputs = reader.file.model, reader.file.mujoco.mjtCtrlInput
    for number, feature in UNSUPPORTED.items():
        if model.actuator_dynprm[actuator, number] > 0.0:
            raise NoForceLawError(f"which is a motor with {feature}")
    if model.actuator_biasprm[actuator, 0] != 0.0:
        raise NoForceLawError("which is a motor with cogging")
    resistance, constant, _, _, kp, _, kd, voltage = model.actuator_gainprm[actuator, :8].tolist()
    has_current = model.actuator_dynprm[actuator, 0] > 0.0
    if model.actuator_ctrlspec[actuator] == inputs.mjINPUT_VOLTAGE:
        if has_current:
            return ForceLaw(codes.AFFINE, gain=constant)
        return affine_law((constant / resistance, 0.0, 0.0), (0.0, 0.0, -(constant**2) / resistance))
    if has_current:
        raise NoForceLawError("which is a motor with a controller and inductance")
    law = _with_input(reader, actuator, kp, kd, 0.0)
    if voltage > 0.0:
        law = replace(law, motor=DCMotor(constant * voltage / resistance, voltage / constant))
    return law


def servo_state(reader: Reader, actuator: int) -> dict[str, Any]:
    """Return the state of a controller or motor, as arguments of the builder; empty without one."""
    model = reader.file.model
    gains, numbers = model.actuator_gainprm[actuator], model.actuator_dynprm[actuator]
    if not _is_motor(reader, actuator):
        if model.actuator_gainprm[actuator, 0] <= 0.0:
            return {}
        found: dict[str, Any] = {
            "dynamics": "pid",
            "ki": float(gains[0]),
            "act_early": bool(model.actuator_actearly[actuator]),
        }
        limit = float(numbers[0])
        if model.actuator_actlimited[actuator]:
            found["act_range"] = tuple(model.actuator_actrange[actuator].tolist())
        return {**found, "integral_limit": limit if limit > 0.0 else np.inf}
    if numbers[0] > 0.0:
        winding = {"time_constant": float(numbers[0]), "resistance": float(gains[0])}
        return {"dynamics": "current", "act_early": True, **winding}
    if gains[5] <= 0.0:
        return {}
    limit = float(numbers[8]) if numbers[8] > 0.0 else np.inf
    return {"dynamics": "pid", "ki": float(gains[5]), "integral_limit": limit, "act_range": (-limit, limit)}


def _is_motor(reader: Reader, actuator: int) -> bool:
    return bool(reader.file.model.actuator_gaintype[actuator] == reader.file.mujoco.mjtGain.mjGAIN_DCMOTOR)


def further_inputs(reader: Reader, actuator: int) -> dict[str, float]:
    """Return the gains of a controller's inputs beyond the first, by name, "vel" or "ff"; empty for other actuators."""
    if reader.file.model.actuator_gaintype[actuator] not in servo_gains(reader.file.mujoco):
        return {}
    return dict(list(_inputs(reader, actuator).items())[1:])


def _inputs(reader: Reader, actuator: int) -> dict[str, float]:
    """Return the gains of a controller's inputs, in MuJoCo's order; empty without one, or for a voltage."""
    model, inputs = reader.file.model, reader.file.mujoco.mjtCtrlInput
    if _is_motor(reader, actuator):
        kp, kd = model.actuator_gainprm[actuator, [4, 6]].tolist()
    else:
        kp, kd = (-model.actuator_biasprm[actuator, 1:3]).tolist()
    given = {"pos": (inputs.mjINPUT_POS, kp), "vel": (inputs.mjINPUT_VEL, kd), "ff": (inputs.mjINPUT_FF, 1.0)}
    present = int(model.actuator_ctrlspec[actuator])
    return {name: gain for name, (kind, gain) in given.items() if present & int(kind)}


def _with_input(reader: Reader, actuator: int, kp: float, kd: float, offset: float) -> ForceLaw:
    """Return the law of a controller with its first input; others are actuators of their own."""
    gains = list(_inputs(reader, actuator).values())
    if not gains:
        raise NoForceLawError("which has no input")
    if len(gains) > 1 and not _adds_up(reader, actuator):
        raise NoForceLawError("which has several inputs and a limited force; choose one of pos, vel and ff")
    return affine_law((gains[0], 0.0, 0.0), (offset, -kp, -kd))


def _adds_up(reader: Reader, actuator: int) -> bool:
    """Return whether the parts of a controller's force by several inputs may be those of several actuators."""
    model, kinds = reader.file.model, reader.file.mujoco.mjtTrn
    kind, driven = int(model.actuator_trntype[actuator]), int(model.actuator_trnid[actuator, 0])
    on_joint = kind in (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT)
    if model.actuator_forcelimited[actuator] or not (on_joint or kind == kinds.mjTRN_TENDON):
        return False
    has_voltage = _is_motor(reader, actuator) and model.actuator_gainprm[actuator, 7] > 0.0
    return not (has_voltage or (on_joint and model.jnt_actfrclimited[driven]))
