"""A step whose kinematics and dynamics work on several worlds at a time, beside one that takes one at a time."""

import numpy as np
import pytest

import sim
from scenes import quadruped
from tests.actuators.worlds import leg
from tests.contact.test_equalities import bent_loop
from tests.simulation.differences import METHODS
from tests.simulation.test_linearisation import tumbling_arm
from tests.simulation.worlds import DT, hopper
from warp_kernels.types import LANES, SPHERE

pytestmark = pytest.mark.cpu_shapes  # a GPU has no lane groups

WORLDS = 2 * LANES + 3  # the last lane group isn't full
STEPS = 3
MUJOCO = sim.MujocoContact()
BETWEEN = "sim.simulation.stepping.workspace.lanes_worth"


def lifted() -> sim.Model:
    """Two links of which one is free, with weights that are borne in part."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.6))
    builder.add_link("body", mass=1.0, inertia=(0.02, 0.03, 0.04), gravity_compensation=0.5)
    builder.add_joint("free", "free", child="body", position=(0.0, 0.0, 0.12))
    builder.add_geometry("body", SPHERE, size=(0.12, 0.0, 0.0), surface=sim.Surface(friction=0.8))
    builder.add_link("arm", mass=0.3, com=(0.1, 0.0, 0.0), inertia=(0.001, 0.002, 0.002), gravity_compensation=1.0)
    builder.add_joint(
        "hinge", "revolute", parent="body", child="arm", axis=(0.0, 1.0, 0.0), spring=sim.Spring(damping=0.02)
    )
    return builder.finalize("float64")


def walker(dtype: str = "float64") -> sim.Model:
    """A quadruped whose feet land and slide, with joint limits near."""
    return quadruped.build(dtype, friction=0.4, height=0.001).model


def closed_loop() -> sim.Model:
    builder = bent_loop()
    builder.add_point_constraint("loop", "l3", "world", position_a=(0.02, 0.05, 0.3))
    builder.add_joint_coupling("j0", "j2", ratio=0.5)
    return builder.finalize("float64")


def thrown() -> sim.Model:
    """Balls and boxes that come to touch the ground, and each other within a step, some earlier than others."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    builder.add_box(
        half_extents=(0.1, 0.1, 0.05), mass=1.0, position=(0.0, 0.0, 0.0505), surface=sim.Surface(friction=0.7)
    )
    builder.add_sphere(radius=0.06, mass=0.4, position=(0.02, 0.01, 0.1601), surface=sim.Surface(friction=0.6))
    builder.add_sphere(radius=0.05, mass=0.3, position=(0.14, 0.0, 0.0502))
    return builder.finalize("float64")


