"""Constraint kinds as data: the source of the rows of each kind, and the set of its impulses.

A kernel knows the kind of a constraint by its number. Code that isn't about one kind alone calls the functions below,
so that solvers need no change for a new kind. C++ includes ``kinds.h``, which has the same numbers and functions.
"""

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import warp as wp

from warp_kernels.cpu.native import WRITTEN


class Bound(Enum):
    """Set of the impulses of a constraint."""

    CONE = "the first at least zero, the others within a multiple of the first"
    ONE_SIDED = "at least zero"
    INTERVAL = "within a bound on both sides"
    UNBOUNDED = "any"
    OF_CONTACT = "within multiples of the normal impulse of its contact"
    PYRAMID = "within the pyramid that it spans with the normal of its contact"


class Family(Enum):
    """Source of a constraint's rows. The functions of a family make them and their adjoint."""

    CONTACT = "the frame of a contact times the velocity between its sides"
    ANCHOR = "the frame of a pair of anchors times the velocity between its sides"
    JOINT = "the degrees of freedom of one joint, or of two that are coupled"
    TENDON = "the Jacobian of a tendon's length"
    PYRAMID = "the normal velocity of a contact, with its spin or its rolling"


@dataclass(frozen=True)
class Kind:
    """Constraint kind.

    Attributes:
        family: source of its rows.
        bound: set of its impulses.
        rows: how many of its three rows are in use, 1 or 3.
        turns: whether the rows of a contact or an anchor are angular velocities.
        own_compliance: whether its compliance is the whole diagonal term, without regularisation of the solver.
        varying_row: whether the rows of a joint or a tendon depend on the state or on parameters.
        second: whether it is the second constraint of its item: the upper limit after the lower one, orientations after
            points, rolling after spinning.
        equality: whether the bound of its interval is infinite.
        damps: whether a positive compliance, that of a damper, is the whole diagonal term.
    """

    family: Family
    bound: Bound
    rows: int = 1
    turns: bool = False
    own_compliance: bool = False
    varying_row: bool = False
    second: bool = False
    equality: bool = False
    damps: bool = False


KINDS: list[Kind] = []


def _add(family: Family, bound: Bound, **attributes: Any) -> int:
    """Return the number of a new kind, see :class:`Kind`."""
    KINDS.append(Kind(family, bound, **attributes))
    return len(KINDS) - 1


CONTACT = _add(Family.CONTACT, Bound.CONE, rows=3)
LOWER_LIMIT = _add(Family.JOINT, Bound.ONE_SIDED)
UPPER_LIMIT = _add(Family.JOINT, Bound.ONE_SIDED, second=True)
# Swing, twist or whole rotation of a spherical joint.
CONE_LIMIT = _add(Family.JOINT, Bound.ONE_SIDED, varying_row=True)
TENDON_LIMIT = _add(Family.TENDON, Bound.ONE_SIDED, varying_row=True)
FRICTION_LOSS = _add(Family.JOINT, Bound.INTERVAL)
# A servo or a motor with a force limit.
ACTUATOR = _add(Family.JOINT, Bound.INTERVAL, own_compliance=True)
# Dry friction of a tendon, or its length coupled to another's; or damping, which alone has a compliance.
TENDON = _add(Family.TENDON, Bound.INTERVAL, varying_row=True, damps=True)
COUPLING = _add(Family.JOINT, Bound.INTERVAL, varying_row=True, equality=True)
POINT = _add(Family.ANCHOR, Bound.UNBOUNDED, rows=3)
ORIENTATION = _add(Family.ANCHOR, Bound.UNBOUNDED, rows=3, turns=True, second=True)
# Spinning and rolling friction of a contact.
TORSION = _add(Family.CONTACT, Bound.OF_CONTACT, rows=3, turns=True)
# Under MuJoCo's pyramidal cones, the normal velocity of a contact with its spin, or with its rolling.
SPIN = _add(Family.PYRAMID, Bound.PYRAMID, rows=3)
ROLL = _add(Family.PYRAMID, Bound.PYRAMID, rows=3, second=True)
# Instead of a kind in the key of an absent constraint (see :mod:`warp_kernels.solver.warm_start`).
NO_KEY = -1


# Conditions for a kind, by the names of the functions below.
_CONDITIONS: dict[str, str] = {}


def _kinds_where(name: str, holds: Callable[[Kind], bool]) -> wp.Function:
    """Return a function of kernels, ``name(kind: int)``, which tells whether a condition holds for a kind."""
    _CONDITIONS[name] = _condition(holds)
    source = f"def {name}(kind: int):\n    return {_CONDITIONS[name]}\n"
    # Warp reads the source of functions from Python's cache of source lines.
    file = f"<{__name__}.{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"__name__": __name__}
    exec(compile(source, file, "exec"), names)
    return wp.func(names[name])


def numbers_of(family: Family) -> list[int]:
    """Return the numbers of the kinds of a family."""
    return [number for number, kind in enumerate(KINDS) if kind.family is family]


def _is_limit(kind: Kind, family: Family) -> bool:
    return kind.family is family and kind.bound is Bound.ONE_SIDED


