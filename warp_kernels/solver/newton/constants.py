"""Constants of Newton's method: tolerances, thresholds and numbers of steps, each with its reason.

"Square" is the square of a residual or of a step: twice its kinetic energy. "At hand" are the squares of what row values are sums of
(:func:`warp_kernels.solver.newton.descent.descent_functions`): no residual can be told from rounding far below them.
"""

from typing import Any

import numpy as np
import warp as wp

# --- Steps on the coupled equations

# A step must leave less than this share of the square of its residual. A step near the solution leaves next to nothing; one that
# leaves more has crossed from one friction regime into another, and half of it, or sweeps, do better.
ENOUGH = 0.5
# A step below this many roundings of what is at hand counts as no step, so that what is left is rounding.
ROUNDINGS = 100.0
# A pivot below this many roundings of its diagonal entry makes the system singular: the step would be rounding.
PIVOT_ROUNDINGS = 10.0
# What sums over some tens of contacts make of one rounding. In float64 less of it, so that central differences of a step don't see
# where the iteration stops.
SUMS = {wp.float32: 8.0, wp.float64: 0.5}
# The share of the friction limit from which a contact counts as sliding: rounding leaves sliding friction just below its limit.
SLIDES_FROM = 0.999

# --- Sweeps of Gauss-Seidel

# Passes before convex rounds, each of which costs up to ROUND systems.
PASSES = 11
# Sweeps come before the first step in a world with more constraints than this, where the square of the residual is above a share
# AFAR of those at hand: with that many, the first guess of which ones act is wrong for some, and the step leads astray.
TANGLE = 64
AFAR = 0.1
# A step after sweeps that leaves a larger share than this of the squares at hand is followed by sweeps again: the sweeps haven't found
# which constraints hold and which slide, so that a step from there would rarely lead on.
NEAR = 0.05
# Passes after which sweeps go on from what the step made of their impulses. Where it has led nowhere, later ones go on from their own.
GUIDED = 1
# The first pass has two sweeps for each constraint, within these bounds. With fewer sweeps a heap needs more systems, which cost more
# than the sweeps save; with more of them a robot on its feet needs no fewer systems.
LEAST_SWEEPS, MOST_SWEEPS = 6, 24
# A later pass has twice as many as the one before it, up to this many for each constraint. Where those don't tell what holds and what
# slides, thousands don't either, and a GPU would wait for the one world in thousands that takes them.
MOST_PER_CONSTRAINT = 8
# One sweep of as many looks at constraints without impulses too: most of those that come near in a heap never touch.
EVERY = 8

# --- Convex rounds

# Steps of a round, after which the coupled equations are tried again: with the bounds of friction held, more precision is wasted.
ROUND = 8
# A round ends earlier once its residual's square is below this share of the coupled one with which it began.
ROUND_SHARE = 1.0e-4
# Rounds before a softer problem: where two don't lead on, the bounds follow the normal impulses in circles.
ROUNDS = 2
# How much softer that is: a power of two, so that it is undone to the last bit.
SOFTER = 8.0
# The exact line search ends where the slope is below this share of that at the beginning: the next step corrects what is left.
SLOPE = 0.1
# Lengths that it tries between its bounds. Every third halves them, so that they close to 1 % even where secants fail.
SEARCHES = 20
# R as a share of the inverse mass under MuJoCo's law, at its stiffest impedance of 0.99: what rounding of values makes of impulses.
STIFFEST = 0.01

# --- Islands

# Divisions of a world after which islands are one with all that is near them, so that there is an end to it.
DIVISIONS = 8
# An island is large if more than one in this many of the trees of its world are in it: then it lists constraints in their own order.
LARGE = 8
# Steps after which an island with a single constraint is solved like any other. One that holds or slides throughout takes one or two.
SINGLE_STEPS = 6

# --- Lane groups

# Systems after which a world is left to the solver for one: until then the other worlds of its group wait for it.
MOST_STEPS = 12


def rounding(scalar: Any) -> float:
    """Return the relative rounding of a precision."""
    return float(np.finfo(wp.dtype_to_numpy(scalar)).eps)


def rounding_square(scalar: Any) -> Any:
    """Return the square of a step, as a share of the squares at hand, below which it is rounding."""
    return scalar((ROUNDINGS * rounding(scalar)) ** 2)
