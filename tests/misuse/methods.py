"""A valid call of each method of the classes that users hold, on an object made for it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import sim
import sim.envs
import sim.torch
from tests.misuse import objects
from tests.misuse.calls import MODULES, Scene

CLASSES: tuple[type, ...] = (
    sim.Simulator, sim.State, sim.Trajectory, sim.ModelBuilder, sim.Model, sim.torch.Robot, sim.torch.Cameras,
    sim.envs.VectorEnv, sim.Contacts, sim.GradientNorms,
)  # fmt: skip
OPERATORS = ("__call__", "__getitem__")  # methods without a name of their own
# Methods for the package itself, and importers, which have tests of their own with hostile files.
INTERNAL = {
    "State.of_rows", "State.rows", "State.with_act", "Trajectory.of", "Trajectory.recording", "Trajectory.remember",
    "ModelBuilder.elements", "Robot.forward", "ModelBuilder.add_part",
}  # fmt: skip


@dataclass(frozen=True)
class Method:
    """A method of an object that is made for each call, with valid arguments by name."""

    make: Callable[[], Any]
    name: str
    given: Mapping[str, Any]

    def function(self, **arguments: Any) -> Any:
        """Call the method of a new object."""
        return getattr(self.make(), self.name)(**arguments)

    def arguments(self) -> list[str]:
        """Return the names of all arguments."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        listed = inspect.signature(getattr(self.make(), self.name)).parameters.values()
        return [each.name for each in listed if each.kind in kinds]


def builder(loose: bool = True) -> sim.ModelBuilder:
    """Return a scene with a link on a hinge, a box, a frame, a tendon and a ground."""
    made = sim.ModelBuilder()
    made.add_ground()
    made.add_link("arm", mass=1.0, com=(0.0, 0.0, -0.5), inertia=0.1 * np.eye(3))
    made.add_joint("hinge", "revolute", child="arm", axis=(0.0, 1.0, 0.0))
    made.add_link("tip", mass=1.0, inertia=0.1 * np.eye(3))
    made.add_joint("wrist", "revolute", parent="arm", child="tip", axis=(0.0, 1.0, 0.0))
    made.add_frame("hand", "tip")
    if loose:
        made.add_link("loose", mass=1.0, inertia=0.1 * np.eye(3))
    made.add_fixed_tendon("cable", {"hinge": 1.0})
    made.add_box(name="box", half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(1.0, 0.0, 0.1))
    return made


def learning(model: sim.Model) -> sim.torch.Robot:
    """Return a robot that learns a mass."""
    robot = sim.torch.Robot(model, device="cpu")
    robot.learn_quantity("arm", "mass")
    return robot


