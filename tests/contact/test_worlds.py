"""Many worlds: each is what it would be alone, whatever stands beside it, however they are split, wherever they are."""

import numpy as np
import pytest

import sim
from tests.contact.worlds import G
from warp_kernels.types import SPHERE

WORLDS = 5
STEPS = 40


def robot_and_box(dtype: str = "float64", offset: float = 0.0) -> sim.Model:
    """A two-joint finger that pushes a box over the ground; ``offset`` moves all of it [m]."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.7))
    builder.add_link("slider", mass=1.0, inertia=(0.01, 0.01, 0.01))
    builder.add_joint(
        "slide",
        "prismatic",
        child="slider",
        position=(offset - 0.3, offset, 0.15),
        axis=(1, 0, 0),
        limits=sim.Limits(upper=0.1),
    )
    builder.add_link("finger", mass=0.4, com=(0, 0, -0.05), inertia=(0.001, 0.001, 0.001))
    builder.add_joint(
        "hinge",
        "revolute",
        parent="slider",
        child="finger",
        axis=(0, 1, 0),
        friction_loss=0.05,
        spring=sim.Spring(damping=0.1),
    )
    builder.add_geometry(
        "finger", SPHERE, size=(0.05, 0, 0), position=(0, 0, -0.1), surface=sim.Surface(friction=0.6, restitution=0.2)
    )
    builder.add_box(
        half_extents=(0.1, 0.12, 0.08),
        mass=0.5,
        position=(offset - 0.12, offset + 0.02, 0.08),
        surface=sim.Surface(friction=0.6),
    )
    return builder.finalize(dtype)


def start(model: sim.Model, worlds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    q = np.tile(model.q0, (worlds, 1))
    q[:, 0] += rng.uniform(-0.02, 0.02, worlds)
    qd = 0.1 * rng.normal(size=(worlds, model.nv))
    tau = np.zeros((STEPS, worlds, model.nv))
    tau[:, :, 0] = rng.uniform(4.0, 12.0, worlds)
    tau[:, :, 1] = rng.uniform(-2.0, 0.0, (STEPS, worlds))
    return q, qd, tau


def varied(name: str, value: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(len(name))
    scale = 1.0 + 0.2 * rng.uniform(-1.0, 1.0, (WORLDS, *(1,) * value.ndim))
    return value * scale


@pytest.mark.parametrize(
    "names",
    [("friction",), ("mass", "inertia"), ("gravity",), ("upper_limit", "friction_loss", "damping"),
     ("geometry_size", "geometry_placement", "restitution", "com", "joint_placement")],
)  # fmt: skip
@pytest.mark.cpu_shapes
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parameters_per_world_are_separate_simulations(names, dtype, device):
    """Bit for bit, states and gradients."""
    model = robot_and_box(dtype)
    q, qd, tau = start(model, WORLDS)
    values = {name: varied(name, model.parameters[name]) for name in names}
    together = sim.Simulator(model, 1 / 240, WORLDS, device, parameters=values)
    trajectory = together.rollout(together.state(q, qd), tau)
    seed = np.random.default_rng(1).normal(size=trajectory.q.shape)
    gradients = trajectory.backward(seed, parameters=names)
    assert len(np.unique(trajectory.q.numpy()[-1, :, 1])) == WORLDS
    for world in range(WORLDS):
        own = {name: value[world] for name, value in values.items()}
        alone = sim.Simulator(model, 1 / 240, 1, device, parameters=own)
        single = alone.rollout(alone.state(q[world], qd[world]), tau[:, world])
        np.testing.assert_array_equal(single.q.numpy()[:, 0], trajectory.q.numpy()[:, world])
        np.testing.assert_array_equal(single.qd.numpy()[:, 0], trajectory.qd.numpy()[:, world])
        back = single.backward(seed[:, world : world + 1], parameters=names)
        np.testing.assert_array_equal(back.q.numpy()[0], gradients.q.numpy()[world])
        np.testing.assert_array_equal(back.tau.numpy()[:, 0], gradients.tau.numpy()[:, world])
        for name in names:
            np.testing.assert_array_equal(back.parameters[name], gradients.parameters[name][world], err_msg=name)


def test_shared_gradient_is_the_sum_over_worlds(device):
    model = robot_and_box()
    q, qd, tau = start(model, WORLDS)
    names = ("friction", "mass", "gravity")
    found = []
    for values in ({}, {name: np.repeat(model.parameters[name][None], WORLDS, axis=0) for name in names}):
        simulator = sim.Simulator(model, 1 / 240, WORLDS, device, parameters=values)
        trajectory = simulator.rollout(simulator.state(q, qd), tau)
        found.append(trajectory.backward(np.ones(trajectory.q.shape), parameters=names).parameters)
    for name in names:
        assert np.abs(found[0][name]).max() > 1e-3
        np.testing.assert_allclose(found[0][name], found[1][name].sum(axis=0), rtol=1e-10, err_msg=name)


@pytest.mark.cpu_shapes
def test_shards_and_threads_change_nothing():
    """States and gradients bit for bit; shared parameters' gradients up to the order of the sum."""
    model = robot_and_box("float32")
    worlds = 130
    q, qd, tau = start(model, worlds)
    results = []
    for threads in (1, 2, 7):
        simulator = sim.Simulator(model, 1 / 240, worlds, "cpu", threads=threads)
        trajectory = simulator.rollout(simulator.state(q, qd), tau)
        gradients = trajectory.backward(np.ones(trajectory.q.shape), parameters=["mass"])
        results.append((len(simulator.engine.shards), trajectory, gradients))
    assert len({count for count, *_ in results}) > 1
    _, first, first_gradients = results[0]
    for _, trajectory, gradients in results[1:]:
        np.testing.assert_array_equal(trajectory.q.numpy(), first.q.numpy())
        np.testing.assert_array_equal(trajectory.qd.numpy(), first.qd.numpy())
        for name in ("q", "qd", "tau"):
            np.testing.assert_array_equal(getattr(gradients, name).numpy(), getattr(first_gradients, name).numpy())
        # A float32 sum over 130 worlds in another order.
        np.testing.assert_allclose(
            gradients.parameters["mass"], first_gradients.parameters["mass"], rtol=0.0,
            atol=1e-5 * np.abs(first_gradients.parameters["mass"]).max(),
        )  # fmt: skip


