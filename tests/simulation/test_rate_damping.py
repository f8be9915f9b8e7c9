"""Velocity-dependent forces of tendons, frames and a medium in the midpoint step: order, MuJoCo, gradients, rest."""

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

import sim
from sim.dynamics.kinematics import tendon_lengths
from sim.model.shapes.inertia import box_mobilities
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.test_linearisation import check_linearisation
from tests.simulation.test_step_lanes import BETWEEN
from warp_kernels.types import LANES

INERTIA = ((0.02, 0.001, 0.0005), (0.001, 0.03, 0.002), (0.0005, 0.002, 0.025))
FREE_MOTION = sim.HardContact(max_contacts=0)
MIDPOINT = {"device": "cpu", "integrator": "midpoint", "contact": FREE_MOTION}
MEDIUM = ("medium_density", "medium_viscosity", "wind")
GAINS = ("actuator_kp", "actuator_kd", "actuator_gear")


def arm(root: str = "spherical") -> sim.ModelBuilder:
    """Three links on ball joints and a hinge."""
    builder = sim.ModelBuilder()
    for name, parent, kind, x in (("base", "world", root, 0), ("upper", "base", "spherical", 0.2)):
        builder.add_link(name, mass=0.8, com=(0.05, 0.02, -0.03), inertia=INERTIA)
        builder.add_joint(f"to {name}", kind, parent=parent, child=name, position=(x, 0, 0))
    builder.add_link("lower", mass=0.5, com=(0.1, 0.0, -0.03), inertia=INERTIA)
    builder.add_joint("elbow", "revolute", parent="upper", child="lower", position=(0.3, 0, 0), axis=(0, 1, 0.3))
    return builder


def swimmer() -> sim.Model:
    builder = arm("free")
    builder.set_medium(density=100.0, viscosity=1.0, wind=(1.0, 0.5, 0.2))
    for name in ("base", "upper", "lower"):
        builder.add_drag_box(name, size=(0.1, 0.2, 0.15), position=(0.05, 0.02, 0.03))
    return builder.finalize("float64")


def falling_body() -> sim.Model:
    builder = sim.ModelBuilder()
    builder.set_medium(density=20.0, viscosity=0.5)
    builder.add_link("body", mass=1.0, com=(0.05, 0.02, -0.03), inertia=INERTIA)
    builder.add_joint("free", "free", child="body")
    builder.add_drag_box("body", size=(0.1, 0.2, 0.15), position=(0.05, 0.02, 0.03))
    return builder.finalize("float64")


def branched() -> sim.Model:
    """Legs on a trunk with two boxes, one leg without a box between others, and slides, of which one has a box."""
    builder = sim.ModelBuilder()
    builder.set_medium(density=50.0, viscosity=0.5, wind=(0.3, -0.5, 0.2))
    builder.add_link("trunk", mass=2.0, com=(0.05, 0.02, -0.03), inertia=INERTIA)
    builder.add_joint("free", "free", child="trunk")
    builder.add_drag_box("trunk", size=(0.3, 0.2, 0.1))
    for side, kind in ((1, "revolute"), (-1, "spherical")):
        parent = "trunk"
        for number, joint in enumerate((kind, "revolute", "prismatic")):
            name = f"leg {side} {number}"
            builder.add_link(name, mass=0.5, com=(0.0, 0.03, -0.1), inertia=INERTIA)
            builder.add_joint(f"to {name}", joint, parent=parent, child=name, position=(0.1, 0.1 * side, -0.1))
            if number != 1:
                builder.add_drag_box(
                    name, size=(0.05, 0.1, 0.2), position=(0.02, 0, -0.1), orientation=(0.3, 0.1, 0, 0.9)
                )
            parent = name
    builder.add_drag_box("trunk", size=(0.1, 0.1, 0.3), position=(0.1, 0.0, 0.2), orientation=(0.1, 0.5, 0.2, 0.8))
    for name in ("sled", "wagon"):
        builder.add_link(name, mass=0.5, inertia=INERTIA)
        builder.add_joint(f"to {name}", "prismatic", child=name, axis=(1, 0, 0.2))
    builder.add_drag_box("wagon", size=(0.05, 0.1, 0.2), orientation=(0.3, 0.1, 0, 0.9))
    return builder.finalize("float64")