def methods(s: Scene) -> dict[str, Method]:
    """Return a valid call of each method, by its class and name."""
    state, tau = {"state": s.state}, np.zeros((1, s.model.nv))
    gradients = {"q_grad": np.ones((1, s.model.nq)), "qd_grad": np.ones((1, s.model.nv))}
    tq, tqd = {"q": s.tq}, {"q": s.tq, "qd": s.tqd}
    frame, motion = {**tq, "frame": "arm"}, {**tqd, "qdd": s.tqd}
    s.env.reset(seed=0)
    action = torch.zeros(2, *s.env.single_action_space.shape)
    solid: dict[str, Any] = {"mass": 1.0, "position": (0.0, 0.0, 3.0)}
    given: dict[str, dict[str, dict[str, Any]]] = {
        "Simulator": {
            "contacts": state, "initial_state": {}, "linearise": state,
            "replace": {"num_worlds": 1, "parameters": {}}, "rollout": {**state, "tau": tau},
            "state": {"q": s.q, "qd": s.qd}, "step": {**state, "tau": tau},
        },
        "State": {"numpy": {}},
        "Trajectory": {
            "backward": gradients, "gradient_norms": gradients, "gradients": gradients, "plot": {},
            "state": {"step": 1},
        },
        "Contacts": {"force_on": {"geometry": 0, "num_worlds": 1}, "of_world": {"world": 0}},
        "GradientNorms": {"first_beyond": {}, "table": {"world": 0}},
        "ModelBuilder": {
            "add_actuator": {"joint": "hinge"}, "add_box": {"half_extents": (0.1, 0.1, 0.1), **solid},
            "add_camera": {"name": "eye", "link": "arm"}, "add_capsule": {"radius": 0.1, "half_length": 0.2, **solid},
            "add_contact_sensor": {"name": "touch"}, "add_cylinder": {"radius": 0.1, "half_length": 0.2, **solid},
            "add_distance_sensor": {"name": "gap", "geometries": ["box/geometry"], "against": ["ground"]},
            "add_drag_box": {"link": "arm", "size": (0.1, 0.1, 0.1)},
            "add_ellipsoid": {"semi_axes": (0.1, 0.2, 0.3), **solid},
            "add_fixed_tendon": {"name": "rope", "joints": {"hinge": 1.0}},
            "add_frame": {"name": "elbow", "link": "arm"},
            "add_geometry": {"link": "arm", "type": "sphere", "size": (0.1, 0.0, 0.0)},
            "add_ground": {"name": "floor"},
            "add_heightfield": {"heights": np.zeros((3, 3)), "spacing": 0.5},
            "add_joint": {"name": "free", "type": "free", "child": "loose"},
            "add_joint_coupling": {"joint": "hinge", "other": "wrist"},
            "add_light": {"name": "lamp", "light": sim.Light("point")},
            "add_link": {"name": "more", "mass": 1.0, "inertia": np.eye(3)},
            "add_mjcf": {"path": "robot.xml"}, "add_sdf": {"path": "robot.sdf"}, "add_urdf": {"path": "robot.urdf"},
            "add_usd": {"path": "robot.usda"},
            "add_point_constraint": {"name": "pin", "link_a": "tip", "link_b": "arm"},
            "add_range_sensor": {"name": "range", "frame": "hand"},
            "add_sensor": {"name": "gyro", "kind": "gyro", "target": "hand"},
            "add_spatial_tendon": {"name": "rope", "path": [("arm", (0.0, 0.0, 0.0)), ("world", (1.0, 0.0, 0.0))]},
            "add_sphere": {"radius": 0.1, **solid},
            "add_static_mesh": {
                "vertices": np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), "faces": [[0, 1, 2]],
            },
            "add_tendon_coupling": {"name": "tie", "tendon": "cable"},
            "add_weld_constraint": {"name": "grip", "link_a": "tip", "link_b": "box"},
            "exclude_collision": {"link_a": "arm", "link_b": "box"},
            "exclude_geometries": {"geometry_a": "ground", "geometry_b": "box/geometry"},
            "exclude_group": {"links": ["arm", "box"]}, "finalize": {}, "set_medium": {"density": 1.0},
            "set_pair_friction": {"geometry_a": "ground", "geometry_b": "box/geometry", "friction": 0.5},
            "set_pair_softness": {"geometry_a": "ground", "geometry_b": "box/geometry"},
        },
        "Model": {
            "act_holding": {"control": np.zeros(s.model.nu)}, "actuator": {"name": s.model.actuator_names[0]},
            "camera": {"name": "eye"}, "dofs_of": {"link": 0}, "frame": {"name": "arm"}, "geometry": {"name": "ground"},
            "is_movable": {"link": 0}, "is_static": {"geometry": s.model.geometries[0]}, "joint": {"name": "hinge"},
            "link": {"name": "arm"}, "q_slice": {"part": "hinge"}, "qd_slice": {"part": "hinge"},
        },
        "Robot": {
            "bias_forces": tqd, "cast_rays": {
                **tq, "origin": torch.zeros(1, 1, 3).double(), "direction": torch.ones(1, 1, 3).double(),
            },
            "centre_of_mass": tq, "centre_of_mass_jacobian": tq, "centroidal_momentum": tqd,
            "centroidal_momentum_matrix": tq, "coriolis_forces": tqd, "difference": {"q0": s.tq, "q1": s.tq},
            "extra_repr": {}, "forward_dynamics": {**tqd, "tau": s.tqd}, "forward_kinematics": frame,
            "forward_kinematics_matrix": frame, "frame_acceleration": {**motion, "frame": "arm"},
            "frame_velocity": {**tqd, "frame": "arm"}, "freeze": {},
            "geometry_distances": {**tq, "pairs": [(0, 1)]}, "gravity_forces": tq, "initial_coordinates": {},
            "integrate": {**tqd, "dt": 0.1}, "inverse_dynamics": motion,
            "inverse_kinematics": {
                "frame": "arm", "position": torch.zeros(1, 3).double(), "restarts": 1, "iterations": 2,
            },
            "jacobian": frame, "jacobian_derivative": {**tqd, "frame": "arm"}, "kinetic_energy": tqd, "learn": {},
            "learn_quantity": {"name": "arm", "quantity": "mass"},
            "learnable": {"name": "arm", "quantity": "mass"},
            "link_accelerations": motion, "link_velocities": tqd, "make_learnable": {"name": "arm", "quantity": "mass"},
            "mass_matrix": tq, "mass_matrix_inverse": tq, "potential_energy": tq, "save_urdf": {"path": "a.urdf"},
            "set_values": {"values": {}}, "value": {"name": "mass"},
        },
        "Cameras": {
            "draw": {**tq, "looks": s.cameras.looks("cpu")}, "images": {"count": 1, "device": "cpu"},
            "looks": {"device": "cpu"}, "randomise": {"count": 1, "generator": torch.Generator()},
        },
        "VectorEnv": {
            "detach": {}, "get_state": {}, "observation_space_of": {"dtype": "float32"}, "observe": {},
            "render": {"width": 4, "height": 4}, "reset": {"seed": 1}, "set_state": {"state": s.env.get_state()},
            "step": {"action": action},
        },
    }  # fmt: skip
    targets: dict[str, Callable[[], Any]] = {
        "Simulator": lambda: s.simulator, "State": lambda: s.state,
        "Trajectory": lambda: s.simulator.rollout(s.state, steps=2), "ModelBuilder": builder, "Model": lambda: s.model,
        "Contacts": lambda: s.simulator.contacts(s.state),
        "GradientNorms": lambda: s.simulator.rollout(s.state, steps=2).gradient_norms(**gradients),
        "Robot": lambda: learning(s.model), "Cameras": lambda: s.cameras, "VectorEnv": lambda: s.env,
    }  # fmt: skip
    given |= objects.given(s)
    targets |= objects.targets(s)
    found = {
        f"{kind}.{name}": Method(targets[kind], name, arguments)
        for kind, calls in given.items()
        for name, arguments in calls.items()
    }
    # A link without a joint is an error of its own.
    return found | {"ModelBuilder.finalize": Method(lambda: builder(loose=False), "finalize", {})}


def classes_left_out() -> set[str]:
    """Return the names of public classes with methods that none of the lists has."""
    known = {kind.__name__ for kind in CLASSES + objects.CLASSES} | {*objects.CALLED_BY_PACKAGE.split()}
    public = (getattr(module, name) for module in MODULES for name in module.__all__)
    return {
        kind.__name__
        for kind in public
        if isinstance(kind, type) and not issubclass(kind, Exception) and kind.__name__ not in known
        for name, value in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and value.__module__.startswith("sim")
    }


def public_methods() -> set[str]:
    """Return the class and name of all public methods of these classes that this project defines."""
    return {
        f"{kind.__name__}.{name}"
        for kind in CLASSES + objects.CLASSES
        for name, value in inspect.getmembers(kind, inspect.isfunction)
        if (name in OPERATORS or not name.startswith("_")) and value.__module__.startswith("sim")
    } - (INTERNAL | objects.INTERNAL)
