"""Bodies whose motion is prescribed: they push, lift, carry and hold others at their own velocity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from tests.errors import raises_naming
from tests.simulation.differences import METHODS, case, check

H = 1 / 240
GRAVITY = 9.81
SIZE = 0.1


def led(builder: sim.ModelBuilder, position, size, type: str = "free", friction: float = 0.5, **joint) -> None:
    builder.add_link("led")
    builder.add_joint("led_joint", type, child="led", position=position, kinematic=True, **joint)
    builder.add_geometry("led", "box", size=size, surface=sim.Surface(friction=friction))


def body(builder: sim.ModelBuilder, shape: str, position, friction: float = 0.5) -> None:
    kw = dict(mass=0.7, position=position, surface=sim.Surface(friction=friction), name="body")
    {
        "box": lambda: builder.add_box(half_extents=(SIZE,) * 3, **kw),
        "sphere": lambda: builder.add_sphere(radius=SIZE, **kw),
        "cylinder": lambda: builder.add_cylinder(radius=SIZE, half_length=SIZE, **kw),
        "capsule": lambda: builder.add_capsule(radius=SIZE, half_length=SIZE, orientation=(0.0, 1.0, 0.0, 1.0), **kw),
    }[shape]()


def rollout(model: sim.Model, qd, seconds: float, dt: float = H, worlds: int = 1, contact: str = "hard"):
    simulator = sim.Simulator(model, dt, num_worlds=worlds, device="cpu", contact=METHODS[contact]())
    trajectory = simulator.rollout(simulator.state(model.q0, qd), steps=round(seconds / dt))
    for array in (trajectory.q, trajectory.qd):
        assert (array.numpy() == array.numpy()[:, :1]).all()
    return trajectory.q.numpy()[:, 0].astype(float), trajectory.qd.numpy()[:, 0].astype(float)


def velocity(model: sim.Model, linear) -> np.ndarray:
    qd = np.zeros(model.nv)
    qd[model.qd_slice("led_joint")][:3] = linear
    return qd


@pytest.mark.parametrize(("dtype", "worlds"), [("float64", 1), ("float32", 1), ("float64", 16)])
@pytest.mark.parametrize("speed", [0.1, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("shape", ["box", "sphere"])
def test_a_wall_pushes_at_its_speed(shape, speed, dtype, worlds):
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    led(builder, (-0.2, 0.0, 0.15), (0.05, 0.5, 0.1), friction=0.0)
    body(builder, shape, (0.0, 0.0, SIZE))
    model = builder.finalize(dtype)
    q, qd = rollout(model, velocity(model, (speed, 0, 0)), 1.0, worlds=worlds)
    wall, pushed = q[:, model.q_slice("led_joint").start], q[:, model.q_slice("body").start]
    assert wall[-1] + 0.2 == pytest.approx(speed, rel=1e-5)
    assert (wall + 0.05 - (pushed - SIZE)).max() < 1.5e-4
    assert qd[-1, model.qd_slice("body").start] == pytest.approx(speed, rel=2e-3)


@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("speed", [0.1, 0.5, 2.0, 10.0])
def test_a_platform_lifts_its_load(speed, solver):
    builder = sim.ModelBuilder()
    led(builder, (0.0, 0.0, 0.0), (0.5, 0.5, 0.05))
    body(builder, "box", (0.0, 0.0, 0.05 + SIZE))
    model = builder.finalize("float64")
    q, qd = rollout(model, velocity(model, (0, 0, speed)), 1.0, contact=solver)
    gap = q[:, model.q_slice("body")][:, 2] - q[:, model.q_slice("led_joint")][:, 2] - 0.05 - SIZE
    assert np.abs(gap).max() < 1e-4
    assert qd[-1, model.qd_slice("body")][2] == pytest.approx(speed, rel=1e-3)


@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("speed", [0.3, 1.0])
def test_a_belt_carries_by_friction(speed, law):
    """The load slips until it is as fast, v^2 / (2 mu g), and follows from then on."""
    mu = 0.8
    builder = sim.ModelBuilder()
    led(builder, (0.0, 0.0, 0.0), (20.0, 0.5, 0.05), friction=1.0)
    body(builder, "box", (0.0, 0.0, 0.05 + SIZE), friction=mu)
    model = builder.finalize("float64")
    q, qd = rollout(model, velocity(model, (speed, 0, 0)), 1.0, dt=1e-3, contact=law)
    slip = q[-1, model.q_slice("led_joint")][0] - q[-1, model.q_slice("body")][0]
    assert slip == pytest.approx(speed**2 / (2 * mu * GRAVITY), rel=0.03 if law == "hard" else 0.1)
    assert qd[-1, model.qd_slice("body")][0] == pytest.approx(speed, rel=1e-3)


@pytest.mark.parametrize("constraint", ["add_weld_constraint", "add_point_constraint"])
@pytest.mark.parametrize("speed", [0.5, 2.0, 10.0])
def test_what_is_tied_to_it_does_not_lag(constraint, speed):
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    led(builder, (0.0, 0.0, 0.0), (0.1, 0.1, 0.05))
    body(builder, "box", (0.5, 0.0, 0.0))
    getattr(builder, constraint)("tie", "led", "body")
    model = builder.finalize("float64")
    qd = velocity(model, (speed, 0, 0))
    qd[model.qd_slice("body").start] = speed  # no jerk at the start
    q, _ = rollout(model, qd, 1.0)
    lag = q[:, model.q_slice("led_joint").start] + 0.5 - q[:, model.q_slice("body").start]
    assert np.abs(lag).max() < 1e-9


def test_a_turntable_turns_what_stands_on_it():
    """By friction, in a circle, as long as w^2 r < mu g; friction that sticks lets it drift by h w^2 r / 2."""
    w, r = 3.0, 0.4
    builder = sim.ModelBuilder()
    led(builder, (0.0, 0.0, 0.0), (1.0, 1.0, 0.05), type="revolute", axis=(0, 0, 1), friction=0.9)
    body(builder, "box", (r, 0.0, 0.05 + SIZE), friction=0.9)
    model = builder.finalize("float64")
    qd = np.zeros(model.nv)
    qd[model.qd_slice("led_joint")] = w
    qd[model.qd_slice("body")] = [0, w * r, 0, 0, 0, w]
    q, _ = rollout(model, qd, 1.0, dt=1e-3)
    position = q[:, model.q_slice("body")]
    assert np.hypot(position[:, 0], position[:, 1]) == pytest.approx(r, rel=5e-3)
    angle = np.unwrap(np.arctan2(position[:, 1], position[:, 0]))
    assert angle[-1] == pytest.approx(w, rel=2e-3)


@settings(max_examples=15, deadline=None)
@given(
    shape=st.sampled_from(["box", "sphere", "cylinder", "capsule"]),
    speed=st.floats(0.1, 10.0),
    size=st.floats(0.02, 0.2),
    gap=st.floats(0.0, 0.3),
)
def test_nothing_passes_a_wall_that_comes(shape, speed, size, gap):
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    led(builder, (-SIZE - size - gap, 0.0, 0.0), (size, 0.5, 0.5))
    body(builder, shape, (0.0, 0.0, 0.0))
    model = builder.finalize("float64")
    q, _ = rollout(model, velocity(model, (speed, 0, 0)), gap / speed + 0.25)
    front = q[:, model.q_slice("led_joint").start] + size
    assert (front - (q[:, model.q_slice("body").start] - SIZE)).max() < 1e-3


def test_no_force_changes_its_velocity():
    """Gravity, a heavy hit and a spring on what hangs on it; the energy is that of links alone."""
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=2.0, inertia=(0.1, 0.1, 0.1), com=(0.3, 0.0, 0.0))
    builder.add_joint("swing", "revolute", child="arm", axis=(0, 1, 0), kinematic=True)
    builder.add_link("bob", mass=1.0, inertia=(0.01, 0.01, 0.01), com=(0.2, 0.0, 0.0))
    builder.add_joint(
        "hang",
        "revolute",
        child="bob",
        parent="arm",
        position=(0.6, 0, 0),
        axis=(0, 1, 0),
        spring=sim.Spring(stiffness=3.0),
    )
    model = builder.finalize("float64")
    _, qd = rollout(model, [2.0, 0.0], 2.0, dt=1e-3)
    assert np.abs(qd[:, 0] - 2.0).max() < 1e-12
    acceleration = sim.forward_dynamics(model, model.q0, [2.0, 0.0], [50.0, 0.0]).numpy()
    assert abs(acceleration[0]) < 1e-12
    links = sim.kinetic_energy(model, model.q0, [2.0, 0.0]).numpy()
    # Both turn at 2 rad/s about the first axis.
    assert links == pytest.approx(0.5 * 4.0 * (0.1 + 2.0 * 0.3**2 + 0.01 + 0.8**2))


class TestGradients:
    def test_push_with_friction(self):
        builder = sim.ModelBuilder()
        builder.add_ground(surface=sim.Surface(friction=0.4))
        led(builder, (-0.149, 0.02, 0.15), (0.05, 0.5, 0.1), friction=0.3)
        body(builder, "sphere", (0.0, 0.0, SIZE - 1e-4))
        model = builder.finalize("float64")
        qd = velocity(model, (0.6, 0.05, 0.02))
        qd[model.qd_slice("led_joint")][3:] = (0.01, 0.02, 0.1)
        check(case(model, 8, qd=qd), ["friction", "mass", "geometry_size", "geometry_placement"])

    def test_carried_and_tied(self):
        builder = sim.ModelBuilder()
        led(builder, (0.0, 0.0, 0.0), (1.0, 0.5, 0.05), type="prismatic", axis=(0.8, 0, 0.6), friction=0.6)
        body(builder, "box", (0.0, 0.01, 0.05 + SIZE - 1e-4), friction=0.6)
        builder.add_box(half_extents=(0.05,) * 3, mass=0.2, position=(0.4, 0.0, 0.4), name="tied")
        builder.add_weld_constraint("tie", "led", "tied")
        model = builder.finalize("float64")
        qd = np.zeros(model.nv)
        qd[model.qd_slice("led_joint")] = 0.5
        qd[model.qd_slice("body")] = (0.2, 0.1, 0.3, 0.1, 0.2, 0.1)
        qd[model.qd_slice("tied")] = (0.4, 0.0, 0.3, 0.3, 0.2, 0.1)
        check(case(model, 6, qd=qd), ["friction", "mass", "anchor_a"])


class TestMisuse:
    @pytest.mark.parametrize(
        ("joint", "named"),
        [
            (dict(limits=sim.Limits(lower=-1.0)), "lower"),
            (dict(spring=sim.Spring(damping=0.1)), "damping"),
            (dict(friction_loss=0.1), "friction_loss"),
            (dict(armature=0.1), "armature"),
        ],
    )
    def test_forces_on_the_joint(self, joint, named):
        builder = sim.ModelBuilder()
        builder.add_link("led")
        with pytest.raises(sim.ModelError, match=rf"'slide'.*{named}.*kinematic"):
            builder.add_joint("slide", "prismatic", child="led", kinematic=True, **joint)

    def test_actuators(self):
        builder = sim.ModelBuilder()
        led(builder, (0, 0, 0), (0.1, 0.1, 0.1), type="prismatic")
        builder.add_actuator("led_joint", "torque", name="motor")
        with raises_naming("'motor'", "'led_joint'", "kinematic"):
            builder.finalize()

    def test_ties_between_two_of_them(self):
        builder = sim.ModelBuilder()
        led(builder, (0, 0, 0), (0.1, 0.1, 0.1))
        builder.add_point_constraint("pin", "led", "world")
        with raises_naming("'pin'", "'led'", "'world'"):
            builder.finalize()

    def test_its_armature_stays(self):
        builder = sim.ModelBuilder()
        led(builder, (0, 0, 0), (0.1, 0.1, 0.1), type="prismatic")
        simulator = sim.Simulator(builder.finalize("float64"), H)
        with raises_naming("armature", "'led_joint'"):
            simulator.parameters["armature"] = [0.1]
