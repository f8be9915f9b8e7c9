"""Tendons of a world."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sim.errors import ModelError
from sim.model.builder.aliases import deprecated_keywords
from sim.model.builder.properties import NO_LIMITS, NO_SPRING, TENDON_FIELDS, Limits, Spring, limits_of
from sim.model.checks import is_positive, number, require_names, require_type, two_numbers
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.model.spec_checks import check_name, finite, finite_and_not_negative
from sim.model.specs import Vector, WorldSpec
from sim.model.tendons.tendons import TendonCouplingSpec, TendonSpec, TendonWrap


class Tendons(WorldSpec):
    """Methods of :class:`sim.ModelBuilder` for tendons."""

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
        force_range: tuple[float, float] | None = None,
    ) -> str:
        """Add a tendon whose length is a linear combination of joint coordinates, as MuJoCo's ``fixed``.

        Its spring and damper are explicit, that is, act with the length and velocity at the beginning of a step. Its
        limits and dry friction are constraints, and may act on joints on at most two paths from the root of a tree.

        Args:
            name: unique name.
            joints: coefficients [m/rad or 1] of revolute and prismatic joints by name.
            limits: minimum and maximum length, with margin and softness; or a pair of the two lengths [m].
            spring: spring and damper, with a rest length or a range of rest lengths.
            armature: inertia of the tendon's length, such as of a spinning rotor [kg]. Only for a tendon without wraps
                whose joints are on one path from the root of a tree.
            friction_loss: dry friction [N].
            friction_softness: softness of the dry friction, under MuJoCo's law.
            force_range: range of the sum of the forces of all its actuators, without their gears, as MuJoCo's
                ``actuatorfrcrange`` [N]. If their sum is outside of it, all are multiplied by the same factor, before
                they are clamped to their own limits. Default: none.

        Returns:
            the name of the tendon.

        Raises:
            ModelError: for a duplicate name, no joints, values that are negative or not finite, and properties that
                only joints have.
        """
        where = f"tendon '{name}'"
        require_type(f"{where}: joints", joints, Mapping, "a dictionary from names of joints to coefficients")
        if not joints:
            raise ModelError(f"{where}: give at least one joint")
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
                force_range=_force_range(where, force_range), **_of_spring(where, spring), **_of_limits(where, limits),
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
        force_range: tuple[float, float] | None = None,
    ) -> str:
        """Add a tendon through points of links, straight or around wraps, as MuJoCo's ``spatial``.

        Args:
            name: unique name.
            path: points as pairs of a link, or "world", and a position in it [m]; between two points a
                :class:`sim.TendonWrap` that the tendon wraps around. A number is the divisor of a pulley: a new branch
                of the tendon begins, whose length counts divided by that number.
            limits: this and the others as for :meth:`add_fixed_tendon`.

        Returns:
            the name of the tendon.

        Raises:
            ModelError: as :meth:`add_fixed_tendon`; for fewer than two points in a branch, a wrap that isn't between
                two points, and a divisor or a radius that is not positive.
        """
        where = f"tendon '{name}'"
        return self._add_tendon(
            TendonSpec(
                name=name, coefficients={}, branches=_branches(where, path),
                armature=number(where, "armature", armature),
                friction_loss=number(where, "friction_loss", friction_loss), friction_softness=friction_softness,
                force_range=_force_range(where, force_range), **_of_spring(where, spring), **_of_limits(where, limits),
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
        active: bool | None = None,
    ) -> str:
        """Couple the length of a tendon to that of another, or fix it, as MuJoCo's equality constraint ``tendon``.

        With lengths l relative to their references, l = p0 + p1 l_other + p2 l_other^2 + p3 l_other^3 + p4 l_other^4.

        Args:
            name: unique name among constraints.
            tendon: name of the tendon.
            other: name of the tendon that it follows. Default: none; its length is then fixed at the reference plus p0.
            polynomial: the five coefficients p.
            reference: reference lengths of both [m]. Default: those in the initial configuration.
            softness: softness under MuJoCo's law.
            active: whether it is on at first, as of :meth:`add_weld_constraint`.

        Returns:
            the name of the constraint.

        Raises:
            ModelError: for a duplicate name, an unknown tendon, one that follows itself, and numbers that are not
                finite.
        """
        where = f"constraint '{name}'"
        check_name(name, self.anchors.keys() | self.tendon_couplings.keys(), "constraint")
        require_names(where, tendon=tendon, **({} if other is None else {"other": other}))
        for each in (tendon, other):
            if each is not None and each not in self.tendons:
                raise ModelError(f"{where}: unknown tendon '{each}'; add the tendon first")
        require_type(f"{where}: softness", softness, Softness, "a sim.Softness")
        require_type(f"{where}: active", active, (bool, type(None)), "True, False or None")
        if tendon == other:
            raise ModelError(f"{where}: a tendon can't follow itself")
        if reference is not None:
            first, second = finite(f"{where}: reference", reference, (2,)).tolist()
            reference = (first, second)
        self.tendon_couplings[name] = TendonCouplingSpec(
            name=name, tendon=tendon, other=other, polynomial=finite(f"{where}: polynomial", polynomial, (5,)),
            reference=reference, softness=softness, active=active,
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


def _force_range(where: str, given: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the range of the sum of forces. Raise ModelError unless it is two numbers in ascending order."""
    if given is None:
        return None
    lower, upper = two_numbers(where, "force_range", given)
    if not lower < upper:
        raise ModelError(f"{where}: force_range is {given}; it must be two numbers in ascending order")
    return lower, upper


