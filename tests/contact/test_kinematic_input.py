"""Velocities of kinematic joints as an input of every step, and those of a path."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import warp as wp
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import sim
from sim.viewer.motions import Rollout
from tests.contact.test_prescribed import GRAVITY, SIZE, H, body, led, velocity
from tests.errors import raises_naming
from tests.simulation.differences import METHODS, Case, case, check, regimes


def wall_and_ball(gap: float = 1e-4) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.4))
    led(builder, (-0.149, 0.02, 0.15), (0.05, 0.5, 0.1), friction=0.3)
    body(builder, "sphere", (0.0, 0.0, SIZE - gap))
    return builder.finalize("float64")


def hand_and_box() -> sim.Model:
    """A led hand whose finger, on a springy hinge, presses on a box; a tray on a led slide carries a ball."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.6))
    builder.add_link("hand")
    builder.add_joint("hand_pose", "free", child="hand", position=(0.0, 0.02, 0.5), kinematic=True)
    builder.add_link("finger", mass=0.3, inertia=(0.003, 0.003, 0.001), com=(0.01, 0.0, -0.1))
    builder.add_joint(
        "knuckle", "revolute", child="finger", parent="hand", axis=(0.1, 1, 0), q0=-0.1,
        spring=sim.Spring(stiffness=8.0, damping=0.1, rest=0.1),
    )  # fmt: skip
    builder.add_geometry("finger", "sphere", size=0.05, position=(0, 0, -0.2501), surface=sim.Surface(friction=0.5))
    builder.add_box(name="body", half_extents=(SIZE,) * 3, mass=0.7, position=(0.0, 0.0, SIZE - 1e-4))
    builder.add_link("tray")
    builder.add_joint("slide", "prismatic", child="tray", position=(2, 0, 0), axis=(0.6, 0, 0.8), kinematic=True)
    builder.add_geometry("tray", "box", size=(0.5, 0.5, 0.05), surface=sim.Surface(friction=0.3))
    builder.add_sphere(name="ball", radius=0.1, mass=0.5, position=(2.0, 0.01, 0.15 - 1e-4))
    return builder.finalize("float64")


def random_velocities(model: sim.Model, steps: int, size: float) -> np.ndarray:
    return size * np.random.default_rng(steps).normal(size=(steps, model.nk))


def led_case(model: sim.Model, kinematic_qd: np.ndarray, method: str, qd=None, integrator: str = "euler") -> Case:
    made = case(model, len(kinematic_qd), qd=qd, contact=METHODS[method]())
    return replace(made, kinematic_qd=kinematic_qd, integrator=integrator)


@pytest.mark.parametrize("method", ["hard", "pgs", "mujoco"])
def test_the_state_s_own_velocity_changes_nothing(method):
    """The same bits, in worlds of lane groups and in a single one."""
    model = hand_and_box()
    qd = np.where(model.prescribed, 0.2, 0.0)
    for worlds in (1, 16):
        simulator = sim.Simulator(model, H, worlds, device="cpu", contact=METHODS[method]())
        state = simulator.state(model.q0, qd)
        kept = simulator.rollout(state, steps=20)
        given = simulator.rollout(state, steps=20, kinematic_qd=qd[model.kinematic_dofs])
        np.testing.assert_array_equal(given.q.numpy(), kept.q.numpy())
        np.testing.assert_array_equal(given.qd.numpy(), kept.qd.numpy())


@pytest.mark.parametrize("worlds", [1, 16])
def test_each_step_ends_with_its_velocity(worlds):
    model = hand_and_box()
    simulator = sim.Simulator(model, H, worlds, device="cpu")
    given = 0.5 * np.random.default_rng(0).normal(size=(30, worlds, model.nk))
    trajectory = simulator.rollout(simulator.initial_state(), kinematic_qd=given)
    np.testing.assert_allclose(trajectory.qd.numpy()[1:, :, model.kinematic_dofs], given, atol=1e-14)
    state = simulator.initial_state()
    for row in given:
        state = simulator.step(state, kinematic_qd=row)
    np.testing.assert_array_equal(state.q.numpy(), trajectory.q.numpy()[-1])


