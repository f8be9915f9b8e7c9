"""A valid call of each public function, whose arguments are replaced one by one."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import sim
import sim.envs
import sim.exporters
import sim.identify
import sim.learn
import sim.optimise
import sim.render
import sim.terrain
import sim.torch
import sim.usd

MODULES = (
    sim,
    sim.torch,
    sim.envs,
    sim.optimise,
    sim.identify,
    sim.learn,
    sim.render,
    sim.terrain,
    sim.exporters,
    sim.usd,
)

# Classes that functions return and users don't make, and base classes.
RETURNED = {
    "sim": "ContactMethod Contacts GeometryDistances GradientNorms GradientReport Gradients Impulses Keyframe "
    "Linearisation Model Part RayHits SimulatorParameters State SweepResult SweepStudy Trajectory",
    "sim.torch": "CameraImages JointForceParts Looks NextState Parametrisation Rollout",
    "sim.envs": "GaitTask GetUpTask LeggedRobot LeggedTask NewEpisodes Task TaskState VelocityTask",
    "sim.optimise": "Cost Evaluation Iteration Motion Parametrisation Policy Result Total",
    "sim.identify": "Alignment BaseParameters Estimate Excitation FunctionUnknowns Posterior TorqueFit TrajectoryFit",
    "sim.learn": "ActorCriticSettings Apg Evaluation Learner Policy Ppo Sac Shac Training",
    "sim.render": "Survey",
    "sim.terrain": "Kind Terrain Tile",
    "sim.exporters": "",
    "sim.usd": "",
}  # fmt: skip
# Arguments that say how long a search takes, and are checked by tests of their own: large ones are valid.
LASTING = {
    "reference",
    "iterations",
    "rounds",
    "minutes",
    "seconds",
    "episodes",
    "samples",
    "motions",
    "epochs",
    "updates",
}

# Arguments that are functions of the user.
FUNCTIONS = {"watch", "score", "save", "likelihood", "residuals", "clock", "policy", "function", "network"}


def arm() -> sim.Model:
    """Return an arm with a motor beside a box on the ground."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_link("arm", mass=1.0, com=(0.0, 0.0, -0.5), inertia=0.1 * np.eye(3))
    builder.add_joint("hinge", "revolute", child="arm", axis=(0.0, 1.0, 0.0))
    builder.add_actuator("hinge", "position", gains=sim.Gains(kp=1.0))
    builder.add_camera("eye", "arm", position=(0.0, 0.0, 0.0))
    builder.add_box(name="box", half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(1.0, 0.0, 0.1))
    builder.add_weld_constraint("grip", "arm", "box", active=False)
    return builder.finalize("float64")


def pendulum() -> sim.Model:
    """Return a link on a hinge."""
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=2.0, com=(0.0, 0.0, -0.5), inertia=0.1 * np.eye(3))
    builder.add_joint("hinge", "revolute", child="bob", axis=(0.0, 1.0, 0.0))
    return builder.finalize("float64")


