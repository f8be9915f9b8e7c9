"""``HardContact(noslip=True)``: nothing creeps beside MuJoCo with its noslip solver, and gradients through both
solutions of a step.
"""

import mujoco
import numpy as np
import pytest

import sim
from scenes.mjcf import to_mjcf
from sim.simulation.stepping.solvers.newton import Newton
from tests.contact import solution_checks as checks
from tests.contact.newton.test_islands import layer, pushed
from tests.contact.solution_checks import lowered
from tests.contact.test_gradients import BODY, LINK, at, ball, box, spin
from tests.contact.test_torsion import ball as resisting_ball
from tests.errors import raises_naming
from tests.simulation.differences import case, check, regimes

G, DT = 9.81, 1 / 240
NOSLIP = sim.HardContact(noslip=True)
# Soft enough that what friction leaves of a velocity stands out of the rounding of differences.
SOFT = sim.HardContact(noslip=True, regularisation=0.1)
INSIDE = 1e-4  # [m]


def slope(degrees: float, dtype: str) -> sim.Model:
    """A box of friction 1 on a slope."""
    angle = np.deg2rad(degrees)
    builder = sim.ModelBuilder(gravity=(G * np.sin(angle), 0.0, -G * np.cos(angle)))
    builder.add_ground(surface=sim.Surface(friction=1.0))
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.1), surface=sim.Surface(friction=1.0))
    return builder.finalize(dtype)


def held_arm(dtype: str) -> sim.Model:
    """An arm that dry friction holds off its lowest position."""
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, com=(0.1, 0.0, -0.5), inertia=(0.1, 0.1, 1e-3))
    builder.add_joint("hinge", "revolute", child="arm", axis=(0, 1, 0), friction_loss=1.5)
    return builder.finalize(dtype)


def held_box(dtype: str) -> sim.Model:
    """A box between two fingers that press it with 10 N each."""
    surface = sim.Surface(friction=0.8)
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.03, 0.03, 0.03), mass=0.3, position=(0, 0, 0.5), surface=surface)
    for side in (-1, 1):
        name = f"finger_{side}"
        builder.add_link(name, mass=0.1, inertia=(1e-4,) * 3)
        builder.add_joint(name, "prismatic", child=name, axis=(-side, 0, 0), position=(0.05 * side, 0, 0.5))
        builder.add_geometry(name, "box", size=(0.02, 0.02, 0.03), surface=surface)
    return builder.finalize(dtype)


PRESS = np.array([0.0] * 6 + [10.0] * 2)
STEPS = 480


