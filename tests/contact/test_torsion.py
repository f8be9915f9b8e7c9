"""Torsional and rolling friction against closed forms and MuJoCo, and their gradients."""

import numpy as np
import pytest

import sim
from tests.contact.worlds import DT, G, run
from tests.simulation.differences import blocks, case, check
from warp_kernels.constraints.kinds import CONTACT, TORSION

MASS, RADIUS = 0.5, 0.1
INERTIA = 0.4 * MASS * RADIUS**2
SPIN, ROLL = 0.02, 0.005


def ball(
    torsional: float = SPIN, rolling: float = ROLL, friction: float = 0.8, dtype: str = "float64", **ground: float
):
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0, **ground))
    builder.add_sphere(
        radius=RADIUS, mass=MASS, position=(0, 0, RADIUS),
        surface=sim.Surface(friction=friction, torsional_friction=torsional, rolling_friction=rolling),
    )  # fmt: skip
    return builder.finalize(dtype)


@pytest.mark.parametrize("direction", [(1.0, 0.0), (-0.6, 0.8)])
def test_a_rolling_ball_slows_down(direction):
    """By c g / (r (1 + 2/5)) along its path, and stops."""
    across = np.array([-direction[1], direction[0], 0.0])
    speed = 0.4
    qd = np.concatenate([speed * np.array([*direction, 0.0]), speed / RADIUS * across])
    deceleration = ROLL * G / (RADIUS * 1.4)
    steps = round(0.8 * speed / deceleration / DT)
    q, qd, simulator = run(ball(), 1.5 * speed / deceleration, qd)
    along = qd[:, :2] @ direction
    np.testing.assert_allclose(along[:steps], speed - deceleration * DT * np.arange(steps), atol=1e-9)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-10)
    np.testing.assert_allclose(q[-1, :2], speed**2 / (2 * deceleration) * np.array(direction), atol=speed * DT)
    found = {block.kind: block.impulse for block in blocks(simulator)}
    np.testing.assert_allclose(found[CONTACT][0], MASS * G * DT, rtol=1e-9)


def test_a_spinning_ball_stops():
    """Its spin falls by c m g / I until it is zero, whatever the sliding friction."""
    for friction in (0.0, 0.8):
        _, qd, _ = run(ball(friction=friction), 0.6, [0, 0, 0, 0, 0, 20.0])
        slope = SPIN * MASS * G / INERTIA
        stop = 20.0 / slope
        assert 0.3 < stop < 0.5
        steps = int(stop / DT)
        np.testing.assert_allclose(qd[:steps, 5], 20.0 - slope * DT * np.arange(steps), atol=1e-9)
        np.testing.assert_allclose(qd[steps + 2 :, 5], 0.0, atol=1e-12)


def test_a_ball_stays_on_a_slope_below_the_rolling_angle():
    """It begins to roll where tan(slope) > c / r."""
    for factor, moves in ((0.99, False), (1.01, True)):
        slope = np.arctan(factor * ROLL / RADIUS)
        builder = sim.ModelBuilder(gravity=(G * np.sin(slope), 0, -G * np.cos(slope)))
        builder.add_ground(surface=sim.Surface(rolling_friction=ROLL / 2))
        builder.add_sphere(
            radius=RADIUS, mass=MASS, position=(0, 0, RADIUS), surface=sim.Surface(rolling_friction=ROLL / 2)
        )
        _, qd, _ = run(builder.finalize("float64"), 0.5)
        assert (abs(qd[-1, 0]) > 1e-4) == moves
        if not moves:
            np.testing.assert_allclose(qd[-1], 0.0, atol=1e-8)


def test_as_in_mujoco():
    """A ball that rolls and spins, with a condim of 6; the sliding friction is so high that its cone matters little."""
    mujoco = pytest.importorskip("mujoco")
    dt, steps = 1e-4, 4000
    peer = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="{dt}" gravity="0 0 -{G}" cone="elliptic" impratio="1000" tolerance="0"
        solver="Newton" iterations="100"/><worldbody>
        <geom type="plane" size="0 0 1" condim="6" friction="5 {SPIN} {ROLL}" solref="0.001 1"/>
        <body pos="0 0 {RADIUS}"><freejoint/><geom type="sphere" size="{RADIUS}" mass="{MASS}" condim="6"
         friction="5 {SPIN} {ROLL}" solref="0.001 1"/></body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(peer)
    start = np.array([0.4, 0.2, 0.0, -2.0, 4.0, 0.0])
    data.qvel[:] = start
    for _ in range(steps):
        mujoco.mj_step(peer, data)
    q, qd, _ = run(ball(friction=5.0), steps * dt, start, dt=dt)
    assert np.linalg.norm(qd[-1, :2]) < 0.8 * np.linalg.norm(start[:2])
    np.testing.assert_allclose(q[-1, :2], data.qpos[:2], atol=5e-4)
    np.testing.assert_allclose(qd[-1, :2], data.qvel[:2], atol=2e-3)