class Scene:
    """Objects that valid calls take as arguments."""

    def __init__(self) -> None:
        self.model, self.bob = arm(), pendulum()
        self.simulator = sim.Simulator(self.model, 0.01, device="cpu", threads=1)
        self.pgs = sim.Simulator(self.model, 0.01, device="cpu", threads=1, contact=sim.PgsContact())
        self.state = self.simulator.initial_state()
        self.q, self.qd = self.model.q0[None].copy(), np.zeros((1, self.model.nv))
        self.robot = sim.torch.Robot(self.model, device="cpu")
        self.network = sim.torch.ActuatorNetwork(self.model, ["hinge"], torch.nn.Linear(6, 1).double())
        self.cameras = sim.torch.Cameras(self.model, width=4, height=3)
        self.tq, self.tqd = torch.tensor(self.q), torch.tensor(self.qd)
        time = np.linspace(0.0, 1.0, 60)
        wave = np.sin(3.0 * time)[:, None]
        self.log = sim.identify.Log(
            self.bob, time, wave, qd=3.0 * np.cos(3.0 * time)[:, None], qdd=-9.0 * wave, tau=wave
        )
        self.fit = sim.identify.fit_torques(self.bob, self.log, ["damping of hinge", "armature of hinge"])
        self.problem = sim.optimise.Problem(
            sim.Simulator(self.bob, 0.05, device="cpu", threads=1),
            3,
            [sim.optimise.Effort(), sim.optimise.Posture([1.0])],
        )
        self.camera = sim.render.Camera((3.0, 0.0, 1.0), (0.0, 0.0, 0.0))
        self.poses = np.asarray(sim.forward_kinematics(self.model, self.q).numpy())
        self.task = sim.envs.make_task("CartpoleSwingup")
        self.env = sim.envs.VectorEnv(self.task, 2, device="cpu", threads=1, seed=0)
        self.learner = sim.learn.make_learner(
            self.task, "ppo", iterations=1, device="cpu", threads=1, envs=2, horizon=4, epochs=1, batches=1
        )
        self.policy = self.learner.policy
        self.picture = np.zeros((4, 4, 3), dtype=np.uint8)


@dataclass(frozen=True)
class Call:
    """A function with valid arguments by name."""

    function: Callable[..., Any]
    given: Mapping[str, Any]

    def arguments(self) -> list[str]:
        """Return the names of all arguments that can be given by name; of reports, which take long, only the fit."""
        if "fit" in self.given:
            return ["fit"]
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        listed = inspect.signature(self.function).parameters.values()
        return [each.name for each in listed if each.kind in kinds]


