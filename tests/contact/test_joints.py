"""Joint limits and dry friction against closed forms and MuJoCo."""

import numpy as np
import pytest

import sim
from tests.contact.worlds import DT, G, hinge, run
from tests.simulation.differences import blocks
from warp_kernels.constraints.kinds import FRICTION_LOSS, LOWER_LIMIT, UPPER_LIMIT


def pendulum(limits: sim.Limits) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_link("rod", mass=1.0, com=(0.0, 0.0, -0.5), inertia=(0.02, 0.02, 0.001))
    builder.add_joint("hinge", "revolute", child="rod", axis=(0.0, 1.0, 0.0), limits=limits)
    return builder.finalize("float64")


@pytest.mark.parametrize(
    ("limits", "speed", "end"), [(sim.Limits(lower=-0.4), -4.0, -0.4), (sim.Limits(upper=0.3), 4.0, 0.3)]
)
def test_limit_stops_a_pendulum(limits, speed, end):
    """It reaches the limit exactly, is held there as long as it swings outward, and then falls back."""
    model = pendulum(limits)
    q, qd, _ = run(model, 0.2, [speed])
    arrival = int(np.argmax(np.abs(q[:, 0] - end) < 1e-9))
    assert 50 < arrival < 150
    np.testing.assert_allclose(q[arrival, 0], end, atol=1e-14)
    assert qd[arrival + 1, 0] * speed <= 0.0
    assert (q[:, 0] * np.sign(end) <= abs(end) + 1e-12).all()


def test_pendulum_leans_on_its_limit():
    """Gravity presses it against a limit: the limit's impulse is that of gravity's moment."""
    model = pendulum(sim.Limits(0.2, 1.0))
    q, qd, simulator = run(model, 0.2)
    np.testing.assert_allclose(q[-1], 0.2, atol=1e-12)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-10)
    (block,) = blocks(simulator)
    assert block.kind == LOWER_LIMIT
    np.testing.assert_allclose(block.impulse[0], G * 0.5 * np.sin(0.2) * DT, rtol=1e-9)


@pytest.mark.parametrize(("force", "end"), [(5.0, 0.002), (-5.0, -0.003)])
def test_narrow_range(force, end):
    """Both limits are within the margin; only one of them carries."""
    model = hinge(limits=sim.Limits(-0.003, 0.002))
    q, _, simulator = run(model, 0.3, tau=np.array([force]))
    np.testing.assert_allclose(q[-1, 0], end, atol=1e-12)
    found = {block.kind: block.impulse[0] for block in blocks(simulator)}
    assert set(found) == {LOWER_LIMIT, UPPER_LIMIT}
    carries, idle = (UPPER_LIMIT, LOWER_LIMIT) if force > 0 else (LOWER_LIMIT, UPPER_LIMIT)
    np.testing.assert_allclose(found[carries], 5.0 * DT, rtol=1e-9)
    assert found[idle] == 0.0


def test_no_range_at_all():
    """A joint whose limits coincide stands still under any force."""
    q, _, _ = run(hinge(limits=sim.Limits(0.1, 0.1)), 0.1, [3.0], tau=np.array([7.0]))
    np.testing.assert_allclose(q[1:], 0.1, atol=1e-12)


def test_joint_outside_of_its_limits_comes_back():
    q, qd, _ = run(hinge(limits=sim.Limits(-1.0, 1.0)), 0.6, q=np.array([1.5]), max_correction=1.0)
    np.testing.assert_allclose(qd[1:400, 0], -1.0, atol=1e-12)
    assert q[-1, 0] <= 1.0 + 1e-12


def test_fast_joint_does_not_jump_over_its_limit():
    """Farther than the margin in one step."""
    q, _, _ = run(hinge(limits=sim.Limits(upper=0.3)), 3 * DT, [200.0], margin=1e-3)
    np.testing.assert_allclose(q[:, 0], [0.0, 0.2, 0.3, 0.3], atol=1e-12)


@pytest.mark.parametrize("kind", ["prismatic", "revolute"])
def test_dry_friction_holds_below_its_limit(kind):
    model = hinge(kind, friction_loss=3.0)
    q, qd, simulator = run(model, 0.2, tau=np.array([2.9]))
    np.testing.assert_allclose(q, 0.0, atol=1e-15)
    np.testing.assert_allclose(qd, 0.0, atol=1e-15)
    (block,) = blocks(simulator)
    assert block.kind == FRICTION_LOSS
    np.testing.assert_allclose(block.impulse, [-2.9 * DT, 0, 0], rtol=1e-12)


