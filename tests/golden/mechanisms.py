"""Golden cases of mechanisms under the law "hard": loops, led bodies, tendons, actuators, sensors, a medium."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

import sim
from tests.actuators.worlds import arm as driven_arm
from tests.actuators.worlds import leg
from tests.contact import test_kinematic_input, test_tendons
from tests.contact.test_equalities import rod
from tests.dynamics import test_pose_springs
from tests.golden.case import Case, register
from tests.simulation import test_rate_damping

TENDONS = (
    "tendon_coefficient", "tendon_point", "tendon_stiffness", "tendon_damping", "tendon_friction_loss",
    "tendon_upper_limit", "actuator_gear", "actuator_kp",
)  # fmt: skip
PGS = sim.PgsContact()


def loops(loads: Mapping[str, float] = MappingProxyType({}), **others: Any) -> Case:
    """A four-bar linkage closed by a point, a body welded to it, a slider that follows a joint, a rope as a limit."""
    builder = sim.ModelBuilder()
    builder.add_ground(height=-0.75, surface=sim.Surface(friction=0.5))
    rod(builder, "left", "world", (0, 0, 0))
    rod(builder, "right", "world", (0.5, 0, 0))
    builder.add_link("rod", mass=2.0, com=(0.25, 0, 0), inertia=(0.01, 0.05, 0.05))
    builder.add_joint("elbow", "revolute", child="rod", parent="left", position=(0, 0, -0.4), axis=(0, 1, 0))
    for joint, angle in (("left_hinge", 0.5), ("right_hinge", 0.5), ("elbow", -0.5)):
        builder.joints[joint].q0[:] = angle
    builder.add_point_constraint("loop", "right", "rod", position_a=(0, 0, -0.4))
    builder.add_link("slider", mass=0.5, inertia=(0.01, 0.01, 0.01))
    builder.add_joint(
        "slide", "prismatic", child="slider", position=(0, 1, 0), axis=(1, 0, 0), spring=sim.Spring(damping=0.3)
    )
    builder.add_joint_coupling("slide", "left_hinge", ratio=0.3, offset=0.1)
    builder.add_box(name="load", half_extents=(0.1, 0.08, 0.05), mass=0.6, position=(0.1, 0.0, -0.55))
    builder.add_weld_constraint("weld", "rod", "load", position_a=(0.2, 0.0, -0.1), **loads)
    builder.add_sphere(name="ball", radius=0.08, mass=0.4, position=(0.3, 0.5, -0.66))
    builder.add_spatial_tendon("rope", [("load", (0, 0, 0)), ("ball", (0, 0, 0))], limits=(0.0, 0.56))
    names = ("anchor_a", "anchor_b", "coupling_ratio", "coupling_offset", "tendon_upper_limit", "friction")
    return Case(builder.finalize("float64"), names=names, spread=0.3, **others)


def led(contact: sim.ContactMethod | None = None, **others: Any) -> Case:
    """A led wall pushes a box over the ground, and a turntable carries a ball."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    builder.add_link("wall")
    builder.add_joint("wall", "free", child="wall", position=(-0.16, 0.0, 0.15), kinematic=True)
    builder.add_geometry("wall", "box", size=(0.05, 0.5, 0.1), surface=sim.Surface(friction=0.3))
    builder.add_box(
        name="box", half_extents=(0.1, 0.1, 0.1), mass=0.7, position=(0.0, 0.0, 0.1), surface=sim.Surface(friction=0.5)
    )
    builder.add_link("table")
    builder.add_joint("table", "revolute", child="table", position=(2.0, 0.0, 0.2), axis=(0, 0, 1), kinematic=True)
    builder.add_geometry("table", "box", size=(0.4, 0.4, 0.05), surface=sim.Surface(friction=0.8))
    builder.add_sphere(name="ball", radius=0.1, mass=0.4, position=(2.2, 0.0, 0.35), surface=sim.Surface(friction=0.7))
    model = builder.finalize("float64")
    qd = np.zeros(model.nv)
    qd[model.qd_slice("wall").start] = 0.5
    qd[model.qd_slice("table").start] = 2.0
    return Case(model, contact=contact, qd=qd, names=("friction", "geometry_size"), spread=0.01, **others)