def calls(s: Scene) -> dict[str, Call]:
    """Return a valid call of each public function, by its full name."""
    model_q = {"model": s.model, "q": s.q}
    motion = {**model_q, "qd": s.qd}
    solver = {"problem": s.problem, "iterations": 1}
    rays = {"origin": np.array([[[0.0, 0.0, 2.0]]]), "direction": np.array([[[0.0, 0.0, -1.0]]])}
    mounted = {"robot": s.robot, "q": s.tq, "frame": "arm"}
    film = {"model": s.model, "poses": s.poses, "width": 4, "height": 4, "camera": s.camera}
    given: dict[str, dict[str, Any]] = {
        "sim.Activation": {}, "sim.DCMotor": {"stall_force": 1.0, "no_load_speed": 1.0},
        "sim.Delay": {"time": 0.1, "samples": 2}, "sim.DeviceModel": {"model": s.model, "device": "cpu"},
        "sim.Gains": {}, "sim.HardContact": {}, "sim.Limits": {}, "sim.ModelBuilder": {}, "sim.ModelContact": {},
        "sim.MujocoContact": {}, "sim.Muscle": {"peak_force": 10.0, "fibre_length": 0.1, "slack_length": 0.1},
        "sim.PgsContact": {}, "sim.RayTargets": {}, "sim.Simulator": {"model": s.model, "dt": 0.01, "device": "cpu"},
        "sim.Material": {}, "sim.Texture": {"pixels": s.picture}, "sim.Light": {"type": "point"},
        "sim.Softness": {}, "sim.Spring": {}, "sim.Surface": {},
        "sim.TendonWrap": {"link": "arm", "radius": 0.1, "axis": (0.0, 1.0, 0.0)},
        "sim.attach": {"simulator": s.simulator, "state": s.state, "names": ["grip"], "worlds": [0]},
        "sim.bias_forces": motion, "sim.cast_rays": {**model_q, **rays}, "sim.centre_of_mass": model_q,
        "sim.centre_of_mass_jacobian": model_q, "sim.centroidal_momentum": motion,
        "sim.centroidal_momentum_matrix": model_q,
        "sim.check_gradients": {"simulator": s.simulator, "state": s.state, "steps": 1},
        "sim.coriolis_forces": motion, "sim.detach": {"simulator": s.simulator, "names": ["grip"], "worlds": [0]},
        "sim.difference": {"model": s.model, "q0": s.q, "q1": s.q},
        "sim.forward_dynamics": {**motion, "tau": s.qd}, "sim.forward_kinematics": model_q,
        "sim.from_mujoco": {"model": s.model, "qpos": s.q[0], "qvel": s.qd[0]},
        "sim.from_pinocchio": {"model": s.model, "q": s.q[0], "v": s.qd[0]},
        "sim.geometry_distances": {**model_q, "pairs": [(0, 1)]}, "sim.gravity_forces": model_q,
        "sim.integrate": {**motion, "dt": 0.1}, "sim.inverse_dynamics": {**motion, "qdd": s.qd},
        "sim.jacobian": {**model_q, "frame": "arm"},
        "sim.jacobian_derivative": {**motion, "frame": "arm"}, "sim.kinetic_energy": motion,
        "sim.link_accelerations": {**motion, "qdd": s.qd}, "sim.link_velocities": motion,
        "sim.link_wrenches": {**model_q, "wrench": np.zeros((1, 1, 6)), "frames": ["arm"]},
        "sim.load": {"path": "robot.urdf"},
        "sim.load_text": {"text": "<robot name='r'><link name='a'/></robot>", "format": "urdf"},
        "sim.mass_matrix": model_q, "sim.mass_matrix_inverse": model_q, "sim.mujoco_settings": {"model": s.model},
        "sim.potential_energy": model_q,
        "sim.study_sweeps": {"simulator": s.pgs, "state": s.state, "steps": 1, "sweeps": [5], "reference": 10},
        "sim.to_mujoco": {"model": s.model, "q": s.q[0], "qd": s.qd[0]},
        "sim.to_pinocchio": {"model": s.model, "q": s.q[0], "qd": s.qd[0]},
        "sim.velocities_along": {"simulator": s.simulator, "path": np.repeat(s.q[None], 3, 0)},
        "sim.torch.ActuatorNetwork": {"model": s.model, "joints": ["hinge"], "network": torch.nn.Linear(6, 1).double()},
        "sim.torch.JointForces": {"simulator": s.simulator}, "sim.torch.PhysicalInertia": {},
        "sim.torch.Cameras": {"model": s.model, "names": "eye", "tile": 0.5, "haze": 0.1, "exposure": 1.0},
        "sim.torch.Positive": {}, "sim.torch.PositiveDefinite": {}, "sim.torch.Robot": {"source": s.model},
        "sim.torch.Rotation": {}, "sim.torch.Sensors": {"simulator": s.simulator}, "sim.torch.Unconstrained": {},
        "sim.torch.actuator_forces": {
            "simulator": s.simulator, "q": s.tq, "qd": s.tqd, "control": torch.zeros(1, 1).double(),
        },
        "sim.torch.clip_adjoint": {"q": s.tq, "qd": s.tqd, "limit": 1.0},
        "sim.torch.depth_image": {**mounted, "width": 2, "height": 2},
        "sim.torch.height_scan": {**mounted, "points": torch.zeros(2, 2).double()},
        "sim.torch.imu": {
            "robot": s.robot, "q": s.tq.expand(3, -1), "qd": s.tqd.expand(3, -1), "dt": 0.01, "frame": "arm",
        },
        "sim.torch.lidar": {**mounted, "directions": torch.ones(2, 3).double()},
        "sim.torch.rollout": {"simulator": s.simulator, "q": s.tq, "qd": s.tqd, "steps": 1},
        "sim.torch.step": {"simulator": s.simulator, "q": s.tq, "qd": s.tqd},
        "sim.torch.velocities_along": {"simulator": s.simulator, "path": s.tq[None].expand(3, -1, -1)},
        "sim.envs.VectorEnv": {"task": s.task, "device": "cpu"}, "sim.envs.make": {"name": "CartpoleSwingup"},
        "sim.envs.legged_robot": {"file": "robot.urdf", "stand": {"hinge": 0.1}},
        "sim.envs.make_task": {"name": "CartpoleSwingup"},
        "sim.optimise.MPC": {"problem": s.problem}, "sim.optimise.ActuatorState": {"target": 0.0},
        "sim.optimise.Constraint": {"function": lambda q, qd, u: q},
        "sim.optimise.ContactForce": {"on": "ground", "least": 1.0},
        "sim.optimise.Effort": {}, "sim.optimise.JointRange": {}, "sim.optimise.Knots": {"count": 4},
        "sim.optimise.LeastSquares": {},
        "sim.optimise.Orientation": {"frame": "arm", "target": (0.0, 0.0, 0.0, 1.0)},
        "sim.optimise.Penalty": {"constraint": sim.optimise.JointRange(), "weight": 1.0}, "sim.optimise.PerStage": {},
        "sim.optimise.Position": {"frame": "arm", "target": (0.0, 0.0, 0.0)}, "sim.optimise.Posture": {"target": 0.0},
        "sim.optimise.Problem": {"simulator": s.simulator, "stages": 2, "costs": [sim.optimise.Effort()]},
        "sim.optimise.Smoothness": {}, "sim.optimise.Velocity": {}, "sim.optimise.cmaes": solver,
        "sim.optimise.gradient": solver, "sim.optimise.ilqr": solver, "sim.optimise.lbfgs": solver,
        "sim.optimise.solve": solver,
        "sim.identify.InertialPrior": {}, "sim.identify.LogNormal": {"median": 1.0, "deviation": 0.1},
        "sim.identify.Log": {"model": s.bob, "time": s.log.time, "q": s.log.q},
        "sim.identify.Normal": {"mean": 1.0, "deviation": 0.1},
        "sim.identify.Unknowns": {"model": s.bob, "wanted": ["damping of hinge"]},
        "sim.identify.align": {"log": s.log, "channel": "tau", "model": s.bob},
        "sim.identify.base_parameters": {"regressor": np.eye(3), "names": ["a", "b", "c"]},
        "sim.identify.cannot_tell": {"fit": s.fit}, "sim.identify.column_names": {"model": s.bob},
        "sim.identify.excite": {"model": s.bob, "harmonics": 3, "iterations": 1},
        "sim.identify.fit_torques": {"model": s.bob, "logs": s.log, "unknowns": ["damping of hinge"]},
        "sim.identify.fit_trajectories": {
            "model": s.bob, "logs": s.log, "unknowns": ["damping of hinge"], "dt": 1.0 / 59.0, "noise": {"q": 0.01},
            "known_start": True, "max_evaluations": 1,
        },
        "sim.identify.linear_parameters": {"model": s.bob}, "sim.identify.plot": {"fit": s.fit},
        "sim.identify.read_csv": {"path": "log.csv", "model": s.bob},
        "sim.identify.read_frame": {"frame": None, "model": s.bob},
        "sim.identify.read_npz": {"path": "log.npz", "model": s.bob},
        "sim.identify.read_rosbag": {"path": "bag", "model": s.bob}, "sim.identify.report": {"fit": s.fit},
        "sim.identify.robot_base_parameters": {"model": s.bob, "samples": 20},
        "sim.identify.sample": {
            "likelihood": lambda x: -(x**2).sum(-1), "mean": np.zeros((1, 1, 1)), "covariance": np.ones((1, 1, 1, 1)),
            "samples": 8, "rounds": 1, "seed": 0, "bar": False,
        },
        "sim.identify.sample_surrogate": {
            "residuals": lambda x: x, "mean": np.zeros((1, 1, 1)), "covariance": np.ones((1, 1, 1, 1)),
            "at_mean": np.zeros((1, 1, 1)), "bar": False,
        },
        "sim.identify.save_html": {"fit": s.fit, "path": "a.html"},
        "sim.identify.save_plot": {"fit": s.fit, "path": "a.png"},
        "sim.identify.torque_regressor": {"model": s.bob, "q": s.log.q, "qd": s.log.qd, "qdd": s.log.qdd},
        "sim.learn.ApgSettings": {}, "sim.learn.PpoSettings": {}, "sim.learn.SacSettings": {},
        "sim.learn.ShacSettings": {}, "sim.learn.evaluate": {"policy": s.policy, "task": s.task, "episodes": 1},
        "sim.learn.export_policy": {"path": "a.onnx", "policy": s.policy}, "sim.learn.load_policy": {"path": "a.pt"},
        "sim.learn.load_task": {"name": "CartpoleSwingup"},
        "sim.learn.make_learner": {"task": s.task, "algorithm": "ppo", "iterations": 1, "device": "cpu"},
        "sim.learn.run": {"learner": s.learner, "iterations": 1},
        "sim.learn.save_policy": {"path": "a.pt", "policy": s.policy, "task": "CartpoleSwingup", "task_options": {}},
        "sim.learn.train": {"task": "nothing", "iterations": 1},
        "sim.learn.write_animation": {
            "path": "a.gif", "model": s.model, "q": s.q, "step_dt": 0.1, "size": (8, 8), "device": "cpu",
        },
        "sim.render.AmbientOcclusion": {},
        "sim.render.Camera": {"position": (1.0, 0.0, 0.0), "target": (0.0, 0.0, 0.0)},
        "sim.render.Marker": {"name": "a", "position": (0.0, 0.0, 0.0)},
        "sim.render.Outermost": {"num_links": 2, "boxes": np.zeros((2, 2, 3))},
        "sim.render.link_boxes": {"model": s.model},
        "sim.render.Renderer": {"model": s.model, "width": 4, "height": 4, "camera": s.camera, "device": "cpu"},
        "sim.render.Trail": {"name": "a", "points": np.zeros((2, 3))},
        "sim.render.fit_camera": {"model": s.model, "poses": s.poses},
        "sim.render.grid_offsets": {"num_worlds": 2, "spacing": 1.0}, "sim.render.iterate_frames": film,
        "sim.render.render_frames": film, "sim.render.view_of": {"model": s.model, "name": "eye", "poses": s.poses[0]},
        "sim.render.write_gif": {"path": "a.gif", "frames": [s.picture, s.picture], "fps": 10.0},
        "sim.render.write_mp4": {"path": "a.mp4", "frames": [s.picture, s.picture], "fps": 10.0},
        "sim.render.write_png": {"path": "a.png", "picture": s.picture},
        "sim.terrain.Rough": {}, "sim.terrain.Slope": {}, "sim.terrain.Stairs": {}, "sim.terrain.Stones": {},
        "sim.terrain.generate": {"kinds": [sim.terrain.Rough()], "size": 2.0},
        "sim.exporters.write_mjcf": {"path": "a.xml", "model": s.model},
        "sim.exporters.write_urdf": {"path": "a.urdf", "model": s.bob},
        "sim.usd.UsdRecorder": {"path": "a.usda", "model": s.model, "fps": 10.0},
        "sim.usd.write_usd": {"path": "a.usda", "model": s.model, "poses": s.poses, "fps": 10.0},
    }  # fmt: skip
    return {name: Call(_found(name), arguments) for name, arguments in given.items()}


def public_functions() -> set[str]:
    """Return the full names of all public functions, and of the classes that users make."""
    found = set()
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            exception = isinstance(value, type) and issubclass(value, Exception)
            if callable(value) and not exception and name not in RETURNED[module.__name__].split():
                found.add(f"{module.__name__}.{name}")
    return found


def _found(name: str) -> Callable[..., Any]:
    module, _, last = name.rpartition(".")
    return getattr(next(each for each in MODULES if each.__name__ == module), last)