@pytest.mark.parametrize(("dtype", "worlds"), [("float64", 1), ("float32", 16)])
@pytest.mark.parametrize("speed", [0.1, 2.0, 10.0])
@pytest.mark.parametrize("gap", [0.0, 0.03])
def test_a_wall_that_starts_at_once_pushes_at_its_speed(speed, dtype, worlds, gap):
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    led(builder, (-SIZE - 0.05 - gap, 0.0, 0.15), (0.05, 0.5, 0.1), friction=0.0)
    body(builder, "box", (0.0, 0.0, SIZE))
    model = builder.finalize(dtype)
    simulator = sim.Simulator(model, H, worlds, device="cpu")
    given = velocity(model, (speed, 0, 0))[model.kinematic_dofs]
    trajectory = simulator.rollout(simulator.initial_state(), steps=120, kinematic_qd=given)
    q, qd = trajectory.q.numpy()[:, -1], trajectory.qd.numpy()[:, -1]
    wall, pushed = q[:, model.q_slice("led_joint").start], q[:, model.q_slice("body").start]
    assert wall[-1] + SIZE + 0.05 + gap == pytest.approx(0.5 * speed, rel=1e-5)
    assert (wall + 0.05 - (pushed - SIZE)).max() < 1.5e-4
    assert qd[-1, model.qd_slice("body").start] == pytest.approx(speed, rel=2e-3)


def test_a_load_on_a_joint_feels_that_its_base_accelerates():
    """A pendulum under a cart that is shaken along a rail, beside its equation of motion."""
    builder = sim.ModelBuilder()
    builder.add_link("cart")
    builder.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0), kinematic=True)
    builder.add_link("pole", mass=1.0, inertia=(0.02, 0.02, 0.01), com=(0.0, 0.0, -0.2))
    builder.add_joint("hinge", "revolute", child="pole", parent="cart", axis=(0, 1, 0))
    simulator = sim.Simulator(builder.finalize("float64"), 1e-3, device="cpu")
    size, rate, lever, inertia = 0.1, 5.0, 0.2, 0.02 + 0.2**2
    given = sim.velocities_along(simulator, lambda time: [size * np.sin(rate * time)], steps=1000)
    trajectory = simulator.rollout(simulator.state([0.0, 0.0], [size * rate, 0.0]), kinematic_qd=given)

    def motion(time: float, state: np.ndarray) -> list[float]:
        angle, speed = state
        push = -size * rate**2 * np.sin(rate * time)
        return [speed, lever * (push * np.cos(angle) - GRAVITY * np.sin(angle)) / inertia]

    expected = solve_ivp(motion, (0.0, 1.0), [0.0, 0.0], rtol=1e-9, atol=1e-12).y[0, -1]
    assert trajectory.q.numpy()[-1, 0] == pytest.approx([size * np.sin(rate), expected], abs=1e-5)


def test_trajectories_keep_it():
    """Their copies have the same gradient, and what is shown of a step are its contacts."""
    model = wall_and_ball()
    simulator = sim.Simulator(model, H, device="cpu")
    given = np.tile(velocity(model, (0.6, 0.05, 0.02))[model.kinematic_dofs], (5, 1))
    trajectory = simulator.rollout(simulator.initial_state(), kinematic_qd=given)
    copied, last = pickle.loads(pickle.dumps(trajectory)), np.ones((1, model.nq))
    np.testing.assert_array_equal(copied.backward(last).kinematic_qd, trajectory.backward(last).kinematic_qd)
    shown = Rollout(trajectory, trajectory.q.numpy()).contacts(3)
    expected = simulator.contacts(trajectory.state(3), kinematic_qd=given[3])
    np.testing.assert_array_equal(shown.force, expected.force)
    still = simulator.contacts(trajectory.state(3), kinematic_qd=0 * given[3])
    assert np.abs(still.force.sum(0) - shown.force.sum(0)).max() > 0.1


