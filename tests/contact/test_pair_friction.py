"""The friction of a pair as parameters: closed forms in each world, gradients in stick and slide, identification."""

import tempfile
from pathlib import Path

import mujoco
import numpy as np
import pytest

import sim
from sim.diagnostics.gradient_entries import entries
from sim.exporters import write_mjcf
from sim.identify import Log, fit_trajectories
from sim.model.parameters import OF_PAIRS
from tests.contact.worlds import DT, G
from tests.errors import raises_naming
from tests.simulation.differences import case, check, regimes

FIVE = {"friction": (0.4, 0.7), "torsional_friction": 0.02, "rolling_friction": (0.01, 0.004)}
LAWS = {
    "cone": sim.HardContact(), "pyramid": sim.HardContact(friction="pyramid"),
    "pgs": sim.PgsContact(sweeps=300, tolerance=0.0),
    "mujoco": sim.MujocoContact(solref=(0.03, 0.9), solimp=(0.7, 0.95, 0.02, 0.4, 3.0)),
    "mujoco pyramid": sim.MujocoContact(solref=(0.03, 0.9), solimp=(0.7, 0.95, 0.02, 0.4, 3.0), friction="pyramid"),
}  # fmt: skip


def ball(**numbers: object) -> sim.Model:
    """A ball on the ground."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.1))
    builder.add_sphere(radius=0.1, mass=0.5, position=(0, 0, 0.1), name="ball", surface=sim.Surface(friction=0.6))
    builder.set_pair_friction("ground", "ball/geometry", **numbers)
    return builder.finalize("float64")


def moving(model: sim.Model, speed: float) -> tuple[np.ndarray, np.ndarray]:
    """In the ground by more than the steps of differences; sliding, spinning and rolling."""
    q = model.q0 - 1e-4 * (np.arange(model.nq) == 2)
    return q, speed * np.array([0.9, -0.6, 0.0, 2.0, 3.0, 5.0])


@pytest.mark.parametrize(
    ("law", "speed"),
    # What sticks by sweeps doesn't move at all.
    [(law, speed) for law in LAWS for speed in (1.0, 1e-3) if (law, speed) != ("pgs", 1e-3)],
)
def test_gradients(law, speed):
    """The ball slides, and it sticks. Under the hard law sticking contacts creep by the ratio of friction
    along two tangents; in MuJoCo's pyramids a saturated one has no share for rolling, as with that of geometries.
    """
    model = ball(**FIVE)
    c = case(model, 4, *moving(model, speed), LAWS[law], force=0.005)
    names, zero = [*OF_PAIRS], []
    if law in ("cone", "pyramid", "pgs"):
        assert regimes(c) == {"slide" if speed == 1.0 else "stick"}
        zero = ["pair_torsional_friction"] if speed < 1.0 else []
    elif law == "mujoco pyramid" and speed == 1.0:
        zero = names[3:]
    check(c, ["mass", "friction", *names], zero=["friction", *zero])


@pytest.mark.parametrize("law", LAWS)
def test_gradients_of_one_number_for_both_tangents(law):
    """Nothing reaches the number across, nor the geometries' friction."""
    model = ball(friction=0.4, torsional_friction=0.02, rolling_friction=0.01)
    c = case(model, 4, *moving(model, 1.0), LAWS[law], force=0.005)
    zero = ["friction", *(["pair_rolling_friction"] if law == "mujoco pyramid" else [])]
    check(c, ["pair_friction", "pair_torsional_friction", "pair_rolling_friction", "friction"], zero=zero)
    found = c.rollout(c.simulator()).backward(None, np.ones((1, model.nv)), ["pair_friction_across"])
    assert not found.parameters["pair_friction_across"].any()


@pytest.mark.parametrize("law", LAWS)
def test_a_parameter_counts_as_if_stated(law):
    """In every world, in any order of the tangents, also zero for one of them; lane groups and single worlds."""
    rng = np.random.default_rng(0)
    worlds = 9
    given = rng.uniform(0.05, 0.9, (worlds, 5)) * [1, 1, 0.05, 0.05, 0.05]
    given[4, 0], given[5, 1] = 0.0, 0.0
    model = ball(**FIVE)
    parameters = {name: given[:, [k]] for k, name in enumerate(OF_PAIRS)}
    together = sim.Simulator(model, DT, worlds, "cpu", LAWS[law], parameters)
    q, qd = moving(model, 1.0)
    end = together.rollout(together.state(q, qd), steps=6).qd.numpy()[-1]
    for world in range(worlds):
        slide, across, spin, roll, roll_across = given[world]
        built = ball(friction=(slide, across), torsional_friction=spin, rolling_friction=(roll, roll_across))
        alone = sim.Simulator(built, DT, device="cpu", contact=LAWS[law])
        expected = alone.rollout(alone.state(q, qd), steps=6).qd.numpy()[-1, 0]
        np.testing.assert_allclose(end[world], expected, atol=1e-7)


