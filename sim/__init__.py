"""Backswing: a differentiable simulator of articulated rigid bodies with frictional contact.

``sim.torch``, ``sim.envs``, ``sim.learn``, ``sim.identify``, ``sim.optimise``, ``sim.render``, ``sim.terrain``,
``sim.viewer``, ``sim.usd`` and ``sim.exporters`` are imported when they are first used: ``import sim`` alone
loads neither PyTorch nor USD.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sim.arrays.device_model import DeviceModel
from sim.diagnostics.gradient_check import check_gradients
from sim.diagnostics.gradient_report import GradientReport
from sim.diagnostics.sweep_study import SweepResult, SweepStudy, study_sweeps
from sim.distances.measure import GeometryDistances, geometry_distances
from sim.dynamics.acceleration import jacobian_derivative, link_accelerations
from sim.dynamics.bias import bias_forces, coriolis_forces, gravity_forces
from sim.dynamics.dynamics import forward_dynamics, inverse_dynamics
from sim.dynamics.kinematics import difference, forward_kinematics, integrate, jacobian, link_velocities
from sim.dynamics.mass_matrix import mass_matrix, mass_matrix_inverse
from sim.dynamics.momentum import (
    centre_of_mass,
    centre_of_mass_jacobian,
    centroidal_momentum,
    centroidal_momentum_matrix,
    kinetic_energy,
    potential_energy,
)
from sim.dynamics.wrenches import link_wrenches
from sim.errors import (
    ContactOverflowWarning,
    GradientError,
    ImportFileError,
    MJCFWarning,
    ModelError,
    NotFiniteWarning,
    OpenConstraintWarning,
    OverlapWarning,
    SDFWarning,
    StabilityWarning,
    URDFWarning,
    USDWarning,
)
from sim.importers.formats import ModelBuilder
from sim.importers.load import load
from sim.importers.text import load_text
from sim.model.builder.properties import Activation, DCMotor, Delay, Gains, Limits, Spring, Surface
from sim.model.conventions import from_mujoco, from_pinocchio, to_mujoco, to_pinocchio
from sim.model.looks.lights import Light
from sim.model.looks.looks import Material, Texture
from sim.model.model import Keyframe, Model, Part
from sim.model.softness import Softness
from sim.model.tendons.muscles import Muscle
from sim.model.tendons.tendons import TendonWrap
from sim.rays.cast import RayHits, cast_rays
from sim.rays.targets import RayTargets
from sim.simulation.contacts import Contacts
from sim.simulation.deprecated import ContactOptions as ContactOptions
from sim.simulation.gradients import GradientNorms, Gradients
from sim.simulation.linearisation import Linearisation
from sim.simulation.mujoco_settings import mujoco_settings
from sim.simulation.options import ContactMethod, HardContact, ModelContact, MujocoContact, PgsContact
from sim.simulation.parameters import SimulatorParameters
from sim.simulation.paths import velocities_along
from sim.simulation.simulator import Simulator
from sim.simulation.state import Impulses, State
from sim.simulation.switches import attach, detach
from sim.simulation.trajectory import Trajectory
from sim.version import __version__ as __version__

__all__ = [
    "Activation",
    "ContactMethod",
    "ContactOverflowWarning",
    "Contacts",
    "DCMotor",
    "Delay",
    "DeviceModel",
    "Gains",
    "GeometryDistances",
    "GradientError",
    "GradientNorms",
    "GradientReport",
    "Gradients",
    "HardContact",
    "ImportFileError",
    "Impulses",
    "Keyframe",
    "Light",
    "Limits",
    "Linearisation",
    "MJCFWarning",
    "Material",
    "Model",
    "ModelBuilder",
    "ModelContact",
    "ModelError",
    "MujocoContact",
    "Muscle",
    "NotFiniteWarning",
    "OpenConstraintWarning",
    "OverlapWarning",
    "Part",
    "PgsContact",
    "RayHits",
    "RayTargets",
    "SDFWarning",
    "Simulator",
    "SimulatorParameters",
    "Softness",
    "Spring",
    "StabilityWarning",
    "State",
    "Surface",
    "SweepResult",
    "SweepStudy",
    "TendonWrap",
    "Texture",
    "Trajectory",
    "URDFWarning",
    "USDWarning",
    "attach",
    "bias_forces",
    "cast_rays",
    "centre_of_mass",
    "centre_of_mass_jacobian",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "check_gradients",
    "coriolis_forces",
    "detach",
    "difference",
    "forward_dynamics",
    "forward_kinematics",
    "from_mujoco",
    "from_pinocchio",
    "geometry_distances",
    "gravity_forces",
    "integrate",
    "inverse_dynamics",
    "jacobian",
    "jacobian_derivative",
    "kinetic_energy",
    "link_accelerations",
    "link_velocities",
    "link_wrenches",
    "load",
    "load_text",
    "mass_matrix",
    "mass_matrix_inverse",
    "mujoco_settings",
    "potential_energy",
    "study_sweeps",
    "to_mujoco",
    "to_pinocchio",
    "velocities_along",
]


# Modules that are imported when they are first used.
_LAZY = (
    "envs", "exporters", "identify", "importers", "learn", "optimise", "render", "terrain", "torch", "usd", "viewer"
)  # fmt: skip


if TYPE_CHECKING:
    from sim import envs as envs
    from sim import exporters as exporters
    from sim import identify as identify
    from sim import importers as importers
    from sim import learn as learn
    from sim import optimise as optimise
    from sim import rays as rays
    from sim import render as render
    from sim import terrain as terrain
    from sim import torch as torch
    from sim import usd as usd
    from sim import viewer as viewer
else:

    def __getattr__(name: str) -> Any:
        """Import a module when it is first asked for."""
        if name in _LAZY:
            return importlib.import_module(f"sim.{name}")
        raise AttributeError(f"module 'sim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
