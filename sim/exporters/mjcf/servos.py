"""Electric motors and integral action in an MJCF file."""

import xml.etree.ElementTree as ET

import numpy as np

from sim.exporters.files import number, numbers
from sim.model.model import Model
from warp_kernels import types as codes

INPUTS = {codes.POSITION: "pos", codes.VELOCITY: "vel", codes.TORQUE: "ff"}


def is_motor(model: Model, index: int) -> bool:
    """Return whether an actuator has a speed-torque curve, or the current of a winding."""
    has_curve = "actuator_stall_force" in model.parameters and model.parameters["actuator_stall_force"][index] > 0.0
    return bool(has_curve or model.actuator_dynamics[index] == codes.CURRENT)


def add_motor(element: ET.Element, model: Model, index: int) -> bool:
    """Add the numbers of a motor to its element; return whether MuJoCo has such a motor.

    MuJoCo's motors have an input, a symmetric range of forces, and no other states.
    """
    values = {
        name.removeprefix("actuator_"): float(value[index])
        for name, value in model.parameters.items()
        if name.startswith("actuator_") and value.ndim == 1
    }
    kind, dynamics = int(model.actuator_kind[index]), int(model.actuator_dynamics[index])
    if values["force_centre"] != 0.0:
        return False
    if np.isfinite(values["force_limit"]):
        element.set("saturation", numbers([values["force_limit"], 0.0, 0.0]))
    if dynamics == codes.CURRENT:
        others = ("kp", "kd", "offset", "kp_per_input", "kd_per_input")
        if any(values[name] for name in (*others, "stall_force") if name in values) or not model.actuator_early[index]:
            return False
        element.set("motorconst", numbers([values["gain"], 0.0]))
        element.set("resistance", number(values["resistance"]))
        element.set("inductance", numbers([0.0, values["time_constant"]]))
        return True
    if kind not in INPUTS or dynamics not in (codes.STATELESS, codes.PID) or model.actuator_early[index]:
        return False
    integral_limit = values["integral_limit"] if dynamics == codes.PID else np.inf
    if dynamics == codes.PID and (-values["act_lower"], values["act_upper"]) != (integral_limit, integral_limit):
        return False
    # Any resistance gives the same curve.
    constant = float(np.sqrt(values["stall_force"] / values["no_load_speed"]))
    element.set("motorconst", numbers([constant, 0.0]))
    element.set("resistance", "1")
    element.set("input", INPUTS[kind])
    most = integral_limit if np.isfinite(integral_limit) else 0.0
    controller = [values["kp"], values.get("ki", 0.0), values["kd"], 0.0, most, constant * values["no_load_speed"]]
    element.set("controller", numbers(controller))
    return True


def add_integral_law(element: ET.Element, model: Model, index: int) -> None:
    """Add the law of a servo with integral action."""
    kp, kd, ki = (float(model.parameters[f"actuator_{name}"][index]) for name in ("kp", "kd", "ki"))
    element.set("gaintype", "pid")
    element.set("gainprm", numbers([ki]))
    element.set("biastype", "affine")
    element.set("biasprm", numbers([0.0, 0.0 - kp, 0.0 - kd]))
    element.set("input", "pos")