def creep(model: sim.Model, coordinate: int, tau: np.ndarray, contact: sim.ContactMethod) -> float:
    """The mean velocity of a coordinate in the second second [m/s or rad/s]."""
    simulator = sim.Simulator(model, DT, device="cpu", contact=contact)
    trajectory = simulator.rollout(simulator.initial_state(), np.tile(tau, (STEPS, 1)))
    q = trajectory.q.numpy()[:, 0, coordinate].astype(float)
    return abs(q[-1] - q[STEPS // 2]) / (STEPS // 2 * DT)


def creep_in_mujoco(model: sim.Model, coordinate: int, tau: np.ndarray) -> float:
    """The same in MuJoCo, with twenty noslip sweeps."""
    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=DT, sweeps=100))
    peer.opt.solver, peer.opt.tolerance, peer.opt.noslip_iterations = mujoco.mjtSolver.mjSOL_NEWTON, 1e-10, 20
    data, q = mujoco.MjData(peer), []
    data.qpos[:], data.qvel[:] = sim.to_mujoco(model, model.q0, np.zeros(model.nv))
    data.qfrc_applied[:] = tau
    for _ in range(STEPS):
        mujoco.mj_step(peer, data)
        q.append(sim.from_mujoco(model, data.qpos, data.qvel)[0][coordinate])
    return abs(q[-1] - q[STEPS // 2 - 1]) / (STEPS // 2 * DT)


# Bounds are twice what was measured; without noslip these creep at 3.5 and 24 um/s, 11 um/s, 11 urad/s.
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("build", "coordinate", "tau", "most"),
    [
        (lambda dtype: slope(10.0, dtype), 0, np.zeros(6), 3.5e-9),
        (lambda dtype: slope(40.0, dtype), 0, np.zeros(6), 7e-8),
        (held_box, 2, PRESS, 7e-9),
        (held_arm, 0, np.zeros(1), 2e-8),
    ],
    ids=["10 degrees", "40 degrees", "fingers", "dry friction"],
)
def test_nothing_creeps(build, coordinate, tau, most, dtype):
    """A box doesn't creep faster than in MuJoCo with its noslip solver, where dry friction of one joint stands still.

    In float32 the coordinates of a box are multiples of 8e-9 m, and more.
    """
    model = build(dtype)
    rounding = 1e-7 if dtype == "float32" else 0.0
    found = creep(model, coordinate, tau, NOSLIP)
    assert found < most + rounding
    assert creep(model, coordinate, tau, sim.HardContact()) > 500.0 * (found - rounding)
    if model.nv > 1:
        assert found < creep_in_mujoco(build("float64"), coordinate, tau) + rounding


def test_friction_that_slides_is_the_same():
    """To the rounding of its direction."""
    qd = {}
    for contact in (NOSLIP, sim.HardContact()):
        simulator = sim.Simulator(box(), DT, device="cpu", contact=contact)
        state = simulator.state(lowered(box(), INSIDE), [2.0, 0.7, 0.0, 0.0, 0.0, 0.0])
        qd[contact.noslip] = simulator.rollout(state, steps=20).qd.numpy()
        assert simulator.residual[0] < 1e-12
    np.testing.assert_allclose(qd[True], qd[False], atol=1e-5)


@pytest.mark.parametrize("contact", [NOSLIP, SOFT], ids=["hard", "soft"])
class TestGradients:
    def test_rolling_ball(self, contact):
        c = case(ball(), 5, lowered(ball(), INSIDE), spin(0.015, -0.01, 0.0), contact)
        assert "stick" in regimes(c)
        check(c, [n for n in BODY if n != "friction"])

    def test_landing_box(self, contact):
        model = box(orientation=(0.01, 0.005, 0.1, 1.0))
        c = case(model, 8, at(model, 0.0527), spin(1.0, 0.2, -0.5), contact)
        assert {"open", "slide"} <= regimes(c)
        check(c, BODY)

    def test_spinning_and_rolling_friction(self, contact):
        c = case(resisting_ball(), 6, lowered(resisting_ball(), INSIDE), [0.5, 0.2, 0.0, -2.0, 5.0, 3.0], contact)
        check(c, ["torsional_friction", "rolling_friction", "mass", "inertia"])


def test_gradients_of_what_hardly_moves():
    """A box at rest, and a joint that dry friction holds; the regularisation decides by how much."""
    at_rest = case(box(1.5), 5, lowered(box(1.5), INSIDE), contact=SOFT)
    assert regimes(at_rest) == {"stick"}
    check(at_rest, ["mass", "com", "gravity", "regularisation", "recovery_time"])
    check(checks.held_joint(SOFT), [*LINK, "regularisation"])


def test_gradients_of_a_bounce():
    model = ball(restitution=0.6)
    c = case(model, 8, at(model, 0.13), spin(1.0, 1.0, -3.0), SOFT)
    assert regimes(c) == {"open", "stick"}
    check(c, ["mass", "restitution", "regularisation"])


def test_islands_move_as_in_one_world(monkeypatch):
    """Motion and gradient."""
    scene = layer(12)

    def moved() -> tuple[np.ndarray, np.ndarray]:
        simulator = sim.Simulator(scene.model, DT, 1, "cpu", NOSLIP)
        trajectory = simulator.rollout(simulator.state(*pushed(scene)), steps=6)
        assert simulator.engine.shards[0].step.solver.has_islands == islands
        seed = np.random.default_rng(0).normal(size=trajectory.q.shape)
        return trajectory.qd.numpy(), trajectory.backward(seed).qd.numpy()

    islands = True
    found, gradient = moved()
    monkeypatch.setattr("sim.simulation.stepping.stages.stages.choose_solver", lambda step: Newton)
    islands = False
    expected, known = moved()
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(gradient, known, atol=1e-9 * np.abs(known).max())


def test_one_step_has_the_matrices_of_its_gradient():
    """Through the backward pass, applied once for each row."""
    simulator = sim.Simulator(box(1.5), DT, device="cpu", contact=SOFT)
    state = simulator.state(lowered(box(1.5), INSIDE), [0.3, 0.1, 0.0, 0.2, 0.1, 0.3])
    matrices = simulator.linearise(state)
    push = np.random.default_rng(1).normal(size=6)
    gradient = simulator.rollout(state, steps=1).backward(None, push[None]).qd.numpy()[0]
    np.testing.assert_allclose(push @ matrices.A[0, 6:, 6:], gradient, atol=1e-10)


def test_smoothed_gradients_are_refused():
    with raises_naming("HardContact", "gradient_smoothing", "noslip"):
        sim.HardContact(noslip=True, gradient_smoothing=0.1)
