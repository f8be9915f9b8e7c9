"""Constraints and actuators of an MJCF file."""

import xml.etree.ElementTree as ET

import numpy as np

from sim.errors import ModelError
from sim.exporters.mjcf.bodies import Bodies
from sim.exporters.mjcf.softness import set_softness
from sim.exporters.mjcf.tendons import add_tied_lengths
from sim.exporters.text import number, numbers
from sim.model.conventions import MUJOCO_INFINITY
from sim.model.model import Model
from sim.model.poses import IDENTITY
from sim.model.specs import DYNAMICS_CODES
from warp_kernels import types as codes

ACTUATOR_TAGS = {
    codes.TORQUE: "motor", codes.POSITION: "position", codes.VELOCITY: "velocity", codes.AFFINE: "general",
}  # fmt: skip


def add_equalities(root: ET.Element, bodies: Bodies) -> None:
    """Add points and welds between sites, coupled joints and tied tendons."""
    model, equality = bodies.model, ET.SubElement(root, "equality")
    equalities, parameters = model.equalities, model.parameters
    for row, name in enumerate(equalities.anchor_names):
        welded = bool(equalities.anchor_welded[row])
        constraint = ET.SubElement(equality, "weld" if welded else "connect", name=name)
        for place, side in enumerate("ab", start=1):
            link = int(getattr(equalities, f"anchor_link_{side}")[row])
            anchor = parameters[f"anchor_{side}"][row]
            if not welded:  # a point has no orientation
                anchor = np.concatenate([anchor[:3], IDENTITY[3:]])
            constraint.set(f"site{place}", bodies.site(f"{name}/{side}", link, anchor))
        set_softness(constraint, equalities.anchor_softness[row])
        if welded and equalities.anchor_torque_scale[row] != 1.0:
            constraint.set("torquescale", number(equalities.anchor_torque_scale[row]))
    for row, name in enumerate(equalities.coupling_names):
        other = model.joint_names[int(model.dof_link[equalities.coupling_other[row]])]
        # MuJoCo measures coordinates from the positions in the file.
        start, followed = (model.q0[model.q_slice(joint)][0] for joint in (name, other))
        ratio, offset = (float(parameters[f"coupling_{key}"][row]) for key in ("ratio", "offset"))
        polynomial = [offset - start + ratio * followed, ratio, 0.0, 0.0, 0.0]
        coupling = ET.SubElement(equality, "joint", joint1=name, joint2=other, polycoef=numbers(polynomial))
        set_softness(coupling, equalities.coupling_softness[row])
    add_tied_lengths(equality, bodies)


def add_actuators(root: ET.Element, model: Model) -> None:
    """Add motors, servos, velocity drives and actuators of other affine laws."""
    actuators = ET.SubElement(root, "actuator")
    for index, name in enumerate(model.actuator_names):
        gear, kp, kd, centre, limit, lower, upper = (
            float(model.parameters[f"actuator_{key}"][index])
            for key in ("gear", "kp", "kd", "force_centre", "force_limit", "control_lower", "control_upper")
        )
        kind = int(model.actuator_kind[index])
        has_state = model.actuator_dynamics[index] != codes.STATELESS
        tag = "general" if has_state else ACTUATOR_TAGS[kind]
        element = ET.SubElement(actuators, tag, name=name, gear=number(gear))
        if model.actuator_tendon[index] >= 0:
            element.set("tendon", model.tendons.names[model.actuator_tendon[index]])
        else:
            element.set("joint", model.joint_names[model.dof_link[model.actuator_dof[index]]])
        if has_state:
            _add_state(element, model, index)
        elif kind == codes.POSITION:
            element.set("kp", number(kp))
        if kind in (codes.POSITION, codes.VELOCITY) and not has_state:
            element.set("kv", number(kd))
        if kind == codes.AFFINE or has_state:
            _add_law(element, model, index)
        if limit == 0.0:
            raise ModelError(f"actuator '{name}': its range of forces is empty, which MuJoCo refuses; leave it out")
        if np.isfinite(limit):
            element.set("forcerange", numbers([centre - limit, centre + limit]))
        if np.isfinite(lower) or np.isfinite(upper):
            element.set("ctrlrange", numbers([max(lower, -MUJOCO_INFINITY), min(upper, MUJOCO_INFINITY)]))


def _add_law(element: ET.Element, model: Model, index: int) -> None:
    """Add the law of an affine actuator: MuJoCo's gain and bias, both linear in length and velocity."""
    gain, offset, kp, kd, kp_per_input, kd_per_input = (
        float(model.parameters[f"actuator_{key}"][index])
        for key in ("gain", "offset", "kp", "kd", "kp_per_input", "kd_per_input")
    )
    gain = {codes.TORQUE: 1.0, codes.POSITION: kp, codes.VELOCITY: kd}.get(int(model.actuator_kind[index]), gain)
    element.set("gaintype", "affine")
    element.set("gainprm", numbers([gain, 0.0 - kp_per_input, 0.0 - kd_per_input]))
    element.set("biastype", "affine")
    element.set("biasprm", numbers([offset, 0.0 - kp, 0.0 - kd]))


def _add_state(element: ET.Element, model: Model, index: int) -> None:
    """Add how the state of an actuator follows its input."""
    lower, upper, time = (
        float(model.parameters[f"actuator_{key}"][index]) for key in ("act_lower", "act_upper", "time_constant")
    )
    names = {code: name for name, code in DYNAMICS_CODES.items()}
    element.set("dyntype", names[int(model.actuator_dynamics[index])])
    element.set("dynprm", numbers([time or 1.0]))
    if model.actuator_early[index]:
        element.set("actearly", "true")
    if np.isfinite(lower) or np.isfinite(upper):
        element.set("actlimited", "true")
        element.set("actrange", numbers([max(lower, -MUJOCO_INFINITY), min(upper, MUJOCO_INFINITY)]))
