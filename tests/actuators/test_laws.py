"""Forces of actuators against closed forms: backward Euler of one joint, limits, gears, stiff gains."""

import numpy as np
import pytest
from scipy.optimize import brentq

import sim
from tests.errors import raises_naming
from tests.simulation.differences import METHODS, blocks
from warp_kernels.constraints.kinds import ACTUATOR, UPPER_LIMIT

INERTIA = 0.7


def hinge(kind: str, dtype: str = "float64", kind_of_joint: str = "revolute", **options: object) -> sim.Model:
    """One body with a moment of inertia or a mass of INERTIA on one actuated joint, without gravity."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("body", mass=INERTIA, inertia=(INERTIA, INERTIA, INERTIA))
    builder.add_joint("joint", kind_of_joint, child="body", axis=(0.0, 0.0, 1.0))
    builder.add_actuator("joint", kind, **options)
    return builder.finalize(dtype)


def run(model: sim.Model, dt: float, steps: int, u: float, q: float = 0.0, qd: float = 0.0) -> tuple:
    """q and qd [steps + 1] under a constant input."""
    simulator = sim.Simulator(model, dt, device="cpu")
    trajectory = simulator.rollout(simulator.state([q], [qd]), control=np.full((steps, 1), u))
    return trajectory.q.numpy()[:, 0, 0], trajectory.qd.numpy()[:, 0, 0]


def force(kind: str, u: float, q: float, v: float, gear: float, kp: float, kd: float, limit: float) -> float:
    wanted = {"torque": u, "position": kp * (u - gear * q) - kd * gear * v, "velocity": kd * (u - gear * v)}[kind]
    return float(np.clip(wanted, -limit, limit))


def backward_euler(dt: float, steps: int, start: tuple[float, float], *law: object) -> np.ndarray:
    """The velocity at the end of each step solves its one equation; found by bracketing. [steps + 1, 2]."""
    kind, u, gear, kp, kd, limit = law
    states = [start]
    for _ in range(steps):
        q, v = states[-1]

        def surplus(x: float, q: float = q, v: float = v) -> float:
            return INERTIA * (x - v) - dt * gear * force(kind, u, q + dt * x, x, gear, kp, kd, limit)

        x = brentq(surplus, -1e3, 1e3, xtol=1e-15, rtol=1e-15)
        states.append((q + dt * x, x))
    return np.array(states)


@pytest.mark.parametrize("kind_of_joint", ["revolute", "prismatic"])
@pytest.mark.parametrize("limit", [np.inf, 4.0, 0.3])
@pytest.mark.parametrize("gear", [1.0, -2.5])
@pytest.mark.parametrize(
    ("kind", "u", "kp", "kd"),
    [
        ("torque", 1.3, 0.0, 0.0),
        ("position", 1.1, 60.0, 3.0),
        ("position", 0.8, 40.0, 0.0),
        ("velocity", 2.0, 0.0, 5.0),
    ],
)
def test_step_response_is_backward_euler(kind, u, kp, kd, gear, limit, kind_of_joint):
    model = hinge(kind, kind_of_joint=kind_of_joint, gear=gear, force_limit=limit, gains=sim.Gains(kp, kd))
    expected = backward_euler(0.02, 100, (-0.2, 0.4), kind, u, gear, kp, kd, limit)
    q, qd = run(model, 0.02, 100, u, -0.2, 0.4)
    np.testing.assert_allclose(q, expected[:, 0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(qd, expected[:, 1], rtol=0, atol=1e-10)


def test_free_position_response_in_closed_form():
    """Powers of the matrix of one step of backward Euler."""
    kp, kd, u, dt = 300.0, 7.0, 0.4, 0.01
    # I v+ = I v + dt (kp (u - q - dt v+) - kd v+),  q+ = q + dt v+.
    a = INERTIA + dt * kd + dt * dt * kp
    matrix = np.array([[1.0 - dt * dt * kp / a, dt * INERTIA / a], [-dt * kp / a, INERTIA / a]])
    q, qd = run(hinge("position", gains=sim.Gains(kp=kp, kd=kd)), dt, 150, u)
    state = np.array([-u, 0.0])
    for step in range(151):
        np.testing.assert_allclose([q[step] - u, qd[step]], np.linalg.matrix_power(matrix, step) @ state, atol=1e-12)
    assert abs(q[-1] - u) < 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("limit", [np.inf, 50.0])
def test_stiff_gains_are_stable(dtype, limit):
    """kp = 1e6 at 10 ms: kp dt^2 is 140 times the inertia. The joint reaches its target and stays."""
    q, qd = run(hinge("position", dtype, gains=sim.Gains(kp=1e6, kd=1e2), force_limit=limit), 1e-2, 400, 0.503)
    assert np.abs(q - 0.503).max() <= 0.503 + 1e-6  # never further away than at the start
    np.testing.assert_allclose(q[-200:], 0.503, atol=1e-6)
    np.testing.assert_allclose(qd[-200:], 0.0, atol=1e-4)


def test_two_actuators_on_one_joint():
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("joint", "revolute", child="body")
    builder.add_actuator("joint", "position", name="servo", gains=sim.Gains(kp=30.0, kd=2.0))
    builder.add_actuator("joint", "torque", name="push", gear=3.0, force_limit=0.5)
    simulator = sim.Simulator(builder.finalize("float64"), 0.01, device="cpu")
    qd = simulator.step(simulator.state([0.1], [0.2]), control=[0.7, 9.0]).qd.numpy()[0, 0]
    right = 0.2 + 0.01 * (30.0 * (0.7 - 0.1) + 3.0 * 0.5)
    np.testing.assert_allclose(qd, right / (1.0 + 0.01 * 2.0 + 0.01**2 * 30.0), rtol=1e-14)


def test_a_limited_servo_under_load_gives_its_limit():
    """A weight hangs on a slider that a stop bears: within its limit the servo holds it, beyond it gives way."""
    for limit, holds in ((25.0, True), (15.0, False)):
        builder = sim.ModelBuilder()
        builder.add_link("body", mass=2.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint("joint", "prismatic", child="body", axis=(0.0, 0.0, 1.0))
        builder.add_actuator("joint", "position", gains=sim.Gains(kp=1e4, kd=1e2), force_limit=limit)
        simulator = sim.Simulator(builder.finalize("float64"), 1e-3, device="cpu")
        trajectory = simulator.rollout(simulator.initial_state(), control=np.zeros((400, 1)))
        z, v = trajectory.q.numpy()[:, 0, 0], trajectory.qd.numpy()[:, 0, 0]
        if holds:
            np.testing.assert_allclose(z[-1], -2.0 * 9.81 / 1e4, atol=1e-6)
        else:
            falling = np.diff(v)[50:] / 1e-3
            np.testing.assert_allclose(falling, limit / 2.0 - 9.81, rtol=1e-9)


def test_softness_of_contacts_does_not_weaken_an_actuator():
    """cfm belongs to contacts and limits."""
    model = hinge("position", gains=sim.Gains(kp=2000.0, kd=5.0), force_limit=3.0)
    results = []
    for cfm in (0.0, 2.0):
        simulator = sim.Simulator(model, 0.01, device="cpu", contact=sim.PgsContact(cfm=cfm))
        results.append(simulator.rollout(simulator.initial_state(), control=np.full((60, 1), 0.3)).q.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-12)


def test_rows_only_beyond_the_limit():
    """What stays within its limit stands on the mass matrix's diagonal and takes no row."""
    model = hinge("position", gains=sim.Gains(kp=100.0, kd=1.0), force_limit=10.0)
    simulator = sim.Simulator(model, 0.01, device="cpu")
    counts = []
    for u in (0.05, 0.5):
        simulator.step(simulator.initial_state(), control=[u])
        (shard,) = simulator.engine.shards
        count = int(shard.step.constraint_stage.constraints.count.numpy()[0])
        counts.append(count)
        assert (shard.step.constraint_stage.constraints.kind.numpy()[:count, 0] == ACTUATOR).all()
    assert counts == [0, 1]


