"""Differentiable simulation for PyTorch: tensors in and out, without a copy."""

from sim.torch.actuation.actuator_network import ActuatorNetwork
from sim.torch.actuation.actuators import actuator_forces
from sim.torch.actuation.joint_forces import JointForceParts, JointForces
from sim.torch.adjoint_clip import clip_adjoint
from sim.torch.autograd import rollout, step
from sim.torch.cameras.cameras import CameraImages, Cameras
from sim.torch.cameras.looks import Looks
from sim.torch.deprecated import rollout_with_contact_forces as rollout_with_contact_forces
from sim.torch.deprecated import rollout_with_sensors as rollout_with_sensors
from sim.torch.paths import velocities_along
from sim.torch.rays import depth_image, height_scan, lidar
from sim.torch.robot.parametrisations import (
    Parametrisation,
    PhysicalInertia,
    Positive,
    PositiveDefinite,
    Rotation,
    Unconstrained,
)
from sim.torch.robot.robot import Robot
from sim.torch.rollout_result import NextState, Rollout
from sim.torch.sensors.formulas import imu
from sim.torch.sensors.readings import Sensors

__all__ = [
    "ActuatorNetwork",
    "CameraImages",
    "Cameras",
    "JointForceParts",
    "JointForces",
    "Looks",
    "NextState",
    "Parametrisation",
    "PhysicalInertia",
    "Positive",
    "PositiveDefinite",
    "Robot",
    "Rollout",
    "Rotation",
    "Sensors",
    "Unconstrained",
    "actuator_forces",
    "clip_adjoint",
    "depth_image",
    "height_scan",
    "imu",
    "lidar",
    "rollout",
    "step",
    "velocities_along",
]