def belts(contact: sim.ContactMethod | None = None, **others: Any) -> Case:
    """A box on a conveyor belt, and a ball that rolls on a box with tracks."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5, velocity=(0.6, 0.2, 0.0), spin=(0.0, 0.0, 0.5)))
    tracks = sim.Surface(friction=0.8, velocity=(-0.4, 0.0, 0.1), spin=(0.3, 0.2, 1.0))
    builder.add_box(half_extents=(0.2, 0.2, 0.1), mass=1.5, position=(0.0, 0.1, 0.099), surface=tracks)
    surface = sim.Surface(friction=0.7, torsional_friction=0.02)
    builder.add_sphere(radius=0.1, mass=0.4, position=(0.02, 0.1, 0.298), surface=surface)
    names = ("surface_velocity", "surface_spin", "friction", "geometry_placement")
    return Case(builder.finalize("float64"), contact=contact, names=names, spread=0.1, **others)


def led_hand(**others: Any) -> Case:
    """A hand with a finger and a tray, whose velocities are inputs of every step."""
    return Case(test_kinematic_input.hand_and_box(), lead=0.2, names=("friction", "rest_position"), **others)


def tendons(contact: sim.ContactMethod | None = None, **others: Any) -> Case:
    """Fixed and spatial tendons with limits, dry friction, a tie and actuators."""
    model = test_tendons.arm()
    q = model.q0.copy()
    q[:3] = test_tendons.Q_ARM
    qd, control = -np.cos(1.7 * np.arange(model.nv)), (0.4, 0.5, 0.2)
    return Case(model, 0.002, contact, q=q, qd=qd, control=control, names=TENDONS, **others)


def wrapped(**others: Any) -> Case:
    """A tendon around a cylinder with a side and one around a sphere, pulled by motors, with armature."""
    builder = sim.ModelBuilder()
    for name, parent, x in (("upper", "world", 0.0), ("lower", "upper", 0.4)):
        builder.add_link(name, mass=1.0, com=(0.2, 0.01, 0.02), inertia=(0.02, 0.03, 0.04))
        builder.add_joint(
            f"{name}_joint", "revolute", parent=parent, child=name, axis=(0.1, 1, 0), position=(x, 0, 1.0 - 2.5 * x),
            spring=sim.Spring(damping=0.2),
        )  # fmt: skip
    pin = sim.TendonWrap(link="upper", radius=0.05, position=(0.4, 0, 0), axis=(0, 1, 0), side=("upper", (0.4, 0, 0.3)))
    ball = sim.TendonWrap(link="world", radius=0.06, position=(0.02, 0, 1.0))
    path: list[Any] = [("world", (-0.3, 0, 1.05)), ball, ("upper", (0.25, 0, 0.05)), pin, ("lower", (0.3, 0, 0.04))]
    builder.add_spatial_tendon(
        "cord", path, spring=sim.Spring(stiffness=20.0, damping=0.5, rest=0.7), limits=(0.0, 1.1)
    )
    builder.add_fixed_tendon(
        "gear", {"upper_joint": 0.5, "lower_joint": 1.0}, spring=sim.Spring(stiffness=(3.0, 2.0)), armature=0.1
    )
    builder.add_actuator(tendon="cord", name="pull", gear=-2.0)
    builder.add_actuator(tendon="gear", name="servo", kind="position", gains=sim.Gains(kp=5.0, kd=0.3))
    names = (*TENDONS, "tendon_wrap_centre", "tendon_wrap_axis", "tendon_wrap_radius", "tendon_armature")
    model = builder.finalize("float64")
    return Case(model, 0.002, q=np.array([0.1, -0.3]), control=(0.6, 0.2), names=names, spread=0.3, **others)


def actuators(**others: Any) -> Case:
    """Actuators of all kinds on joints, some at their limits of force."""
    model = driven_arm(limits=(1.5, 4.0, 2.0, 1.0))
    names = ("actuator_gear", "actuator_kp", "actuator_kd", "actuator_force_limit", "armature")
    return Case(model, control=(0.8, 0.4, -0.5, 0.3), spread=0.4, names=names, **others)


def prepared_inputs(**others: Any) -> Case:
    """Muscles, delays, motors and integral action between inputs and force laws."""
    builder = sim.ModelBuilder()
    parent = "world"
    for number in range(2):
        link = builder.add_link(f"link{number}", mass=1.0, com=(0.15, 0, 0), inertia=(0.001, 0.01, 0.01))
        builder.add_joint(
            f"joint{number}",
            "revolute",
            parent=parent,
            child=link,
            axis=(0, 1, 0),
            position=(0.3 * number, 0, 0),
            armature=0.02,
        )
        parent = link
    builder.add_spatial_tendon("flexor", [("world", (0, 0, 0.2)), ("link0", (0.1, 0, 0.02)), ("link1", (0.1, 0, 0.03))])
    muscle = sim.Muscle(peak_force=30.0, fibre_length=0.3, slack_length=0.1)
    activation = sim.Activation("muscle", time_constant=0.02, fall_time=0.05, smoothing=0.2)
    builder.add_actuator(tendon="flexor", kind="muscle", muscle=muscle, activation=activation)
    late, motor = sim.Delay(0.012, samples=4), sim.DCMotor(stall_force=2.0, no_load_speed=3.0)
    winding = sim.Activation("current", time_constant=0.01, resistance=0.8, early=True)
    servo = sim.Gains(kp=8.0, kd=0.3)
    builder.add_actuator("joint0", "position", name="servo", gains=servo, delay=late, motor=motor, force_limit=1.5)
    builder.add_actuator("joint1", "affine", name="voltage", gains=sim.Gains(gain=0.4), activation=winding)
    pid = sim.Activation("pid", integral_limit=0.1)
    builder.add_actuator("joint1", "position", name="pid", gains=sim.Gains(4.0, 0.2, ki=6.0), activation=pid)
    parts = ("muscle_peak_force", "fall_time", "delay", "stall_force", "resistance", "ki")
    names = [f"actuator_{name}" for name in parts]
    model = builder.finalize("float64")
    return Case(model, 0.005, control=(0.5, 0.4, 1.0, 0.3), spread=0.3, names=names, **others)


def stepping_leg(**others: Any) -> Case:
    """A body on a leg of two servos, its foot on the ground, its knee at a limit."""
    names = ("actuator_kp", "upper_limit", "friction", "geometry_size")
    return Case(leg(60.0).finalize("float64"), control=(0.35, -0.2), spread=0.1, names=names, **others)


def sensors(contact: sim.ContactMethod | None = None, integrator: str = "euler", **others: Any) -> Case:
    """Sensors of contacts, touch, forces in joints and of limits, forces on geometries, and an accelerometer."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.4))
    builder.add_box(name="box", half_extents=(0.2, 0.15, 0.05), mass=2.0, position=(0.0, 0.0, 0.049))
    builder.add_sphere(name="ball", radius=0.1, mass=0.5, position=(0.03, 0.01, 0.1985))
    builder.add_link("arm", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.03, 0.03))
    builder.add_joint(
        "shoulder",
        "revolute",
        child="arm",
        position=(1.0, 0.0, 0.5),
        axis=(0, 1, 0),
        limits=sim.Limits(upper=0.1),
        spring=sim.Spring(damping=0.1),
        q0=0.099,
    )
    builder.add_geometry("arm", "sphere", size=0.05, position=(0.4, 0.0, 0.0))
    builder.add_sensor("sole", "touch", "box", zone="box", zone_size=(0.3, 0.2, 0.06))
    builder.add_sensor("stop", "joint_limit_force", "shoulder")
    builder.add_sensor("root", "force", "arm")
    builder.add_sensor("twist", "torque", "arm")
    builder.add_sensor("feels", "accelerometer", "arm")
    builder.add_contact_sensor(
        "net", ["found", "force", "torque", "position"], geometries=["box/geometry"], choice="net"
    )
    builder.add_contact_sensor("deep", ["force", "distance"], against=["ball/geometry"], choice="nearest", most=2)
    model = builder.finalize("float64")
    measured = ["box/geometry", "ball/geometry", "sole", "stop", "root", "twist", "net", "deep"]
    options = {"contact_sensors": measured, "integrator": integrator}
    return Case(model, contact=contact, names=("friction", "geometry_size"), options=options, steps=30, **others)


