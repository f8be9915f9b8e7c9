"""Rows of points that joints hardly move: what they are solved with is no inverse mass of rounding.

A force through the axis of a hinge moves nothing. Beside it the inverse mass W of a row falls with the square of the lever, and the force
that removes an overlap grows with 1 / W. Here W is no less than a share of what the masses that meet there would have apart. Where it is
rounding the point lies on the axis, and bears nothing.

Nor does a constraint between sides that move alike, such as one that holds the orientations of two drawers of a cabinet that turns: W is what
rounding leaves of their difference.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.kinds import is_angular, is_geometric
from warp_kernels.solver.structs import Constraints

# Of the inverse masses: reached where the lever is about a hundredth of the radius of gyration. Feet of light links, whose joints have
# heavy rotors or stiff servos, come to some thousandths.
LEAST_SHARE = 1e-4
# More than all of it but rounding.
MOST = 1.0 - 1e-5


@functools.cache
def immovable_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions for one precision. ``least_inverse_mass`` are numbers of the model, which don't follow its parameters."""
    # Of the least W: levers below 64 units of rounding of the radius of gyration.
    eps = float(np.finfo(wp.dtype_to_numpy(scalar)).eps)
    rounding = scalar((64.0 * eps) ** 2 / LEAST_SHARE)
    # Of the sum of the squares of both sides, from which W comes by cancellation.
    alike = scalar(64.0 * eps)

    @wp.func
    def least_mobility(
        constraint: int, world: int, least_inverse_mass: wp.array(dtype=scalar), constraints: Constraints
    ):
        """The least W of a constraint; zero where rows aren't velocities of points."""
        total = scalar(0.0)
        kind = constraints.kind[constraint, world]
        if is_geometric(kind) and not is_angular(kind):
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail >= 0:
                    total += least_inverse_mass[tail]
        return total

    @wp.func
    def move_alike(mobility: scalar, apart: scalar):
        """Whether the inverse mass of both sides of a constraint together is rounding beside the sum of what each has alone, ``apart``."""
        return mobility <= alike * apart

    @wp.func
    def bounded(mobility: scalar, least: scalar):
        """W, or a multiple of it, that is no less than ``least``; zero where it is rounding."""
        if mobility <= rounding * least:
            return scalar(0.0)
        return wp.max(mobility, least)

    @wp.func
    def is_least(
        mobility: scalar,
        constraint: int,
        world: int,
        least_inverse_mass: wp.array(dtype=scalar),
        constraints: Constraints,
    ):
        """Whether a W that is in use is the least, which has no derivative."""
        least = least_mobility(constraint, world, least_inverse_mass, constraints)
        return least > scalar(0.0) and least >= scalar(MOST) * mobility

    return SimpleNamespace(
        rounding=rounding, least_mobility=least_mobility, move_alike=move_alike, bounded=bounded, is_least=is_least
    )
