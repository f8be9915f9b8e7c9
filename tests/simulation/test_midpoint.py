"""The midpoint step: lane groups, matrices and gradients beside those of single worlds and differences."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from scenes.physics import spinning
from sim.model.shapes.inertia import symmetry_axes
from tests.actuators.worlds import arm as servo_arm
from tests.contact.test_equalities import four_bar
from tests.contact.test_gradients import TILT, at, ball, box
from tests.contact.test_random_gradients import PARAMETERS, scene
from tests.dynamics.trees import Link
from tests.errors import raises_naming
from tests.simulation.differences import STATE, Case, Weights, analytic, finite_differences, regimes
from tests.simulation.test_linearisation import check_linearisation, tumbling_arm
from tests.simulation.test_step_lanes import BETWEEN, CASES, run
from warp_kernels.types import LANES

H = 1 / 240
FREE_MOTION = sim.HardContact(max_contacts=0)
MIDPOINT = {"device": "cpu", "integrator": "midpoint"}


@pytest.mark.cpu_shapes  # a GPU has no lane groups
@pytest.mark.parametrize(
    "case", ["contacts", "all joints", "bodies that touch", "joined", "points that coincide", "actuators", "sweeps"]
)
def test_lane_groups_as_single_worlds(case, monkeypatch):
    model, contact = CASES[case]
    several = run(model, contact, LANES, integrator="midpoint")
    monkeypatch.setattr(BETWEEN, lambda lanes, worlds: 1)
    single = run(model, contact, 1, integrator="midpoint")
    for name, expected in single.items():
        size = np.abs(expected).max(initial=1e-3)
        np.testing.assert_allclose(several[name], expected, rtol=0.0, atol=1e-9 * size, err_msg=name)


def test_matrices_of_every_type_of_joint():
    """Turning fast, so that a rotation and its velocity don't commute."""
    model = tumbling_arm()
    rng = np.random.default_rng(3)
    q = sim.integrate(model, model.q0[None], rng.normal(size=(1, model.nv))).numpy()[0]
    simulator = sim.Simulator(model, H, **MIDPOINT)
    check_linearisation(simulator, simulator.state(q, 40.0 * rng.normal(size=model.nv)), rng.normal(size=model.nv))


def test_matrices_of_a_box_that_lands_and_a_ball_that_bounces():
    velocity, tau = np.array([1.0, 0.2, -0.5, 0.2, 0.1, 0.3]), 0.1 * np.arange(6.0)
    model = box(orientation=TILT)
    simulator = sim.Simulator(model, H, **MIDPOINT)
    check_linearisation(simulator, simulator.state(at(model, 0.0517), velocity), tau)
    model = ball(restitution=0.8)
    simulator = sim.Simulator(model, H, **MIDPOINT)
    velocity[2] = -3.0
    check_linearisation(simulator, simulator.state(at(model, 0.108), velocity), tau)


KINDS = ("revolute", "prismatic", "spherical")
# Seeds of scenes whose contacts stick, slide and open, with bounces, limits and dry friction; of trees, of bodies.
SEEDS = (2, 5, 17)


def random_scene(seed: int, spin: float) -> Case:
    """Trees over the ground that turn by up to ``spin`` rad/s, in some steps of the midpoint integrator."""
    rng = np.random.default_rng(seed)
    links: list[Link] = []
    for number in range(rng.integers(1, 6)):
        parent = int(rng.integers(-1, number)) if number else -1
        kind = rng.choice(KINDS) if parent >= 0 else rng.choice(["free", *KINDS])
        links.append(Link.random(parent, str(kind), rng))
    case = scene(links, seed, "hard")
    return replace(case, qd=spin * case.qd, integrator="midpoint")


