"""Compliant contacts and limits against closed forms and MuJoCo, and what the builder refuses."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sim
from tests.contact.worlds import DT, G, hinge, run
from tests.errors import raises_naming
from tests.simulation.differences import blocks, case, check, regimes

MASS, RADIUS = 0.5, 0.1


def soft_ball(stiffness: float, damping: float = 0.0, ground: sim.Surface | None = None) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground(surface=ground or sim.Surface(friction=0.5))
    builder.add_sphere(
        radius=RADIUS, mass=MASS, position=(0.0, 0.0, RADIUS), surface=sim.Surface(stiffness=stiffness, damping=damping)
    )
    return builder.finalize("float64")


def test_a_ball_sinks_by_its_weight_over_the_stiffness():
    q, qd, simulator = run(soft_ball(2000.0, 60.0), 2.0)
    np.testing.assert_allclose(q[-1, 2] - RADIUS, -MASS * G / 2000.0, rtol=1e-9)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-9)
    (block,) = blocks(simulator)
    np.testing.assert_allclose(block.impulse[0], MASS * G * DT, rtol=1e-9)


def test_stiffness_of_a_pair_is_in_series():
    q, _, _ = run(soft_ball(2000.0, 60.0, sim.Surface(friction=0.5, stiffness=500.0, damping=15.0)), 3.0)
    np.testing.assert_allclose(q[-1, 2] - RADIUS, -MASS * G * (1 / 2000.0 + 1 / 500.0), rtol=1e-6)


@pytest.mark.parametrize("ground", [None, sim.Surface(friction=0.5, stiffness=500.0, damping=2.0)])
def test_damped_oscillation_while_in_contact(ground):
    """Against the solution of m x'' = -m g - k x - c x'; of a pair with one ratio of damping to stiffness."""
    stiffness, damping = (400.0, 1.6) if ground else (100.0, 0.4)
    model = soft_ball(stiffness, damping, ground)
    k = stiffness * 500.0 / (stiffness + 500.0) if ground else stiffness
    # Dampers in the same ratio to their springs act as one in that ratio.
    c = damping / stiffness * k
    depth = -1.3 * MASS * G / k  # amplitude below the equilibrium: it stays in contact
    q0 = model.q0.copy()
    q0[2] += depth
    dt = 1e-5
    q, _, _ = run(model, 0.3, q=q0, dt=dt, sweeps=2)
    times = dt * np.arange(len(q))
    exact = solve_ivp(
        lambda _, y: [y[1], -G - (k * y[0] + c * y[1]) / MASS], (0.0, times[-1]), [depth, 0.0], t_eval=times,
        rtol=1e-9, atol=1e-12,
    )  # fmt: skip
    # The step is implicit in the spring: its error is of first order, damping as h k / 2 would.
    np.testing.assert_allclose(q[:, 2] - RADIUS, exact.y[0], atol=2e-3 * abs(depth))


def test_nothing_acts_before_the_bodies_touch():
    """A strong damper holds a ball only from the surface on: it falls freely until then."""
    model = soft_ball(1e4, 500.0)
    q0 = model.q0.copy()
    q0[2] += 0.019  # inside the margin
    q, qd, _ = run(model, 4 * DT, [0.0, 0.0, -3.0, 0.0, 0.0, 0.0], q=q0)
    np.testing.assert_allclose(qd[:, 2], -3.0 - G * DT * np.arange(5), atol=1e-12)
    assert q[-1, 2] > RADIUS


def test_a_soft_ball_bounces_as_in_mujoco():
    """MuJoCo's contact with solref=(-k, -c) is the same spring and damper for a mass on its own without gravity."""
    mujoco = pytest.importorskip("mujoco")
    k, c, gap, dt = 3000.0, 4.0, 0.02, 1e-5
    # MuJoCo divides the stiffness by the square of its impedance, which it multiplies by; both per unit of mass.
    near = 0.9999
    reference = f"{-k / MASS * near} {-c / MASS}"
    peer = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="{dt}" gravity="0 0 0" tolerance="0" iterations="50"/><worldbody>
        <geom type="plane" size="0 0 1" condim="1" solref="{reference}" solimp="{near} {near} 0.001"/>
        <body pos="0 0 {RADIUS + gap}"><freejoint/>
        <geom type="sphere" size="{RADIUS}" mass="{MASS}" condim="1" solref="{reference}"
         solimp="{near} {near} 0.001"/></body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(peer)
    data.qvel[2] = -1.0
    steps = 10000
    heights = []
    for _ in range(steps):
        mujoco.mj_step(peer, data)
        heights.append(data.qpos[2] - RADIUS)
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_ground()
    builder.add_sphere(
        radius=RADIUS, mass=MASS, position=(0, 0, RADIUS + gap), surface=sim.Surface(stiffness=k, damping=c)
    )
    q, _, _ = run(builder.finalize("float64"), steps * dt, [0.0, 0.0, -1.0, 0.0, 0.0, 0.0], dt=dt, sweeps=2)
    assert min(heights) < -0.01
    assert heights[-1] > 0.02
    # Implicit in the spring, our step adds about h k = 0.03 to the damping of 4.
    np.testing.assert_allclose(q[1:, 2] - RADIUS, heights, atol=6e-5)


