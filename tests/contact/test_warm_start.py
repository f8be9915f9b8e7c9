"""Steps that begin with the impulses of the one before: what is matched, what is stored, and its gradient."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import warp as wp

import sim
import sim.torch
from scenes import quadruped
from scenes.physics import piles
from tests.actuators.worlds import leg
from tests.contact import test_cones, test_equalities, test_torsion
from tests.contact.test_gradients import BODY, arm_and_ball, ball, box, spin
from tests.simulation.differences import Case, case, check
from tests.simulation.test_tape import add_squares, gradient_array, seeds
from tests.simulation.worlds import DT, WORLDS, cotangents, hopper, inputs, rollout


def warm(c: Case, sweeps: int) -> Case:
    return replace(c, contact=sim.PgsContact(friction=c.contact.friction, sweeps=sweeps, warm_start=True))


@pytest.mark.parametrize("sweeps", [1, 3, 20])
@pytest.mark.parametrize("friction", ["cone", "pyramid"])
class TestGradients:
    """Over ten steps: with few sweeps most of an impulse comes from the steps before."""

    def test_sliding_box(self, friction, sweeps):
        c = case(box(), 10, qd=[2.0, 0.7, 0.0, 0.0, 0.0, 0.4], contact=sim.HardContact(friction=friction))
        check(warm(c, sweeps), BODY)

    def test_rolling_ball(self, friction, sweeps):
        c = case(ball(), 10, qd=spin(0.3, 0.1, 0.0), contact=sim.HardContact(friction=friction))
        check(warm(c, sweeps), [name for name in BODY if name != "friction"])

    def test_landing_stack(self, friction, sweeps):
        """Tilted, since two parallel faces meet in all corners at once, which is a kink."""
        builder = sim.ModelBuilder()
        builder.add_ground(surface=sim.Surface(friction=0.8))
        for size, mass, position, tilt in (
            ((0.1, 0.1, 0.1), 1.0, (0.0, 0.0, 0.109), (0.03, 0.018, 0.1, 1.0)),
            ((0.08, 0.09, 0.07), 0.6, (0.02, 0.03, 0.279), (0.015, 0.036, 0.3, 1.0)),
        ):
            builder.add_box(
                half_extents=size, mass=mass, position=position, orientation=tilt, surface=sim.Surface(friction=0.6)
            )
        model = builder.finalize("float64")
        qd = [*spin(0.5, 0.25, -0.3), *spin(1.4, 0.6, -0.6)]
        c = case(model, 8, qd=qd, contact=sim.HardContact(friction=friction))
        check(warm(c, sweeps), ["mass", "com", "friction", "geometry_size"])

    def test_robot_ball_limits_and_dry_friction(self, friction, sweeps):
        check(warm(arm_and_ball(friction), sweeps), ["mass", "friction", "friction_loss", "upper_limit", "lower_limit"])

    def test_landing_on_a_leg_of_servos(self, friction, sweeps):
        model = leg(6.0).finalize("float64")
        q = model.q0.copy()
        q[3:7] = (0.02, 0.01, 0.03, 1.0)
        qd = [0.8, 0.1, -0.4, 0.1, 0.2, 0.1, 0.3, 0.4]
        c = case(model, 12, q, qd, sim.HardContact(friction=friction))
        # With one sweep a step the foot doesn't slide.
        parameters = ["mass", "actuator_kp", *(["friction"] if sweeps > 1 else [])]
        check(warm(replace(c, control=np.tile([0.5, -0.3], (12, 1))), sweeps), parameters)


@pytest.fixture(params=["float32", "float64"])
def simulator(request, device):
    return sim.Simulator(hopper(request.param), DT, WORLDS, device, sim.PgsContact(sweeps=4, warm_start=True))


def test_each_stored_state_leads_to_the_next_one_bit_for_bit(simulator):
    trajectory = rollout(simulator, 40)
    tau = trajectory.tau.numpy()
    names = ("q", "qd")
    arrays = {name: getattr(trajectory, name).numpy().copy() for name in names}
    values, keys = (array.numpy().copy() for array in (trajectory.impulses.value, trajectory.impulses.key))
    assert np.abs(values[1:]).max() > 0.0
    for step in reversed(range(40)):
        state = simulator.step(trajectory.state(step), tau[step])
        for name in names:
            np.testing.assert_array_equal(getattr(state, name).numpy(), arrays[name][step + 1])
        np.testing.assert_array_equal(state.impulses.value.numpy(), values[step + 1])
        np.testing.assert_array_equal(state.impulses.key.numpy(), keys[step + 1])
        trajectory.backward(*cotangents(trajectory))


def test_backward_equals_the_chain_of_single_steps(simulator):
    trajectory = rollout(simulator, 15)
    q_bar, qd_bar = cotangents(trajectory)
    whole = trajectory.backward(q_bar, qd_bar)
    q, qd, impulse = q_bar[15], qd_bar[15], None
    for t in reversed(range(15)):
        pair = slice(t, t + 2)
        impulses = sim.Impulses(trajectory.impulses.value[pair], trajectory.impulses.key[pair])
        one = sim.Trajectory(
            simulator, trajectory.q[pair], trajectory.qd[pair], trajectory.tau[t : t + 1], None, impulses
        )
        part = one.backward(q, qd, impulse_grad=impulse)
        np.testing.assert_array_equal(part.tau.numpy()[0], whole.tau.numpy()[t])
        scalar = part.q.numpy().dtype
        q, qd = part.q.numpy() + q_bar[t].astype(scalar), part.qd.numpy() + qd_bar[t].astype(scalar)
        impulse = part.impulses.numpy()
        assert np.abs(impulse).max() > 0.0 or t == 0
    np.testing.assert_array_equal(q, whole.q.numpy())
    np.testing.assert_array_equal(impulse, whole.impulses.numpy())


def test_gradient_in_the_first_impulses():
    """Against central differences, from the middle of a slide."""
    model = box()
    simulator = sim.Simulator(model, DT, 1, "cpu", sim.PgsContact(sweeps=2, warm_start=True))
    start = simulator.rollout(simulator.state(model.q0, [2.0, 0.7, 0.0, 0.0, 0.0, 0.4]), steps=3).final_state
    weights = np.random.default_rng(0).normal(size=(1, model.nv))
    value = start.impulses.value.numpy().copy()
    found = simulator.rollout(start, steps=3).backward(None, weights).impulses.numpy()[0]

    def loss(values: np.ndarray) -> float:
        state = sim.State(start.q, start.qd, sim.Impulses(wp_array(simulator, values), start.impulses.key))
        return float((simulator.rollout(state, steps=3).final_state.qd.numpy() * weights).sum())

    used = np.argwhere(value[0] != 0.0)
    assert len(used) >= 6
    expected = np.zeros_like(found)
    for block, row in used:
        sides = []
        for sign in (1.0, -1.0):
            moved = value.copy()
            moved[0, block, row] += sign * 1e-6
            sides.append(loss(moved))
        expected[block, row] = (sides[0] - sides[1]) / 2e-6
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(
        found[tuple(used.T)], expected[tuple(used.T)], rtol=0, atol=1e-6 * np.abs(expected).max()
    )


def wp_array(simulator: sim.Simulator, values: np.ndarray):
    return wp.array(values, dtype=simulator.model.scalar, device=simulator.device)


def test_through_torch(device):
    """A rollout's gradient is that of the trajectory; single steps, which would lose the impulses, are refused."""
    model = hopper()
    simulator = sim.Simulator(model, DT, WORLDS, device, sim.PgsContact(sweeps=4, warm_start=True))
    q0, qd0, tau0 = inputs(model, 6)
    q, qd, tau = (torch.tensor(value, device=str(simulator.device), requires_grad=True) for value in (q0, qd0, tau0))
    q_all, qd_all = sim.torch.rollout(simulator, q, qd, tau)
    found = torch.autograd.grad((q_all**2).sum() + (qd_all**2).sum(), (q, qd, tau))
    trajectory = simulator.rollout(simulator.state(q0, qd0), tau0)
    expected = trajectory.backward(2.0 * trajectory.q.numpy(), 2.0 * trajectory.qd.numpy())
    for one, other in zip(found, (expected.q, expected.qd, expected.tau), strict=True):
        np.testing.assert_array_equal(one.cpu().numpy(), other.numpy())
    with pytest.raises(sim.ModelError, match=r"sim\.torch\.step .*warm_start=False"):
        sim.torch.step(simulator, q, qd)