def flying(compliant: bool = True, **others: Any) -> Case:
    """Bodies on spherical joints with limits in a medium with wind, with compensated weight, and a compliant limit."""
    builder = sim.ModelBuilder()
    builder.set_medium(density=1.2, viscosity=2e-5, wind=(3.0, 1.0, 0.0))
    cones: list[tuple[str, Any]] = [
        ("world", sim.Limits(swing=0.2, twist=0.1)),
        ("link0", sim.Limits(rotation=0.3)),
    ]
    for number, (parent, limits) in enumerate(cones):
        name = builder.add_link(
            f"link{number}", mass=1.0, com=(0.05, 0.0, -0.2), inertia=(0.02, 0.03, 0.01), gravity_compensation=0.4
        )
        builder.add_joint(
            f"ball{number}",
            "spherical",
            child=name,
            parent=parent,
            position=(0, 0, -0.4 * number),
            spring=sim.Spring(damping=0.05),
            limits=limits,
        )
        builder.add_drag_box(name, size=(0.1, 0.2, 0.4), position=(0, 0, -0.2))
    soft = {"stiffness": 200.0, "damping": 2.0} if compliant else {}
    builder.add_link("rotor", mass=0.5, inertia=(0.01, 0.02, 0.03))
    builder.add_joint(
        "spin", "revolute", parent="link1", child="rotor", position=(0, 0, -0.4), axis=(0.2, 0, 1),
        limits=sim.Limits(upper=0.05, margin=0.02, **soft),
    )  # fmt: skip
    model = builder.finalize("float64")
    names = (
        "swing_limit", "twist_limit", "rotation_limit", "limit_stiffness", "limit_damping", "gravity_compensation",
        "medium_density", "wind", "joint_placement",
    )  # fmt: skip
    return Case(model, qd=np.tile((2.0, -3.0, 1.5), 3)[: model.nv], names=names, spread=0.3, **others)