class TestPaths:
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_every_step_ends_on_the_path(self, dtype):
        """Poses of two bodies in four worlds that turn about all axes."""
        builder = sim.ModelBuilder()
        for name in ("left", "right"):
            builder.add_link(name, mass=1.0, inertia=(1.0, 1.0, 1.0), com=(0.1, 0.0, 0.2))
            builder.add_joint(name, "free", child=name, kinematic=True)
        simulator = sim.Simulator(builder.finalize(dtype), H, 4, device="cpu")
        rng, time = np.random.default_rng(2), H * np.arange(241)[:, None, None, None]
        size, rate = rng.normal(size=(1, 4, 2, 3)), 5.0 * rng.random((1, 4, 2, 3))
        turn = Rotation.from_euler("xyz", (np.cos(rate * time)).reshape(-1, 3)).as_quat().reshape(241, 4, 2, 4)
        poses = np.concatenate([size * np.sin(rate * time), turn], axis=-1)
        given = sim.velocities_along(simulator, poses)
        trajectory = simulator.rollout(simulator.state(poses[0].reshape(4, 14)), kinematic_qd=given)
        found = trajectory.q.numpy().reshape(poses.shape)
        found[..., 3:] *= np.sign((found[..., 3:] * poses[..., 3:]).sum(-1, keepdims=True))
        assert np.abs(found - poses).max() < (1e-13 if dtype == "float64" else 2e-6)

    def test_joints_of_all_types(self):
        builder = sim.ModelBuilder()
        for number, kind in enumerate(("revolute", "prismatic", "spherical", "free")):
            builder.add_link(kind, mass=1.0, inertia=(1.0, 1.0, 1.0))
            builder.add_joint(kind, kind, child=kind, position=(number, 0, 0), axis=(0.6, 0, 0.8), kinematic=True)
        model = builder.finalize("float64")
        simulator = sim.Simulator(model, H, device="cpu")
        rows = [model.q0]
        for step in range(20):
            rows.append(sim.integrate(model, rows[-1][None], np.cos(step + np.arange(model.nv))[None], H).numpy()[0])
        trajectory = simulator.rollout(simulator.initial_state(), kinematic_qd=sim.velocities_along(simulator, rows))
        np.testing.assert_allclose(trajectory.q.numpy()[:, 0], rows, atol=1e-14)

    @pytest.mark.parametrize("shape", [(5, 1, 6), (5, 2, 7), (7,), (5, 1, 2, 7)])
    def test_other_shapes(self, shape):
        simulator = sim.Simulator(wall_and_ball(), H, device="cpu")
        with raises_naming("path", "(steps + 1, 1, 7)"):
            sim.velocities_along(simulator, np.ones(shape))

    def test_what_cannot_be_followed(self):
        simulator = sim.Simulator(wall_and_ball(), H, device="cpu")
        with raises_naming("steps"):
            sim.velocities_along(simulator, lambda time: np.ones(7))
        with raises_naming("quaternion", "'led_joint'"):
            sim.velocities_along(simulator, np.zeros((3, 7)))