def slides() -> sim.Model:
    """No joint turns, so that no tree is coupled."""
    builder, parent = sim.ModelBuilder(), "world"
    builder.set_medium(density=50.0, viscosity=0.5, wind=(0.3, -0.5, 0.2))
    for number, name in enumerate(("sled", "wagon")):
        builder.add_link(name, mass=0.5, inertia=INERTIA)
        builder.add_joint(f"to {name}", "prismatic", parent=parent, child=name, axis=(1, 0.3 * number, 0.2))
        builder.add_drag_box(name, size=(0.05, 0.1, 0.2), orientation=(0.3, 0.1, 0, 0.9))
        parent = name
    return builder.finalize("float64")


PATH = [("world", (-0.3, 0, 0.3)), ("upper", (0.05, 0, 0.1)), ("lower", (0.2, 0, 0.04))]


def damped_cord() -> sim.Model:
    builder = arm()
    spring = sim.Spring(damping=(8.0, 2.0, 1.0))
    builder.add_spatial_tendon("cord", PATH, spring=spring)
    return builder.finalize("float64")


def driven_cord() -> sim.Model:
    builder = arm()
    builder.add_spatial_tendon("cord", PATH)
    builder.add_actuator(tendon="cord", kind="position", gains=sim.Gains(40.0, 8.0), gear=0.7, name="servo")
    return builder.finalize("float64")


def driven_frame(reference: str | None = None) -> sim.Model:
    builder = arm()
    builder.add_frame("site", "lower", position=(0.2, 0.1, 0.0))
    builder.add_frame("ref", "base", position=(0.0, 0.1, 0.0))
    builder.add_actuator(
        frame="site", kind="velocity", gains=sim.Gains(kd=5.0), name="gain", force_axis=(0.2, 0.0, 1.0),
        torque_axis=(0.0, 0.05, 0.1), reference=reference,
    )  # fmt: skip
    return builder.finalize("float64")


def forked(load: str = "") -> sim.ModelBuilder:
    """Two arms on a base that turns, and perhaps a load with a joint of its own."""
    builder = sim.ModelBuilder()
    builder.add_link("base", mass=0.8, com=(0.05, 0.02, -0.03), inertia=INERTIA)
    builder.add_joint("to base", "spherical", child="base")
    for side in (1, -1):
        for number, (joint, parent) in enumerate((("revolute", "base"), ("spherical", f"arm {side} 0"))):
            name = f"arm {side} {number}"
            builder.add_link(name, mass=0.5, com=(0.1, 0.03 * side, -0.03), inertia=INERTIA)
            axis = {"axis": (0.1 * side, 1, 0.3)} if joint == "revolute" else {}
            builder.add_joint(
                f"to {name}", joint, parent=parent, child=name, position=(0.2, 0.15 * side * (1 - number), 0), **axis
            )
    if load:
        builder.add_link("load", mass=0.7, com=(0.02, 0.0, 0.01), inertia=INERTIA)
        builder.add_joint("to load", load, child="load", position=(0.3, 0.1, -0.6))
    return builder


def cord_between(other: str, joint: str = "", share: float = 1.0) -> sim.Model:
    """A damped cord between the ends of two branches, or of an arm and another tree."""
    builder = forked(joint)
    path = [("arm 1 1", (0.1, 0, 0.1)), (other, (0.1, 0.05, 0.0))]
    builder.add_spatial_tendon("cord", path, spring=sim.Spring(damping=(8.0 * share, 2.0 * share, share)))
    return builder.finalize("float64")


