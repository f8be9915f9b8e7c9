"""Constraints and actuators of an MJCF file."""

import xml.etree.ElementTree as ET

import numpy as np

from sim.errors import ModelError
from sim.exporters.files import number, numbers
from sim.exporters.losses import Losses
from sim.exporters.mjcf.bodies import Bodies, set_softness
from sim.exporters.mjcf.servos import add_integral_law, add_motor, is_motor
from sim.exporters.mjcf.tendons import add_tied_lengths
from sim.model.conventions import MUJOCO_INFINITY
from sim.model.model import Model
from sim.model.poses import IDENTITY
from sim.model.specs import DYNAMICS_CODES
from sim.model.tendons.muscles import MUSCLE_PARAMETERS
from sim.model.topology import NO_LINK
from warp_kernels import types as codes

ACTUATOR_TAGS = {
    codes.TORQUE: "motor", codes.POSITION: "position", codes.VELOCITY: "velocity", codes.AFFINE: "general",
    codes.MUSCLE: "general",
}  # fmt: skip


def add_equalities(root: ET.Element, bodies: Bodies) -> None:
    """Add point and weld constraints between sites, coupled joints and tied tendons."""
    model, equality = bodies.model, ET.SubElement(root, "equality")
    equalities, parameters = model.equalities, model.parameters
    for row, name in enumerate(equalities.anchor_names):
        welded = bool(equalities.anchor_welded[row])
        constraint = ET.SubElement(equality, "weld" if welded else "connect", name=name)
        for k, side in enumerate("ab", start=1):
            link = int(getattr(equalities, f"anchor_link_{side}")[row])
            anchor = parameters[f"anchor_{side}"][row]
            if not welded:  # a point has no orientation
                anchor = np.concatenate([anchor[:3], IDENTITY[3:]])
            point = equalities.anchor_weighed_at[row, k - 1]
            constraint.set(f"site{k}", bodies.weighed_site(f"{name}/{side}", link, anchor, point))
        set_softness(constraint, equalities.anchor_softness[row])
        if welded and equalities.anchor_torque_scale[row] != 1.0:
            constraint.set("torquescale", number(equalities.anchor_torque_scale[row]))
        _set_active(constraint, model, "anchor_active", row)
    for row, name in enumerate(equalities.coupling_names):
        other = model.joint_names[int(model.dof_link[equalities.coupling_other[row]])]
        # MuJoCo measures coordinates from the positions in the file.
        start, followed = (bodies.start[model.q_slice(joint)][0] for joint in (name, other))
        ratio, offset = (float(parameters[f"coupling_{key}"][row]) for key in ("ratio", "offset"))
        polynomial = [offset - start + ratio * followed, ratio, 0.0, 0.0, 0.0]
        coupling = ET.SubElement(equality, "joint", joint1=name, joint2=other, polycoef=numbers(polynomial))
        set_softness(coupling, equalities.coupling_softness[row])
        _set_active(coupling, model, "coupling_active", row)
    add_tied_lengths(equality, bodies)


def _set_active(constraint: ET.Element, model: Model, name: str, row: int) -> None:
    if model.switches and model.parameters[name][row] < 0.5:
        constraint.set("active", "false")


def add_actuators(root: ET.Element, bodies: Bodies, losses: Losses) -> None:
    """Add motors, servos, velocity drives and other actuators with affine laws."""
    model, actuators, lost, motors = bodies.model, ET.SubElement(root, "actuator"), [], []
    for index, name in enumerate(model.actuator_names):
        gear, centre, limit, lower, upper = (
            float(model.parameters[f"actuator_{key}"][index])
            for key in ("gear", "force_centre", "force_limit", "control_lower", "control_upper")
        )
        kind, adheres, motor = int(model.actuator_kind[index]), _is_adhesion(model, index), is_motor(model, index)
        has_state = model.actuator_dynamics[index] != codes.STATELESS
        tag = "dcmotor" if motor else "general" if has_state or adheres else ACTUATOR_TAGS[kind]
        # MuJoCo has no gear there, and an actuator with separate gains can't absorb it.
        factor = gear if adheres and kind == codes.TORQUE else 1.0
        element = ET.Element(tag, name=name, gear=number(gear))
        if not _drive(element, bodies, index) or (adheres and gear != factor):
            lost.append(name)
            continue
        if motor and not add_motor(element, model, index):
            motors.append(name)
            continue
        actuators.append(element)
        if not motor:
            _add_kind(element, model, index, factor)
        if model.delay_samples[index]:
            element.set("nsample", str(int(model.delay_samples[index])))
            element.set("delay", number(float(model.parameters["actuator_delay"][index])))
            element.set("interp", "linear")
        if limit == 0.0:
            raise ModelError(
                f"actuator '{name}': its range of forces is empty, which MuJoCo rejects; set force "
                f"limits or remove the actuator"
            )
        if np.isfinite(limit) and not motor:
            element.set("forcerange", numbers(np.sort(factor * np.array([centre - limit, centre + limit]))))
        if np.isfinite(lower) or np.isfinite(upper):
            element.set("ctrlrange", numbers([max(lower, -MUJOCO_INFINITY), min(upper, MUJOCO_INFINITY)]))
    losses.changes_motion("actuators on links without a separate body, and adhesion actuators with a gear", lost)
    losses.changes_motion("motors with affine laws, other states or uneven force limits", motors)