class TestGradients:
    @pytest.mark.parametrize("method", ["hard", "pgs"])
    def test_a_push_that_sticks_slides_and_lets_go(self, method):
        model = wall_and_ball()
        given = np.array([0.6, 0.05, 0.02, 0.01, 0.02, 0.1]) + random_velocities(model, 8, 0.1)
        given[5:, 0] = -0.5
        c = led_case(model, given, method, qd=velocity(model, (0.6, 0.05, 0.02)))
        check(c, ["friction", "mass", "geometry_size"])

    @pytest.mark.parametrize("method", ["hard", "pgs", "mujoco"])
    def test_a_hand_with_a_finger_and_a_tray(self, method):
        model = hand_and_box()
        check(led_case(model, random_velocities(model, 6, 0.1), method), ["rest_position"], most=20)

    def test_all_regimes_occur(self):
        model = wall_and_ball()
        given = np.array([0.6, 0.05, 0.02, 0.01, 0.02, 0.1]) + random_velocities(model, 8, 0.1)
        given[5:, 0] = -0.5
        c = led_case(model, given, "hard", qd=velocity(model, (0.6, 0.05, 0.02)))
        assert regimes(c) >= {"stick", "slide"}

    @pytest.mark.parametrize(("method", "integrator"), [("mujoco", "rk4"), ("hard", "midpoint")])
    def test_integrators_of_higher_order(self, method, integrator):
        model = hand_and_box()
        check(led_case(model, random_velocities(model, 3, 0.1), method, integrator=integrator), most=20)

    @pytest.mark.parametrize("worlds", [1, 16])
    def test_every_interval_and_the_tape_agree(self, worlds):
        model = hand_and_box()
        simulator = sim.Simulator(model, H, worlds, device="cpu")
        given = 0.1 * np.random.default_rng(1).normal(size=(7, worlds, model.nk))
        state, last = simulator.initial_state(), np.ones((worlds, model.nq))
        every, some = (
            simulator.rollout(state, kinematic_qd=given, checkpoint_interval=k).backward(last) for k in (1, 3)
        )
        np.testing.assert_array_equal(every.kinematic_qd.numpy(), some.kinematic_qd.numpy())
        array = wp.array(given, dtype=wp.float64, device="cpu", requires_grad=True)
        with wp.Tape() as tape:
            trajectory = simulator.rollout(state, kinematic_qd=array)
        tape.backward(grads={trajectory.q: seed(trajectory.q, last)})
        np.testing.assert_array_equal(array.grad.numpy(), every.kinematic_qd.numpy())

    @pytest.mark.parametrize("method", ["hard", "mujoco"])
    def test_lane_groups_have_the_gradient_of_one_world(self, method):
        model = hand_and_box()
        given, last = random_velocities(model, 6, 0.1), np.random.default_rng(7).normal(size=model.nq)
        found = []
        for worlds in (1, 16):
            simulator = sim.Simulator(model, H, worlds, device="cpu", contact=METHODS[method]())
            trajectory = simulator.rollout(simulator.initial_state(), kinematic_qd=given)
            found.append(trajectory.backward(np.tile(last, (worlds, 1))).kinematic_qd.numpy())
        np.testing.assert_allclose(found[1], np.repeat(found[0], 16, axis=1), rtol=1e-8, atol=1e-10)

    def test_worlds_without_gradient(self):
        model = wall_and_ball()
        simulator = sim.Simulator(model, H, 2, device="cpu")
        given = np.zeros((4, 2, model.nk))
        given[1, 1, 0] = np.nan
        with pytest.warns(sim.NotFiniteWarning):
            trajectory = simulator.rollout(simulator.initial_state(), kinematic_qd=given)
        found = trajectory.backward(np.ones((2, model.nq)), leave_out_bad_worlds=True).kinematic_qd.numpy()
        assert (found[:, 1] == 0.0).all()
        assert np.abs(found[:, 0]).max() > 0.0

    def test_check_gradients(self):
        model = wall_and_ball()
        simulator = sim.Simulator(model, H, device="cpu")
        given = velocity(model, (0.6, 0.05, 0.02))[model.kinematic_dofs] * np.ones((5, 1))
        report = sim.check_gradients(simulator, simulator.initial_state(), kinematic_qd=given, wrt="kinematic_qd")
        assert not report.wrong
        assert "'led_joint'" in str(report.entries[0].entry)


def seed(array: wp.array, last: np.ndarray) -> wp.array:
    """A gradient of the last state."""
    value = np.zeros(array.shape)
    value[-1] = last
    return wp.array(value, dtype=array.dtype, device=array.device)


class TestMisuse:
    def test_no_kinematic_joint(self):
        builder = sim.ModelBuilder()
        body(builder, "box", (0, 0, 0))
        simulator = sim.Simulator(builder.finalize("float64"), H, device="cpu")
        with raises_naming("kinematic_qd", "(1, 0)"):
            simulator.step(simulator.initial_state(), kinematic_qd=np.zeros(6))
        with raises_naming("kinematic"):
            sim.velocities_along(simulator, np.zeros((2, 7)))

    def test_shapes_and_steps(self):
        simulator = sim.Simulator(wall_and_ball(), H, device="cpu")
        state = simulator.initial_state()
        with raises_naming("kinematic_qd", "(1, 6)"):
            simulator.step(state, kinematic_qd=np.zeros(5))
        with raises_naming("steps", "kinematic_qd"):
            simulator.rollout(state, steps=3, kinematic_qd=np.zeros((4, 6)))

    def test_input_changed_after_the_rollout(self):
        model = wall_and_ball()
        simulator = sim.Simulator(model, H, device="cpu")
        given = wp.zeros((3, 1, model.nk), dtype=wp.float64, device="cpu")
        trajectory = simulator.rollout(simulator.initial_state(), kinematic_qd=given)
        before = trajectory.backward(np.ones((1, model.nq))).kinematic_qd.numpy()
        given.fill_(1.0)
        np.testing.assert_array_equal(trajectory.backward(np.ones((1, model.nq))).kinematic_qd.numpy(), before)
