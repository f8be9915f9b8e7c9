"""Limits of swing and twist of spherical joints: against hinges, the conical pendulum, and finite differences."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.contact.worlds import DT, G, run
from tests.simulation.differences import Case, blocks, case, check, single_steps
from warp_kernels.constraints.kinds import CONE_LIMIT

AXIS = np.array([0.0, 0.0, -1.0])


def pendulum(kind: str = "spherical", dtype: str = "float64", gravity: float = G, **joint: object) -> sim.Model:
    """A symmetric rod that hangs along -z from a joint with an axis along it, or from a hinge across it."""
    builder = sim.ModelBuilder(gravity=(0, 0, -gravity))
    builder.add_link("rod", mass=1.0, com=(0.0, 0.0, -0.5), inertia=(0.02, 0.02, 0.005))
    builder.add_joint("joint", kind, child="rod", **{"axis": AXIS, **joint})
    return builder.finalize(dtype)


def swing(q: np.ndarray, axis: np.ndarray = AXIS) -> np.ndarray:
    return np.arccos(np.clip(Rotation.from_quat(q).apply(axis) @ axis, -1.0, 1.0))


def turned(angle: float, axis: tuple[float, ...]) -> np.ndarray:
    return Rotation.from_rotvec(angle * np.array(axis)).as_quat()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_swing_in_a_plane_is_a_limited_hinge(dtype):
    model = pendulum(dtype=dtype, limits=sim.Limits(swing=0.4))
    hinge = pendulum("revolute", axis=(0, 1, 0), limits=sim.Limits(-0.4, 0.4), dtype=dtype)
    q, qd, simulator = run(model, 0.6, [0.0, 4.0, 0.0])
    same, velocity, _ = run(hinge, 0.6, [4.0])
    tolerance = 2e-5 if dtype == "float32" else 1e-10
    assert np.isclose(same, 0.4, atol=1e-6).any()
    np.testing.assert_allclose(Rotation.from_quat(q).as_rotvec()[:, 1], same[:, 0], atol=tolerance)
    np.testing.assert_allclose(qd[:, 1], velocity[:, 0], atol=100 * tolerance)
    assert simulator.residual[0] < 1e-5


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_twist_is_a_limited_hinge(sign):
    """Turned about its axis, to either side."""
    model = pendulum(limits=sim.Limits(twist=0.3))
    q, qd, _ = run(model, 0.2, [0.0, 0.0, 5.0 * sign])
    hinge = pendulum("revolute", axis=(0, 0, 1), limits=sim.Limits(-0.3, 0.3))
    same, velocity, _ = run(hinge, 0.2, [5.0 * sign])
    np.testing.assert_allclose(Rotation.from_quat(q).as_rotvec()[:, 2], same[:, 0], atol=1e-10)
    np.testing.assert_allclose(qd[:, 2], velocity[:, 0], atol=1e-9)


@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_both_signs_of_the_quaternion_are_one_rotation(flip):
    model = pendulum(limits=sim.Limits(twist=0.3, swing=0.5))
    q, _, _ = run(model, 0.2, [2.0, 1.0, 5.0], q=flip * np.array([0.0, 0.0, 0.0, 1.0]))
    np.testing.assert_allclose(q[-1] * np.sign(q[-1, 3]), run(model, 0.2, [2.0, 1.0, 5.0])[0][-1], atol=1e-12)


def test_orbit_along_the_cone():
    """Thrown round faster than it could without the limit, the rod goes round along the cone, which has no friction."""
    limit, rate = 0.5, 12.0
    start = turned(limit, (0.0, 1.0, 0.0))
    dt = 1e-4
    # Angular velocity along the child's axes of a steady turn about z.
    body = Rotation.from_quat(start).inv().apply([0.0, 0.0, rate])
    q, qd, simulator = run(pendulum(limits=sim.Limits(swing=limit)), 1.0, body, q=start, dt=dt, sweeps=5)
    (block,) = blocks(simulator)
    assert block.kind == CONE_LIMIT
    np.testing.assert_allclose(swing(q), limit, atol=5e-4)
    turn = Rotation.from_quat(q)
    momentum = turn.apply((np.diag([0.27, 0.27, 0.005]) @ qd[:, :, None])[..., 0])[:, 2]
    # Each step the limit takes back what the midpoint rule of gyroscopic forces has turned: first order in the step.
    np.testing.assert_allclose(momentum, momentum[0], rtol=60.0 * dt)
    # What holds it: the moment that a steady turn at this angle takes, less that of gravity.
    moment = (0.27 - 0.005) * rate**2 * np.sin(limit) * np.cos(limit) - 0.5 * G * np.sin(limit)
    np.testing.assert_allclose(block.impulse[0] / dt, moment, rtol=0.02)


def test_margin_and_compliance():
    """A moment against a soft cone: its spring gives way from the margin on."""
    model = pendulum(gravity=0.0, limits=sim.Limits(swing=0.5, margin=0.1, stiffness=50.0, damping=5.0))
    q, qd, _ = run(model, 3.0, tau=np.array([0.0, 3.0, 0.0]))
    np.testing.assert_allclose(swing(q[-1]), 0.4 + 3.0 / 50.0, rtol=1e-8)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-7)


def test_swing_past_a_quarter_turn_and_twist_together():
    """Both limits at once, far out: neither is passed, whatever the axis."""
    axis = np.array([1.0, 2.0, -0.5])
    model = pendulum(limits=sim.Limits(swing=2.0, twist=1.0), axis=axis)
    axis /= np.linalg.norm(axis)
    q, _, _ = run(model, 2.0, [6.0, -4.0, 5.0], tau=np.array([3.0, 2.0, 1.0]))
    v, w = q[:, :3], q[:, 3]
    twist = np.abs(2.0 * np.arctan2(v @ axis, w))
    twist = np.minimum(twist, 2 * np.pi - twist)
    # A step goes along the limit's tangent.
    assert 2.0 - 1e-3 < swing(q, axis).max() < 2.0 + 2e-3
    assert 1.0 - 1e-3 < twist.max() < 1.0 + 2e-3


def test_no_limit_no_row():
    _, _, simulator = run(pendulum(), DT)
    (shard,) = simulator.engine.shards
    assert shard.step.max_constraints == 0


def test_per_world_and_set_later():
    model = pendulum()
    simulator = sim.Simulator(model, DT, 3, "cpu")
    state = simulator.state(model.q0, [0.0, 4.0, 0.0])
    before = simulator.rollout(state, steps=300).q.numpy()
    simulator.parameters["swing_limit"] = [[np.inf], [0.2], [0.4]]
    q = simulator.rollout(state, steps=300).q.numpy()
    np.testing.assert_array_equal(q[:, 0], before[:, 0])
    np.testing.assert_allclose([swing(q[:, world]).max() for world in (1, 2)], [0.2, 0.4], atol=1e-3)


LINK = ("mass", "com", "inertia", "gravity", "joint_placement")


AXIS_OF_ARM = np.array([0.2, -0.3, 1.0]) / np.linalg.norm([0.2, -0.3, 1.0])


def arm(**limits: float) -> sim.Model:
    """A spherical joint between two hinges, with an oblique axis."""
    builder = sim.ModelBuilder()
    joints = [
        ("revolute", {"axis": (0.1, 1, 0)}),
        ("spherical", {"axis": AXIS_OF_ARM, "limits": sim.Limits(**limits)}),
        ("revolute", {}),
    ]
    parent = "world"
    for number, (kind, options) in enumerate(joints):
        link = builder.add_link(f"l{number}", mass=1 + 0.2 * number, com=(0.05, 0.02, 0.2), inertia=(0.02, 0.03, 0.02))
        builder.add_joint(f"j{number}", kind, parent=parent, child=link, position=(0.01, 0, 0.3), **options)
        parent = link
    return builder.finalize("float64")


SOFT = {"stiffness": 40.0, "damping": 0.8, "margin": 0.02}


@pytest.mark.parametrize("limits", [{}, SOFT], ids=["hard", "soft"])
@pytest.mark.parametrize("sweeps", [1, 5, 50])
class TestGradients:
    def test_swing(self, limits, sweeps):
        model = arm(swing=0.5, **limits)
        q = np.concatenate([[0.2], turned(0.47, (0.6, 0.8, 0.0)), [0.1]])
        c = case(model, 6, q, [0.5, 3.0, 2.0, 1.0, 0.3], sim.PgsContact(sweeps=sweeps))
        assert cones_that_bear(c) == {0}
        check(c, ["swing_limit", *map("limit_{}".format, limits), *LINK])

    def test_twist(self, limits, sweeps):
        model = arm(twist=0.5, **limits)
        q = np.concatenate([[0.2], turned(-0.49, AXIS_OF_ARM), [0.1]])
        c = case(model, 6, q, [0.5, 0.3, 2.0, -3.0, 0.3], sim.PgsContact(sweeps=sweeps))
        assert cones_that_bear(c) == {0}
        check(c, ["twist_limit", *map("limit_{}".format, limits), *LINK])

    def test_both(self, limits, sweeps):
        model = arm(twist=0.5, swing=0.6, **limits)
        across = np.cross(AXIS_OF_ARM, [1.0, 0.0, 0.0])
        across /= np.linalg.norm(across)
        turn = Rotation.from_rotvec(0.59 * across) * Rotation.from_rotvec(0.49 * AXIS_OF_ARM)
        q = np.concatenate([[0.2], -turn.as_quat(), [0.1]])
        outwards = 3.0 * turn.inv().apply(across) + 2.0 * AXIS_OF_ARM
        c = case(model, 6, q, [0.5, *outwards, 0.3], sim.PgsContact(sweeps=sweeps))
        assert cones_that_bear(c) == {0, 1}
        check(c, ["swing_limit", "twist_limit", *map("limit_{}".format, limits), *LINK])


def cones_that_bear(c: Case) -> set[int]:
    """The limits that bore in one of the steps."""
    return {
        block.item for step in single_steps(c) for block in step if block.kind == CONE_LIMIT and block.impulse[0] > 0.0
    }


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "revolute",
            {"limits": sim.Limits(swing=1.0)},
            "joint 'j': limits.swing .*spherical.* revolute",
        ),
        ("free", {"limits": sim.Limits(twist=1.0)}, "joint 'j': limits.twist .*spherical.* free"),
        ("spherical", {"limits": sim.Limits(swing=1.0), "axis": (0, 0, 0)}, "joint 'j': the axis is zero"),
    ],
)
def test_what_is_refused(kind, options, message):
    builder = sim.ModelBuilder()
    with pytest.raises(sim.ModelError, match=message):
        builder.add_joint("j", kind, child="a", **options)


def test_only_spherical_joints_take_them_later():
    simulator = sim.Simulator(arm(), DT, device="cpu")
    with pytest.raises(sim.ModelError, match="parameter 'swing_limit' is finite"):
        simulator.parameters["swing_limit"] = 1.0
    simulator.parameters["swing_limit"] = [np.inf, 1.0, np.inf]


def test_dry_friction_of_a_free_joint():
    """On each of its six degrees of freedom."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_link("body", mass=2.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("free", "free", child="body", friction_loss=0.3)
    _, qd, _ = run(builder.finalize("float64"), 0.1, tau=np.array([0.5, 0.2, -0.9, 0.4, -0.1, 0.0]))
    np.testing.assert_allclose(qd[-1], [0.01, 0.0, -0.03, 0.01, 0.0, 0.0], atol=1e-9)