def _add_kind(element: ET.Element, model: Model, index: int, factor: float) -> None:
    """Add gains and state of an actuator; ``factor`` as for :func:`_add_law`."""
    kind, dynamics = int(model.actuator_kind[index]), int(model.actuator_dynamics[index])
    kp, kd = (float(model.parameters[f"actuator_{key}"][index]) for key in ("kp", "kd"))
    if dynamics != codes.STATELESS:
        _add_state(element, model, index)
    if kind == codes.MUSCLE:
        _add_muscle(element, model, index)
    elif dynamics == codes.PID:
        add_integral_law(element, model, index)
    elif element.tag == "general":
        _add_law(element, model, index, factor)
    else:
        if kind == codes.POSITION:
            element.set("kp", number(kp))
        if kind in (codes.POSITION, codes.VELOCITY):
            element.set("kv", number(kd))


def _drive(element: ET.Element, bodies: Bodies, index: int) -> bool:
    """Add the target of an actuator; return whether the file has that target."""
    model = bodies.model
    if model.actuator_tendon[index] >= 0:
        element.set("tendon", model.tendons.names[model.actuator_tendon[index]])
        return True
    if model.actuator_dof[index] >= 0:
        element.set("joint", model.joint_names[model.dof_link[model.actuator_dof[index]]])
        return True
    found = model.transmissions
    line = int(np.flatnonzero(found.actuator == index)[0])
    links = [int(found.link[line]), int(found.reference_link[line])]
    if any(link >= 0 and link not in bodies.heads for link in links):
        return False
    if links[0] == NO_LINK:
        return _adhere(element, bodies, line)
    for key, name, link, placement in (
        ("site", found.target[line], links[0], found.placement[line]),
        ("refsite", found.reference[line], links[1], found.reference_placement[line]),
    ):
        if link != NO_LINK:
            element.set(key, bodies.site(f"{name}/site" if name in model.link_names else name, link, placement))
    gear = float(model.parameters["actuator_gear"][index])
    axes = [model.parameters[f"actuator_{name}"][index] for name in ("force_axis", "torque_axis")]
    element.set("gear", numbers(gear * np.concatenate(axes)))
    return True


def _is_adhesion(model: Model, index: int) -> bool:
    return index in model.transmissions.actuator[model.transmissions.link == NO_LINK]


def _adhere(element: ET.Element, bodies: Bodies, line: int) -> bool:
    """Add the body of an adhesion actuator. MuJoCo has no gear for it, and all geoms of the body take part."""
    model, found = bodies.model, bodies.model.transmissions
    geometries = np.flatnonzero(found.adheres[line]).tolist()
    held = {k: bodies.body_of(each)[0] for k, each in enumerate(model.geometries) if each.collides}
    body = held[geometries[0]]
    links = {model.geometries[k].link for k in geometries}
    if not links <= set(bodies.heads) or [k for k in held if held[k] is body] != geometries:
        return False
    element.attrib.pop("gear")
    element.set("body", str(body.get("name")))
    return True


def _add_law(element: ET.Element, model: Model, index: int, factor: float) -> None:
    """Add the law of an affine actuator: MuJoCo's gain and bias, both linear in length and velocity.

    ``factor`` multiplies the force of a motor.
    """
    gain, offset, kp, kd, kp_per_input, kd_per_input = (
        float(model.parameters[f"actuator_{key}"][index])
        for key in ("gain", "offset", "kp", "kd", "kp_per_input", "kd_per_input")
    )
    gain = {codes.TORQUE: factor, codes.POSITION: kp, codes.VELOCITY: kd}.get(int(model.actuator_kind[index]), gain)
    element.set("gaintype", "affine")
    element.set("gainprm", numbers([gain, 0.0 - kp_per_input, 0.0 - kd_per_input]))
    element.set("biastype", "affine")
    element.set("biasprm", numbers([offset, 0.0 - kp, 0.0 - kd]))


# Normalised lengths that the range of lengths in the file has.
MUSCLE_RANGE = np.array([0.75, 1.05])


def _add_muscle(element: ET.Element, model: Model, index: int) -> None:
    """Add the active and passive force of a muscle, and the lengths of its path that they refer to."""
    values = {name: float(model.parameters[parameter][index]) for name, parameter in MUSCLE_PARAMETERS.items()}
    force, fibre, slack, *others, scale, shift = values.values()
    element.set("lengthrange", numbers(slack + fibre * MUSCLE_RANGE))
    curves = [*MUSCLE_RANGE, force, 1.0, *others]
    element.set("biastype", "none")
    if values["passive_force"] > 0.0:
        element.set("biastype", "muscle")
        element.set("biasprm", numbers([*(scale * MUSCLE_RANGE + shift), *curves[2:]]))
    else:  # MuJoCo refuses it also where it isn't used
        curves[7] = 1.0
    element.set("gaintype", "muscle")
    element.set("gainprm", numbers(curves))


def _add_state(element: ET.Element, model: Model, index: int) -> None:
    """Add the activation dynamics of an actuator."""
    lower, upper, time = (
        float(model.parameters[f"actuator_{key}"][index]) for key in ("act_lower", "act_upper", "time_constant")
    )
    names = {code: name for name, code in DYNAMICS_CODES.items()}
    element.set("dyntype", names[int(model.actuator_dynamics[index])])
    times = [time or 1.0]
    if model.actuator_dynamics[index] == codes.MUSCLE_FILTER:
        times += [float(model.parameters[f"actuator_{key}"][index]) for key in ("fall_time", "smoothing")]
    elif model.actuator_dynamics[index] == codes.PID:
        limit = float(model.parameters["actuator_integral_limit"][index])
        times = [limit if np.isfinite(limit) else 0.0]
    element.set("dynprm", numbers(times))
    if model.actuator_early[index]:
        element.set("actearly", "true")
    if np.isfinite(lower) or np.isfinite(upper):
        element.set("actlimited", "true")
        element.set("actrange", numbers([max(lower, -MUJOCO_INFINITY), min(upper, MUJOCO_INFINITY)]))
