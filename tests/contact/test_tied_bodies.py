"""Bodies tied at a lever keep their distance and their energy, at any precision, and in lane groups."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from tests.errors import strictly
from tests.simulation.differences import Weights, analytic, case, check

H = 1 / 240
NO_GRAVITY = (0.0, 0.0, 0.0)


def pinned(lever: float, radius: float, dtype: str = "float64", kind: str = "point") -> sim.Model:
    """A ball whose tie to the world's origin is a rod's length away."""
    builder = sim.ModelBuilder(gravity=NO_GRAVITY)
    builder.add_sphere(radius=radius, mass=1.0, position=(lever, 0, 0), name="ball", collides=False)
    if kind == "rope":
        builder.add_spatial_tendon("rope", [("world", (0, 0, 0)), ("ball", (0, 0, 0))], limits=(0.0, lever))
    elif kind == "tied":
        builder.add_spatial_tendon("rope", [("world", (0, 0, 0)), ("ball", (0, 0, 0))])
        builder.add_tendon_coupling("length", "rope")
    else:
        builder.add_point_constraint("pin", "world", "ball", position_a=(0, 0, 0), position_b=(-lever, 0, 0))
    return builder.finalize(dtype)


def spin(model: sim.Model, qd, seconds: float, worlds: int = 1, dt: float = H):
    simulator = sim.Simulator(model, dt, num_worlds=worlds, device="cpu")
    trajectory = simulator.rollout(simulator.state(model.q0, qd), steps=round(seconds / dt))
    energy = sim.kinetic_energy(model, trajectory.q, trajectory.qd).numpy()[:, 0]
    return trajectory.q.numpy()[:, 0].astype(float), energy[-1] / energy[0]


@pytest.mark.filterwarnings("ignore::sim.errors.OpenConstraintWarning")
@pytest.mark.parametrize(("dtype", "worlds"), [("float64", 1), ("float32", 1), ("float64", 16), ("float32", 16)])
@pytest.mark.parametrize(("lever", "radius"), [(1.0, 0.05), (0.3, 0.1), (3.0, 0.05)])
def test_a_pinned_body_circles(lever, radius, dtype, worlds):
    q, energy = spin(pinned(lever, radius, dtype), [0, 20.0 * lever, 0, 0, 0, 20.0], 3.0, worlds)
    # The floor of R along the lever is higher in float32.
    assert np.linalg.norm(q[:, :3], axis=1).max() < (1.003 if dtype == "float64" else 1.006) * lever
    assert energy == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("kind", ["rope", "tied"])
@pytest.mark.parametrize("rate", [6.0, 15.0, 25.0])
def test_a_rope_keeps_its_length(kind, rate):
    q, energy = spin(pinned(1.0, 0.05, kind=kind), [0, rate, 0, 0, 0, 0], 3.0)
    assert np.linalg.norm(q[:, :3], axis=1).max() < 1.001
    assert energy == pytest.approx(1.0, abs=0.01)


@settings(max_examples=10, deadline=None)
@given(apart=st.floats(0.2, 2.0), rate=st.floats(1.0, 25.0), ratio=st.floats(0.1, 10.0))
def test_welded_boxes_turn_as_one(apart, rate, ratio):
    builder = sim.ModelBuilder(gravity=NO_GRAVITY)
    share = ratio / (1 + ratio)  # about their common centre
    positions = (-share * apart, (1 - share) * apart)
    for number, (x, mass) in enumerate(zip(positions, (1.0, ratio), strict=True)):
        builder.add_box(half_extents=(0.1,) * 3, mass=mass, position=(x, 0, 0), name=f"b{number}", collides=False)
    builder.add_weld_constraint("weld", "b0", "b1")
    qd = np.concatenate([[0, rate * x, 0, 0, 0, rate] for x in positions])
    q, energy = spin(builder.finalize("float64"), qd, 1.0)
    assert np.linalg.norm(q[:, 7:10] - q[:, :3], axis=1) == pytest.approx(apart, rel=2e-3)
    assert energy == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("short", [0.05, 0.02, 0.005, 0.0005])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_straight_chain_closes_without_whirling(short, dtype):
    """No hinge moves its end to where it is to be, at first: the error isn't removed along what hardly moves."""
    count, length = 10, 0.1
    builder = sim.ModelBuilder()
    for number in range(count):
        builder.add_link(f"l{number}", mass=0.1, com=(0.05, 0.0, 0.0), inertia=(1e-4, 1e-4, 1e-4))
        builder.add_joint(
            f"j{number}", "revolute", child=f"l{number}", parent=f"l{number - 1}" if number else "world",
            position=(length if number else 0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0), spring=sim.Spring(damping=0.01),
        )  # fmt: skip
    span = count * length - short
    builder.add_point_constraint("pin", f"l{count - 1}", "world", position_a=(length, 0, 0), position_b=(span, 0, 0))
    model = builder.finalize(dtype)
    simulator = sim.Simulator(model, H)
    angle = np.cumsum(simulator.rollout(simulator.initial_state(), steps=720).q.numpy()[:, 0].astype(float), axis=1)
    error = np.hypot(length * np.cos(angle).sum(axis=1) - span, length * np.sin(angle).sum(axis=1))
    assert error[-10:].max() < 2e-4