def driven_gear() -> sim.Model:
    """A servo that moves two arms at once, as that of a gripper does."""
    builder = forked()
    builder.add_fixed_tendon("gear", {"to arm 1 0": 1.0, "to arm -1 0": -0.7})
    builder.add_actuator(tendon="gear", kind="position", gains=sim.Gains(4.0, 0.8), gear=0.7, name="servo")
    return builder.finalize("float64")


def frame_by_other_arm() -> sim.Model:
    builder = forked()
    builder.add_frame("site", "arm 1 1", position=(0.2, 0.1, 0.0))
    builder.add_frame("ref", "arm -1 0", position=(0.0, 0.1, 0.0))
    builder.add_actuator(
        frame="site", kind="velocity", gains=sim.Gains(kd=5.0), name="gain", force_axis=(0.2, 0.0, 1.0),
        torque_axis=(0.0, 0.05, 0.1), reference="ref",
    )  # fmt: skip
    return builder.finalize("float64")


CORD = ("tendon_damping", "tendon_damping_polynomial", "tendon_point")
CASES: dict[str, tuple[Callable[[], sim.Model], tuple[str, ...]]] = {
    "swimmer": (swimmer, MEDIUM), "falling body": (falling_body, MEDIUM), "legs": (branched, MEDIUM),
    "slides": (slides, MEDIUM),
    "cord": (damped_cord, CORD), "cord between branches": (lambda: cord_between("arm -1 1"), CORD),
    "cord between trees": (lambda: cord_between("load", "spherical"), CORD),
    "cord with a free body": (lambda: cord_between("load", "free", 0.1), CORD),
    "gear of two arms": (driven_gear, GAINS),
    "frame by another arm": (frame_by_other_arm, (*GAINS[1:], "actuator_force_axis")),
    "servo on a cord": (driven_cord, GAINS), "frame": (driven_frame, GAINS[1:]),
    "frame by another": (lambda: driven_frame("ref"), (*GAINS[1:], "actuator_force_axis")),
}  # fmt: skip


def start(model: sim.Model, worlds: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    q = sim.integrate(model, np.tile(model.q0, (worlds, 1)), 0.3 * rng.normal(size=(worlds, model.nv))).numpy()
    return q, 2.0 * rng.normal(size=(worlds, model.nv))


def inputs(model: sim.Model, steps: int, worlds: int = 1) -> dict[str, np.ndarray]:
    return {"control": np.full((steps, worlds, model.nu), 0.3)} if model.nu else {}


@pytest.mark.parametrize("case", CASES)
def test_second_order(case):
    """Half of the step, a quarter of the error, beside a reference with a step sixteen times finer."""
    model = CASES[case][0]()
    ends = []
    for dt in (4e-3, 2e-3, 1e-3, 1e-3 / 16):
        steps = round(0.2 / dt)
        simulator = sim.Simulator(model, dt, **MIDPOINT)
        state = simulator.state(*start(model))
        final = simulator.rollout(state, steps=steps, **inputs(model, steps)).final_state
        ends.append(np.concatenate([x[0] for x in final.numpy()]))
    errors = [np.abs(end - ends[-1]).max() for end in ends[:-1]]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 1.85).all(), (orders, errors)


@pytest.mark.parametrize("dt", [0.004, 0.04])
@pytest.mark.parametrize("case", CASES)
def test_gradients(case, dt):
    """With small steps and with steps for which the damping is stiff."""
    build, parameters = CASES[case]
    model = build()
    names = ["q", "qd", "tau", "mass", "com", "inertia", "armature", "joint_placement", *parameters]
    names += ["control"] if model.nu else []
    simulator = sim.Simulator(model, dt, **MIDPOINT)
    tau = np.random.default_rng(1).normal(size=(3, 1, model.nv))
    state = simulator.state(*start(model))
    report = sim.check_gradients(simulator, state, tau, names, most=6, **inputs(model, 3))
    assert not report.wrong


