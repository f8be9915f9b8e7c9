"""Tangent points of tendons on spheres and cylinders, as differentiable functions of the neighbouring points.

The method is that of :mod:`warp_kernels.solver.tendons.wrapping`, for whole batches: the kind of path is chosen without
gradient, and the closed form for that kind is differentiated.
"""

from dataclasses import dataclass

import torch

TINY = 1e-15
# Bisections and Newton steps of the root search; see root_inside of the kernels.
SEARCH_STEPS = 60
# Kinds of path: straight, around in the two senses, or held from within.
STRAIGHT, FIRST_SENSE, SECOND_SENSE, INSIDE = range(4)


@dataclass(frozen=True)
class Wrapped:
    """Geometries that tendons wrap around, and the neighbouring points, in the world [n, 3] for n states.

    Attributes:
        first, last: the points before and after, from the centre.
        axis: axis of a cylinder; None for a sphere.
        radius: [n].
        side: the point on whose side the tendon passes, from the centre; None for the shorter way.
    """

    first: torch.Tensor
    last: torch.Tensor
    axis: torch.Tensor | None
    radius: torch.Tensor
    side: torch.Tensor | None

    def at(self, chosen: torch.Tensor) -> "Wrapped":
        """Return the entries of some states, a mask [n]."""
        axis, side = (None if each is None else each[chosen] for each in (self.axis, self.side))
        return Wrapped(self.first[chosen], self.last[chosen], axis, self.radius[chosen], side)


def tangent_points(wrapped: Wrapped) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the points where a tendon comes onto and leaves the surface, from the centre [n, 3], and its length there
    [n].

    A straight tendon has both in the middle of its ends.
    """
    with torch.no_grad():
        winding, root = _choose(wrapped)
    on = 0.5 * (wrapped.first + wrapped.last)
    off, arc = on.clone(), torch.zeros_like(on[:, 0])
    for kind in (FIRST_SENSE, SECOND_SENSE, INSIDE):
        chosen = winding == kind
        if chosen.any():
            given = wrapped.at(chosen)
            found = _inside(given, root[chosen]) if kind == INSIDE else _around(given, 3.0 - 2.0 * kind)
            on, off, arc = (whole.index_put((chosen,), part) for whole, part in zip((on, off, arc), found, strict=True))
    return on, off, arc


def _normal(wrapped: Wrapped) -> torch.Tensor:
    """Return the normal of the circle's plane [n, 3], of unit length."""
    if wrapped.axis is not None:
        return torch.nn.functional.normalize(wrapped.axis, dim=-1)
    turned = torch.linalg.cross(wrapped.first, wrapped.last)
    sizes = _dot(wrapped.first, wrapped.first) * _dot(wrapped.last, wrapped.last)
    aligned = (_dot(turned, turned) <= torch.finfo(turned.dtype).eps ** 1.5 * sizes)[:, None]
    other = torch.where(
        (wrapped.first[:, 0].abs() > wrapped.first[:, 1].abs())[:, None],
        wrapped.first.new_tensor([0.0, 1.0, 0.0]), wrapped.first.new_tensor([1.0, 0.0, 0.0]),
    )  # fmt: skip
    across = torch.linalg.cross(wrapped.first, other)
    return torch.nn.functional.normalize(torch.where(aligned, across, turned), dim=-1)


def _flat(point: torch.Tensor, normal: torch.Tensor, wrapped: Wrapped) -> torch.Tensor:
    """Return a point in the plane of the circle."""
    return point if wrapped.axis is None else point - _dot(normal, point)[:, None] * normal