@pytest.mark.parametrize(("kind", "inertia"), [("prismatic", 2.0), ("revolute", 1.0)])
def test_dry_friction_slows_above_it(kind, inertia):
    model = hinge(kind, friction_loss=3.0)
    _, qd, _ = run(model, 0.2, tau=np.array([5.0]))
    np.testing.assert_allclose(qd[:, 0], (5.0 - 3.0) / inertia * DT * np.arange(len(qd)), atol=1e-12)


@pytest.mark.parametrize("speed", [1.0, -1.0])
def test_dry_friction_brings_to_rest(speed):
    q, qd, _ = run(hinge(friction_loss=3.0), 1.0, [speed])
    steps = int(1.0 / (1.5 * DT))
    np.testing.assert_allclose(np.abs(qd[:steps, 0]), 1.0 - 1.5 * DT * np.arange(steps), atol=1e-12)
    np.testing.assert_allclose(qd[steps + 2 :], 0.0, atol=1e-15)
    np.testing.assert_allclose(np.abs(q[-1, 0]), 1.0 / 3.0, atol=DT)


def test_dry_friction_of_every_axis_of_a_ball_joint():
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_link("body", mass=1.0, inertia=(1.0, 2.0, 3.0))
    builder.add_joint("joint", "spherical", child="body", friction_loss=0.3)
    _, qd, _ = run(builder.finalize("float64"), 0.1, tau=np.array([0.5, 0.2, -0.9]))
    np.testing.assert_allclose(qd[-1], [0.02, 0.0, -0.02], atol=1e-6)


def test_limit_and_dry_friction_together():
    """Friction helps the limit to stop the joint, and holds it when it is let go."""
    q, _, simulator = run(hinge(gravity=G, limits=sim.Limits(upper=0.05), friction_loss=5.0), 0.3)
    np.testing.assert_allclose(q[-1], 0.05, atol=1e-12)
    found = {block.kind: block.impulse[0] / DT for block in blocks(simulator)}
    np.testing.assert_allclose(found[UPPER_LIMIT] - found[FRICTION_LOSS], 2.0 * G, rtol=1e-9)


def test_limits_of_a_chain_are_one_problem():
    """The middle joint of a falling chain hits its limit: all joints feel it, as in MuJoCo with hard limits."""
    mujoco = pytest.importorskip("mujoco")
    builder = sim.ModelBuilder()
    parent = "world"
    body = ""
    for number in range(3):
        limits = sim.Limits(upper=0.3) if number == 1 else sim.Limits()
        builder.add_link(f"rod{number}", mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.001, 0.02, 0.02))
        builder.add_joint(
            f"hinge{number}", "revolute", parent=parent, child=f"rod{number}", axis=(0, 1, 0),
            position=(0.4 if number else 0.0, 0, 0), limits=limits,
        )  # fmt: skip
        parent = f"rod{number}"
        of_limit = 'limited="true" range="-9 0.3"' if number == 1 else ""
        body += f"""<body pos="{0.4 if number else 0} 0 0">
            <inertial mass="1" pos="0.2 0 0" diaginertia="0.001 0.02 0.02"/>
            <joint axis="0 1 0" {of_limit} solreflimit="0.0001 10" solimplimit="0.9999 0.9999 0.001"/>"""
    peer = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="0.00001" integrator="Euler"/><compiler angle="radian"/>
        <worldbody>{body}{"</body>" * 3}</worldbody></mujoco>"""
    )
    data = mujoco.MjData(peer)
    start = np.array([0.0, 0.25, 0.0])
    data.qpos[:], data.qvel[:] = start, (0.0, 5.0, 0.0)
    steps = 15000
    for _ in range(steps):
        mujoco.mj_step(peer, data)
    q, qd, _ = run(builder.finalize("float64"), steps * 1e-5, [0.0, 5.0, 0.0], q=start, dt=1e-5)
    assert (q[:, 1] > 0.3 - 1e-6).any()
    # MuJoCo's limit is an overdamped spring: it takes ten steps to stop the joint, and gives way by 0.2 mrad.
    np.testing.assert_allclose(q[-1], data.qpos, atol=1e-3)
    np.testing.assert_allclose(qd[-1], data.qvel, atol=3e-3 * np.abs(qd[-1]).max())