def test_squeezed_between_two_walls():
    """Hard walls too near to each other contradict; soft ones share the overlap."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    soft = sim.Surface(stiffness=5e3, damping=50.0)
    builder.add_ground(height=0.001, surface=soft)
    builder.add_geometry("world", 0, name="ceiling", position=(0, 0, 0.197), orientation=(1, 0, 0, 0), surface=soft)
    builder.add_sphere(radius=RADIUS, mass=MASS, position=(0.0, 0.0, RADIUS))
    q, qd, simulator = run(builder.finalize("float64"), 1.0)
    np.testing.assert_allclose(q[-1, 2], 0.099, atol=1e-9)
    np.testing.assert_allclose([block.impulse[0] for block in blocks(simulator)], 5e3 * 0.002 * DT, rtol=1e-6)
    assert np.abs(qd[-1]).max() < 1e-9


def test_squeezed_between_hard_walls():
    """There is no solution: impulses grow with the sweeps, velocities are those that the last wall asks for."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_ground(height=0.001)
    builder.add_geometry("world", 0, name="ceiling", position=(0, 0, 0.197), orientation=(1, 0, 0, 0))
    builder.add_sphere(radius=RADIUS, mass=MASS, position=(0.0, 0.0, RADIUS))
    model = builder.finalize("float64")
    for sweeps in (10, 100):
        q, qd, simulator = run(model, 0.1, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], sweeps=sweeps, max_correction=0.5)
        np.testing.assert_allclose(np.abs(qd[1:]).max(), 0.5, atol=1e-9)
        np.testing.assert_allclose(blocks(simulator)[0].impulse[0], sweeps * MASS * 0.5, rtol=0.1)
        np.testing.assert_allclose(simulator.residual, 1.0, rtol=1e-6)
        assert np.abs(q[:, :2]).max() < 2e-3


@pytest.mark.parametrize(("side", "force"), [("lower", -8.0), ("upper", 8.0)])
def test_compliant_limit(side, force):
    """A force stretches the limit's spring, from its margin on."""
    model = hinge(limits=sim.Limits(-0.4, 0.4, margin=0.1, stiffness=200.0, damping=30.0))
    q, qd, _ = run(model, 4.0, tau=np.array([force]))
    np.testing.assert_allclose(q[-1, 0], np.sign(force) * 0.3 + force / 200.0, rtol=1e-9)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-8)


def test_a_hard_limit_stops_at_its_margin():
    q, _, _ = run(hinge(limits=sim.Limits(-0.4, 0.4, margin=0.1)), 1.0, tau=np.array([5.0]))
    np.testing.assert_allclose(q[-1, 0], 0.3, atol=1e-12)


MATERIAL = ("contact_stiffness", "contact_damping", "friction", "mass", "gravity", "geometry_size")