def _choose(wrapped: Wrapped) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose the kind of path [n]; for one held from within also return the sine of its angle to the circle's normal
    [n].
    """
    normal, radius = _normal(wrapped), wrapped.radius
    x = torch.nn.functional.normalize(_flat(wrapped.first, normal, wrapped), dim=-1)
    y = torch.linalg.cross(normal, x)
    first, last = (torch.stack([_dot(x, each), _dot(y, each)], dim=-1) for each in (wrapped.first, wrapped.last))
    usable = torch.minimum(_length(wrapped.first), _length(wrapped.last)) >= TINY
    usable &= _length(first) >= TINY
    root = torch.zeros_like(radius)
    beside = None if wrapped.side is None else torch.stack([_dot(x, wrapped.side), _dot(y, wrapped.side)], dim=-1)
    winding = torch.where(usable, _winding_around(first, last, beside, radius), STRAIGHT)
    if wrapped.side is not None:
        within = _length(wrapped.side) < radius
        held = within & usable & _passes_inside(first, last, radius)
        winding = torch.where(within, torch.where(held, INSIDE, STRAIGHT), winding)
        if held.any():
            between = torch.atan2(last[held, 1], last[held, 0])
            ratios = [radius[held] / _length(each[held]) for each in (first, last)]
            found = _root_inside(ratios[0], ratios[1], between.abs())
            root[held] = torch.where(between < 0.0, -found, found)
    return winding, root


def _winding_around(
    first: torch.Tensor, last: torch.Tensor, side: torch.Tensor | None, radius: torch.Tensor
) -> torch.Tensor:
    apart = last - first
    square = _dot(apart, apart)
    share = (-_dot(apart, first) / square.clamp(min=TINY)).clamp(0.0, 1.0)
    nearest = _length(first + share[:, None] * apart)
    beyond = torch.zeros_like(nearest, dtype=torch.bool)
    turn = _cross(first, last)
    if side is not None:
        beyond = (_cross(side, first) * turn > 0.0) & (_cross(last, side) * turn > 0.0)
    straight = (torch.minimum(_length(first), _length(last)) < radius) | (square < TINY)
    straight |= (nearest > radius) & ~beyond
    winding, best = torch.full_like(radius, STRAIGHT, dtype=torch.long), torch.full_like(radius, -torch.inf)
    for kind in (FIRST_SENSE, SECOND_SENSE):
        sense = 3.0 - 2.0 * kind
        on, off = _tangent_point(first, -sense, radius), _tangent_point(last, sense, radius)
        good = torch.where(beyond, sense * turn, -_dot(on - off, on - off))
        better = (good >= best) & ~_meet(first, on, last, off)
        winding, best = torch.where(better, kind, winding), torch.where(better, good, best)
    return torch.where(straight, STRAIGHT, winding)


def _tangent_point(point: torch.Tensor, sense: float, radius: torch.Tensor) -> torch.Tensor:
    square = _dot(point, point)
    tangent = sense * radius * (square - radius**2).clamp(min=0.0).sqrt()
    turned = torch.stack([-point[:, 1], point[:, 0]], dim=-1)
    return ((radius**2)[:, None] * point + tangent[:, None] * turned) / square.clamp(min=TINY)[:, None]


def _meet(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """Return True where the straight lines from a to b and from c to d intersect."""
    divisor = _cross(b - a, d - c)
    parallel = divisor.abs() < TINY
    divisor = torch.where(parallel, torch.ones_like(divisor), divisor)
    shares = _cross(d - c, a - c) / divisor, _cross(b - a, a - c) / divisor
    within = [(share >= 0.0) & (share <= 1.0) for share in shares]
    return ~parallel & within[0] & within[1]


def _passes_inside(first: torch.Tensor, last: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """Return True where a tendon that is to stay inside is held by the circle."""
    apart = last - first
    square = _dot(apart, apart)
    share = -_dot(apart, first) / square.clamp(min=TINY)
    crosses = (square > TINY) & (share > 0.0) & (share < 1.0) & (_length(first + share[:, None] * apart) <= radius)
    return (torch.minimum(_length(first), _length(last)) > radius) & ~crosses


def _gap(z: torch.Tensor, one: torch.Tensor, other: torch.Tensor, between: torch.Tensor) -> torch.Tensor:
    return torch.asin(one * z) + torch.asin(other * z) - 2.0 * torch.asin(z) + between


def _gap_slope(z: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    first, second, third = ((1.0 - x**2).clamp(min=TINY).sqrt() for x in (one * z, other * z, z))
    return one / first + other / second - 2.0 / third


def _root_inside(one: torch.Tensor, other: torch.Tensor, between: torch.Tensor) -> torch.Tensor:
    low, high = torch.zeros_like(between), torch.ones_like(between)
    z = torch.full_like(between, 1.0 - 1e-7)
    for _ in range(SEARCH_STEPS):
        value = _gap(z, one, other, between)
        low, high = torch.where(value > 0.0, z, low), torch.where(value > 0.0, high, z)
        following = z - value / _gap_slope(z, one, other)
        z = torch.where((following > low) & (following < high), following, 0.5 * (low + high))
    return z


def _around(wrapped: Wrapped, sense: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    normal, radius = _normal(wrapped), wrapped.radius
    flat = [_flat(each, normal, wrapped) for each in (wrapped.first, wrapped.last)]
    on, off = (_touch(each, normal, sign * sense, radius) for each, sign in zip(flat, (-1.0, 1.0), strict=True))
    angle = torch.atan2(-sense * _dot(normal, torch.linalg.cross(on, off)), _dot(on, off))
    arc = radius * torch.where(angle < 0.0, angle + 2.0 * torch.pi, angle)
    return _risen(wrapped, normal, flat, on, off, arc)


def _touch(point: torch.Tensor, normal: torch.Tensor, sense: float, radius: torch.Tensor) -> torch.Tensor:
    square = _dot(point, point)
    tangent = sense * radius * (square - radius**2).clamp(min=TINY).sqrt()
    turned = torch.linalg.cross(normal, point)
    return ((radius**2)[:, None] * point + tangent[:, None] * turned) / square[:, None]


def _inside(wrapped: Wrapped, root: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    normal = _normal(wrapped)
    flat = [_flat(each, normal, wrapped) for each in (wrapped.first, wrapped.last)]
    one, other = (wrapped.radius / _length(each) for each in flat)
    between = torch.atan2(_dot(normal, torch.linalg.cross(flat[0], flat[1])), _dot(flat[0], flat[1]))
    # A Newton step from the root, which has the root's derivative.
    z = root - _gap(root, one, other, between) / _gap_slope(root, one, other)
    angle = torch.asin(z) - torch.asin(one * z)
    turned = torch.linalg.cross(normal, flat[0])
    on = one[:, None] * (angle.cos()[:, None] * flat[0] + angle.sin()[:, None] * turned)
    return _risen(wrapped, normal, flat, on, on, torch.zeros_like(root))


def _risen(
    wrapped: Wrapped, normal: torch.Tensor, flat: list[torch.Tensor], on: torch.Tensor, off: torch.Tensor,
    arc: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Interpolate heights on a cylinder along the path: a straight line once the surface is unrolled."""
    if wrapped.axis is None:
        return on, off, arc
    before, behind = _length(flat[0] - on), _length(flat[1] - off)
    low = _dot(normal, wrapped.first)
    rise = (_dot(normal, wrapped.last) - low) / (before + arc + behind).clamp(min=TINY)
    heights = low + rise * before, low + rise * (before + arc)
    on, off = (point + height[:, None] * normal for point, height in zip((on, off), heights, strict=True))
    return on, off, arc * (1.0 + rise**2).sqrt()


def _dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum(dim=-1)


def _length(a: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(a, dim=-1)


def _cross(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