def test_the_same_twice(device):
    model = robot_and_box("float32")
    q, qd, tau = start(model, WORLDS)
    simulator = sim.Simulator(model, 1 / 240, WORLDS, device)
    first, second = (simulator.rollout(simulator.state(q, qd), tau) for _ in range(2))
    np.testing.assert_array_equal(first.q.numpy(), second.q.numpy())


def test_far_from_the_origin(device):
    """At 100 m float32 keeps what its coordinates keep there, 8 micrometres: the same forces and motions."""
    here, there = robot_and_box("float32"), robot_and_box("float32", 100.0)
    q, qd, tau = start(here, WORLDS)
    results = []
    for model, offset in ((here, 0.0), (there, 100.0)):
        simulator = sim.Simulator(model, 1 / 240, WORLDS, device)
        moved = q.copy()
        moved[:, 2:4] += offset
        trajectory = simulator.rollout(simulator.state(moved, qd), tau)
        states = trajectory.q.numpy().astype(np.float64)
        states[:, :, 2:4] -= offset
        results.append((states, trajectory.qd.numpy()))
    one_step = [abs(results[1][i][1] - results[0][i][1]).max() for i in range(2)]
    # Ulp of 100 m in float32: 7.6e-6 m; the gap between finger and box enters velocities divided by the time step.
    assert one_step[0] < 1e-5
    assert one_step[1] < 1e-5


@pytest.mark.parametrize("tilt", [0.2, 0.6])
def test_slide_far_from_the_origin(tilt):
    """A box that sticks to or slides on a slope, 100 m away along the ground: velocities to 1e-5."""
    results = []
    for offset in (0.0, 100.0):
        builder = sim.ModelBuilder(gravity=(G * np.sin(tilt), 0, -G * np.cos(tilt)))
        builder.add_ground(surface=sim.Surface(friction=0.5))
        builder.add_box(half_extents=(0.2, 0.2, 0.05), mass=2.0, position=(offset, -offset, 0.05))
        simulator = sim.Simulator(builder.finalize("float32"), 1 / 240)
        trajectory = simulator.rollout(simulator.initial_state(), steps=100)
        results.append(trajectory.qd.numpy()[-1, 0])
    np.testing.assert_allclose(results[1], results[0], atol=1e-5)


@pytest.mark.parametrize("axes", [((1, 0, 0), (0, 1, 0)), ((0, 1, 0), (1, 0, 0))])
def test_robot_on_two_slides_far_from_the_origin(axes):
    """A planar base that either slide has carried 1 km away, with a loaded arm that falls onto the ground: the same
    velocities.
    """
    builder = sim.ModelBuilder()
    builder.add_ground()
    for number, axis in enumerate(axes):
        builder.add_link(f"slide {number}", mass=2.0, inertia=(0.1, 0.2, 0.3))
        parent = f"slide {number - 1}" if number else "world"
        builder.add_joint(f"along {number}", "prismatic", child=f"slide {number}", parent=parent, axis=axis)
    builder.add_link("base", mass=5.0, com=(0.02, 0.01, 0.0), inertia=(0.1, 0.2, 0.3))
    builder.add_joint("yaw", "revolute", child="base", parent="slide 1", position=(0, 0, 0.3), axis=(0, 0, 1))
    builder.add_link("arm", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.02, 0.02))
    builder.add_joint("shoulder", "revolute", child="arm", parent="base", axis=(0, 1, 0))
    builder.add_geometry("arm", "sphere", size=0.05, position=(0.4, 0, 0))
    model = builder.finalize("float32")
    simulator = sim.Simulator(model, 1 / 240, num_worlds=3, device="cpu")
    q = np.zeros((3, model.nq))
    q[1, 0] = q[2, 1] = 1000.0
    trajectory = simulator.rollout(simulator.state(q, [0.3, -0.2, 2.0, 0.5]), steps=120)
    qd = trajectory.qd.numpy()
    assert trajectory.q.numpy()[-1, 0, 3] > 0.5
    np.testing.assert_allclose(qd[:, 1:], qd[:, :1].repeat(2, axis=1), rtol=0.0, atol=1e-5)
