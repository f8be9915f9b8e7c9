"""A step's matrices of derivatives, beside differences in tangent coordinates and beside MuJoCo's."""

import numpy as np
import pytest

import sim
import sim.simulation.linearisation
from scenes import quadruped
from scenes.mjcf import to_mjcf
from sim.dynamics.differentiable_op import WORTH_LANES
from tests.actuators.worlds import arm as servo_arm
from tests.actuators.worlds import leg
from tests.contact.test_equalities import bent_loop
from tests.contact.test_gradients import TILT, at, ball, box
from tests.errors import raises_naming
from tests.mujoco_states import data_at
from tests.simulation.differences import METHODS
from warp_kernels.types import LANES

H = 1 / 240


def tumbling_arm() -> sim.Model:
    """A body that flies, with an arm on a ball joint, a slide and a hinge."""
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.2, 0.05), mass=0.7, position=(0.0, 0.0, 1.0))
    (body,) = builder.links
    parts = {"upper": "spherical", "middle": "prismatic", "lower": "revolute"}
    for number, (name, kind) in enumerate(parts.items()):
        builder.add_link(name, mass=0.5, com=(0.1, 0.02, 0.0), inertia=(0.001, 0.004, 0.003))
        parent = [body, *parts][number]
        builder.add_joint(
            f"to_{name}", kind, parent=parent, child=name, position=(0.1, 0.0, 0.2), spring=sim.Spring(damping=0.1)
        )
    return builder.finalize("float64")


def assert_same(found: sim.Linearisation, expected: sim.Linearisation, worlds: slice | int = slice(None)) -> None:
    """That the matrices of some worlds are these, but for rounding: on a GPU sums have another order."""
    for name in ("A", "B_tau", "B_control"):
        actual, desired = getattr(found, name)[worlds], np.squeeze(getattr(expected, name))
        bound = 1000.0 * np.finfo(desired.dtype).eps * np.abs(desired).max(initial=0.0)
        np.testing.assert_allclose(actual, desired, rtol=0.0, atol=bound)


def differences(
    simulator: sim.Simulator, state: sim.State, tau: np.ndarray, step: float = 1e-6
) -> tuple[np.ndarray, np.ndarray]:
    """Central differences of the next state in tangent coordinates, of one world: A and B_tau."""
    model = simulator.model
    q, qd = state.q.numpy(), state.qd.numpy()
    middle = simulator.step(state, tau).q

    def after(dq: np.ndarray, dqd: np.ndarray, dtau: np.ndarray) -> np.ndarray:
        moved = sim.integrate(model, q, dq[None])
        found = simulator.step(simulator.state(moved.numpy(), qd + dqd), tau + dtau)
        return np.concatenate([sim.difference(model, middle, found.q).numpy()[0], found.qd.numpy()[0]])

    nv = model.nv
    columns = []
    # A newton moves a body in a step by less than a metre moves it: a larger step keeps the digits.
    for unit in np.diag(step * np.repeat([1.0, 1.0, 100.0], nv)):
        parts = np.split(unit, 3)
        columns.append((after(*parts) - after(*(-part for part in parts))) / (2 * unit.sum()))
    whole = np.transpose(columns)
    return whole[:, : 2 * nv], whole[:, 2 * nv :]


def check_linearisation(simulator, state, tau):
    """Compare A and B with differences of steps; return what was found."""
    found = simulator.linearise(state, tau)
    for matrix, expected in zip((found.A, found.B_tau), differences(simulator, state, tau), strict=True):
        np.testing.assert_allclose(matrix[0], expected, atol=1e-6 * np.abs(expected).max())
    return found


@pytest.mark.parametrize("solver", ["pgs", "newton"])
def test_a_box_that_lands_and_slides(solver):
    model = box(orientation=TILT)
    simulator = sim.Simulator(model, H, device="cpu", contact=METHODS[solver]())
    state = simulator.state(at(model, 0.0517), [1.0, 0.2, -0.5, 0.2, 0.1, 0.3])
    tau = 0.1 * np.arange(6.0)
    found = check_linearisation(simulator, state, tau)
    assert found.A.shape == (1, 12, 12)
    assert found.B_control.shape == (1, 12, 0)
    np.testing.assert_array_equal(found.next_state.q.numpy(), simulator.step(state, tau).q.numpy())


