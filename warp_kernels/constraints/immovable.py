"""Lower bound on the effective inverse mass of nearly immovable points, which would otherwise be rounding noise.

A force through the axis of a hinge moves nothing. Close to the axis the effective inverse mass W of a row falls with
the square of the lever, and the force that removes a penetration grows with 1 / W. W is therefore at least a share of
the effective inverse mass that the masses there would have apart. Where W is rounding noise the point lies on the axis,
and its row is inactive.

The same holds for a constraint between sides that move alike, such as one that aligns two drawers of a cabinet that
turns: W is the rounding error of their difference.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.kinds import is_angular, is_geometric
from warp_kernels.solver.structs import Constraints

# Share of the effective inverse mass, reached where the lever is about a hundredth of the radius of gyration. Feet of
# light links, whose joints have heavy rotors or stiff servos, reach some thousandths.
LEAST_SHARE = 1e-4
# More than all of it except rounding.
MOST = 1.0 - 1e-5


@functools.cache
def immovable_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. ``least_inverse_mass`` are numbers of the model, which don't follow
    its parameters.
    """
    # Share of the smallest W: levers below 64 units of rounding of the radius of gyration.
    eps = float(np.finfo(wp.dtype_to_numpy(scalar)).eps)
    rounding = scalar((64.0 * eps) ** 2 / LEAST_SHARE)
    # Share of the sum of the squares of both sides, from which W results by cancellation.
    rigid = scalar(64.0 * eps)

    @wp.func
    def least_mobility(
        constraint: int, world: int, least_inverse_mass: wp.array(dtype=scalar), constraints: Constraints
    ):
        """Return the lower bound on W of a constraint; zero where rows aren't velocities of points."""
        total = scalar(0.0)
        kind = constraints.kind[constraint, world]
        if is_geometric(kind) and not is_angular(kind):
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail >= 0:
                    total += least_inverse_mass[tail]
        return total

    @wp.func
    def move_together(mobility: scalar, apart: scalar):
        """Return whether the effective inverse mass of both sides together is rounding noise relative to ``apart``, the
        sum over each side alone.
        """
        return mobility <= rigid * apart

    @wp.func
    def bounded(mobility: scalar, least: scalar):
        """Return W, or a multiple of it, bounded below by ``least``; zero where it is rounding noise."""
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
        """Return whether a W in use is at its lower bound, which has no derivative."""
        least = least_mobility(constraint, world, least_inverse_mass, constraints)
        return least > scalar(0.0) and least >= scalar(MOST) * mobility

    return SimpleNamespace(
        rounding=rounding,
        least_mobility=least_mobility,
        move_together=move_together,
        bounded=bounded,
        is_least=is_least,
    )