def test_decelerations_of_each_world():
    """A box that slides along x, the second tangent, or y, the first one: friction times gravity."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.2, 0.2, 0.01), mass=2.0, position=(0, 0, 0.01), name="box")
    builder.set_pair_friction("box/geometry", "ground", friction=(0.3, 0.3))
    model = builder.finalize("float64")
    along, across = np.array([[0.2], [0.5], [0.0]]), np.array([[0.6], [0.1], [0.4]])
    parameters = {"pair_friction": along, "pair_friction_across": across}
    simulator = sim.Simulator(model, DT, 3, "cpu", sim.PgsContact(sweeps=100), parameters)
    for axis, numbers in ((0, across), (1, along)):
        qd = np.zeros(6)
        qd[axis] = 1.0
        end = simulator.rollout(simulator.state(model.q0, qd), steps=20).qd.numpy()[-1]
        np.testing.assert_allclose((1.0 - end[:, axis]) / (20 * DT * G), numbers[:, 0], atol=1e-5)


def test_resistance_of_worlds_that_the_model_lacks():
    """Torsional friction in one world of a pair that is built without."""
    model = ball(friction=1.0)
    simulator = sim.Simulator(model, DT, 2, "cpu", sim.PgsContact(), {"pair_torsional_friction": [[0.0], [0.03]]})
    qd = np.zeros(model.nv)
    qd[5] = 5.0
    end = simulator.rollout(simulator.state(model.q0, qd), steps=20).qd.numpy()[-1, :, 5]
    slowing = 0.03 * 0.5 * G / (0.4 * 0.5 * 0.1**2)
    np.testing.assert_allclose(5.0 - end, [0.0, 20 * DT * slowing], atol=1e-6)


def test_the_gradient_check_names_pairs():
    model = ball(**FIVE)
    found = entries(model, model.parameters["pair_friction_across"], "pair_friction_across")
    assert [entry.owner for entry in found] == ["pair 'ground and ball/geometry'"]
    one = ball(friction=0.3)
    assert not entries(one, one.parameters["pair_friction_across"], "pair_friction_across")
    simulator = sim.Simulator(model, DT, device="cpu")
    report = sim.check_gradients(simulator, simulator.state(*moving(model, 1.0)), None, list(OF_PAIRS), steps=4)
    assert not report.wrong
    assert len(report.entries) == 5


def test_is_identified():
    """From a log of a skid, by the names of the pair in either order."""
    model = ball(**FIVE)
    simulator = sim.Simulator(model, DT, device="cpu")
    q, qd = moving(model, 1.0)
    motion = simulator.rollout(simulator.state(q, qd), steps=24)
    log = Log(model, DT * np.arange(25), motion.q.numpy()[:, 0], motion.qd.numpy()[:, 0])
    guess = ball(friction=(0.5, 0.5), torsional_friction=0.03, rolling_friction=(0.006, 0.006))
    quantities = ("friction", "friction_across", "torsional_friction", "rolling_friction", "rolling_friction_across")
    names = [f"{name} of ball/geometry and ground" for name in quantities]
    fit = fit_trajectories(guess, log, names, dt=DT, noise={"q": 1e-4, "qd": 1e-3}, known_start=True)
    for name in OF_PAIRS:
        np.testing.assert_allclose(fit.parameters[name], model.parameters[name], rtol=1e-3, err_msg=name)
    assert sim.identify.Unknowns(model, ["friction of ground*"]).names == ("friction of ground and ball/geometry",)
    with raises_naming("friction of ball/geometry", "ground and ball/geometry", "pairs have their own"):
        sim.identify.Unknowns(model, ["friction of ball/geometry"])
    with raises_naming("rolling_friction_across of ground", "the model has", "ground and ball/geometry"):
        sim.identify.Unknowns(model, ["rolling_friction_across of ground"])


def test_refused():
    model = ball(friction=0.3)
    with raises_naming("'pair_friction_across'", "ground and ball/geometry", "two numbers"):
        sim.Simulator(model, DT, parameters={"pair_friction_across": [0.5]})
    with raises_naming("'pair_friction'", "not be negative"):
        sim.Simulator(model, DT, parameters={"pair_friction": [-0.5]})
    builder = sim.ModelBuilder()
    builder.add_ground()
    assert not [name for name in builder.finalize().parameters if name in OF_PAIRS]


@pytest.mark.parametrize("rolling", [(0.0, 0.01), (0.01, 0.0), (0.005, 0.02)])
def test_rolling_friction_along_one_tangent_as_in_mujoco(rolling):
    """MuJoCo raises a coefficient of zero to the least that it allows, and keeps the other."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball", position=(0, 0, 0.1))
    builder.set_pair_friction(
        "ball/geometry", "ground", friction=0.5, torsional_friction=0.01, rolling_friction=rolling
    )
    model = builder.finalize("float64")
    law = sim.MujocoContact(friction="cone")
    simulator = sim.Simulator(model, 0.002, contact=law)
    qd = np.array([1.0, 1.0, 0.0, -10.0, 10.0, 0.0])  # it rolls
    trajectory = simulator.rollout(simulator.state(model.q0, qd), steps=100)
    with tempfile.TemporaryDirectory() as folder:
        peer = mujoco.MjModel.from_xml_path(str(write_mjcf(Path(folder) / "ball.xml", model)))
    peer.opt.timestep, peer.opt.cone = 0.002, mujoco.mjtCone.mjCONE_ELLIPTIC
    data = mujoco.MjData(peer)
    data.qpos, data.qvel = sim.to_mujoco(model, model.q0, qd)
    mujoco.mj_step(peer, data, 100)
    _, expected = sim.from_mujoco(model, data.qpos, data.qvel)
    np.testing.assert_allclose(trajectory.qd.numpy()[-1, 0], expected, atol=1e-5)