def test_a_ball_that_bounces_within_the_step():
    """Its coordinates move along another velocity than the next one. Then its restitution is taken away."""
    model = ball(restitution=0.8)
    simulator = sim.Simulator(model, H, device="cpu")
    state = simulator.state(at(model, 0.105), [1.0, 0.2, -3.0, 0.2, 0.1, 0.3])
    tau = 0.1 * np.arange(6.0)
    for restitution in (model.parameters["restitution"], np.zeros(model.num_geometries)):
        simulator.parameters["restitution"] = restitution
        check_linearisation(simulator, state, tau)


def test_every_type_of_joint():
    """Turning fast, so that a rotation and its velocity don't commute. A quaternion's length makes no difference."""
    model = tumbling_arm()
    simulator = sim.Simulator(model, H, device="cpu")
    rng = np.random.default_rng(3)
    q = sim.integrate(model, model.q0[None], rng.normal(size=(1, model.nv))).numpy()[0]
    qd, tau = 40.0 * rng.normal(size=model.nv), rng.normal(size=model.nv)
    found = check_linearisation(simulator, simulator.state(q, qd), tau)
    long = q.copy()
    for start in (3, 7):
        long[start : start + 4] *= 1.7
    longer = simulator.linearise(simulator.state(long, qd), tau)
    np.testing.assert_allclose(longer.A, found.A, atol=1e-12 * np.abs(found.A).max())


def test_inputs_of_actuators():
    model = servo_arm()
    simulator = sim.Simulator(model, H, device="cpu")
    state = simulator.state(0.1 * np.arange(1.0, model.nq + 1), 0.3 * np.ones(model.nv))
    control, step = 0.2 * np.ones(model.nu), 1e-6
    columns = []
    for unit in step * np.eye(model.nu):
        there, back = (simulator.step(state, control=control + sign * unit) for sign in (1.0, -1.0))
        change = [a.numpy()[0] - b.numpy()[0] for a, b in ((there.q, back.q), (there.qd, back.qd))]
        columns.append(np.concatenate(change) / (2 * step))
    found = simulator.linearise(state, control=control).B_control[0]
    np.testing.assert_allclose(found, np.transpose(columns), atol=1e-7 * np.abs(found).max())


def test_as_in_mujoco():
    """A chain of four hinges in the air, beside MuJoCo's differences of its own step."""
    mujoco = pytest.importorskip("mujoco")
    model = bent_loop().finalize("float64")
    q, qd = np.array([0.3, 0.4, 0.5, 0.6]), np.array([0.5, -0.3, 0.2, 0.4])
    simulator = sim.Simulator(model, H, device="cpu")
    found = simulator.linearise(simulator.state(q, qd))
    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=H, sweeps=50))
    data = data_at(peer, model, q, qd)
    A, B = np.zeros((8, 8)), np.zeros((8, peer.nu))
    mujoco.mjd_transitionFD(peer, data, 1e-6, True, A, B, None, None)
    np.testing.assert_allclose(found.A[0], A, atol=1e-6 * np.abs(A).max())


def test_worlds_with_parameters_of_their_own():
    """Each world's matrices are those that it has alone, also after a parameter changed."""
    scene = quadruped.build("float64", friction=0.4, height=0.001)
    model, rng = scene.model, np.random.default_rng(1)
    masses = np.stack([model.parameters["mass"], 1.5 * model.parameters["mass"]])
    contact = sim.HardContact()
    both = sim.Simulator(model, H, 2, "cpu", contact, {"mass": masses})
    qd = 0.3 * rng.normal(size=(2, model.nv))
    both.linearise(both.state(scene.q0, qd))
    both.parameters["damping"] = np.full(model.nv, 0.3)
    found = both.linearise(both.state(scene.q0, qd))
    for world in range(2):
        alone = sim.Simulator(model, H, 1, "cpu", contact, {"mass": masses[world], "damping": np.full(model.nv, 0.3)})
        assert_same(found, alone.linearise(alone.state(scene.q0, qd[world])), world)