class TestGradients:
    def test_pinned(self):
        model = pinned(0.8, 0.1)
        # Without forces the mass would hardly count, and its derivative would be rounding.
        given = case(model, 8, qd=[0.3, 9.0, 0.2, 0.5, 1.0, 11.0], force=20.0)
        check(given, ["anchor_a", "anchor_b", "mass", "inertia"])

    @pytest.mark.filterwarnings("ignore::sim.errors.OpenConstraintWarning")
    @pytest.mark.parametrize("regularisation", [1e-3, 0.05])
    @pytest.mark.parametrize(("off", "names"), [(0.002, ["recovery_time"]), (0.05, [])])
    def test_regularisation_and_recovery_time(self, off, names, regularisation):
        """Open by less and by more than what the largest correction removes."""
        model = pinned(0.8, 0.1)
        q = model.q0.copy()
        q[:3] += (off, 0.3 * off, -0.2 * off)
        contact = sim.HardContact(regularisation=regularisation)
        given = case(model, 4, q=q, qd=[0.3, 2.0, 0.2, 0.5, 1.0, 3.0], contact=contact)
        check(given, ["regularisation", "anchor_a", "inertia", *names])

    def test_rope(self):
        model = pinned(0.8, 0.1, kind="rope")
        q = model.q0.copy()
        q[0] += 1e-3  # off the kink between taut and slack
        check(case(model, 8, q=q, qd=[0.3, 9.0, 0.2, 0.5, 1.0, 2.0]), ["tendon_upper_limit", "mass"], width=4.0)

    def test_lane_groups_give_the_gradients_of_single_worlds(self):
        model = pinned(0.8, 0.1)
        given = case(model, 8, qd=[0.3, 9.0, 0.2, 0.5, 1.0, 11.0], contact=sim.HardContact(regularisation=0.02))
        names = ["anchor_a", "mass", "inertia", "regularisation", "recovery_time"]
        weights = Weights.random(given)
        alone = analytic(given, weights, names)
        simulator = sim.Simulator(model, given.dt, num_worlds=16, device="cpu", contact=given.contact)
        trajectory = simulator.rollout(
            simulator.state(given.q, given.qd), tau=np.repeat(given.tau[:, None], 16, axis=1)
        )
        parts = [np.repeat(part[:, None], 16, axis=1) for part in (weights.q, weights.qd)]
        gradients = trajectory.backward(*parts, names)
        for name in ("q", "qd"):
            found = getattr(gradients, name).numpy()
            assert np.abs(found - alone[name]).max() < 1e-9 * np.abs(alone[name]).max(), name
        for name in names:
            found = gradients.parameters[name] / 16 * (2.0 - np.eye(3) if name == "inertia" else 1.0)
            assert np.abs(found - alone[name]).max() < 1e-9 * np.abs(alone[name]).max(), name


class TestConstraintError:
    @pytest.mark.filterwarnings("ignore::sim.errors.OpenConstraintWarning")
    @pytest.mark.parametrize("worlds", [1, 16])
    @pytest.mark.parametrize("off", [0.0, 0.05])
    def test_is_the_distance_of_the_anchors(self, off, worlds):
        """It shrinks at ``max_correction``, which ``residual`` doesn't see."""
        model = pinned(0.8, 0.1)
        simulator = sim.Simulator(model, H, num_worlds=worlds, device="cpu")
        q = model.q0.copy()
        q[2] = off
        simulator.rollout(simulator.state(q, np.zeros(6)), steps=25)
        assert simulator.constraint_error == pytest.approx(np.full(worlds, max(off - 0.2 * 24 * H, 0.0)), abs=5e-4)
        assert simulator.residual.max() < 1e-9

    @pytest.mark.filterwarnings("ignore::sim.errors.OpenConstraintWarning")
    def test_anchors_of_each_world(self):
        builder = sim.ModelBuilder(gravity=NO_GRAVITY)
        for x in (0.0, 1.0):
            builder.add_box(half_extents=(0.1,) * 3, mass=1.0, position=(x, 0, 0), orientation=(0, 0, 0.6, 0.8))
        builder.add_weld_constraint("weld", "box_0", "box_1")
        simulator = sim.Simulator(builder.finalize("float64"), H, num_worlds=3, device="cpu")
        anchors = np.repeat(simulator.parameters["anchor_b"][None], 3, axis=0)
        anchors[:, 0, 1] += (0.0, 0.1, -0.3)
        simulator.parameters["anchor_b"] = anchors
        simulator.step(simulator.initial_state())
        assert simulator.constraint_error == pytest.approx([0.0, 0.1, 0.3], abs=1e-12)

    def test_is_zero_without_ties(self):
        builder = sim.ModelBuilder()
        builder.add_sphere(radius=0.1, mass=1.0)
        simulator = sim.Simulator(builder.finalize(), H, device="cpu")
        assert simulator.constraint_error.tolist() == [0.0]

    def test_a_constraint_that_is_open_is_warned_of_once(self):
        model = pinned(0.8, 0.1)
        (name,) = model.equalities.anchor_names
        simulator = sim.Simulator(model, H, num_worlds=2, device="cpu")
        q = np.tile(model.q0, (2, 1))
        q[1, 2] = 0.05
        with pytest.warns(sim.OpenConstraintWarning, match=rf"'{name}'.* 0\.05 m in world 1"):
            simulator.step(simulator.state(q))
        strictly(simulator.rollout, simulator.state(q), steps=3)

    def test_errors_that_fade_at_once_are_not_warned_of(self):
        model = pinned(0.8, 0.1)
        simulator = sim.Simulator(model, H, device="cpu")
        q = model.q0.copy()
        q[2] = 0.003
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(8):
                simulator.step(simulator.state(q))