class TestGradients:
    def soft(self, **ground: float) -> sim.Model:
        builder = sim.ModelBuilder()
        builder.add_ground(surface=sim.Surface(friction=0.3, **ground))
        builder.add_sphere(
            radius=RADIUS, mass=MASS, position=(0.0, 0.0, RADIUS - 0.004),
            surface=sim.Surface(friction=0.8, stiffness=900.0, damping=7.0),
        )  # fmt: skip
        return builder.finalize("float64")

    def test_both_sides_soft_and_sliding(self):
        model = self.soft(stiffness=700.0, damping=3.0)
        c = case(model, 10, qd=[2.0, 0.7, -0.3, 0.2, 0.1, 0.3])
        assert regimes(c) == {"slide"}
        check(c, MATERIAL)

    def test_one_side_soft_and_bouncing(self):
        """It lands, sinks in and leaves; the hard ground's infinite stiffness has no influence."""
        model = self.soft()
        q = model.q0.copy()
        q[2] = 0.113
        c = case(model, 25, q, [0.2, 0.1, -1.5, 0.2, 0.1, 0.3])
        assert {"open"} < regimes(c)
        check(c, MATERIAL)

    def test_box_on_soft_feet(self):
        builder = sim.ModelBuilder()
        builder.add_ground(surface=sim.Surface(friction=0.6, stiffness=4e3, damping=20.0))
        builder.add_box(
            half_extents=(0.1, 0.2, 0.05), mass=0.7, position=(0.0, 0.0, 0.049), orientation=(0.01, 0.005, 0.1, 1.0)
        )
        c = case(
            builder.finalize("float64"),
            10,
            qd=[0.8, 0.2, -0.1, 0.2, 0.1, 0.3],
            contact=sim.PgsContact(sweeps=5),
        )
        check(c, [*MATERIAL, "com", "inertia"])

    @pytest.mark.parametrize(("q", "qd"), [(-0.31, -1.0), (0.48, 2.0)])
    def test_compliant_limits(self, q, qd):
        builder = sim.ModelBuilder()
        builder.add_link("rod", mass=0.8, com=(0.02, 0.0, -0.3), inertia=(0.01, 0.012, 0.005))
        builder.add_joint(
            "hinge", "revolute", child="rod", axis=(0.1, 1.0, 0.0),
            limits=sim.Limits(-0.3, 0.5, margin=0.03, stiffness=90.0, damping=1.3),
        )  # fmt: skip
        c = case(builder.finalize("float64"), 8, np.array([q]), [qd])
        assert regimes(c) == {"lower" if q < 0.0 else "upper"}
        names = ("limit_margin", "limit_stiffness", "limit_damping", "lower_limit", "upper_limit", "mass", "com")
        check(c, names, zero=["upper_limit" if q < 0.0 else "lower_limit"])

    def test_hard_limit_with_margin(self):
        model = hinge(limits=sim.Limits(-0.3, 0.5, margin=0.01))
        c = case(model, 8, np.array([0.47]), [2.0])
        assert regimes(c) == {"upper"}
        check(c, ["limit_margin", "upper_limit"])


def test_stiffness_per_world_and_set_later():
    """Worlds side by side as each on its own; hard ones among them."""
    model = soft_ball(np.inf)
    stiffness = np.array([[np.inf, 300.0], [np.inf, np.inf], [800.0, 300.0]])
    simulator = sim.Simulator(model, DT, 3, "cpu")
    before = simulator.rollout(simulator.initial_state(), steps=50).q.numpy()
    simulator.parameters["contact_stiffness"] = stiffness
    q = simulator.rollout(simulator.initial_state(), steps=50).q.numpy()
    np.testing.assert_array_equal(q[:, 1], before[:, 1])
    for world in range(3):
        alone = sim.Simulator(model, DT, 1, "cpu", parameters={"contact_stiffness": stiffness[world]})
        np.testing.assert_array_equal(alone.rollout(alone.initial_state(), steps=50).q.numpy()[:, 0], q[:, world])
    assert q[-1, 2, 2] < q[-1, 0, 2] < q[-1, 1, 2]


def test_hard_limits_need_room_between_their_margins():
    """Soft ones pull both ways."""
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0, inertia=np.eye(3))
    builder.add_joint("j", "revolute", child="a", q0=(0.1,), limits=sim.Limits(-0.5, 0.5, margin=0.6))
    with raises_naming("joint 'j'", "limit_margin", "0.6", "sim.MujocoContact"):
        sim.Simulator(builder.finalize("float64"), DT, device="cpu")
    builder.joints["j"].limit_stiffness, builder.joints["j"].limit_damping = 100.0, 10.0
    q, _, _ = run(builder.finalize("float64"), 2.0, [0.0], q=np.array([0.1]))
    assert abs(q[-1, 0]) < 1e-3


def test_stiffness_must_stay_positive():
    simulator = sim.Simulator(soft_ball(100.0), DT, device="cpu")
    with raises_naming("parameter 'contact_stiffness'", "0.0", "positive"):
        simulator.parameters["contact_stiffness"] = [np.inf, 0.0]
