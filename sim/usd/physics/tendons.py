"""Tendons of a model and their length couplings as annotations of a stage, since UsdPhysics has none."""

from collections.abc import Iterator

import numpy as np
from pxr import Usd

from sim.model.model import Model
from sim.model.softness import Softness
from sim.model.specs import WORLD
from sim.model.tendons.tendons import ANY_SIDE, TendonCouplingSpec, TendonSpec, TendonWrap
from sim.usd.annotations import keep, keep_softness, keep_texts, kept, kept_rows, kept_softness, kept_switch, kept_texts

# Numbers of one waypoint of a path: kind, position, axis, radius or divisor, and side point.
POINT, PULLEY, SPHERE, CYLINDER = range(4)
STEP = 11
PROPERTIES = ("stiffness", "damping", "rest_lower", "rest_upper", "friction_loss", "limit_margin")
POLYNOMIALS = ("stiffness_polynomial", "damping_polynomial")
LIMITS, FORCES = ("lower_limit", "upper_limit"), ("force_lower", "force_upper")
SOFTNESSES = ("limit", "friction")


def keep_tendons(prim: Usd.Prim, model: Model) -> None:
    """Store the tendons of a model and their length couplings at a prim."""
    tendons, parameters = model.tendons, model.parameters
    for number, name in enumerate(tendons.names):
        label, terms = f"tendon_{number}", tendons.terms(number)
        keep(prim, f"{label}:properties", [parameters[f"tendon_{key}"][number] for key in PROPERTIES])
        for key in POLYNOMIALS:
            if parameters[f"tendon_{key}"][number].any():
                keep(prim, f"{label}:{key}", parameters[f"tendon_{key}"][number])
        if parameters["tendon_armature"][number]:
            keep(prim, f"{label}:armature", parameters["tendon_armature"][number])
        for key in (*LIMITS, *(FORCES if "tendon_force_lower" in parameters else ())):
            if np.isfinite(parameters[f"tendon_{key}"][number]):
                keep(prim, f"{label}:{key}", parameters[f"tendon_{key}"][number])
        for kind, softnesses in zip(SOFTNESSES, (tendons.limit_softness, tendons.friction_softness), strict=True):
            keep_softness(prim, f"{label}:{kind}_softness", softnesses[number])
        if len(terms):
            joints = [model.joint_names[model.dof_link[tendons.term_dof[term]]] for term in terms]
            keep_texts(prim, label, [name, *joints])
            keep(prim, f"{label}:coefficients", [parameters["tendon_coefficient"][term] for term in terms])
        else:
            steps = [_step(model, kind, value) for kind, value in tendons.path(number)]
            keep_texts(prim, label, [name, *(text for texts, _ in steps for text in texts)])
            keep(prim, f"{label}:path", [numbers for _, numbers in steps])
    for number, name in enumerate(tendons.coupling_names):
        label, other = f"tied_tendon_{number}", int(tendons.coupling_other[number])
        followed = tendons.names[other] if other >= 0 else ""
        keep_texts(prim, label, [name, tendons.names[tendons.coupling_tendon[number]], followed])
        keep(prim, f"{label}:polynomial", parameters["tendon_polynomial"][number])
        keep(prim, f"{label}:reference", tendons.coupling_reference[number])
        keep_softness(prim, f"{label}:softness", tendons.coupling_softness[number])
        if model.switches:
            keep(prim, f"{label}:active", parameters["tendon_coupling_active"][number])


def kept_tendons(prim: Usd.Prim) -> Iterator[TendonSpec]:
    """Return the tendons stored at a prim.

    Raises:
        ModelError: for invalid solref or solimp numbers.
    """
    number = 0
    while len(texts := kept_texts(prim, f"tendon_{number}")) >= 2:
        label = f"tendon_{number}"
        properties = kept(prim, f"{label}:properties", len(PROPERTIES))
        coefficients, steps = (
            kept(prim, f"{label}:coefficients", len(texts) - 1),
            kept_rows(prim, f"{label}:path", STEP),
        )
        if properties is None or (coefficients is None and len(texts) != 1 + 2 * len(steps)):
            return  # not written by Backswing
        stiffness, damping, *rest, friction_loss, margin = properties.tolist()
        lower, upper = (kept(prim, f"{label}:{key}", 1) for key in LIMITS)
        armature = kept(prim, f"{label}:armature", 1)
        curve, growth = (kept(prim, f"{label}:{key}", 2) for key in POLYNOMIALS)
        limit, friction = (kept_softness(prim, f"{label}:{kind}_softness") for kind in SOFTNESSES)
        terms = {} if coefficients is None else dict(zip(texts[1:], coefficients.tolist(), strict=True))
        yield TendonSpec(
            name=texts[0], coefficients=terms, branches=[] if terms else _branches(texts[1:], steps),
            stiffness=stiffness, damping=damping, stiffness_polynomial=_pair(curve), damping_polynomial=_pair(growth),
            armature=0.0 if armature is None else float(armature[0]),
            rest=(rest[0], rest[1]), friction_loss=friction_loss,
            lower=-np.inf if lower is None else float(lower[0]), upper=np.inf if upper is None else float(upper[0]),
            limit_margin=margin, limit_softness=limit, friction_softness=friction,
            force_range=_force_range(prim, label),
        )  # fmt: skip
        number += 1