def _condition(holds: Callable[[Kind], bool]) -> str:
    """Return the condition for a kind, compared with the ends of the ranges of kinds for which it holds."""
    numbers = [number for number, kind in enumerate(KINDS) if holds(kind)]
    ranges = [
        (n, next(m for m in range(n, len(KINDS) + 1) if m not in numbers)) for n in numbers if n - 1 not in numbers
    ]
    return " or ".join(_is_in(*ends) for ends in ranges)


def _is_in(first: int, end: int) -> str:
    """Return the condition for a kind in range(first, end)."""
    if end == first + 1:
        return f"kind == {first}"
    if first == 0:
        return f"kind < {end}"
    return f"kind >= {first}" if end == len(KINDS) else f"(kind >= {first} and kind < {end})"


# The first impulse is at least zero.
is_one_sided = _kinds_where("is_one_sided", lambda kind: kind.bound in (Bound.CONE, Bound.ONE_SIDED))
# The impulse is within a bound on both sides.
is_in_interval = _kinds_where("is_in_interval", lambda kind: kind.bound is Bound.INTERVAL)
# Impulses are unbounded.
is_unbounded = _kinds_where("is_unbounded", lambda kind: kind.bound is Bound.UNBOUNDED)
# The rows are limits of one degree of freedom, or of a tendon.
is_dof_limit = _kinds_where("is_dof_limit", lambda kind: _is_limit(kind, Family.JOINT) and not kind.varying_row)
is_tendon_limit = _kinds_where("is_tendon_limit", lambda kind: _is_limit(kind, Family.TENDON))
# A contact with its friction.
is_contact = _kinds_where("is_contact", lambda kind: kind.bound is Bound.CONE)
# Impulses are bounded by the normal impulse of a contact, which is another constraint.
follows_contact = _kinds_where("follows_contact", lambda kind: kind.bound is Bound.OF_CONTACT)
# Bounds are multiples of the normal impulse of a contact, either the constraint's own or another one.
is_bounded_by_normal = _kinds_where("is_bounded_by_normal", lambda kind: kind.bound in (Bound.CONE, Bound.OF_CONTACT))
# Impulses are in a cone or pyramid around the normal of a contact with friction.
is_in_cone = _kinds_where("is_in_cone", lambda kind: kind.bound in (Bound.CONE, Bound.PYRAMID))
# The second and third row are zero.
has_one_row = _kinds_where("has_one_row", lambda kind: kind.rows == 1)
# The compliance is the whole diagonal term.
has_own_compliance = _kinds_where("has_own_compliance", lambda kind: kind.own_compliance)
is_equality = _kinds_where("is_equality", lambda kind: kind.equality)
damps = _kinds_where("damps", lambda kind: kind.damps)
is_second = _kinds_where("is_second", lambda kind: kind.second)
# The item of a constraint is the slot of a contact.
is_of_contact = _kinds_where("is_of_contact", lambda kind: kind.family in (Family.CONTACT, Family.PYRAMID))
# Rows are a frame times the velocity between two links, which is angular where the kind turns.
is_geometric = _kinds_where("is_geometric", lambda kind: kind.family in (Family.CONTACT, Family.ANCHOR))
is_angular = _kinds_where("is_angular", lambda kind: kind.turns)
# Rows are those of one family.
is_of_contact_frame = _kinds_where("is_of_contact_frame", lambda kind: kind.family is Family.CONTACT)
is_of_anchor = _kinds_where("is_of_anchor", lambda kind: kind.family is Family.ANCHOR)
is_of_joint = _kinds_where("is_of_joint", lambda kind: kind.family is Family.JOINT)
is_of_tendon = _kinds_where("is_of_tendon", lambda kind: kind.family is Family.TENDON)
is_of_pyramid = _kinds_where("is_of_pyramid", lambda kind: kind.family is Family.PYRAMID)
# Both angular rows are about the normal of the contact.
spins = _kinds_where("spins", lambda kind: kind.family is Family.PYRAMID and not kind.second)
# Rows are those of kernels that run only for models with such constraints.
has_own_kernels = _kinds_where("has_own_kernels", lambda kind: kind.family in (Family.TENDON, Family.PYRAMID))
# Rows of a joint or a tendon depend on the state or on parameters.
has_varying_row = _kinds_where("has_varying_row", lambda kind: kind.varying_row)


@wp.func
def pair_index(kind: int, item: int):
    """Return the index of a constraint in arrays with two entries for each item, see ``second`` of :class:`Kind`."""
    index = 2 * item
    if is_second(kind):
        index += 1
    return index


def _header(*functions: str) -> str:
    """Return C++ constants for the numbers of all kinds, and the functions above of these names."""
    names = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)}
    constants = [f"constexpr int {name} = {value};" for name, value in names.items()]
    conditions = {name: _CONDITIONS[name].replace(" or ", " || ").replace(" and ", " && ") for name in functions}
    bodies = [f"constexpr bool {name}(int kind) {{ return {text}; }}" for name, text in conditions.items()]
    index = "constexpr int pair_index(int kind, int item) { return 2 * item + is_second(kind); }"
    return "\n".join(["namespace backswing {", *constants, *bodies, index, "} // namespace backswing", ""])


WRITTEN["kinds.h"] = _header("is_geometric", "is_angular", "is_second")
