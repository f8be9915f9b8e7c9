"""Tendons of an MJCF file, and constraints that tie their lengths."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
from numpy.polynomial import Polynomial

from sim.dynamics.tendons import tendon_lengths
from sim.exporters.losses import Losses
from sim.exporters.mjcf.bodies import Bodies
from sim.exporters.mjcf.softness import set_softness
from sim.exporters.text import number, numbers
from sim.model.conventions import MUJOCO_INFINITY
from sim.model.poses import IDENTITY

# What MuJoCo takes for the length in the initial configuration.
AUTOMATIC = -1.0


def add_tendons(root: ET.Element, bodies: Bodies, losses: Losses) -> None:
    """Add fixed tendons, and spatial ones through sites of their own."""
    model, section = bodies.model, ET.SubElement(root, "tendon")
    tendons = model.tendons
    for tendon, name in enumerate(tendons.names):
        terms, segments = tendons.terms(tendon), tendons.segments(tendon)
        element = ET.SubElement(section, "fixed" if len(terms) else "spatial", name=name)
        _add_properties(element, bodies, tendon, losses)
        for term in terms:
            joint = model.joint_names[model.dof_link[tendons.term_dof[term]]]
            coefficient = number(model.parameters["tendon_coefficient"][term])
            ET.SubElement(element, "joint", joint=joint, coef=coefficient)
        before, share = -1, 1.0
        for segment in segments:
            at = int(tendons.segment_point[segment])
            if at != before:
                if before >= 0 or tendons.segment_share[segment] != share:
                    share = float(tendons.segment_share[segment])
                    ET.SubElement(element, "pulley", divisor=number(1.0 / share))
                _add_point(element, bodies, name, at)
            _add_point(element, bodies, name, at + 1)
            before = at + 1


def add_tied_lengths(equality: ET.Element, bodies: Bodies) -> None:
    """Add constraints between tendons. MuJoCo counts lengths from those in the file's initial configuration."""
    model, tendons = bodies.model, bodies.model.tendons
    lengths = tendon_lengths(replace(model, dtype="float64"), model.q0)
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


def _add_point(element: ET.Element, bodies: Bodies, tendon: str, point: int) -> None:
    link = int(bodies.model.tendons.point_link[point])
    placement = np.concatenate([bodies.model.parameters["tendon_point"][point], IDENTITY[3:]])
    ET.SubElement(element, "site", site=bodies.site(f"{tendon}/{point}", link, placement))


def _add_properties(element: ET.Element, bodies: Bodies, tendon: int, losses: Losses) -> None:
    model = bodies.model
    stiffness, damping, lowest, highest, loss, lower, upper, margin = (
        float(model.parameters[f"tendon_{key}"][tendon])
        for key in (
            "stiffness", "damping", "rest_lower", "rest_upper", "friction_loss", "lower_limit", "upper_limit",
            "limit_margin",
        )
    )  # fmt: skip
    for key, value in (("stiffness", stiffness), ("damping", damping), ("frictionloss", loss), ("margin", margin)):
        if value:
            element.set(key, number(value))
    if lowest == highest == AUTOMATIC:
        highest = float(np.nextafter(highest, 0.0))
    element.set("springlength", numbers([lowest, highest]))
    if lower == upper:
        losses.changes_motion("tendons whose limits leave no range", [model.tendons.names[tendon]])
    elif np.isfinite([lower, upper]).any():
        element.set("range", numbers([max(lower, -MUJOCO_INFINITY), min(upper, MUJOCO_INFINITY)]))
    set_softness(element, model.tendons.limit_softness[tendon], "limit")
    set_softness(element, model.tendons.friction_softness[tendon], "friction")
