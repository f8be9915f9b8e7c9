"""Normal contact against closed forms: rest, landing, bounces, and what the options do."""

import numpy as np
import pytest

import sim
from scenes import quadruped
from tests.contact.worlds import DT, G, balls, loose_ball, loose_box, run
from tests.simulation.differences import blocks
from warp_kernels.constraints.kinds import CONTACT
from warp_kernels.types import CAPSULE


def weight_on_ground(simulator: sim.Simulator) -> float:
    return sum(block.impulse[0] for block in blocks(simulator) if block.kind == CONTACT) / simulator.dt


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropped_ball_lands_exactly_on_the_surface_and_stays(dtype):
    """With erp = 1 a body that arrives stops on the surface within one step, whatever its speed."""
    q, qd, simulator = run(loose_ball(height=0.35, dtype=dtype), 0.5)
    fall = np.sqrt(2 * 0.25 / G)
    landed = int(fall / DT) + 2
    assert q[landed - 3, 2] > 0.1 + 1e-3
    tolerance = 1e-14 if dtype == "float64" else 2e-7
    np.testing.assert_allclose(q[landed:, 2], 0.1, atol=tolerance)
    np.testing.assert_allclose(qd[landed + 1 :, 2], 0.0, atol=1e-12 if dtype == "float64" else 1e-4)
    assert (q[:, 2] >= 0.1 - tolerance).all()
    np.testing.assert_allclose(weight_on_ground(simulator), 0.5 * G, rtol=1e-9 if dtype == "float64" else 1e-4)


def test_resting_impulses_sum_to_the_weight():
    _, _, simulator = run(loose_box(), 0.2)
    found = blocks(simulator)
    assert len(found) == 4
    np.testing.assert_allclose(weight_on_ground(simulator), 2.0 * G, rtol=1e-9)
    np.testing.assert_allclose([block.impulse[0] for block in found], 0.5 * G * DT, rtol=1e-6)
    # Four corners may push against each other sideways; together they don't.
    np.testing.assert_allclose(np.sum([block.impulse for block in found], axis=0)[1:], 0.0, atol=1e-12)


def test_weight_follows_the_centre_of_mass():
    """A box with its centre of mass nearer to one side rests on it with the larger part: the lever rule."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_link("box", mass=2.0, com=(0.1, 0.0, 0.0), inertia=(0.02, 0.02, 0.02))
    builder.add_joint("free", "free", child="box", position=(0, 0, 0.05))
    builder.add_geometry("box", 3, size=(0.2, 0.1, 0.05))
    q, _, simulator = run(builder.finalize("float64"), 0.1)
    (shard,) = simulator.engine.shards
    x = shard.step.contact_stage.contact_point.numpy()[:4, 0, 0]
    normal = np.array([block.impulse[0] for block in blocks(simulator)]) / DT
    np.testing.assert_allclose(normal[x > 0].sum(), 0.75 * 2.0 * G, rtol=1e-6)
    np.testing.assert_allclose(normal[x < 0].sum(), 0.25 * 2.0 * G, rtol=1e-6)
    np.testing.assert_allclose(q[-1], q[0], atol=1e-10)


def test_stack_carries_its_weight():
    """Three balls, one on top of the other: each contact carries what is above it."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    for number in range(3):
        builder.add_sphere(radius=0.1, mass=1.0 + number, position=(0, 0, 0.1 + 0.2 * number))
    q, _, simulator = run(builder.finalize("float64"), 0.02)
    carried = sorted(block.impulse[0] / DT for block in blocks(simulator))
    np.testing.assert_allclose(carried, [3 * G, 5 * G, 6 * G], rtol=1e-6)
    np.testing.assert_allclose(q[-1], q[0], atol=1e-9)


def bounce(dt: float, restitution: float) -> float:
    """Height of the first bounce after a fall of 0.4 m [m]."""
    q, qd, _ = run(loose_ball(restitution, height=0.5), 0.56, dt=dt, sweeps=5)
    first = int(np.argmax(qd[:, 2] > 0.0))
    assert first > 0
    return q[first:, 2].max() - 0.1


@pytest.mark.parametrize("restitution", [0.5, 0.8])
def test_height_of_a_bounce(restitution):
    """e^2 h, first order in the step: the bounce begins up to one step above the surface."""
    errors = np.array([abs(bounce(dt, restitution) / (0.4 * restitution**2) - 1.0) for dt in (2e-3, 2e-4, 2e-5)])
    speed = np.sqrt(2 * G * 0.4)
    # The bounce begins up to one step's fall above the surface; that is then a part of its height.
    rise = speed * np.array([2e-3, 2e-4, 2e-5]) / (0.4 * restitution**2)
    assert (errors < 1.1 * rise).all()
    assert rise[2] < 1e-3