def joined() -> sim.Model:
    """Arms with limits of all kinds, a tendon, a weld between two trees, and feet on the ground."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    inertia = {"mass": 0.5, "com": (0.05, 0.02, -0.1), "inertia": (0.003, 0.004, 0.002)}
    for name in ("shoulder", "upper", "lower", "rod", "plate"):
        builder.add_link(name, **inertia)
    builder.add_joint(
        "ball", "spherical", child="shoulder", position=(0, 0, 0.3), limits=sim.Limits(swing=0.05, twist=0.05)
    )
    axis = {"axis": (0.0, 1.0, 0.0)}
    builder.add_joint(
        "j0", "revolute", parent="shoulder", child="upper", position=(0, 0.1, 0), limits=sim.Limits(upper=0.002), **axis
    )
    builder.add_joint("j1", "revolute", parent="upper", child="lower", position=(0.2, 0, 0), **axis)
    builder.add_joint("slide", "prismatic", child="rod", position=(0.5, 0, 0.2), friction_loss=0.2, axis=(0, 0, 1))
    builder.add_joint("free", "free", child="plate", position=(0.6, 0.1, 0.2))
    builder.add_geometry("plate", SPHERE, size=(0.05, 0.0, 0.0), position=(0.0, 0.0, -0.15))
    builder.add_geometry("lower", SPHERE, size=(0.1, 0.0, 0.0), position=(0.1, 0.0, -0.2))
    builder.add_weld_constraint("weld", "rod", "plate")
    builder.add_joint_coupling("j1", "j0", ratio=-0.7)
    builder.add_fixed_tendon("rope", {"j0": 0.3, "j1": 0.2}, limits=(-0.001, 0.001), friction_loss=0.1)
    return builder.finalize("float64")


CASES = {
    "contacts": (hopper(), sim.HardContact()),
    "four feet": (walker(), sim.HardContact()),
    "pyramids": (walker(), sim.HardContact(friction="pyramid")),
    "unfinished": (walker(), sim.HardContact(iterations=1)),
    "points that coincide": (closed_loop(), sim.HardContact()),
    "sweeps": (hopper(), sim.PgsContact()),
    "all joints": (tumbling_arm(), sim.HardContact()),
    "bodies that touch": (thrown(), sim.HardContact()),
    "joined": (joined(), sim.HardContact()),
    "joined, with pyramids": (joined(), sim.HardContact(friction="pyramid")),
    "no slip": (walker(), sim.HardContact(noslip=True)),
    "joined, no slip": (joined(), sim.HardContact(noslip=True)),
    "smoothed": (walker(), sim.HardContact(gradient_smoothing=0.02)),
    "actuators": (leg().finalize("float64"), sim.HardContact()),
    "compensated weight": (lifted(), sim.HardContact()),
    "MuJoCo's law": (lifted(), MUJOCO),
    "MuJoCo's law, four feet": (walker(), MUJOCO),
    "MuJoCo's law, joined": (joined(), MUJOCO),
    "MuJoCo's law, joined, with pyramids": (joined(), sim.MujocoContact(friction="pyramid")),
}

# Coordinates by which bodies are lifted off what they touch.
RAISED = {
    "four feet": [2],
    "pyramids": [2],
    "MuJoCo's law, four feet": [2],
    "bodies that touch": [9, 16],
    "joined": [6, 9],
    "no slip": [2],
    "joined, no slip": [6, 9],
}


def run(
    model: sim.Model, contact: sim.ContactMethod, lanes: int, seed: int = 3, integrator: str = "euler"
) -> dict[str, np.ndarray]:
    """Last state and all gradients of a short rollout whose worlds have states, inputs and masses of their own."""
    rng = np.random.default_rng(seed)
    mass = model.parameters["mass"] * rng.uniform(0.9, 1.1, (WORLDS, model.num_links))
    simulator = sim.Simulator(model, DT, WORLDS, "cpu", contact, {"mass": mass}, integrator=integrator)
    assert {shard.step.groups.lanes for shard in simulator.engine.shards} == {lanes}
    state = simulator.state(np.tile(model.q0, (WORLDS, 1)), 0.5 * rng.normal(size=(WORLDS, model.nv)))
    tau = 0.5 * rng.normal(size=(STEPS, WORLDS, model.nv))
    control = rng.normal(size=(STEPS, WORLDS, model.nu)) if model.nu else None
    trajectory = simulator.rollout(state, tau, control=control)
    last = trajectory.final_state
    by_mujoco = isinstance(contact, sim.MujocoContact)
    names = [name for name in model.parameters if by_mujoco or name not in ("solref", "solimp")]
    gradients = trajectory.backward(rng.normal(size=last.q.shape), rng.normal(size=last.qd.shape), names)
    found = {"q": last.q, "qd": last.qd, "q_bar": gradients.q, "qd_bar": gradients.qd, "tau_bar": gradients.tau}
    return {name: array.numpy() for name, array in found.items()} | gradients.parameters


@pytest.mark.parametrize("case", CASES)
def test_same_as_one_world_at_a_time(case, monkeypatch):
    several = run(*CASES[case], LANES)
    monkeypatch.setattr(BETWEEN, lambda lanes, worlds: 1)
    single = run(*CASES[case], 1)
    for name, expected in single.items():
        size = np.abs(expected).max(initial=1e-3)
        np.testing.assert_allclose(several[name], expected, rtol=0.0, atol=1e-9 * size, err_msg=name)


def of_worlds(array: np.ndarray) -> np.ndarray:
    """The sum of [step, world, ...] for each world."""
    return np.moveaxis(array, 1, 0).reshape(array.shape[1], -1).sum(axis=1)


@pytest.mark.parametrize("case", RAISED)
def test_gradients_of_a_group(case):
    """Beside central differences along directions of their own in worlds whose constraints differ."""
    model, contact = CASES[case]
    simulator = sim.Simulator(model, DT, WORLDS, "cpu", contact, contact_sensors=[g.name for g in model.geometries])
    assert simulator.engine.shards[0].step.groups.lanes == LANES
    rng = np.random.default_rng(7)
    q0 = np.tile(model.q0, (WORLDS, 1))
    q0[::3, RAISED[case]] += 0.1
    q0 += 1e-3 * rng.normal(size=q0.shape)  # away from kinks, where surfaces just touch
    start = (q0, 0.4 * rng.normal(size=(WORLDS, model.nv)))
    tau = 0.5 * rng.normal(size=(STEPS, WORLDS, model.nv))
    trajectory = simulator.rollout(simulator.state(*start), tau)
    weights = [rng.normal(size=array.shape) for array in (trajectory.q, trajectory.qd, trajectory.contact_force)]
    weights[2] *= 1e-3
    counts = np.concatenate(
        [shard.step.constraint_stage.constraints.count.numpy() for shard in simulator.engine.shards]
    )
    assert len(np.unique(counts)) > 1
    found = trajectory.backward(weights[0], weights[1], contact_force_grad=weights[2])
    directions = [rng.normal(size=array.shape) for array in (*start, tau)]

    def loss(length: float) -> np.ndarray:
        """Of each world, at states and forces that lie ``length`` along the directions."""
        q, qd, forces = (array + length * along for array, along in zip((*start, tau), directions, strict=True))
        run = simulator.rollout(simulator.state(q, qd), forces)
        arrays = (run.q, run.qd, run.contact_force)
        return sum(of_worlds(w * a.numpy()) for w, a in zip(weights, arrays, strict=True))

    expected = (loss(1e-7) - loss(-1e-7)) / 2e-7
    parts = zip((found.q, found.qd, found.tau), directions, strict=True)
    total = sum(of_worlds((gradient.numpy() * along).reshape(-1, *along.shape[-2:])) for gradient, along in parts)
    np.testing.assert_allclose(total, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("build", [hopper, walker])
def test_as_near_to_double_precision(build, monkeypatch):
    """In single precision, whose gradients through contacts are up to 1e-3 from those in double in either way.

    Which way is nearer is a matter of chance in one motion, so that the medians of several are compared.
    """
    seeds, contact = range(3, 18), sim.HardContact()
    exact, several = ([run(build(dtype), contact, LANES, seed) for seed in seeds] for dtype in ("float64", "float32"))
    monkeypatch.setattr(BETWEEN, lambda lanes, worlds: 1)
    single = [run(build("float32"), contact, 1, seed) for seed in seeds]
    for name in exact[0]:

        def error(found, name=name):
            pairs = [(a[name], b[name]) for a, b in zip(found, exact, strict=True)]
            return np.median([np.abs(a - b).max(initial=0.0) / np.abs(b).max(initial=1e-3) for a, b in pairs])

        assert error(several) <= 2.0 * error(single) + 1e-4, name


@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_stands_beside_a_world_changes_nothing(dtype, law):
    """Bit for bit, at the same place of its group. Worlds that land or slide take different numbers of Newton steps."""
    model, steps, worlds = walker(dtype), 20, 4 * LANES
    rng = np.random.default_rng(5)
    qd, tau = rng.normal(size=(worlds, model.nv)), 4.0 * rng.normal(size=(steps, worlds, model.nv))
    tau[:, :, :6] = 0.0
    # World n of a group goes n groups further.
    moved = np.arange(worlds).reshape(4, LANES)
    moved = np.stack([np.roll(moved[:, n], n) for n in range(LANES)], axis=1).ravel()
    simulator = sim.Simulator(model, DT, worlds, "cpu", METHODS[law]())
    found = []
    for order in (np.arange(worlds), moved):
        state = simulator.state(np.tile(model.q0, (worlds, 1)), qd[order])
        trajectory = simulator.rollout(state, tau[:, order])
        gradients = trajectory.backward(np.ones((worlds, model.nq)), np.ones((worlds, model.nv)))
        arrays = (trajectory.q, trajectory.qd, gradients.tau)
        found.append([array.numpy()[:, np.argsort(order)] for array in arrays])
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.filterwarnings("ignore::sim.errors.NotFiniteWarning")
@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_a_bad_world_spoils_no_other(law):
    """One world whose velocities grow beyond all numbers beside seven others of its group."""
    model, worlds = walker(), 2 * LANES
    qd = np.random.default_rng(6).normal(size=(worlds, model.nv))
    found = []
    for bad in (False, True):
        qd[2, 7] = 1e200 if bad else 0.0
        simulator = sim.Simulator(model, DT, worlds, "cpu", METHODS[law]())
        trajectory = simulator.rollout(simulator.state(np.tile(model.q0, (worlds, 1)), qd), steps=10)
        assert np.isfinite(trajectory.qd.numpy()[-1, 2]).all() != bad
        gradients = trajectory.backward(np.ones((worlds, model.nq)))
        found.append([np.delete(array.numpy(), 2, axis=-2) for array in (trajectory.q, trajectory.qd, gradients.qd)])
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)