def test_a_hit_is_limited_from_the_next_step_on():
    """A slider runs into its stop at 1.7 m/s. Damping had kept the servo's force within its limit up to then."""
    mass, kp, kd, u, limit, dt, stop = 2.0, 100.0, 50.0, 1.0, 20.0, 1e-3, 0.1
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("body", mass=mass, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("joint", "prismatic", child="body", axis=(0.0, 0.0, 1.0), limits=sim.Limits(upper=stop))
    builder.add_actuator("joint", "position", gains=sim.Gains(kp=kp, kd=kd), force_limit=limit)
    simulator = sim.Simulator(builder.finalize("float64"), dt, device="cpu", contact=sim.PgsContact(sweeps=200))
    q, v = 0.0995, 1.7
    state = simulator.state([q], [v])
    forces = []
    for _ in range(3):
        state = simulator.step(state, control=[u])
        found = {block.kind: block.impulse[0] for block in blocks(simulator)}
        after = state.qd.numpy()[0, 0]
        # What the stop doesn't take from the momentum is the servo's.
        forces.append((mass * (after - v) + found[UPPER_LIMIT]) / dt)
        q, v = state.q.numpy()[0, 0], after
    np.testing.assert_allclose(q, stop, rtol=1e-12)
    landing = (stop - 0.0995) / dt
    np.testing.assert_allclose(forces[0], kp * (u - stop) - kd * landing, rtol=1e-9)
    np.testing.assert_allclose(forces[1:], limit, rtol=1e-9)


@pytest.mark.parametrize(("u", "used"), [(-3.0, -0.5), (0.7, 0.7), (9.0, 1.2)])
@pytest.mark.parametrize(
    ("kind", "gains"), [("torque", {}), ("position", {"kp": 40.0, "kd": 2.0}), ("velocity", {"kd": 5.0})]
)
def test_inputs_are_clamped_to_their_range(kind, gains, u, used):
    limited = run(hinge(kind, gains=sim.Gains(**gains), control_range=(-0.5, 1.2)), 0.01, 30, u)
    free = run(hinge(kind, gains=sim.Gains(**gains)), 0.01, 30, used)
    np.testing.assert_array_equal(limited, free)


def test_a_range_without_zero_holds_without_control():
    simulator = sim.Simulator(hinge("torque", control_range=(0.3, 1.0)), 0.01, device="cpu")
    qd = simulator.rollout(simulator.initial_state(), steps=5).qd.numpy()[-1, 0, 0]
    np.testing.assert_allclose(qd, 0.05 * 0.3 / INERTIA, rtol=1e-12)


@pytest.mark.parametrize("given", [(1.0, 1.0), (2.0, -2.0), (float("nan"), 1.0), 3.0, (1.0, 2.0, 3.0), "ab"])
def test_ranges_that_are_none(given):
    with raises_naming("actuator 'joint'", "control_range"):
        hinge("torque", control_range=given)


NAN_BODY = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="b" pos="0 0 1"><freejoint/>
  <geom size=".1"/><site name="s"/>
  <body><joint name="h" axis="0 1 0"/><geom size=".05" pos=".2 0 0"/></body></body></worldbody>
  <tendon><fixed name="t"><joint joint="h" coef="1"/></fixed></tendon><actuator>{actuator}</actuator></mujoco>"""


@pytest.mark.parametrize("worlds", [2, 20])
@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize(
    "actuator",
    [
        '<motor joint="h" ctrlrange="-1 1"/>',
        '<position joint="h" kp="30" kv="1" forcerange="-2 2"/>',
        '<motor tendon="t" ctrlrange="-1 1"/>',
        '<motor site="s" gear="0 0 1 0 0 0" ctrlrange="-1 1"/>',
        '<general joint="h" dyntype="filter" dynprm=".1" ctrlrange="-1 1" actlimited="true" actrange="-1 1"/>',
        '<adhesion body="b" ctrlrange="0 1"/>',
    ],
    ids=["motor", "servo", "tendon", "site", "filter", "adhesion"],
)
def test_an_input_that_is_no_number_makes_its_world_bad(tmp_path, actuator, law, worlds):
    """A clamp would make the lower limit of it."""
    file = tmp_path / "robot.xml"
    file.write_text(NAN_BODY.format(actuator=actuator))
    simulator = sim.Simulator(sim.load(file), 0.002, worlds, "cpu", METHODS[law]())
    control = np.zeros((3, worlds, 1))
    control[1, 1] = np.nan
    with pytest.warns(sim.NotFiniteWarning):
        simulator.rollout(simulator.initial_state(), control=control)
    assert simulator.bad_worlds == {1: 2}
