"""Parameters of a robot from its logs, and what a log can't tell; see docs/identify.md."""

from sim.identify.base_parameters import BaseParameters, base_parameters, robot_base_parameters
from sim.identify.inertial import INERTIAL_NAMES
from sim.identify.priors import InertialPrior, LogNormal, Normal
from sim.identify.regressor import column_names, linear_parameters, torque_regressor

__all__ = [
    "INERTIAL_NAMES",
    "BaseParameters",
    "InertialPrior",
    "LogNormal",
    "Normal",
    "base_parameters",
    "column_names",
    "linear_parameters",
    "robot_base_parameters",
    "torque_regressor",
]
