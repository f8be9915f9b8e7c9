"""Identification of a robot's parameters from logs, including which ones the data doesn't determine; see
docs/identify.md.
"""

from sim.identify.base_parameters import BaseParameters, base_parameters, robot_base_parameters
from sim.identify.estimate import Estimate
from sim.identify.excitation import Excitation, excite
from sim.identify.logs.alignment import Alignment, align
from sim.identify.logs.log import Log
from sim.identify.logs.readers import read_csv, read_frame, read_npz, read_rosbag
from sim.identify.posterior import Posterior, sample
from sim.identify.regressor import INERTIAL_NAMES, column_names, linear_parameters, torque_regressor
from sim.identify.report import cannot_tell, plot, report, save_html, save_plot
from sim.identify.surrogate import sample_surrogate
from sim.identify.torque_fit import TorqueFit, fit_torques
from sim.identify.trajectories.fit import TrajectoryFit, fit_trajectories
from sim.identify.unknown.priors import InertialPrior, LogNormal, Normal
from sim.identify.unknown.unknowns import FunctionUnknowns, Unknowns

__all__ = [
    "INERTIAL_NAMES",
    "Alignment",
    "BaseParameters",
    "Estimate",
    "Excitation",
    "FunctionUnknowns",
    "InertialPrior",
    "Log",
    "LogNormal",
    "Normal",
    "Posterior",
    "TorqueFit",
    "TrajectoryFit",
    "Unknowns",
    "align",
    "base_parameters",
    "cannot_tell",
    "column_names",
    "excite",
    "fit_torques",
    "fit_trajectories",
    "linear_parameters",
    "plot",
    "read_csv",
    "read_frame",
    "read_npz",
    "read_rosbag",
    "report",
    "robot_base_parameters",
    "sample",
    "sample_surrogate",
    "save_html",
    "save_plot",
    "torque_regressor",
]
