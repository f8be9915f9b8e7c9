"""Robots with actuators of all kinds."""

import numpy as np

import sim
from warp_kernels.types import BOX

KINDS = ("torque", "position", "velocity", "position")


def arm(dtype: str = "float64", limits: tuple[float | None, ...] = (np.inf,) * 4, gravity: float = -9.81) -> sim.Model:
    """Four joints, one a slider, each with an actuator; two of them with gears, one against its joint's direction."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, gravity))
    joints: tuple[tuple[str, tuple[float, float, float]], ...] = (
        ("revolute", (0.0, 1.0, 0.0)), ("revolute", (1.0, 0.2, 0.0)), ("prismatic", (0.0, 0.3, 1.0)),
        ("revolute", (0.0, 1.0, 0.4)),
    )  # fmt: skip
    parent = "world"
    for number, (type, axis) in enumerate(joints):
        link = builder.add_link(
            f"link{number}", mass=1.0 + 0.2 * number, com=(0.05, 0.02, 0.2), inertia=(0.02, 0.03, 0.02)
        )
        builder.add_joint(
            f"joint{number}", type, parent=parent, child=link, position=(0.01, 0.0, 0.4 if number else 0.2), axis=axis,
            spring=sim.Spring(damping=0.1 * number), armature=0.01,
        )  # fmt: skip
        parent = link
    builder.add_actuator("joint0", "torque", gear=2.0, force_limit=limits[0])
    builder.add_actuator("joint1", "position", gains=sim.Gains(kp=80.0, kd=2.0), gear=-1.5, force_limit=limits[1])
    builder.add_actuator("joint2", "velocity", gains=sim.Gains(kd=15.0), force_limit=limits[2])
    builder.add_actuator("joint3", "position", gains=sim.Gains(kp=30.0, kd=0.5), force_limit=limits[3])
    return builder.finalize(dtype)


def leg(limit: float = np.inf) -> sim.ModelBuilder:
    """A body on a leg of two servos whose box-shaped foot stands on the ground."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.6))
    builder.add_link("body", mass=1.5, com=(0.01, 0.0, 0.0), inertia=(0.02, 0.03, 0.04))
    builder.add_joint("free", "free", child="body", position=(0.0, 0.0, 0.52))
    builder.add_link("thigh", mass=0.4, com=(0.01, 0.0, -0.1), inertia=(0.003, 0.003, 0.001))
    builder.add_joint("hip", "revolute", parent="body", child="thigh", axis=(0.0, 1.0, 0.0), q0=(0.3,))
    builder.add_link("foot", mass=0.3, com=(0.0, 0.01, -0.1), inertia=(0.002, 0.003, 0.001))
    builder.add_joint(
        "knee", "revolute", parent="thigh", child="foot", axis=(0.0, 1.0, 0.0), position=(0.0, 0.0, -0.25), q0=(-0.3,),
        limits=sim.Limits(upper=-0.28),
    )  # fmt: skip
    builder.add_geometry(
        "foot", BOX, size=(0.08, 0.06, 0.02), position=(0.0, 0.0, -0.26), surface=sim.Surface(friction=0.9)
    )
    for joint in ("hip", "knee"):
        builder.add_actuator(joint, "position", gains=sim.Gains(kp=150.0, kd=3.0), gear=1.2, force_limit=limit)
    return builder