def soft_ground(**others: Any) -> Case:
    """Compliant bodies with rules of friction and friction of a pair of geometries."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.6))
    soft = sim.Surface(friction=0.5, stiffness=3e3, damping=20.0)
    builder.add_sphere(name="soft", radius=0.1, mass=1.0, position=(0.0, 0.0, 0.098), surface=soft)
    builder.add_box(
        name="slow", half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.5, 0, 0.1), surface=sim.Surface(friction=0.9)
    )
    builder.set_pair_friction("ground", "slow/geometry", friction=0.2)
    model = builder.finalize("float64")
    names = ("contact_stiffness", "contact_damping", "friction")
    return Case(model, qd=np.tile((0.6, 0.2, 0, 0, 0, 0.5), 2), names=names, spread=0.1, **others)


def dampers(**others: Any) -> Case:
    """A damped cord between an arm of a forked tree and a free body."""
    model = test_rate_damping.cord_between("load", "free", 0.3)
    names = ("tendon_damping", "tendon_damping_polynomial", "tendon_point", "mass")
    return Case(model, qd=np.linspace(-1.0, 1.0, model.nv), names=names, spread=0.1, **others)


def pose_springs(**others: Any) -> Case:
    """Ball joints in a chain and a free body on springs."""
    model = test_pose_springs.model()
    names = ("stiffness", "rest_position")
    return Case(model, q=test_pose_springs.turned_by(model, 1.0), names=names, spread=0.3, per_world=names, **others)


register("loops_1", loops)
register("loops_16", loops, worlds=16)
register("loops_pgs", loops, contact=PGS)
register("loops_breaking", loops, {"break_force": 5.6})
register("led_1", led)
register("led_16", led, worlds=16)
register("led_input_1", led_hand)
register("led_input_16", led_hand, worlds=16, interval=3)
register("belts_1", belts)
register("belts_16", belts, worlds=16)
register("tendons_1", tendons)
register("tendons_16", tendons, worlds=16)
register("tendons_pgs", tendons, PGS)
register("wrapped_1", wrapped)
register("wrapped_16", wrapped, worlds=16)
register("actuators_1", actuators)
register("actuators_32", actuators, worlds=32)
register("inputs_1", prepared_inputs)
register("inputs_16", prepared_inputs, worlds=16)
register("inputs_mujoco", prepared_inputs, contact=sim.MujocoContact())
register("leg", stepping_leg)
register("sensors_1", sensors)
register("sensors_16", sensors, worlds=16)
register("sensors_pgs", sensors, PGS)
register("flying_1", flying)
register("flying_16", flying, worlds=16)
register("soft_ground", soft_ground)
register("springs_1", pose_springs)
register("springs_16", pose_springs, worlds=16)
register("springs_mujoco", pose_springs, contact=sim.MujocoContact())
register("springs_midpoint", pose_springs, worlds=16, options={"integrator": "midpoint"})
register("midpoint_flying", flying, worlds=16, options={"integrator": "midpoint"})
register("midpoint_loops", loops, options={"integrator": "midpoint"})
register("midpoint_dampers_1", dampers, options={"integrator": "midpoint"})
register("midpoint_dampers_16", dampers, worlds=16, options={"integrator": "midpoint"})