def _of_spring(where: str, spring: Spring) -> dict[str, Any]:
    """Return spring and damper of a :class:`TendonSpec`."""
    require_type(f"{where}: spring", spring, Spring, "a sim.Spring")
    if isinstance(spring.rest, tuple) and len(spring.rest) > 2:
        raise ModelError(f"{where}: spring.rest is {spring.rest}; a tendon rests at a length, or between two")
    found: dict[str, Any] = {"rest": (spring.rest,) * 2 if isinstance(spring.rest, float) else spring.rest}
    for label, given in (("stiffness", spring.stiffness), ("damping", spring.damping)):
        values = (given,) if isinstance(given, float) else tuple(given)
        first, second, third = (*values, 0.0, 0.0)[:3]
        found |= {label: first, f"{label}_polynomial": (second, third)}
    return found


def _of_limits(where: str, given: Limits | tuple[float, float]) -> dict[str, Any]:
    """Return limits of a :class:`TendonSpec`; raise ModelError for limits that only joints have."""
    limits = limits_of(where, given)
    for label in ("swing", "twist", "rotation", "effort", "velocity", "stiffness", "damping"):
        if getattr(limits, label) != getattr(NO_LIMITS, label):
            raise ModelError(f"{where}: tendons have no limits.{label}; remove it")
    return {
        "lower": limits.lower, "upper": limits.upper, "limit_margin": limits.margin, "limit_softness": limits.softness,
    }  # fmt: skip


def _branches(
    where: str, path: Sequence[tuple[str, Vector] | TendonWrap | float]
) -> list[tuple[float, list[tuple[str, np.ndarray] | TendonWrap]]]:
    """Return the branches between pulleys, each with its divisor."""
    require_type(f"{where}: path", path, Sequence, "a list of points, wraps and pulleys")
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
            raise ModelError(f"{where}: give at least two points in each branch")
        if not (points[0] and points[-1] and all(a or b for a, b in pairwise(points))):
            raise ModelError(f"{where}: a wrap must be between two points of the tendon")
    return branches


def _point(where: str, step: tuple[str, Vector]) -> tuple[str, np.ndarray]:
    return step[0], finite(f"{where}: point in link '{step[0]}'", step[1], (3,))


def _wrap(where: str, wrap: TendonWrap) -> TendonWrap:
    """Return a wrap, checked; raises ModelError."""
    where = f"{where}: wrap on link '{wrap.link}'"
    if not is_positive(wrap.radius):
        raise ModelError(f"{where}: radius is {wrap.radius!r}; it must be positive")
    axis = None if wrap.axis is None else finite(f"{where}: axis", wrap.axis, (3,))
    if axis is not None and not axis.any():
        raise ModelError(f"{where}: axis is zero; give the direction of a cylinder, or None for a sphere")
    return replace(
        wrap, radius=float(wrap.radius), position=finite(f"{where}: position", wrap.position, (3,)), axis=axis,
        side=None if wrap.side is None else _point(where, wrap.side),
    )  # fmt: skip
