"""Tendons of a world."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sim.errors import ModelError
from sim.model.builder.aliases import deprecated_keywords
from sim.model.builder.properties import NO_LIMITS, NO_SPRING, TENDON_FIELDS, Limits, Spring, limits_of
from sim.model.checks import is_positive, number, require_names, require_type
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.model.spec_checks import check_name, finite, finite_and_not_negative
from sim.model.specs import Vector, WorldSpec
from sim.model.tendons import TendonCouplingSpec, TendonSpec, TendonWrap


class Tendons(WorldSpec):
    """The methods of :class:`sim.ModelBuilder` for tendons."""

    @deprecated_keywords(TENDON_FIELDS)
    def add_fixed_tendon(
        self,
        name: str,
        joints: Mapping[str, float],
        *,
        limits: Limits | tuple[float, float] = NO_LIMITS,
        spring: Spring = NO_SPRING,
        armature: float = 0.0,
        friction_loss: float = 0.0,
        friction_softness: Softness = DEFAULT_SOFTNESS,
    ) -> str:
        """Add a tendon whose length is a sum of joint coordinates with coefficients, as MuJoCo's ``fixed``.

        Its spring and damper act with the length and the velocity at the beginning of a step. Its limits and its dry
        friction are constraints, and may act on joints that lie on at most two paths from the root of a tree.

        Args:
            name: unique name.
            joints: coefficients [m/rad or 1] of revolute and prismatic joints by name.
            limits: least and greatest length, with their margin and softness; or a pair of the two [m].
            spring: spring and damper; it rests at a length or in a range of lengths.
            armature: inertia that the length's velocity sets in motion, such as of a spinning rotor [kg]. Only for a
                tendon whose joints lie on one path from the root of a tree, and that lies around nothing.
            friction_loss: dry friction [N].
            friction_softness: of the dry friction, under MuJoCo's law.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, no joints, values that are negative or not finite, and properties that
                only joints have.
        """
        where = f"tendon '{name}'"
        require_type(f"{where}: joints", joints, Mapping, "a dictionary from names of joints to coefficients")
        if not joints:
            raise ModelError(f"{where}: it needs at least one joint")
        coefficients = {
            joint: number(where, f"the coefficient of joint '{joint}'", coefficient)
            for joint, coefficient in joints.items()
        }
        for joint, coefficient in coefficients.items():
            if not np.isfinite(coefficient):
                raise ModelError(f"{where}: the coefficient of joint '{joint}' is {coefficient}; it must be finite")
        return self._add_tendon(
            TendonSpec(
                name=name, coefficients=coefficients, branches=[], armature=number(where, "armature", armature),
                friction_loss=number(where, "friction_loss", friction_loss), friction_softness=friction_softness,
                **_of_spring(where, spring), **_of_limits(where, limits),
            )
        )  # fmt: skip

    @deprecated_keywords(TENDON_FIELDS)
    def add_spatial_tendon(
        self,
        name: str,
        path: Sequence[tuple[str, Vector] | TendonWrap | float],
        *,
        limits: Limits | tuple[float, float] = NO_LIMITS,
        spring: Spring = NO_SPRING,
        armature: float = 0.0,
        friction_loss: float = 0.0,
        friction_softness: Softness = DEFAULT_SOFTNESS,
    ) -> str:
        """Add a tendon that runs from point to point, straight or around something, as MuJoCo's ``spatial``.

        Args:
            name: unique name.
            path: links, or "world", with points in them [m], and between two of them a :class:`sim.TendonWrap` that the
                tendon lies around. A number is a pulley: the tendon begins anew, and what follows counts in the length
                divided by that number.
            limits: and all others as for :meth:`add_fixed_tendon`.

        Returns:
            the name.

        Raises:
            ModelError: as :meth:`add_fixed_tendon`; for fewer than two points in a row, a wrap that isn't between two
                points, and a divisor or a radius that is not positive.
        """
        where = f"tendon '{name}'"
        return self._add_tendon(
            TendonSpec(
                name=name, coefficients={}, branches=_branches(where, path),
                armature=number(where, "armature", armature),
                friction_loss=number(where, "friction_loss", friction_loss), friction_softness=friction_softness,
                **_of_spring(where, spring), **_of_limits(where, limits),
            )
        )  # fmt: skip

    def add_tendon_coupling(
        self,
        name: str,
        tendon: str,
        other: str | None = None,
        *,
        polynomial: Vector = (0.0, 1.0, 0.0, 0.0, 0.0),
        reference: tuple[float, float] | None = None,
        softness: Softness = DEFAULT_SOFTNESS,
    ) -> str:
        """Tie the length of a tendon to that of another, or hold it, as MuJoCo's equality constraint ``tendon``.

        With lengths l counted from their references, l = p0 + p1 l_other + p2 l_other^2 + p3 l_other^3 + p4 l_other^4.

        Args:
            name: unique name among constraints.
            tendon: name of the tendon.
            other: name of the tendon that it follows; None to hold its length at the reference plus p0.
            polynomial: the five numbers p.
            reference: lengths of both that count as zero [m]; None for those in the initial configuration.
            softness: under MuJoCo's law.

        Returns:
            the name.

        Raises:
            ModelError: for a duplicate name, an unknown tendon, one that follows itself, numbers that are not finite.
        """
        where = f"constraint '{name}'"
        check_name(name, self.anchors.keys() | self.tendon_couplings.keys(), "constraint")
        require_names(where, tendon=tendon, **({} if other is None else {"other": other}))
        for each in (tendon, other):
            if each is not None and each not in self.tendons:
                raise ModelError(f"{where}: unknown tendon '{each}'; add the tendon first")
        require_type(f"{where}: softness", softness, Softness, "a sim.Softness")
        if tendon == other:
            raise ModelError(f"{where}: a tendon can't follow itself")
        if reference is not None:
            first, second = finite(f"{where}: reference", reference, (2,)).tolist()
            reference = (first, second)
        self.tendon_couplings[name] = TendonCouplingSpec(
            name=name, tendon=tendon, other=other, polynomial=finite(f"{where}: polynomial", polynomial, (5,)),
            reference=reference, softness=softness,
        )  # fmt: skip
        return name

    def _add_tendon(self, spec: TendonSpec) -> str:
        where = f"tendon '{spec.name}'"
        check_name(spec.name, self.tendons, "tendon")
        require_type(f"{where}: friction_softness", spec.friction_softness, Softness, "a sim.Softness")
        for label in ("armature", "friction_loss"):
            finite_and_not_negative(where, label, getattr(spec, label))
        self.tendons[spec.name] = spec
        return spec.name


def _of_spring(where: str, spring: Spring) -> dict[str, Any]:
    """Spring and damper of a :class:`TendonSpec`."""
    require_type(f"{where}: spring", spring, Spring, "a sim.Spring")
    found: dict[str, Any] = {"rest": (spring.rest,) * 2 if isinstance(spring.rest, float) else spring.rest}
    for label, given in (("stiffness", spring.stiffness), ("damping", spring.damping)):
        values = (given,) if isinstance(given, float) else tuple(given)
        first, second, third = (*values, 0.0, 0.0)[:3]
        found |= {label: first, f"{label}_polynomial": (second, third)}
    return found


def _of_limits(where: str, given: Limits | tuple[float, float]) -> dict[str, Any]:
    """Limits of a :class:`TendonSpec`; raises ModelError for those that only joints have."""
    limits = limits_of(where, given)
    for label in ("swing", "twist", "rotation", "effort", "velocity", "stiffness", "damping"):
        if getattr(limits, label) != getattr(NO_LIMITS, label):
            raise ModelError(f"{where}: limits.{label} is for joints; a tendon has none, leave it out")
    return {
        "lower": limits.lower, "upper": limits.upper, "limit_margin": limits.margin, "limit_softness": limits.softness,
    }  # fmt: skip


def _branches(
    where: str, path: Sequence[tuple[str, Vector] | TendonWrap | float]
) -> list[tuple[float, list[tuple[str, np.ndarray] | TendonWrap]]]:
    """What lies between pulleys, each with its divisor."""
    require_type(f"{where}: path", path, Sequence, "a list of points, what lies between them, and pulleys")
    branches: list[tuple[float, list[tuple[str, np.ndarray] | TendonWrap]]] = [(1.0, [])]
    for step in path:
        if isinstance(step, TendonWrap):
            branches[-1][1].append(_wrap(where, step))
        elif isinstance(step, tuple):
            branches[-1][1].append(_point(where, step))
        elif is_positive(step):
            branches.append((float(step), []))
        else:
            raise ModelError(f"{where}: a pulley's divisor is {step!r}; it must be positive")
    if branches and not branches[0][1] and len(branches) > 1:
        branches.pop(0)  # it begins with a pulley
    for _, steps in branches:
        points = [isinstance(step, tuple) for step in steps]
        if sum(points) < 2:
            raise ModelError(f"{where}: it needs at least two points in a row")
        if not (points[0] and points[-1] and all(a or b for a, b in pairwise(points))):
            raise ModelError(f"{where}: what it lies around must stand between two of its points")
    return branches


def _point(where: str, step: tuple[str, Vector]) -> tuple[str, np.ndarray]:
    return step[0], finite(f"{where}: point in link '{step[0]}'", step[1], (3,))


def _wrap(where: str, wrap: TendonWrap) -> TendonWrap:
    """It, checked; raises ModelError."""
    where = f"{where}: what it lies around on link '{wrap.link}'"
    if not is_positive(wrap.radius):
        raise ModelError(f"{where}: radius is {wrap.radius!r}; it must be positive")
    axis = None if wrap.axis is None else finite(f"{where}: axis", wrap.axis, (3,))
    if axis is not None and not axis.any():
        raise ModelError(f"{where}: axis is zero; give the direction of a cylinder, or None for a sphere")
    return replace(
        wrap, radius=float(wrap.radius), position=finite(f"{where}: position", wrap.position, (3,)), axis=axis,
        side=None if wrap.side is None else _point(where, wrap.side),
    )  # fmt: skip