def test_few_sweeps_do_where_many_are_needed_from_zero():
    """A quadruped on springs settles: each step begins where the last one ended."""
    scene = quadruped.build("float64")
    model = scene.model
    joints = model.dof_q >= 0
    model.parameters.update(
        stiffness=200.0 * joints, damping=5.0 * joints, rest_position=np.where(joints, scene.q0[model.dof_q], 0.0)
    )
    drift = {}
    for sweeps, begin in ((1000, False), (3, False), (3, True)):
        options = sim.PgsContact(sweeps=sweeps, warm_start=begin)
        simulator = sim.Simulator(model, 1 / 240, device="cpu", contact=options)
        trajectory = simulator.rollout(simulator.state(scene.q0), steps=120)
        drift[sweeps, begin] = trajectory.q.numpy()[-1, 0]
    error = {begin: np.abs(drift[3, begin] - drift[1000, False]).max() for begin in (False, True)}
    assert error[True] < 0.1 * error[False]


def test_a_block_is_known_again_among_others():
    """Two balls; the one whose contact is listed first jumps away, then comes back."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    for x in (0.0, 1.0):
        builder.add_sphere(radius=0.1, mass=0.5 + x, position=(x, 0.0, 0.1))
    model = builder.finalize("float64")
    options = sim.PgsContact(warm_start=True, sweeps=1, margin=1e-4)
    simulator = sim.Simulator(model, DT, device="cpu", contact=options)
    state = simulator.rollout(simulator.initial_state(), steps=5).final_state
    (shard,) = simulator.engine.shards

    def source() -> list[int]:
        return shard.step.warm_start.start_source.numpy()[
            : int(shard.step.constraint_stage.constraints.count.numpy()[0]), 0
        ].tolist()

    simulator.step(state)
    assert source() == [0, 1]
    q = state.q.numpy().copy()
    q[0, 2] = 0.3
    lifted = simulator.step(sim.State(wp_array(simulator, q), state.qd, state.impulses))
    assert source() == [1]
    q[0, 2] = 0.1
    simulator.step(sim.State(wp_array(simulator, q), lifted.qd, lifted.impulses))
    assert source() == [-1, 0]
    np.testing.assert_allclose(shard.step.warm_start.start.numpy()[:2, 0, 0], [0.0, 1.5 * 9.81 * DT], rtol=1e-9)


def test_impulses_of_another_layout_are_refused():
    first = sim.Simulator(box(), DT, device="cpu", contact=sim.PgsContact(warm_start=True))
    state = first.step(first.initial_state())
    other = sim.Simulator(box(), DT, device="cpu", contact=sim.PgsContact(warm_start=True, max_contacts=2))
    with pytest.raises(sim.ModelError, match=r"state\.impulses\.value has shape"):
        other.step(state)
    cold = sim.Simulator(box(), DT, device="cpu")
    assert cold.step(state).impulses is None
    trajectory = cold.rollout(state, steps=2)
    with pytest.raises(sim.ModelError, match="impulse_grad needs a simulator whose contact has warm_start=True"):
        trajectory.backward(impulse_grad=np.zeros(3))


def point_on_the_world() -> Case:
    builder = test_equalities.bent_loop()
    builder.add_point_constraint("loop", "l3", "world", position_a=(0.02, 0.05, 0.3))
    return case(builder.finalize("float64"), 6, qd=[0.5, -0.3, 0.2, 0.1])


def spinning_ball() -> Case:
    return case(test_torsion.ball(friction=0.3), 8, qd=[3.0, 1.0, 0.0, 2.0, 1.0, 5.0])


def arm_at_its_cone() -> Case:
    q = np.concatenate([[0.2], test_cones.turned(0.47, (0.6, 0.8, 0.0)), [0.1]])
    return case(test_cones.arm(swing=0.5), 6, q, [0.5, 3.0, 2.0, 1.0, 0.3])


@pytest.mark.parametrize("sweeps", [1, 3])
@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (point_on_the_world, ["anchor_a", "anchor_b"]),
        (spinning_ball, ["torsional_friction", "rolling_friction"]),
        (arm_at_its_cone, ["swing_limit"]),
    ],
)
def test_gradients_of_every_kind_of_row(make, parameters, sweeps):
    check(warm(make(), sweeps), [*parameters, "mass", "com", "gravity"])


def test_steps_on_a_tape(device):
    """The gradient flows through the impulses of a state as through q and qd."""
    model, steps = hopper(), 6
    options = sim.PgsContact(sweeps=4, warm_start=True)
    q, qd, tau = inputs(model, steps)
    arrays = [gradient_array(value, device) for value in (q, qd, *tau)]
    simulator = sim.Simulator(model, DT, WORLDS, device, options)
    loss = wp.zeros(1, dtype=wp.float64, device=device, requires_grad=True)
    with wp.Tape() as tape:
        state = sim.State(arrays[0], arrays[1])
        for force in arrays[2:]:
            state = simulator.step(state, force)
        add_squares(state.q, loss)
        add_squares(state.qd, loss)
    tape.backward(loss)
    trajectory = simulator.rollout(simulator.state(q, qd), tau)
    expected = trajectory.backward(seeds(trajectory.q.numpy()[-1]), seeds(trajectory.qd.numpy()[-1]))
    found = [array.grad.numpy() for array in arrays]
    for one, other in zip(
        [*found[:2], np.array(found[2:])], (expected.q, expected.qd, expected.tau), strict=True
    ):  # fmt: skip
        np.testing.assert_allclose(one, other.numpy(), rtol=0, atol=1e-12 * np.abs(other.numpy()).max())


@pytest.mark.cpu_shapes
def test_worlds_of_all_shards():
    """Each of forty worlds moves, and has the gradients, as if it were alone, up to rounding that 16 steps amplify."""
    model = hopper()
    options = sim.PgsContact(sweeps=4, warm_start=True)
    simulator = sim.Simulator(model, DT, 40, "cpu", options, threads=4)
    assert len(simulator.engine.shards) > 1
    q, qd, tau = inputs(model, 8, 40)
    middle = simulator.rollout(simulator.state(q, qd), tau).final_state
    trajectory = simulator.rollout(middle, tau)
    gradients = trajectory.backward(np.ones((40, model.nq)))
    assert (np.abs(gradients.impulses.numpy()).max(axis=(1, 2)) > 0.0).sum() > 10
    for world in range(0, 40, 3):
        alone = sim.Simulator(model, DT, 1, "cpu", options)
        mid = alone.rollout(alone.state(q[world], qd[world]), tau[:, [world]]).final_state
        other = alone.rollout(mid, tau[:, [world]])
        expected = other.backward(np.ones((1, model.nq)))
        for one, many in (
            (other.q.numpy()[:, 0], trajectory.q.numpy()[:, world]),
            (other.impulses.value.numpy()[:, 0], trajectory.impulses.value.numpy()[:, world]),
            (expected.impulses.numpy()[0], gradients.impulses.numpy()[world]),
        ):
            np.testing.assert_allclose(one, many, rtol=0, atol=1e-10 * max(1.0, np.abs(many).max()))


def test_contacts_of_convex_shapes_are_known_again(device):
    """Cubes flat on each other touch in many features at once; each of their corners goes on with its own impulse."""
    scene = piles.stack(3)
    contact = sim.PgsContact(warm_start=True)
    simulator = sim.Simulator(scene.model, scene.dt, num_worlds=1, device=device, contact=contact)
    state = simulator.state(scene.model.q0, scene.qd0)
    step = simulator.engine.shards[0].step
    state = simulator.step(state)
    for _ in range(30):
        before = step.constraint_stage.impulse.numpy()[:12, 0].copy()
        state = simulator.step(state)
        assert step.contact_stage.contact_count.numpy()[0] == 12
        source = step.warm_start.start_source.numpy()[:12, 0]
        assert sorted(source) == list(range(12))
        np.testing.assert_array_equal(step.warm_start.start.numpy()[:12, 0], before[source])
    assert simulator.residual.max() < 1e-4, "the impulses have arrived"


def test_a_model_without_constraints(device):
    builder = sim.ModelBuilder()
    link = builder.add_link("pendulum", mass=1.0, com=(0.0, 0.0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("pivot", "continuous", child=link, axis=(0.0, 1.0, 0.0), q0=(0.3,))
    model = builder.finalize("float64")
    warm, cold = (sim.Simulator(model, DT, 1, device, sim.PgsContact(warm_start=each)) for each in (True, False))
    trajectories = [each.rollout(each.initial_state(), steps=3) for each in (warm, cold)]
    np.testing.assert_array_equal(*(trajectory.q.numpy() for trajectory in trajectories))
    gradients = [trajectory.backward(np.ones((1, 1))).q.numpy() for trajectory in trajectories]
    np.testing.assert_array_equal(*gradients)
    assert (gradients[0] != 0.0).all()