def test_without_them_there_is_no_row():
    model = ball(torsional=0.0, rolling=0.0)
    _, _, simulator = run(model, DT)
    assert [block.kind for block in blocks(simulator)] == [CONTACT]
    (shard,) = simulator.engine.shards
    assert shard.step.max_constraints == 1
    assert shard.step.contact_stage.contact_resistance.size == 0


def test_only_pairs_that_resist_have_rows():
    builder = sim.ModelBuilder()
    builder.add_ground()
    for number, rolling in enumerate((0.0, 0.01, 0.0)):
        builder.add_sphere(
            radius=0.1, mass=1.0, position=(number, 0, 0.1), surface=sim.Surface(rolling_friction=rolling)
        )
    _, _, simulator = run(builder.finalize("float64"), DT)
    found = [(block.kind, block.item) for block in blocks(simulator)]
    assert found == [(CONTACT, 0), (CONTACT, 1), (CONTACT, 2), (TORSION, 1)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_per_world_and_set_later(dtype):
    model = ball(0.0, 0.0, dtype=dtype)
    rolling = np.array([[0.0, 0.0], [0.0, 0.01], [0.002, 0.003]])
    simulator = sim.Simulator(model, DT, 3, "cpu", sim.PgsContact())
    start = simulator.state(model.q0, [0.4, 0, 0, 0, 4.0, 0])
    before = simulator.rollout(start, steps=50).qd.numpy()[-1]
    simulator.parameters["rolling_friction"] = rolling
    qd = simulator.rollout(start, steps=50).qd.numpy()[-1]
    np.testing.assert_array_equal(qd[0], before[0])
    expected = 0.4 - rolling.sum(axis=1) * G / (RADIUS * 1.4) * 50 * DT
    np.testing.assert_allclose(qd[:, 0], expected, atol=1e-5 if dtype == "float32" else 1e-10)


BODY = ("mass", "com", "inertia", "gravity", "friction", "geometry_size", "geometry_placement")


@pytest.mark.parametrize("sweeps", [1, 5, 50])
@pytest.mark.parametrize("friction", ["cone", "pyramid"])
class TestGradients:
    def options(self, friction: str, sweeps: int) -> sim.ContactMethod:
        return sim.PgsContact(friction=friction, sweeps=sweeps)

    def test_rolling_and_spinning(self, friction, sweeps):
        c = case(ball(), 8, qd=[0.5, 0.2, 0.0, -2.0, 5.0, 3.0], contact=self.options(friction, sweeps))
        # A ball that rolls does so whatever the friction.
        check(c, ["torsional_friction", "rolling_friction", *(name for name in BODY if name != "friction")])

    def test_sliding_rolling_and_spinning(self, friction, sweeps):
        c = case(ball(friction=0.3), 8, qd=[3.0, 1.0, 0.0, 2.0, 1.0, 5.0], contact=self.options(friction, sweeps))
        check(c, ["torsional_friction", "rolling_friction", *BODY])

    def test_held(self, friction, sweeps):
        """Forces that neither roll nor spin it; on a soft ground, which lets something depend on them."""
        model = ball(stiffness=500.0, damping=3.0)
        q = model.q0 - 0.004 * (np.arange(7) == 2)
        c = case(model, 8, q, contact=self.options(friction, sweeps), force=1e-3)
        check(c, ["mass", "gravity", "geometry_size", "contact_stiffness"])

    def test_box_that_turns(self, friction, sweeps):
        """Four corners with torsion each: what they resist together."""
        builder = sim.ModelBuilder()
        builder.add_ground(surface=sim.Surface(friction=1.0, torsional_friction=0.01))
        builder.add_box(
            half_extents=(0.1, 0.2, 0.05), mass=0.7, position=(0.0, 0.0, 0.05),
            surface=sim.Surface(friction=0.5, torsional_friction=0.02),
            orientation=(0.0, 0.0, 0.1, 1.0),
        )  # fmt: skip
        c = case(builder.finalize("float64"), 8, qd=[1.0, 0.4, 0, 0, 0, 3.0], contact=self.options(friction, sweeps))
        check(c, ["torsional_friction", *BODY])

    def test_two_balls_and_a_hinge(self, friction, sweeps):
        """A ball rolls on a moving plank."""
        builder = sim.ModelBuilder()
        builder.add_link("drum", mass=1.0, inertia=(0.02, 0.02, 0.02), com=(0.01, 0, 0.02))
        builder.add_joint("hinge", "revolute", child="drum", axis=(0.1, 1.0, 0.1), spring=sim.Spring(damping=0.1))
        builder.add_geometry(
            "drum", 1, size=(0.2, 0, 0), position=(0.02, 0.01, 0), surface=sim.Surface(torsional_friction=0.01)
        )
        builder.add_sphere(
            radius=RADIUS,
            mass=MASS,
            position=(0.06, 0.02, 0.2971),
            surface=sim.Surface(torsional_friction=SPIN, rolling_friction=ROLL),
        )
        qd = [1.0, 0.3, 0.1, -0.1, 1.0, 2.0, 6.0]
        c = case(builder.finalize("float64"), 6, qd=qd, contact=self.options(friction, sweeps))
        check(c, ["torsional_friction", "rolling_friction", "mass", "com", "inertia", "gravity", "geometry_size"])
