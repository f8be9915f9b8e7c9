"""Trajectory optimisation: problems, methods that solve them, and receding-horizon control.

docs/optimise.md says which method to choose.
"""

from sim.optimise.constraints import Constraint, JointRange, Penalty
from sim.optimise.costs import Cost, LeastSquares, Total
from sim.optimise.methods.cmaes import cmaes
from sim.optimise.methods.gradient import gradient
from sim.optimise.methods.ilqr import ilqr
from sim.optimise.methods.lbfgs import lbfgs
from sim.optimise.methods.mpc import MPC
from sim.optimise.methods.solve import solve
from sim.optimise.motion import Motion
from sim.optimise.parametrisations import Knots, Parametrisation, PerStage, Policy
from sim.optimise.problem import Evaluation, Problem
from sim.optimise.result import Iteration, Result
from sim.optimise.terms import (
    ActuatorState,
    ContactForce,
    Effort,
    Orientation,
    Position,
    Posture,
    Smoothness,
    Velocity,
)

__all__ = [
    "MPC",
    "ActuatorState",
    "Constraint",
    "ContactForce",
    "Cost",
    "Effort",
    "Evaluation",
    "Iteration",
    "JointRange",
    "Knots",
    "LeastSquares",
    "Motion",
    "Orientation",
    "Parametrisation",
    "Penalty",
    "PerStage",
    "Policy",
    "Position",
    "Posture",
    "Problem",
    "Result",
    "Smoothness",
    "Total",
    "Velocity",
    "cmaes",
    "gradient",
    "ilqr",
    "lbfgs",
    "solve",
]