@pytest.mark.cpu_shapes  # a GPU has no lane groups
@pytest.mark.parametrize("case", CASES)
def test_lane_groups_as_single_worlds(case, monkeypatch):
    """With parameters that differ between worlds, and their gradients."""
    build, names = CASES[case]
    model, worlds, found = build(), LANES + 3, []
    rng = np.random.default_rng(3)
    own = {name: np.asarray(model.parameters[name]) for name in names}
    own = {name: value * rng.uniform(0.8, 1.2, (worlds, *value.shape)) for name, value in own.items()}
    for lanes in (LANES, 1):
        monkeypatch.setattr(BETWEEN, lambda given, worlds, lanes=lanes: lanes)
        simulator = sim.Simulator(model, 1 / 240, worlds, **MIDPOINT)
        simulator.parameters.update(own)
        trajectory = simulator.rollout(simulator.state(*start(model, worlds)), steps=5, **inputs(model, 5, worlds))
        bars = trajectory.backward(np.ones((worlds, model.nq)), np.ones((worlds, model.nv)), parameters=names)
        states = [array.numpy() for array in (trajectory.qd, bars.q, bars.qd)]
        found.append(states + [bars.parameters[name] for name in names])
    for several, single in zip(*found, strict=True):
        np.testing.assert_allclose(several, single, rtol=0.0, atol=1e-11 * np.abs(single).max())


XML = """<mujoco><option timestep="{dt}" density="60" viscosity="0.4" wind="0.3 -0.2 0.5" integrator="RK4">
  <flag contact="disable"/></option>
<worldbody><site name="wall" pos="-0.3 0.1 1.2"/>
<body pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.05 0.02" quat="0.9 0.1 0.3 -0.2" mass="0.8"/>
  <body pos="0.1 0 0.05"><joint name="h" axis="1 0.1 0"/><site name="a" pos="0.1 0 0.1"/>
    <geom type="ellipsoid" size="0.03 0.06 0.02" quat="0.8 0.2 0 0.1" mass="0.3"/>
    <body pos="0.15 0 0"><joint name="j" axis="0 1 0.2"/><site name="b" pos="0.15 0.05 0"/>
      <geom type="box" size="0.1 0.02 0.03" pos="0.1 0 0.05" quat="0.9 0.1 0 0.3" mass="0.3"/></body></body>
</body></worldbody>
<tendon><spatial name="cord" damping="0.5" stiffness="20" springlength="0.3">
  <site site="wall"/><site site="a"/><site site="b"/></spatial>
  <fixed name="gear"><joint joint="h" coef="1"/><joint joint="j" coef="-0.5"/></fixed></tendon>
<actuator><velocity site="b" gear="1 0 0.3 0 0.1 0" kv="0.3"/><velocity tendon="gear" kv="0.02"/></actuator></mujoco>"""


# Two arms on a base, and a ball: a cord from one to the other, one to the ball, a gear, and a site relative to another.
FORK = """<mujoco><option timestep="{dt}" integrator="RK4"><flag contact="disable"/></option>
<worldbody><body pos="0 0 1"><joint type="ball"/><geom type="box" size="0.1 0.05 0.02" mass="0.8"/>
  <body pos="0.1 0.1 0.05"><joint name="h" axis="1 0.1 0"/><site name="a" pos="0.1 0.05 0.1"/>
    <geom type="box" size="0.03 0.06 0.02" pos="0.05 0 0" quat="0.8 0.2 0 0.1" mass="0.3"/></body>
  <body pos="0.1 -0.1 0"><joint name="j" axis="0 1 0.2"/><site name="b" pos="0.15 0.05 0" quat="0.9 0.2 0.1 0"/>
    <geom type="box" size="0.1 0.02 0.03" pos="0.1 0 0.05" quat="0.9 0.1 0 0.3" mass="0.3"/></body></body>
  <body pos="0.3 0 0.6"><freejoint/><site name="c" pos="0.02 0 0.1"/>
    <geom type="box" size="0.1 0.08 0.12" quat="0.9 0.1 0 0.3" mass="1"/></body>
</worldbody>
<tendon><spatial name="cord" damping="0.5" stiffness="20" springlength="0.1"><site site="a"/><site site="b"/></spatial>
  <spatial name="rope" damping="0.3" stiffness="10" springlength="0.1"><site site="a"/><site site="c"/></spatial>
  <fixed name="gear"><joint joint="h" coef="1"/><joint joint="j" coef="-0.5"/></fixed></tendon>
<actuator><general site="b" refsite="a" gear="1 0 0.3 0 0.1 0" biastype="affine" biasprm="0 -1 -0.3"/>
  <velocity tendon="gear" kv="0.02"/></actuator></mujoco>"""


