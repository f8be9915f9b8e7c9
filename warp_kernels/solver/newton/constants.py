"""Constants of Newton's method: tolerances, thresholds and step counts, each with its reason.

"Square" is the square of a residual or of a step: twice its kinetic energy. The "magnitude" is the sum of
the squares of the terms of row values (:func:`warp_kernels.solver.newton.descent.descent_functions`): a residual far
below it can't be told from rounding.
"""

from typing import Any

import numpy as np
import warp as wp

# --- Steps on the coupled equations

# A step must reduce the square of its residual below this share. A step near the solution leaves almost nothing; one
# that leaves more has crossed from one friction regime into another, and half of it, or sweeps, do better.
ENOUGH = 0.5
# A step below this many roundings of the magnitude counts as no step, so that the residual is rounding.
ROUNDINGS = 100.0
# A pivot below this many roundings of its diagonal entry makes the system singular: the step would be rounding.
PIVOT_ROUNDINGS = 10.0
# Rounding of sums over some tens of contacts, in units of one rounding. Smaller in float64, so that central differences
# of a step don't see the stopping criterion.
SUMS = {wp.float32: 8.0, wp.float64: 0.5}
# Rounding of a residual's own sums, in units of one rounding of the momenta in it.
MOMENTUM_SUMS = 8.0
# The share of the friction limit from which a contact counts as sliding: rounding leaves sliding friction just below
# its limit.
SLIDES_FROM = 0.999

# --- Sweeps of Gauss-Seidel

# Passes before convex rounds, each of which costs up to ROUND systems.
PASSES = 11
# Sweeps precede the first step in a world with more constraints than this, if the square of the residual exceeds a
# share AFAR of the magnitude: with that many, the initial active set is partly wrong, and the step leads astray.
TANGLE = 16
AFAR = 0.1
# Sweeps also precede the first step from the impulses of the previous time step if these leave more than this share of
# the residual without impulses: then constraints have become active or inactive, or slide that stuck.
RECALLED_SHARE = 0.1
# A step after sweeps that leaves a larger share than this of the magnitude is followed by sweeps again: the sweeps
# haven't found the sticking and sliding constraints, so that a step from there would rarely make progress.
NEAR = 0.05
# Passes after which sweeps continue from the impulses of the step. If that made no progress, later ones continue from
# their own.
GUIDED = 1
# The first pass has two sweeps for each constraint, within these bounds. With fewer sweeps a heap needs more systems,
# which cost more than the sweeps save; more sweeps don't save a standing robot any systems.
LEAST_SWEEPS, MOST_SWEEPS = 6, 24
# A later pass has twice as many as the one before it, up to this many for each constraint. If those don't separate
# sticking from sliding, thousands don't either, and a GPU would wait for the one world in thousands that takes them.
MOST_PER_CONSTRAINT = 8
# One sweep in this many includes constraints without impulses: most candidate contacts of a heap never touch.
EVERY = 8

# --- Convex rounds

# Steps of a round, after which the coupled equations are tried again: with fixed friction bounds, more precision is
# wasted.
ROUND = 8
# A round ends earlier once its residual's square is below this share of the coupled one with which it began.
ROUND_SHARE = 1.0e-4
# Rounds before a softer problem: if two make no progress, the bounds cycle with the normal impulses.
ROUNDS = 2
# Factor of that softer problem: a power of two, so that it is undone to the last bit.
SOFTER = 8.0
# The exact line search ends once the slope is below this share of the initial slope: the next step corrects the rest.
SLOPE = 0.1
# Step lengths that it tries between its bounds. Every third bisects them, so that they close to 1 % even if secants
# fail.
SEARCHES = 20
# R as a share of the effective inverse mass under MuJoCo's law, at its stiffest impedance of 0.99: error of impulses
# per rounding of values.
STIFFEST = 0.01

# --- Islands

# In a world with more constraints than this that is far from its solution, bodies near each other form an island: they
# would press on each other in the end. With fewer, islands that merge cost less.
CROWD = 64
# Divisions of a world after which islands merge with everything near them, so that the iteration ends.
DIVISIONS = 8
# An island is large if more than one in this many of the trees of its world are in it: then it lists constraints in
# their own order.
LARGE = 8
# Steps after which an island with a single constraint is solved like any other. One that sticks or slides throughout
# takes one or two.
SINGLE_STEPS = 6

# --- Lane groups

# Systems after which a world is left to the solver for one: until then the other worlds of its group wait for it.
MOST_STEPS = 12


def rounding(scalar: Any) -> float:
    """Return the relative rounding of a precision."""
    return float(np.finfo(wp.dtype_to_numpy(scalar)).eps)


def rounding_square(scalar: Any) -> Any:
    """Return the square of a step, as a share of the magnitude, below which it is rounding."""
    return scalar((ROUNDINGS * rounding(scalar)) ** 2)