@pytest.mark.parametrize("spin", [1.0, 8.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_of_random_scenes(seed, spin):
    """In all inputs and parameters; at the higher spin th of Kahan's rule differs from a half."""
    case = random_scene(seed, spin)
    names, weights = [*STATE, *PARAMETERS], Weights.random(case)
    found = analytic(case, weights, names)
    for name, expected in finite_differences(case, weights, names, most=6).items():
        if len(expected.entries):
            largest = max(np.abs(expected.central).max(), 1e-3)
            smooth = np.abs(expected.left - expected.right) < 1e-4 * largest
            excess = np.abs(found[name].reshape(-1)[expected.entries] - expected.central) - expected.rounding
            assert excess[smooth].max(initial=0.0) < 2e-6 * largest, name


def test_scenes_of_these_gradients_have_all_regimes():
    seen = set().union(*(regimes(random_scene(seed, 1.0)) for seed in SEEDS))
    assert {"slide", "stick", "open", "slip"} <= seen


@pytest.mark.parametrize("stiff", [1.0, 300.0])
def test_gradients_of_springs_and_servos(stiff):
    """Soft ones, which are integrated by the trapezoidal rule, and stiff ones, which are implicit."""
    model, rng = servo_arm(), np.random.default_rng(1)
    hinges = model.dof_q >= 0
    values = {
        "stiffness": stiff * rng.uniform(1.0, 20.0, model.nv) * hinges,
        "damping": stiff * rng.uniform(0.1, 0.5, model.nv),
        **{name: stiff * model.parameters[name] for name in ("actuator_kp", "actuator_kd")},
    }
    simulator = sim.Simulator(model, 0.004, parameters=values, **MIDPOINT)
    state = simulator.state(model.q0, rng.normal(size=model.nv))
    names = ["q", "qd", "tau", "control", *values, "rest_position", "armature", "actuator_gear"]
    tau, control = rng.normal(size=(3, model.nv)), rng.normal(size=(3, model.nu))
    report = sim.check_gradients(simulator, state, tau, names, control=control, most=8)
    assert not report.wrong


def test_checkpoints_change_no_gradient():
    case = random_scene(2, 1.0)
    found = []
    for interval in (1, 3):
        simulator = case.simulator()
        trajectory = simulator.rollout(
            simulator.state(case.q, case.qd), np.zeros((7, case.model.nv)), checkpoint_interval=interval
        )
        gradients = trajectory.backward(np.ones((1, case.model.nq)), np.ones((1, case.model.nv)))
        found.append([gradients.q.numpy(), gradients.qd.numpy(), gradients.tau.numpy()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def free_tree(seed: int, dtype: str = "float64") -> tuple[sim.Model, np.ndarray]:
    """A tree of two to five links that floats without weight, and random velocities."""
    rng = np.random.default_rng(seed)
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for number in range(rng.integers(2, 6)):
        kind = str(rng.choice(["revolute", "spherical"])) if number else "free"
        link = Link.random(int(rng.integers(0, number)) if number else -1, kind, rng)
        name = builder.add_link(f"link{number}", mass=link.mass, com=link.com, inertia=link.inertia)
        frame = {"position": link.position, "orientation": link.orientation, "axis": link.axis} if number else {}
        parent = f"link{link.parent}" if number else "world"
        builder.add_joint(f"joint{number}", kind, child=name, parent=parent, **frame)
    model = builder.finalize(dtype)
    return model, 2.0 * rng.normal(size=model.nv)


def flight(model: sim.Model, qd: np.ndarray, dt: float, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """The states at the end of each tenth of the time."""
    simulator = sim.Simulator(model, dt, contact=FREE_MOTION, **MIDPOINT)
    steps = round(0.1 * seconds / dt)
    control = np.full((10 * steps, model.nu), 8.0) if model.transmissions else None
    trajectory = simulator.rollout(
        simulator.state(model.q0, qd), steps=10 * steps, control=control, checkpoint_interval=steps
    )
    return trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]


@pytest.mark.parametrize(("dt", "seconds", "bound"), [(1e-3, 20.0, 1e-3), (H, 60.0, 3e-2)])
@pytest.mark.parametrize("seed", [7, 10, 13])
def test_free_trees_keep_their_energy(seed, dt, seconds, bound):
    model, qd = free_tree(seed)
    energy = sim.kinetic_energy(model, *flight(model, qd, dt, seconds)).numpy()
    assert np.abs(energy / energy[0] - 1.0).max() < bound


def test_free_trees_in_single_precision():
    model, qd = free_tree(10, "float32")
    energy = sim.kinetic_energy(model, *flight(model, qd, 1e-3, 20.0)).numpy()
    assert np.abs(energy / energy[0] - 1.0).max() < 1e-3


@pytest.mark.parametrize("case", ["servos", "floating", "loop", "propeller", "gear"])
def test_second_order(case):
    """Half of the step, a quarter of the error: of an arm with servos, of a base with its origin off its centre, of a
    four-bar, of a propeller and of a heavy gear.
    """
    models = {
        "servos": lambda: (servo_arm(), np.ones(servo_arm().nv)), "floating": lambda: free_tree(3),
        "loop": closed_four_bar, "propeller": lambda: (propelled(), np.ones(7)),
        "gear": lambda: (geared(through_points=False), np.array([6.0, -4.0])),
    }  # fmt: skip
    model, qd = models[case]()
    seconds = 1.0 if case == "loop" else 0.2
    ends = [np.concatenate([x[-1] for x in flight(model, qd, dt, seconds)]) for dt in (4e-3, 2e-3, 1e-3, 5e-4)]
    changes = [np.abs(a - b).max() for a, b in zip(ends[1:], ends[:-1], strict=True)]
    orders = np.log2(np.array(changes[:-1]) / changes[1:])
    assert (orders > 1.95).all()


def mechanism() -> sim.Model:
    """A floating arm with a body that hangs on its end by a point, welded to an arm of two coupled joints."""
    builder = sim.ModelBuilder()
    inertia = ((0.02, 0.001, 0.0005), (0.001, 0.03, 0.002), (0.0005, 0.002, 0.025))
    for name, parent, kind, position in (
        ("base", "world", "free", (0.0, 0.0, 1.0)),
        ("upper", "base", "spherical", (0.3, 0.1, 0.0)),
        ("lower", "upper", "revolute", (0.2, 0.0, 0.1)),
        ("load", "world", "free", (0.55, 0.3, 1.2)),
        ("arm", "world", "revolute", (0.0, -0.5, 1.0)),
        ("hand", "arm", "revolute", (0.2, 0.0, 0.0)),
    ):
        builder.add_link(name, mass=1.0, com=(0.05, 0.02, -0.03), inertia=inertia)
        axis = {"axis": (0.3, 0.5, 1.0)} if kind == "revolute" else {}
        builder.add_joint(f"to {name}", kind, parent=parent, child=name, position=position, **axis)
    builder.add_point_constraint(
        "hook", "lower", "load", position_a=(0.1, 0.0, 0.05), position_b=(0.0, -0.1, 0.0), active=True
    )
    builder.add_weld_constraint("weld", "hand", "base", position_a=(0.1, 0.0, 0.0))
    builder.add_joint_coupling("to hand", "to arm", ratio=0.4, offset=0.1)
    return builder.finalize("float64")


LOOPS = ["anchor_a", "anchor_b", "coupling_ratio", "coupling_offset"]


@pytest.mark.filterwarnings("ignore::sim.OpenConstraintWarning")
@pytest.mark.parametrize("spin", [1.0, 6.0])
def test_gradients_of_loops(spin):
    """Between trees and within one, and with one that is off."""
    model, rng = mechanism(), np.random.default_rng(1)
    names = ["q", "qd", "tau", *LOOPS, "mass", "com", "inertia", "armature", "damping", "joint_placement", "gravity"]
    simulator = sim.Simulator(model, 0.004, contact=FREE_MOTION, **MIDPOINT)
    q = sim.integrate(model, model.q0[None], 0.3 * rng.normal(size=(1, model.nv))).numpy()[0]
    state = simulator.state(q, spin * rng.normal(size=model.nv))
    sim.attach(simulator, state, ["hook", "weld", "to hand"])
    for off in ([], ["hook"]):
        sim.detach(simulator, off)
        report = sim.check_gradients(simulator, state, rng.normal(size=(2, model.nv)), names, most=6)
        assert not report.wrong


def closed_four_bar(dtype: str = "float64") -> tuple[sim.Model, np.ndarray]:
    """A linkage whose crank turns at 8 rad/s, with velocities that fit the loop: those after a short step."""
    model = four_bar(dtype)
    short = sim.Simulator(model, 1e-7, device="cpu", contact=FREE_MOTION)
    start = short.rollout(short.state(model.q0, np.array([8.0, 0.0, 0.0])), steps=1).final_state
    return model, start.qd.numpy()[0]


def energy_change(model: sim.Model, qd: np.ndarray, dt: float, seconds: float) -> float:
    """The largest change of the energy, in units of the first kinetic energy."""
    states = flight(model, qd, dt, seconds)
    kinetic = sim.kinetic_energy(model, *states).numpy()
    energy = kinetic + sim.potential_energy(model, states[0]).numpy()
    return float(np.abs(energy - energy[0]).max() / kinetic[0])


@pytest.mark.parametrize(("dt", "bound"), [(1e-3, 1e-3), (H, 2e-2)])
def test_a_four_bar_keeps_its_energy(dt, bound):
    assert energy_change(*closed_four_bar(), dt, 20.0) < bound


def test_a_four_bar_in_single_precision():
    assert energy_change(*closed_four_bar("float32"), 1e-3, 5.0) < 2e-3


def test_a_constraint_that_is_off_changes_nothing():
    """Its rows are zero, wherever its anchors are."""
    model, ends = mechanism(), []
    for shift in (0.0, 0.3):
        parameters = {"anchor_active": np.array([0.0, 1.0]), "anchor_a": model.parameters["anchor_a"].copy()}
        parameters["anchor_a"][0, :3] += shift
        simulator = sim.Simulator(model, H, contact=FREE_MOTION, parameters=parameters, **MIDPOINT)
        state = simulator.state(model.q0, np.linspace(-1.0, 1.0, model.nv))
        ends.append(simulator.rollout(state, steps=5).q.numpy()[-1])
    np.testing.assert_array_equal(*ends)


def propelled() -> sim.Model:
    """A floating body with an arm that carries a propeller."""
    builder = sim.ModelBuilder()
    inertia = ((0.02, 0.001, 0.0005), (0.001, 0.03, 0.002), (0.0005, 0.002, 0.025))
    builder.add_link("body", mass=1.0, com=(0.05, 0.02, -0.03), inertia=inertia)
    builder.add_joint("free", "free", child="body")
    builder.add_link("arm", mass=0.5, com=(0.1, 0.02, -0.03), inertia=inertia)
    builder.add_joint("hinge", "revolute", parent="body", child="arm", position=(0.2, 0.0, 0.0), axis=(0.0, 1.0, 0.3))
    builder.add_frame("site", "arm", position=(0.2, 0.1, 0.0))
    builder.add_actuator(frame="site", name="propeller", force_axis=(0.2, 0.0, 1.0), torque_axis=(0.0, 0.05, 0.1))
    return builder.finalize("float64")


def geared(through_points: bool) -> sim.Model:
    """A double pendulum with a heavy gear between its joints, and with a heavy cord through points."""
    builder = sim.ModelBuilder()
    for name, parent, x in (("upper", "world", 0.0), ("lower", "upper", 0.4)):
        builder.add_link(name, mass=1.0, com=(0.2, 0.01, 0.02), inertia=(0.02, 0.03, 0.04))
        builder.add_joint(f"{name}_joint", "revolute", parent=parent, child=name, axis=(0.1, 1, 0), position=(x, 0, 0))
    builder.add_fixed_tendon("gear", {"upper_joint": 0.5, "lower_joint": 1.0}, armature=0.1)
    if through_points:
        path = [("world", (-0.3, 0, 0.3)), ("upper", (0.25, 0, 0.1)), ("lower", (0.3, 0, 0.04))]
        builder.add_spatial_tendon("cord", path, spring=sim.Spring(stiffness=20.0, damping=0.5, rest=0.7), armature=0.2)
    return builder.finalize("float64")


def test_gradients_of_heavy_tendons():
    model, rng = geared(through_points=True), np.random.default_rng(0)
    simulator = sim.Simulator(model, 0.004, contact=FREE_MOTION, **MIDPOINT)
    state = simulator.state(np.array([0.4, -0.7]), 5.0 * rng.normal(size=2))
    names = ["q", "qd", "tau", "mass", "com", "armature", "tendon_armature", "tendon_coefficient", "tendon_point"]
    assert not sim.check_gradients(simulator, state, rng.normal(size=(3, 2)), names, most=6).wrong


@pytest.mark.cpu_shapes
def test_heavy_tendons_on_lane_groups(monkeypatch):
    model, found = geared(through_points=True), []
    for lanes in (LANES, 1):
        monkeypatch.setattr(BETWEEN, lambda given, worlds, lanes=lanes: lanes)
        simulator = sim.Simulator(model, H, 11, contact=FREE_MOTION, **MIDPOINT)
        qd = np.linspace(-5.0, 5.0, 22).reshape(11, 2)
        found.append(simulator.rollout(simulator.state(np.tile([0.4, -0.7], (11, 1)), qd), steps=5).qd.numpy())
    np.testing.assert_allclose(*found, rtol=1e-10)


def test_gradients_of_a_propeller():
    model, rng = propelled(), np.random.default_rng(0)
    simulator = sim.Simulator(model, 0.004, contact=FREE_MOTION, **MIDPOINT)
    state = simulator.state(model.q0, 3.0 * rng.normal(size=model.nv))
    names = ["q", "qd", "control", "actuator_gear", "mass", "com", "joint_placement"]
    report = sim.check_gradients(simulator, state, np.zeros((3, model.nv)), names, control=np.full((3, 1), 8.0), most=6)
    assert not report.wrong


def satellite() -> sim.Model:
    """A body with a wheel whose axis is skew."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("body", mass=2.0, inertia=(0.011, 0.0083, 0.006))
    builder.add_joint("free", "free", child="body")
    builder.add_link("wheel", mass=1.0, inertia=(0.0025, 0.0025, 0.005))
    turn = Rotation.from_euler("x", 0.6435).as_quat()
    builder.add_joint("axle", "revolute", parent="body", child="wheel", position=(0.05, 0.0, 0.1), orientation=turn)
    return builder.finalize("float64")


def test_a_satellite_with_a_wheel_keeps_its_angular_momentum():
    """At 200 rad/s, five sixths of a radian a step."""
    model = satellite()
    q, qd = flight(model, np.array([0.0, 0.0, 0.0, 0.3, -0.2, 0.5, 200.0]), H, 10.0)
    momentum = sim.centroidal_momentum(model, q, qd).numpy()[:, :3]
    assert np.linalg.norm(momentum - momentum[0], axis=1).max() < 1e-3 * np.linalg.norm(momentum[0])


@pytest.mark.parametrize("spin", [150.0, 1000.0])
def test_a_fast_top_keeps_its_energy(spin):
    """A slender top that nutates, at up to four radians a step: its spin doesn't make th larger."""
    builder = sim.ModelBuilder()
    builder.add_link("top", mass=0.5, com=(0.0, 0.0, 0.1), inertia=(6e-4, 6e-4, 4e-4))
    builder.add_joint("tip", "spherical", child="top", q0=Rotation.from_euler("x", 0.35).as_quat())
    assert energy_change(builder.finalize("float64"), np.array([0.0, 0.0, spin]), H, 20.0) < 3e-3


def spun() -> sim.Model:
    """A base with a wheel, and a top on a ball joint whose axis of symmetry is skew."""
    builder = sim.ModelBuilder()
    builder.add_link("base", mass=1.0, com=(0.02, 0.0, 0.01), inertia=(0.01, 0.02, 0.015))
    builder.add_joint("hinge", "revolute", child="base", axis=(0.0, 0.6, 0.8))
    builder.add_link("wheel", mass=0.5, com=(0.0, 0.0, 0.03), inertia=(0.002, 0.002, 0.003))
    builder.add_joint("axle", "revolute", parent="base", child="wheel", axis=(0.0, 0.0, 1.0), position=(0.2, 0.0, 0.1))
    axis = np.array([0.6, 0.0, 0.8])
    builder.add_link("top", mass=0.3, com=0.1 * axis, inertia=0.003 * np.eye(3) - 0.001 * np.outer(axis, axis))
    builder.add_joint("ball", "spherical", parent="base", child="top", position=(0.0, 0.1, 0.1))
    return builder.finalize("float64")


@pytest.mark.parametrize("worlds", [1, LANES])
def test_gradients_of_what_spins_about_its_axis(worlds):
    """At more than half a radian a step about other axes, so that th depends on them."""
    model, rng = spun(), np.random.default_rng(0)
    assert np.count_nonzero(symmetry_axes(model)) == 3
    simulator = sim.Simulator(model, 0.004, worlds, contact=FREE_MOTION, **MIDPOINT)
    qd = 80.0 * rng.normal(size=(worlds, model.nv)) + np.array([0.0, 150.0, 90.0, 0.0, 120.0])
    state = simulator.state(np.tile(model.q0, (worlds, 1)), qd)
    names = ["q", "qd", "tau", "com", "inertia", "joint_placement"]
    report = sim.check_gradients(simulator, state, rng.normal(size=(2, worlds, model.nv)), names, most=8)
    assert not report.wrong


def test_axes_of_symmetry():
    """Of wheels and tops, not of links with children or with an axis that misses their joint."""
    assert symmetry_axes(satellite()).tolist() == [0.0] * 6 + [1.0]
    axis = np.array([0.6, 0.0, 0.8])
    moments = 0.03 * np.eye(3) + 0.02 * np.outer(axis, axis)
    for com, expected in ((0.3 * axis, axis), ((0.1, 0.0, 0.0), np.zeros(3)), (np.zeros(3), axis)):
        builder = sim.ModelBuilder()
        builder.add_link("top", mass=1.0, com=com, inertia=moments)
        builder.add_joint("tip", "spherical", child="top")
        found = symmetry_axes(builder.finalize("float64"))
        np.testing.assert_allclose(found * np.sign(found[2] or 1.0), expected, atol=1e-12)


@pytest.mark.parametrize("build", [spinning.top, spinning.tossed_body, spinning.floating_chain])
def test_free_motion(build):
    """Within bounds of the second order."""
    motion = build().run(integrator="midpoint")
    bounds = {
        "precession": 2e-4, "nutation": 1e-5, "first flip": 1e-5, "time between flips": 2e-5, "energy, change": 1e-6,
        "angular momentum, change": 2e-3, "momentum, change": 1e-6,
    }  # fmt: skip
    for quantity in build().quantities:
        off = quantity.measure(motion) - quantity.expected
        assert abs(off) < bounds[quantity.name], f"{quantity.name}: {off:.1e}"


def test_a_box_rests():
    """Where it is put on the ground: the step is that of Euler's method."""
    model = box()
    simulator = sim.Simulator(model, H, **MIDPOINT)
    state = simulator.rollout(simulator.initial_state(), steps=600).final_state
    later = simulator.rollout(state, steps=600).final_state
    np.testing.assert_allclose(later.q.numpy(), state.q.numpy(), atol=1e-12)


def test_what_it_does_not_support_is_refused():
    model = box()
    with raises_naming("midpoint", "HardContact"):
        sim.Simulator(model, H, contact=sim.MujocoContact(), integrator="midpoint")