@pytest.mark.parametrize("xml", [XML, FORK], ids=["chain", "fork"])
def test_beside_runge_kutta_of_mujoco(xml, tmp_path: Path):
    """With hydrodynamic drag, damped cords and velocity gains on a tendon and on a site, within a chain and between
    branches and trees.
    """
    file = tmp_path / "all.xml"
    file.write_text(xml.format(dt=2e-4))
    model, peer = load_quietly(file), mujoco.MjModel.from_xml_path(str(file))
    rng = np.random.default_rng(0)
    q, qd = model.q0.copy(), rng.normal(size=model.nv)
    data = data_at(peer, model, q, qd)
    data.ctrl[:] = (0.4, -0.3)
    for _ in range(1000):
        mujoco.mj_step(peer, data)
    errors = []
    for dt in (2e-3, 1e-3, 5e-4, 2.5e-4):
        simulator = sim.Simulator(model, dt, **MIDPOINT)
        control = np.tile((0.4, -0.3), (round(0.2 / dt), 1))
        final = simulator.rollout(simulator.state(q, qd), control=control, steps=len(control)).final_state
        found = sim.to_mujoco(model, *(array[0] for array in final.numpy()))
        errors.append(max(np.abs(found[0] - data.qpos).max(), np.abs(found[1] - data.qvel).max()))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 1.9).all(), (orders, errors)
    assert errors[-1] < 1e-4


@pytest.mark.parametrize("between", ["links of a chain", "branches"])
def test_a_cord_with_a_stiff_damper_keeps_its_length(between):
    """Its force is evaluated at the end of the step: no oscillation, however stiff."""
    builder = arm() if between == "links of a chain" else forked()
    path = PATH if between == "links of a chain" else [("arm 1 1", (0.1, 0, 0.1)), ("arm -1 1", (0.1, 0.05, 0.0))]
    builder.add_spatial_tendon("cord", path, spring=sim.Spring(damping=1e6))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 1 / 240, **MIDPOINT)
    q, qd = start(model)
    trajectory = simulator.rollout(simulator.state(q, qd), steps=200)
    lengths = np.array([tendon_lengths(model, q)[0] for q in trajectory.q.numpy()[2:, 0]])
    # Points that move by v across the cord lengthen it by (h v)^2 / 2L in a step: 5 m/s.
    assert np.abs(np.diff(lengths) * lengths[1:]).max() < 2e-4