def test_bounces_come_to_rest():
    q, qd, _ = run(loose_ball(0.5, height=0.3), 1.5)
    np.testing.assert_allclose(q[-1, 2], 0.1, atol=1e-12)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-10)


def test_elastic_bounces_keep_their_height():
    q, qd, _ = run(loose_ball(1.0, height=0.3), 2.0, dt=1e-4, sweeps=5)
    energy = 0.5 * qd[:, 2] ** 2 + G * (q[:, 2] - 0.1)
    # Semi-implicit Euler wobbles by g v dt / 2 within a flight; every bounce adds as much at most. There are five.
    np.testing.assert_allclose(energy, G * 0.2, atol=6 * G * 2.0 * 1e-4)
    assert (np.diff(np.sign(qd[:, 2])) > 0).sum() == 5


@pytest.mark.parametrize("dt", [1e-2, 1e-4])
def test_a_hit_that_only_gravity_closes_bounces_at_once(dt):
    """Heights on both sides of d + h v = 0: the step bounces, and the height after follows without a jump."""
    model, steps, speed = loose_ball(0.8), 20, 4.0
    gaps = speed * dt + np.array([0.5, -0.5]) * G * dt**2
    simulator = sim.Simulator(model, dt, 2, "cpu")
    q, qd = np.repeat(model.q0[None], 2, axis=0), np.zeros((2, 6))
    q[:, 2], qd[:, 2] = 0.1 + gaps, -speed
    trajectory = simulator.rollout(simulator.state(q, qd), steps=steps)
    touch = gaps / (speed + G * dt)
    rebound = 0.8 * (speed + G * (dt / 2 + touch)) - G * (dt / 2 - touch)
    np.testing.assert_allclose(trajectory.qd.numpy()[1, :, 2], rebound, rtol=1e-12)
    weights = np.zeros((2, 7))
    weights[:, 2] = 1.0
    slopes = trajectory.backward(weights).q.numpy()[:, 2]
    ends = trajectory.q.numpy()[-1, :, 2]
    np.testing.assert_allclose(ends[0] - ends[1], slopes.mean() * (gaps[0] - gaps[1]), rtol=1e-6)


@pytest.mark.parametrize("speed", [0.05, 0.2])
def test_restitution_threshold(speed):
    """Below it a body just lands."""
    q0 = loose_ball(1.0).q0
    q0[2] = 0.1 + 1e-5
    _, qd, _ = run(loose_ball(1.0), DT, [0, 0, -speed, 0, 0, 0], q=q0, restitution_threshold=0.1)
    touch = 1e-5 / (speed + G * DT)
    np.testing.assert_allclose(qd[-1, 2], speed + 2 * G * touch if speed > 0.1 else -1e-5 / DT, rtol=1e-9)


def test_restitution_of_a_pair_is_the_product():
    for first, second in ((0.5, 0.8), (1.0, 0.4), (0.0, 1.0)):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        builder.add_ground(surface=sim.Surface(restitution=first))
        builder.add_sphere(radius=0.1, mass=1.0, position=(0, 0, 0.1), surface=sim.Surface(restitution=second))
        _, qd, _ = run(builder.finalize("float64"), DT, [0, 0, -2.0, 0, 0, 0])
        np.testing.assert_allclose(qd[-1, 2], 2.0 * first * second, atol=1e-12)


