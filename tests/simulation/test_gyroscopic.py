"""Bodies that spin freely: what the midpoint rule conserves, its order, and its gradients."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import sim
from tests.simulation.differences import METHODS, case, check

NO_CONTACT = sim.HardContact(max_contacts=0)
EDGES = np.array([0.1, 0.2, 0.4])
BOX = {"mass": 8.0, "inertia": 8.0 / 12 * (EDGES @ EDGES - EDGES**2)}
OFFSET = (0.1, 0.05, -0.07)


def body(kind: str, com: tuple[float, ...] = (0.0, 0.0, 0.0), dtype: str = "float64") -> sim.Model:
    """A box of 10 x 20 x 40 cm on a joint, without weight."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("box", com=com, **BOX)
    builder.add_joint("joint", kind, child="box")
    return builder.finalize(dtype)


def spun(model: sim.Model, speed: float, seconds: float, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and velocities of a body that begins to turn about a skew axis."""
    simulator = sim.Simulator(model, dt, contact=NO_CONTACT)
    turning = speed / np.sqrt(3.0) * np.ones(3)
    qd = np.concatenate([[0.3, -0.2, 0.1][: model.nv - 3], turning])
    trajectory = simulator.rollout(simulator.state(model.q0, qd), steps=round(seconds / dt))
    return trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]


def largest_change(values: np.ndarray) -> float:
    """From the first, relative to it."""
    values = values.reshape(len(values), -1)
    return float(np.linalg.norm(values - values[0], axis=1).max() / np.linalg.norm(values[0]))


# Energy and the length of the angular momentum are kept up to rounding, that of 14,400 steps.
@pytest.mark.parametrize(("dtype", "rounding"), [("float64", 1e-9), ("float32", 2e-4)])
@pytest.mark.parametrize("com", [(0.0, 0.0, 0.0), OFFSET])
def test_a_free_body_keeps_energy_and_momentum(com, dtype, rounding):
    model = body("free", com, dtype)
    q, qd = spun(model, 30.0, 60.0, 1 / 240)
    momentum = sim.centroidal_momentum(model, q, qd).numpy()
    assert largest_change(sim.kinetic_energy(model, q, qd).numpy()) < rounding
    assert largest_change(np.linalg.norm(momentum[:, :3], axis=1)) < rounding
    assert largest_change(momentum[:, 3:]) < rounding


@pytest.mark.parametrize("com", [(0.0, 0.0, 0.0), OFFSET])
def test_a_body_on_a_spherical_joint_keeps_energy(com):
    model = body("spherical", com)
    q, qd = spun(model, 30.0, 60.0, 1 / 240)
    assert largest_change(sim.kinetic_energy(model, q, qd).numpy()) < 1e-9


# Far beyond what the step resolves: 4 rad per step.
@pytest.mark.parametrize("kind", ["free", "spherical"])
def test_a_spin_faster_than_the_step_keeps_its_energy(kind):
    model = body(kind, OFFSET)
    q, qd = spun(model, 1000.0, 10.0, 1 / 240)
    assert largest_change(sim.kinetic_energy(model, q, qd).numpy()) < 1e-9


def test_a_needle_without_inertia_about_its_axis():
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("needle", mass=1.0, inertia=(1.0, 1.0, 0.0))
    builder.add_joint("joint", "spherical", child="needle", armature=1e-4)
    model = builder.finalize("float64")
    q, qd = spun(model, 5.0, 5.0, 1 / 240)
    assert largest_change(sim.kinetic_energy(model, q, qd).numpy()) < 1e-2


# Angular velocity along the body's axes beside Euler's equations, solved to 1e-12. The rule is of second order.
def test_the_error_falls_with_the_square_of_the_step():
    model = body("free")
    moments = BOX["inertia"]
    start = 6.0 / np.sqrt(3.0) * np.ones(3)
    exact = solve_ivp(
        lambda _, w: np.cross(moments * w, w) / moments, (0.0, 1.0), start, method="DOP853", rtol=1e-12, atol=1e-12
    ).y[:, -1]
    errors = []
    for dt in (1 / 200, 1 / 400, 1 / 800):
        q, qd = spun(model, 6.0, 1.0, dt)
        errors.append(np.linalg.norm(Rotation.from_quat(q[-1, 3:7]).inv().apply(qd[-1, 3:6]) - exact))
    assert errors[-1] < 2e-3
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, atol=0.05)


# Pebbles of 1 x 2 x 3 cm land on an edge and spin off at up to 1,000 rad/s: explicit forces gave NaN for 29 of 64.
@pytest.mark.parametrize("solver", ["pgs", "newton"])
def test_dropped_pebbles_stay_finite(solver):
    worlds = 64
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_ellipsoid(semi_axes=(0.01, 0.02, 0.03), density=1000.0, position=(0.0, 0.0, 5.0))
    model = builder.finalize("float32")
    simulator = sim.Simulator(model, 1 / 240, worlds, contact=METHODS[solver]())
    q = np.tile(model.q0, (worlds, 1))
    q[:, 3:] = Rotation.random(worlds, random_state=0).as_quat()
    trajectory = simulator.rollout(simulator.state(q), steps=480)
    assert not simulator.bad_worlds
    spin = np.linalg.norm(trajectory.qd.numpy()[..., 3:], axis=-1)
    assert spin.max() > 100.0  # they do spin
    # No more energy than 5 m of height gave: m v^2 / 2 < m g h, with the height that is left.
    speed = np.linalg.norm(trajectory.qd.numpy()[..., :3], axis=-1)
    height = trajectory.q.numpy()[..., 2]
    assert (speed**2 / 2 + 9.81 * height).max() < 1.05 * 9.81 * 5.0


@pytest.mark.parametrize("speed", [5.0, 300.0])
def test_gradients_of_a_floating_chain(speed):
    rng = np.random.default_rng(0)
    builder = sim.ModelBuilder()
    for k, kind in enumerate(("free", "spherical", "revolute", "spherical")):
        half = rng.uniform(0.05, 0.15, 3)
        inertia = 1.0 / 3 * (half @ half - half**2)
        builder.add_link(f"link_{k}", mass=1.0, com=rng.uniform(-0.05, 0.05, 3), inertia=inertia)
        if k == 0:
            builder.add_joint("joint_0", kind, child="link_0")
            continue
        builder.add_joint(
            f"joint_{k}", kind, parent=f"link_{k - 1}", child=f"link_{k}",
            position=rng.uniform(-0.1, 0.1, 3), axis=rng.normal(size=3),
        )  # fmt: skip
    model = builder.finalize("float64")
    qd = speed * rng.normal(size=model.nv)
    # At 300 rad/s the chain explodes within nine steps; after three, rounding alone is 1e-6 of the differences.
    steps = 3 if speed == 5.0 else 2
    parameters = ("mass", "com", "inertia", "joint_placement")
    check(case(model, steps=steps, qd=qd, contact=NO_CONTACT), parameters)