@pytest.mark.parametrize(("dtype", "damping", "precision"), [("float32", 1e6, 5e-3), ("float64", 1e8, 1e-7)])
def test_a_stiff_damper_within_a_chain_keeps_momentum(dtype, damping, precision):
    """One sled drives on another."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for name, parent, mass in (("lower", "world", 0.5), ("upper", "lower", 2.0)):
        builder.add_link(name, mass=mass, inertia=INERTIA)
        builder.add_joint(f"to {name}", "prismatic", parent=parent, child=name, axis=(1, 0, 0))
    builder.add_fixed_tendon("damper", {"to upper": 1.0}, spring=sim.Spring(damping=damping))
    simulator = sim.Simulator(builder.finalize(dtype), 1 / 240, **MIDPOINT)
    velocity = simulator.rollout(simulator.state(np.zeros(2), [1.0, -1.3]), steps=3).qd.numpy()[-1, 0]
    assert 0.5 * velocity[0] + 2.0 * (velocity[0] + velocity[1]) == pytest.approx(-0.1, rel=0.0, abs=precision)


@pytest.mark.parametrize("stiff", [0.1, 1.0, 1e4])
def test_viscous_drag_slows_a_ball_as_in_closed_form(stiff):
    """From v to 2 v / (2 + 2 y + y^2) in a step, y = h d / m: of second order, and without a change of sign."""
    dt, mass, edge = 1 / 240, 2.0, 0.1
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.set_medium(density=0.0, viscosity=stiff * mass / (dt * 3.0 * np.pi * edge))
    builder.add_sphere(radius=0.05, mass=mass, name="ball")
    builder.add_drag_box("ball", size=(edge, edge, edge))
    simulator = sim.Simulator(builder.finalize("float64"), dt, **MIDPOINT)
    start = np.array([1.0, -0.5, 0.3, 0.0, 0.0, 0.0])
    found = simulator.rollout(simulator.state(simulator.model.q0, start), steps=1).qd.numpy()[-1, 0]
    np.testing.assert_allclose(found, start * 2.0 / (2.0 + 2.0 * stiff + stiff**2), rtol=0.0, atol=1e-15)


def test_inverse_masses_of_a_box():
    """Of a free body they are those about its centre of mass, of a door those of its hinge."""
    builder = sim.ModelBuilder()
    builder.set_medium(density=1.0)
    for name, joint in (("body", "free"), ("door", "revolute")):
        builder.add_link(name, mass=2.0, inertia=(0.1, 0.2, 0.3))
        builder.add_joint(f"to {name}", joint, child=name, axis=(0, 0, 1))
        builder.add_drag_box(name, size=(1, 1, 1), position=(0.5, 0.0, 0.0) if name == "door" else (0, 0, 0))
    found = box_mobilities(builder.finalize("float64"))
    np.testing.assert_allclose(found, [[1 / 2.0, 1 / 0.1], [0.5**2 / 0.3, 1 / 0.3]], rtol=1e-12)


def test_a_grip_presses_with_its_force():
    """A damped cord pulls a door onto its stop: at rest the damper takes nothing of the force."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("door", mass=1.0, com=(0.2, 0.0, 0.0), inertia=INERTIA)
    builder.add_joint("hinge", "revolute", child="door", axis=(0, 0, 1), limits=sim.Limits(upper=0.0))
    builder.add_fixed_tendon("cord", {"hinge": 0.5}, spring=sim.Spring(damping=100.0))
    builder.add_actuator(tendon="cord", name="pull")
    builder.add_sensor("stop", "joint_limit_force", "hinge")
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 1 / 240, device="cpu", integrator="midpoint", contact_sensors=["stop"])
    trajectory = simulator.rollout(simulator.initial_state(), control=np.full((50, 1), 8.0), steps=50)
    np.testing.assert_allclose(trajectory.contact_force.numpy()[-1, 0, 0, 0], 4.0, rtol=1e-6)