@pytest.mark.cpu_shapes  # a GPU's threads add to a world's matrices in any order
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("contact", [sim.PgsContact(), sim.PgsContact(adjoint="implicit"), sim.HardContact()])
def test_many_worlds_on_several_threads(dtype, contact):
    """Each world's matrices are those that it has among its copies, at the same place, and those of a second call.

    One world alone is worked on in another way, whose other roundings the sweeps make more of in single precision.
    """
    scene = quadruped.build(dtype, friction=0.4, height=0.001)
    model, rng = scene.model, np.random.default_rng(1)
    worlds = 70
    restitution = np.full(model.num_geometries, 0.5)
    many = sim.Simulator(model, H, worlds, "cpu", contact, {"restitution": restitution}, threads=2)
    qd, tau = (0.3 * rng.normal(size=(worlds, model.nv)) for _ in range(2))
    qd[:, 2] -= 1.0
    state = many.state(scene.q0, qd)
    found = many.linearise(state, tau)
    assert found.A.dtype == dtype
    many.linearise(many.initial_state())
    assert_same(many.linearise(state, tau), found)
    copies = sim.Simulator(model, H, WORTH_LANES, "cpu", contact, {"restitution": restitution})
    for world in (0, 34, 35, 69):
        inputs = (np.tile(values[world], (WORTH_LANES, 1)) for values in (qd, tau))
        again = copies.linearise(copies.state(scene.q0, next(inputs)), next(inputs))
        for name in ("A", "B_tau"):
            np.testing.assert_array_equal(getattr(found, name)[world], getattr(again, name)[world % LANES])


@pytest.mark.parametrize("restitution", [0.0, 0.8])
def test_rows_shared_out_among_copies(restitution, monkeypatch):
    """As on a GPU: some rows at a time, each in a copy of its world. Parameters of worlds are copied, and set again."""
    model = leg().finalize("float64")
    given = {"mass": np.stack([model.parameters["mass"], 1.5 * model.parameters["mass"]])}
    given["restitution"] = np.full(model.num_geometries, restitution)
    one, several = (sim.Simulator(model, H, 2, "cpu", parameters=given) for _ in range(2))
    qd = np.array([[0.8, 0.1, -0.4, 0.1, 0.2, 0.1, 0.3, 0.4], [0.1, 0.2, -0.9, 0.3, 0.2, 0.1, -0.3, 0.4]])
    inputs = {"tau": np.ones(model.nv), "control": [[0.2, 0.1], [0.0, 0.3]]}
    for damping in (0.0, 0.3):
        for simulator in (one, several):
            simulator.parameters["damping"] = np.full((2, model.nv), damping) * [[1.0], [2.0]]
        expected = one.linearise(one.state(model.q0, qd), **inputs)
        assert one.contacts(one.state(model.q0, qd), **inputs).point.size
        with monkeypatch.context() as patch:
            patch.setattr(sim.simulation.linearisation, "copies_of_a_world", lambda *_: 3)
            assert_same(several.linearise(several.state(model.q0, qd), **inputs), expected)
    assert (several.engine.bouncing, several._lineariser.copies) == (restitution > 0.0, 3)


@pytest.mark.parametrize("integrator", ["implicit", "implicitfast"])
def test_copies_step_by_the_same_integrator(integrator, monkeypatch):
    model = tumbling_arm()
    options = {"contact": sim.MujocoContact(), "integrator": integrator}
    one, several = (sim.Simulator(model, H, 1, "cpu", **options) for _ in range(2))
    qd = np.linspace(-3.0, 4.0, model.nv)
    expected = one.linearise(one.state(model.q0, qd))
    monkeypatch.setattr(sim.simulation.linearisation, "copies_of_a_world", lambda *_: 3)
    assert_same(several.linearise(several.state(model.q0, qd)), expected, 0)


def test_beside_rollouts_and_sensors():
    """It leaves a simulator as it found it, and forces that are measured play no part in it."""
    scene = quadruped.build("float64", friction=0.4, height=0.001)
    model = scene.model
    measuring = sim.Simulator(model, H, 2, "cpu", contact_sensors=[0])
    plain = sim.Simulator(model, H, 2, "cpu")
    state = measuring.state(scene.q0)
    trajectory = measuring.rollout(state, steps=3)
    forces = np.ones(trajectory.contact_force.shape)

    def gradients() -> list[np.ndarray]:
        given = dict(contact_force_grad=forces, parameters=["mass"])
        found = trajectory.backward(np.ones((2, model.nq)), **given)
        return [found.q.numpy(), found.qd.numpy(), found.parameters["mass"]]

    before = gradients()
    assert_same(measuring.linearise(state), plain.linearise(state))
    for first, second in zip(before, gradients(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_warm_start_is_refused():
    simulator = sim.Simulator(box(), H, contact=sim.PgsContact(warm_start=True))
    with raises_naming("linearise", "warm_start"):
        simulator.linearise(simulator.initial_state())
