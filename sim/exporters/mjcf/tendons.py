"""Tendons of an MJCF file, and constraints that couple their lengths."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
from numpy.polynomial import Polynomial
from scipy.spatial.transform import Rotation

from sim.dynamics.kinematics import tendon_lengths
from sim.exporters.files import number, numbers, wxyz
from sim.exporters.losses import Losses
from sim.exporters.mjcf.bodies import Bodies, set_softness
from sim.model.conventions import MUJOCO_INFINITY
from sim.model.poses import IDENTITY
from sim.model.tendons.tendons import ANY_SIDE

# Value that makes MuJoCo use the length in the initial configuration
AUTOMATIC = -1.0
# Group of the geoms that tendons wrap around, which MuJoCo's viewer hides by default
WRAP_GROUP = "4"


def add_tendons(root: ET.Element, bodies: Bodies, losses: Losses) -> None:
    """Add fixed tendons, and spatial ones through new sites."""
    model, parameters, section = bodies.model, bodies.model.parameters, ET.SubElement(root, "tendon")
    tendons = model.tendons
    for tendon, name in enumerate(tendons.names):
        terms = tendons.terms(tendon)
        element = ET.SubElement(section, "fixed" if len(terms) else "spatial", name=name)
        _add_properties(element, bodies, tendon, losses)
        for term in terms:
            joint = model.joint_names[model.dof_link[tendons.term_dof[term]]]
            coefficient = number(parameters["tendon_coefficient"][term])
            ET.SubElement(element, "joint", joint=joint, coef=coefficient)
        for kind, value in tendons.path(tendon):
            if kind == "pulley":
                ET.SubElement(element, "pulley", divisor=number(value))
            elif kind == "point":
                point = int(value)
                link, position = int(tendons.point_link[point]), parameters["tendon_point"][point]
                ET.SubElement(element, "site", site=_site(bodies, f"{name}/{point}", link, position))
            else:
                _add_wrap(element, bodies, name, int(value))


def add_tied_lengths(equality: ET.Element, bodies: Bodies) -> None:
    """Add constraints between tendons. MuJoCo counts lengths from those in the file's initial configuration."""
    model, tendons = bodies.model, bodies.model.tendons
    lengths = tendon_lengths(replace(model, dtype="float64"), bodies.start)
    for row, name in enumerate(tendons.coupling_names):
        tendon, other = int(tendons.coupling_tendon[row]), int(tendons.coupling_other[row])
        polynomial = Polynomial(model.parameters["tendon_polynomial"][row])
        first, second = tendons.coupling_reference[row].tolist()
        if other >= 0:
            polynomial = polynomial(Polynomial([lengths[other] - second, 1.0]))
        coefficients = np.zeros(5)
        coefficients[: len(polynomial.coef)] = polynomial.coef
        coefficients[0] += first - lengths[tendon]
        element = ET.SubElement(equality, "tendon", name=name, tendon1=tendons.names[tendon])
        if other >= 0:
            element.set("tendon2", tendons.names[other])
        element.set("polycoef", numbers(coefficients))
        set_softness(element, tendons.coupling_softness[row])
        if model.switches and model.parameters["tendon_coupling_active"][row] < 0.5:
            element.set("active", "false")


def _site(bodies: Bodies, name: str, link: int, point: np.ndarray) -> str:
    return bodies.site(name, link, np.concatenate([point, IDENTITY[3:]]))


def _add_wrap(element: ET.Element, bodies: Bodies, name: str, wrap: int) -> None:
    """Add a massless geom that doesn't collide, and the site of its side."""
    tendons, parameters = bodies.model.tendons, bodies.model.parameters
    axis, centre = parameters["tendon_wrap_axis"][wrap], parameters["tendon_wrap_centre"][wrap]
    cylinder = bool(tendons.wrap_is_cylinder[wrap])
    turn = Rotation.align_vectors(axis, [0.0, 0.0, 1.0])[0] if cylinder else Rotation.identity()
    radius = float(parameters["tendon_wrap_radius"][wrap])
    ET.SubElement(
        bodies.elements[int(tendons.wrap_link[wrap])], "geom", name=f"{name}/wrap_{wrap}",
        type="cylinder" if cylinder else "sphere", size=numbers([radius, radius] if cylinder else [radius]),
        pos=numbers(centre), quat=wxyz(turn.as_quat()),
        mass="0", contype="0", conaffinity="0", group=WRAP_GROUP,
    )  # fmt: skip
    around = ET.SubElement(element, "geom", geom=f"{name}/wrap_{wrap}")
    side_link = int(tendons.wrap_side_link[wrap])
    if side_link != ANY_SIDE:
        around.set("sidesite", _site(bodies, f"{name}/side_{wrap}", side_link, tendons.wrap_side[wrap]))


def _add_properties(element: ET.Element, bodies: Bodies, tendon: int, losses: Losses) -> None:
    model = bodies.model
    stiffness, damping, armature, lowest, highest, loss, lower, upper, margin = (
        float(model.parameters[f"tendon_{key}"][tendon])
        for key in (
            "stiffness", "damping", "armature", "rest_lower", "rest_upper", "friction_loss", "lower_limit",
            "upper_limit", "limit_margin",
        )
    )  # fmt: skip
    given = {"armature": armature, "frictionloss": loss, "margin": margin}
    for key, value in given.items():
        if value:
            element.set(key, number(value))
    for key, linear in (("stiffness", stiffness), ("damping", damping)):
        further = model.parameters[f"tendon_{key}_polynomial"][tendon]
        if linear or further.any():
            element.set(key, numbers([linear, *further]) if further.any() else number(linear))
    if lowest == highest == AUTOMATIC:
        highest = float(np.nextafter(highest, 0.0))
    element.set("springlength", numbers([lowest, highest]))
    if lower == upper:
        losses.changes_motion("tendons with an empty range of limits", [model.tendons.names[tendon]])
    elif np.isfinite([lower, upper]).any():
        element.set("range", numbers([max(lower, -MUJOCO_INFINITY), min(upper, MUJOCO_INFINITY)]))
    if "tendon_force_lower" in model.parameters:
        least, most = (float(model.parameters[f"tendon_force_{side}"][tendon]) for side in ("lower", "upper"))
        if np.isfinite([least, most]).any():
            bounds = [max(least, -MUJOCO_INFINITY), min(most, MUJOCO_INFINITY)]
            element.set("actuatorfrcrange", numbers(bounds))
    set_softness(element, model.tendons.limit_softness[tendon], "limit")
    set_softness(element, model.tendons.friction_softness[tendon], "friction")