def sleds(stiff: float, pairs: int = 1, dampers: int = 1, dtype: str = "float64") -> sim.Model:
    """Pairs of sleds on one line with dampers between them, for each of which y = h d (1 / m + 1 / m') at 1/240 s."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for pair in range(pairs):
        for number, mass in enumerate((0.5, 2.0)):
            name = f"sled {pair} {number}"
            builder.add_link(name, mass=mass, inertia=INERTIA)
            builder.add_joint(f"to {name}", "prismatic", child=name, axis=(1, 0, 0))
        spring = sim.Spring(damping=stiff * 240.0 / (1 / 0.5 + 1 / 2.0))
        names = {f"to sled {pair} {number}": sign for number, sign in ((0, -1.0), (1, 1.0))}
        for number in range(dampers):
            builder.add_fixed_tendon(f"damper {pair} {number}", names, spring=spring)
    return builder.finalize(dtype)


def slowed(stiff: float, dampers: int = 1) -> np.ndarray:
    """Return the velocities of both sleds after a step from 1 and -0.3 m/s.

    n dampers whose forces are evaluated at the share td = (1 + y) / (2 + y) of the step change the rate from s to
    s (1 - n y / (1 + n td y)), and the momentum stays.
    """
    share = (1.0 + stiff) / (2.0 + stiff)
    rate = -1.3 * (1.0 - dampers * stiff / (1.0 + dampers * share * stiff))
    return (0.5 - 0.6 + np.array([-2.0, 0.5]) * rate) / 2.5


PGS = sim.PgsContact(max_contacts=0)
SOLVERS = pytest.mark.parametrize("contact", [FREE_MOTION, PGS], ids=["newton", "pgs"])


@SOLVERS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stiff", [1e-6, 0.1, 1.0, 1e3, 1e4, 1e6, 1e8])
def test_a_damper_slows_two_sleds_as_in_closed_form(stiff, dtype, contact):
    """As a ball in a viscous medium; their momentum stays."""
    simulator = sim.Simulator(sleds(stiff, dtype=dtype), 1 / 240, device="cpu", integrator="midpoint", contact=contact)
    found = simulator.rollout(simulator.state(np.zeros(2), [1.0, -0.3]), steps=1).qd.numpy()[-1, 0]
    np.testing.assert_allclose(slowed(stiff) @ [-1.0, 1.0], -1.3 * 2.0 / (2.0 + 2.0 * stiff + stiff**2), atol=1e-15)
    precision = {"float64": 1e-12 if stiff <= 1.0 else 1e-9, "float32": 1e-6 if stiff <= 1.0 else 1e-4}[dtype]
    np.testing.assert_allclose(found, slowed(stiff), rtol=0.0, atol=precision)
    momentum = np.dot([0.5, 2.0], found.astype(float))
    np.testing.assert_allclose(momentum, 0.5 - 0.6, rtol=0.0, atol=1e-12 if dtype == "float64" else 1e-7)
    assert not any(force.any() for force in simulator.constraint_force.values())


@SOLVERS
@pytest.mark.parametrize("stiff", [1e3, 1e4, 1e6, 1e12])
def test_gradients_by_stiff_dampers_in_single_precision(stiff, contact):
    """Beside those in double precision, of both velocities by both."""
    found = []
    for dtype in ("float32", "float64"):
        model = sleds(stiff, dtype=dtype)
        simulator = sim.Simulator(model, 1 / 240, 2, device="cpu", integrator="midpoint", contact=contact)
        state = simulator.state(np.zeros((2, 2)), np.tile([1.0, -0.3], (2, 1)))
        bars = simulator.rollout(state, steps=3).backward(np.zeros((2, 2)), np.eye(2))
        found.append(bars.qd.numpy())
    np.testing.assert_allclose(*found, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("stiff", [6.0, 10.0, 50.0, 1e6])
@pytest.mark.parametrize("dampers", [2, 20])
def test_dampers_on_the_same_joints(dampers, stiff):
    """Newton's method solves for all; sweeps come about as close as their residual says."""
    for contact in (FREE_MOTION, PGS):
        model = sleds(stiff, dampers=dampers)
        simulator = sim.Simulator(model, 1 / 240, device="cpu", integrator="midpoint", contact=contact)
        found = simulator.rollout(simulator.state(np.zeros(2), [1.0, -0.3]), steps=1).qd.numpy()[-1, 0]
        error = np.abs(found - slowed(stiff, dampers)).max()
        assert error < (1e-8 if contact is FREE_MOTION else 2.0 * simulator.residual[0])
        assert error < 0.015
        np.testing.assert_allclose(np.dot([0.5, 2.0], found), 0.5 - 0.6, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("limit", [0.1, 1e3])
@pytest.mark.parametrize("on", ["tendon", "frame"])
def test_a_velocity_gain_between_trees_is_held_to_its_limit(on, limit):
    """At the limit the force is constant, below it the gain damps."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for number, mass in enumerate((0.5, 2.0)):
        builder.add_link(f"sled {number}", mass=mass, inertia=INERTIA)
        builder.add_joint(f"to sled {number}", "prismatic", child=f"sled {number}", axis=(1, 0, 0))
        builder.add_frame(f"frame {number}", f"sled {number}")
    place = {"frame": "frame 1", "reference": "frame 0", "force_axis": (1.0, 0.0, 0.0)}
    if on == "tendon":
        builder.add_fixed_tendon("between", {"to sled 0": -1.0, "to sled 1": 1.0})
        place = {"tendon": "between"}
    gains = sim.Gains(kd=3.0 * 240.0 / 2.5)
    builder.add_actuator(name="brake", kind="velocity", gains=gains, force_limit=limit, **place)
    simulator = sim.Simulator(builder.finalize("float64"), 1 / 240, **MIDPOINT)
    found = simulator.rollout(simulator.state(np.zeros(2), [1.0, -0.3]), steps=1).qd.numpy()[-1, 0]
    held = [1.0 - limit / 240.0 / 0.5, -0.3 + limit / 240.0 / 2.0]
    np.testing.assert_allclose(found, held if limit < 1.0 else slowed(3.0), rtol=0.0, atol=1e-11)


def test_dampers_between_many_trees():
    """In a world that is divided into islands each pair of sleds moves as alone."""
    pairs, found = 33, []
    for count in (pairs, 1):
        model = sleds(0.5, count)
        simulator = sim.Simulator(model, 1 / 240, **MIDPOINT)
        trajectory = simulator.rollout(simulator.state(model.q0, np.tile([1.0, -0.3], count)), steps=3)
        bars = trajectory.backward(np.ones((1, model.nq)), np.ones((1, model.nv)), parameters=["tendon_damping"])
        found.append([trajectory.qd.numpy()[-1, 0], bars.qd.numpy()[0], bars.parameters["tendon_damping"]])
    for many, single in zip(*found, strict=True):
        np.testing.assert_allclose(many, np.tile(single, pairs), rtol=0.0, atol=1e-12)


def test_fingers_press_with_the_force_of_their_gear():
    """A damped tendon pulls two doors onto their stops: at rest the damper takes nothing of the force."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for name in ("left", "right"):
        builder.add_link(name, mass=1.0, com=(0.2, 0.0, 0.0), inertia=INERTIA)
        builder.add_joint(f"{name} hinge", "revolute", child=name, axis=(0, 0, 1), limits=sim.Limits(upper=0.0))
        builder.add_sensor(name, "joint_limit_force", f"{name} hinge")
    builder.add_fixed_tendon("gear", {"left hinge": 0.5, "right hinge": 0.25}, spring=sim.Spring(damping=100.0))
    builder.add_actuator(tendon="gear", name="pull")
    sensors = ["left", "right"]
    simulator = sim.Simulator(
        builder.finalize("float64"), 1 / 240, device="cpu", integrator="midpoint", contact_sensors=sensors
    )
    trajectory = simulator.rollout(simulator.initial_state(), control=np.full((50, 1), 8.0), steps=50)
    np.testing.assert_allclose(trajectory.contact_force.numpy()[-1, 0, :, 0], [4.0, 2.0], rtol=1e-6)


@pytest.mark.parametrize("case", ["cord between trees", "gear of two arms", "frame by another arm"])
def test_linearisation(case):
    """Beside central differences."""
    model = CASES[case][0]()
    simulator = sim.Simulator(model, 0.004, **MIDPOINT)
    check_linearisation(simulator, simulator.state(*start(model)), np.linspace(-1.0, 1.0, model.nv))