@pytest.mark.parametrize("erp", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_erp_removes_its_part_of_the_distance(erp, side):
    """In one step, inside and outside of the surface alike."""
    model = loose_ball()
    q0 = model.q0.copy()
    q0[2] = 0.1 + side * 2e-4
    q, qd, _ = run(model, DT, [0, 0, -1.0, 0, 0, 0], q=q0, erp=erp)
    np.testing.assert_allclose(q[-1, 2] - 0.1, side * 2e-4 * (1.0 - erp), atol=1e-15)
    np.testing.assert_allclose(qd[-1, 2], -side * erp * 2e-4 / DT, atol=1e-12)


def test_max_correction_bounds_the_push():
    model = loose_ball()
    q0 = model.q0.copy()
    q0[2] = 0.05
    q, qd, _ = run(model, 3 * DT, q=q0, max_correction=0.7)
    np.testing.assert_allclose(qd[1:, 2], 0.7, atol=1e-12)
    np.testing.assert_allclose(np.diff(q[:, 2]), 0.7 * DT, atol=1e-15)


def test_margin_is_the_distance_at_which_contacts_take_part():
    model = loose_ball()
    for gap, counted in ((0.0199, 1), (0.0201, 0)):
        q0 = model.q0.copy()
        q0[2] = 0.1 + gap
        _, _, simulator = run(model, DT, q=q0, margin=0.02)
        assert len(blocks(simulator)) == counted


def test_a_contact_nearby_does_nothing_until_it_is_reached():
    _, qd, _ = run(loose_ball(height=0.115), 0.06, margin=0.02)
    free = int(np.sqrt(2 * 0.015 / G) / DT) - 2
    assert 40 < free < len(qd)
    np.testing.assert_allclose(qd[:free, 2], -G * DT * np.arange(free), atol=1e-14)


def test_cfm_softens():
    """Resting on a soft contact: erp d / dt = -cfm lambda, so the overlap is cfm m g dt^2 / erp."""
    cfm, erp = 5.0, 0.5
    q, _, _ = run(loose_ball(), 2.0, cfm=cfm, erp=erp, sweeps=20)
    np.testing.assert_allclose(q[-1, 2] - 0.1, -cfm * 0.5 * G * DT**2 / erp, rtol=1e-9)


def test_fewer_sweeps_leave_a_larger_residual():
    """residual: the largest change of a row velocity in the last sweep."""
    residuals = []
    for sweeps in (1, 4, 16, 64):
        _, _, simulator = run(loose_box(), DT, [0.1, 0.05, -0.1, 1.0, 0.5, 2.0], sweeps=sweeps)
        residuals.append(simulator.residual[0])
    assert residuals[0] > residuals[1] > residuals[2] > residuals[3]
    assert residuals[0] > 0.1
    assert residuals[3] < 1e-6


def test_quadruped_stands_on_four_feet():
    """Held by springs in its joints: four contacts in every step, that carry its weight."""
    scene = quadruped.build("float64")
    model = scene.model
    joints = model.dof_q >= 0
    rest = np.where(joints, scene.q0[model.dof_q], 0.0)
    springs = {"stiffness": 200.0 * joints, "damping": 5.0 * joints, "rest_position": rest}
    simulator = sim.Simulator(model, DT, parameters=springs, device="cpu")
    state = simulator.state(scene.q0)
    for _ in range(40):
        state = simulator.rollout(state, steps=75).final_state
        assert len([block for block in blocks(simulator) if block.kind == CONTACT]) == 4
    weight = G * model.parameters["mass"].sum()
    np.testing.assert_allclose(weight_on_ground(simulator), weight, rtol=1e-5)
    assert np.abs(state.qd.numpy()).max() < 1e-4
    for block in blocks(simulator):
        np.testing.assert_allclose(block.impulse[0] / DT, weight / 4, rtol=0.3)


def test_quadruped_stands_by_torques_of_the_user():
    """A PD law outside of the simulator, one step at a time."""
    scene = quadruped.build("float64")
    model = scene.model
    joints = np.flatnonzero(model.dof_q >= 0)
    simulator = sim.Simulator(model, DT, device="cpu")
    state = simulator.state(scene.q0)
    for _ in range(500):
        q, qd = state.numpy()
        tau = np.zeros((1, model.nv))
        tau[:, joints] = 100.0 * (scene.q0 - q)[:, model.dof_q[joints]] - 2.0 * qd[:, joints]
        state = simulator.step(state, tau)
        assert len(blocks(simulator)) >= 4
    assert abs(state.q.numpy()[0, 2] - scene.q0[2]) < 0.03
    np.testing.assert_allclose(state.qd.numpy(), 0.0, atol=0.05)


def test_capsule_falls_over():
    """Standing on its end, pushed a little: it lies on the ground in the end, at rest on two contacts."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_capsule(radius=0.05, half_length=0.2, mass=1.0, position=(0, 0, 0.25))
    model = builder.finalize("float64")
    assert model.geometries[1].type == CAPSULE
    q, _, simulator = run(model, 3.0, [0.0, 0.0, 0.0, 0.0, 0.2, 0.0])
    np.testing.assert_allclose(q[-1, 2], 0.05, atol=1e-9)
    assert len(blocks(simulator)) == 2
    np.testing.assert_allclose(weight_on_ground(simulator), G, rtol=1e-6)


def test_free_fall_knows_no_contact():
    _, qd, simulator = run(balls([(0, 0, 0), (1, 0, 0)], [1.0, 2.0]), 0.1, np.ones(12))
    np.testing.assert_array_equal(qd, 1.0)
    assert not blocks(simulator)