def kept_ties(prim: Usd.Prim) -> Iterator[TendonCouplingSpec]:
    """Return the couplings of tendon lengths stored at a prim. Raise as :func:`kept_tendons`."""
    number = 0
    while len(texts := kept_texts(prim, f"tied_tendon_{number}")) == 3:
        label = f"tied_tendon_{number}"
        polynomial, reference = kept(prim, f"{label}:polynomial", 5), kept(prim, f"{label}:reference", 2)
        if polynomial is None or reference is None:
            return  # not written by Backswing
        name, tendon, other = texts
        softness: Softness = kept_softness(prim, f"{label}:softness")
        first, second = reference.tolist()
        yield TendonCouplingSpec(
            name=name, tendon=tendon, other=other or None, polynomial=polynomial, reference=(first, second),
            softness=softness, active=kept_switch(prim, f"{label}:active"),
        )  # fmt: skip
        number += 1


def _force_range(prim: Usd.Prim, label: str) -> tuple[float, float] | None:
    """Return the range of the sum of forces stored under a label."""
    lower, upper = (kept(prim, f"{label}:{key}", 1) for key in FORCES)
    if lower is None and upper is None:
        return None
    return -np.inf if lower is None else float(lower[0]), np.inf if upper is None else float(upper[0])


def _pair(kept_numbers: np.ndarray | None) -> tuple[float, float]:
    """Return two stored numbers, or zeros if missing."""
    first, second = (0.0, 0.0) if kept_numbers is None else kept_numbers.tolist()
    return first, second


def _step(model: Model, kind: str, value: int | float) -> tuple[list[str], np.ndarray]:
    """Return the names of the link and of the side's link (empty for none) and the numbers of a waypoint."""
    tendons, parameters = model.tendons, model.parameters
    numbers = np.zeros(STEP)

    def name(link: int) -> str:
        return model.link_names[link] if link >= 0 else WORLD

    if kind == "pulley":
        numbers[0], numbers[7] = PULLEY, value
        return ["", ""], numbers
    item = int(value)
    if kind == "point":
        numbers[0], numbers[1:4] = POINT, parameters["tendon_point"][item]
        return [name(int(tendons.point_link[item])), ""], numbers
    numbers[0] = CYLINDER if tendons.wrap_is_cylinder[item] else SPHERE
    numbers[1:4], numbers[4:7] = parameters["tendon_wrap_centre"][item], parameters["tendon_wrap_axis"][item]
    numbers[7], numbers[8:] = parameters["tendon_wrap_radius"][item], tendons.wrap_side[item]
    side = int(tendons.wrap_side_link[item])
    return [name(int(tendons.wrap_link[item])), "" if side == ANY_SIDE else name(side)], numbers


def _branches(
    texts: tuple[str, ...], steps: np.ndarray
) -> list[tuple[float, list[tuple[str, np.ndarray] | TendonWrap]]]:
    """Return the branches as in :attr:`sim.model.tendons.tendons.TendonSpec.branches`."""
    branches: list[tuple[float, list[tuple[str, np.ndarray] | TendonWrap]]] = [(1.0, [])]
    for link, beside, (kind, *numbers) in zip(texts[::2], texts[1::2], steps.tolist(), strict=True):
        point, axis, size, side = numbers[:3], numbers[3:6], numbers[6], numbers[7:]
        if kind == PULLEY:
            branches.append((size, []))
        elif kind == POINT:
            branches[-1][1].append((link, np.array(point)))
        else:
            branches[-1][1].append(
                TendonWrap(
                    link=link, radius=size, position=point, axis=axis if kind == CYLINDER else None,
                    side=(beside, side) if beside else None,
                )
            )  # fmt: skip
    return [branch for branch in branches if branch[1]]
