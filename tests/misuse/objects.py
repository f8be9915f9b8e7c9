"""A valid call of each method of results, logs, pictures, terrain and other objects that users hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import sim
import sim.identify
import sim.learn
import sim.optimise
import sim.render
import sim.terrain
import sim.torch
import sim.usd
from tests.misuse.calls import Scene

CLASSES: tuple[type, ...] = (
    sim.HardContact, sim.ModelContact, sim.MujocoContact, sim.PgsContact, sim.RayTargets, sim.GradientReport,
    sim.torch.ActuatorNetwork, sim.torch.JointForces, sim.torch.Sensors, sim.torch.PhysicalInertia, sim.torch.Positive,
    sim.torch.PositiveDefinite, sim.torch.Rotation, sim.torch.Unconstrained, sim.optimise.MPC, sim.optimise.Result,
    sim.identify.BaseParameters, sim.identify.Estimate, sim.identify.Excitation, sim.identify.InertialPrior,
    sim.identify.Log, sim.identify.LogNormal, sim.identify.Normal, sim.identify.Posterior, sim.identify.TorqueFit,
    sim.identify.TrajectoryFit, sim.identify.Unknowns, sim.render.Camera, sim.render.Outermost, sim.render.Renderer,
    sim.terrain.Rough, sim.terrain.Slope, sim.terrain.Stairs, sim.terrain.Stones, sim.terrain.Terrain,
    sim.usd.UsdRecorder,
)  # fmt: skip
# Methods that the package calls with values that it has checked, and those of PyTorch.
INTERNAL = {
    *(f"{kind}.resolved" for kind in ("HardContact", "ModelContact", "MujocoContact", "PgsContact")),
    *(f"{kind}.tile" for kind in ("Rough", "Slope", "Stairs", "Stones")),
    *(f"{kind}.deviations" for kind in ("InertialPrior", "LogNormal", "Normal")),
    *(f"Unknowns.{name}" for name in ("parameters", "prior_deviations", "readings")),
    *(f"ActuatorNetwork.{name}" for name in ("begin", "forces_along", "remember")),
    *(f"{kind}.start" for kind in ("PhysicalInertia", "Positive", "PositiveDefinite", "Rotation", "Unconstrained")),
    *(f"{kind}.forward" for kind in ("PhysicalInertia", "Positive", "PositiveDefinite", "Rotation", "Unconstrained")),
    "GradientReport.of", "Sensors.extra_repr",
    "Log.require", "Log.require_complete", "Log.without_gaps",  # names alone, which no keyword gives
}  # fmt: skip


# Classes whose methods the package calls with what it has checked: of tasks, costs and learners, for example, users
# override them. Their constructors are in calls.py.
CALLED_BY_PACKAGE = (
    "ContactMethod DeviceModel SimulatorParameters Parametrisation GaitTask GetUpTask LeggedTask Task VelocityTask "
    "TaskState ActuatorState Constraint ContactForce Cost Effort JointRange Knots LeastSquares Motion Orientation "
    "Penalty PerStage Policy Position Posture Problem Smoothness Total Velocity FunctionUnknowns Apg Learner Ppo Sac "
    "Shac Kind"
)


def given(s: Scene) -> dict[str, dict[str, dict[str, Any]]]:
    """Return valid arguments of each method, by its class and name."""
    pixels: dict[str, Any] = {"points": np.zeros((2, 3)), "width": 4, "height": 3}
    poses = {"poses": s.poses}
    state = {"q": s.tq, "qd": s.tqd}
    two = {name: value.expand(2, 1, -1) for name, value in state.items()}
    return {
        "RayTargets": {"geometries": {"model": s.model}},
        "GradientReport": {"raise_if_wrong": {}},
        "ActuatorNetwork": {
            "forward": {"target": torch.zeros(1, 1).double(), **state, "memory": s.network.begin(s.tq)},
            "rollout": {"simulator": s.simulator, **state, "target": torch.zeros(2, 1, 1).double()},
        },
        "JointForces": {"forward": {**two, "tau": s.tqd[None]}},
        "Sensors": {"forward": two},
        "MPC": {"prepare": {}, "__call__": {"q": np.zeros(1), "qd": np.zeros(1)}},
        "Result": {"plot": {}},
        "BaseParameters": {"words": {}},
        "Estimate": {
            "__getitem__": {"name": "damping of hinge"}, "deviation": {"name": "damping of hinge"},
            "interval": {"name": "damping of hinge"}, "plot": {},
        },
        "Excitation": {"log": {"rate": 20.0}, "__call__": {"time": np.zeros(3)}},
        "Log": {
            "between": {"start": 0.1, "end": 0.9}, "differentiated": {"window": 0.2}, "filled": {}, "velocities": {},
            "filtered": {"cutoff": 5.0}, "resampled": {"rate": 30.0}, "shifted": {"channel": "tau", "seconds": 0.01},
            "spline_differentiated": {"noise": 0.01}, "with_offset": {"channel": "tau", "offset": 0.1},
            "require_even": {"what": "fit"},
        },
        "Posterior": {"quantile": {"probability": 0.5}},
        "TrajectoryFit": {
            "apply": {"robot": sim.torch.Robot(s.bob, device="cpu")}, "curves": {"dof": 0},
            "sampled": {"samples": 20, "rounds": 1},
        },
        "Camera": {"axes": {}, "project": pixels},
        "Outermost": {"add": poses},
        "Renderer": {"draw": poses, "openness": poses, "survey": poses},
        "Terrain": {"add_to": {"builder": sim.ModelBuilder()}, "height": {"points": np.zeros((2, 2))}},
        "UsdRecorder": {"append": {"poses": s.poses[0]}, "close": {}},
    }  # fmt: skip


def targets(s: Scene) -> dict[str, Callable[[], Any]]:
    """Return how an object of each class is made, or a function that returns one which is made once."""
    report = sim.check_gradients(s.simulator, s.state, steps=1)
    excitation = sim.identify.excite(s.bob, period=2.0, harmonics=3, iterations=1, starts=2)
    result = sim.optimise.solve(s.problem, iterations=1)
    base = sim.identify.base_parameters(np.eye(3), ["a", "b", "c"])
    posterior = sim.identify.sample(
        lambda x: -(x**2).sum(-1), np.zeros((1, 1, 1)), np.ones((1, 1, 1, 1)), 8, 1, seed=0, bar=False
    )
    trajectories = sim.identify.fit_trajectories(
        s.bob, s.log, ["damping of hinge"], dt=1.0 / 59.0, noise={"q": 0.01}, known_start=True, max_evaluations=1
    )
    occlusion = sim.render.AmbientOcclusion()
    renderer = sim.render.Renderer(s.model, width=4, height=4, camera=s.camera, device="cpu", occlusion=occlusion)
    terrain = sim.terrain.generate([sim.terrain.Rough()], size=2.0)
    return {
        "RayTargets": sim.RayTargets, "GradientReport": lambda: report, "ActuatorNetwork": lambda: s.network,
        "JointForces": lambda: sim.torch.JointForces(s.simulator), "Sensors": lambda: sim.torch.Sensors(s.simulator),
        "MPC": lambda: sim.optimise.MPC(s.problem), "Result": lambda: result, "BaseParameters": lambda: base,
        "Estimate": lambda: s.fit.estimate, "Excitation": lambda: excitation, "Log": lambda: s.log,
        "Posterior": lambda: posterior, "TrajectoryFit": lambda: trajectories, "Camera": lambda: s.camera,
        "Outermost": lambda: sim.render.Outermost(s.model.num_links, sim.render.link_boxes(s.model)),
        "Renderer": lambda: renderer, "Terrain": lambda: terrain,
        "UsdRecorder": lambda: sim.usd.UsdRecorder("a.usda", s.model, fps=10.0),
    }  # fmt: skip
