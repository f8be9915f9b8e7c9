"""Parameters of a simulator: set, read, for the time of a block, shared or per world."""

import signal
import threading

import numpy as np
import pytest

import sim
from sim.simulation.engine.shards import MOST_LAYOUTS
from sim.simulation.stepping.constraint_layout import DECISIVE, constraint_layout
from tests.errors import raises_naming
from tests.simulation.worlds import DT, WORLDS, hopper, inputs


@pytest.fixture
def simulator(device):
    return sim.Simulator(hopper(), DT, WORLDS, device)


def final(simulator: sim.Simulator) -> np.ndarray:
    q, qd, tau = inputs(simulator.model, 20)
    trajectory = simulator.rollout(simulator.state(q, qd), tau)
    return np.concatenate([trajectory.q.numpy()[-1], trajectory.qd.numpy()[-1]], axis=1)


def changed(name: str, value: np.ndarray) -> np.ndarray:
    shift = 0.05 if name in ("com", "gravity", "joint_placement", "rest_position", "geometry_placement") else 0.0
    value = 0.9 * value + shift + (0.02 if name in ("armature", "damping", "friction_loss") else 0.0)
    return value


# Those of the hopper whose every value has an influence.
EFFECTIVE = [
    "joint_placement", "mass", "com", "inertia", "damping", "armature", "friction_loss", "geometry_placement",
    "geometry_size", "friction", "restitution", "gravity",
]  # fmt: skip


@pytest.mark.parametrize("name", EFFECTIVE)
def test_set_parameter_is_the_same_as_at_construction(simulator, name, device):
    before = final(simulator)
    value = changed(name, simulator.parameters[name])
    fresh = sim.Simulator(hopper(), DT, WORLDS, device, parameters={name: value})
    simulator.parameters[name] = value
    np.testing.assert_array_equal(simulator.parameters[name], value)
    after = final(simulator)
    assert not np.array_equal(after, before)
    np.testing.assert_array_equal(after, final(fresh))


@pytest.mark.parametrize("worlds", [[0, 2], [True, False, True]])
def test_some_worlds_alone(simulator, worlds):
    """From a shared value, then from values per world; one for all of them, then one for each."""
    before = final(simulator)
    mass = simulator.parameters["mass"]
    simulator.parameters.update({"mass": 2.0 * mass}, worlds=worlds)
    np.testing.assert_array_equal(simulator.parameters["mass"], np.stack([2.0 * mass, mass, 2.0 * mass]))
    after = final(simulator)
    np.testing.assert_array_equal(after[1], before[1])
    assert (after[[0, 2]] != before[[0, 2]]).any(axis=1).all()
    simulator.parameters.update({"mass": np.stack([3.0 * mass, 4.0 * mass])}, worlds=worlds)
    np.testing.assert_array_equal(simulator.parameters["mass"], np.stack([3.0 * mass, mass, 4.0 * mass]))
    for wrong in ([True, False], [3], [0.5], [0, 1, 2]):
        with raises_naming("parameter 'mass'", "worlds", "shape"):
            simulator.parameters.update({"mass": np.stack([mass, mass])}, worlds=wrong)
    with raises_naming("unknown", "parameter 'weight'"):
        simulator.parameters.update({"weight": mass}, worlds=worlds)
    for short in ([2.0], np.ones((2, 1))):
        with raises_naming("parameter 'mass'", "worlds", "shape"):
            simulator.parameters.update({"mass": short}, worlds=worlds)
    simulator.parameters.update({"mass": 5.0}, worlds=[])
    np.testing.assert_array_equal(simulator.parameters["mass"], np.stack([3.0 * mass, mass, 4.0 * mass]))


@pytest.mark.parametrize("name", ["lower_limit", "upper_limit", "stiffness"])
def test_joint_properties_of_the_hip_alone(simulator, name, device):
    before = final(simulator)
    value = simulator.parameters[name]
    value[6] = {"lower_limit": -0.2, "upper_limit": 0.2, "stiffness": 50.0}[name]
    simulator.parameters[name] = value
    after = final(simulator)
    assert not np.array_equal(after, before)
    np.testing.assert_array_equal(after, final(sim.Simulator(hopper(), DT, WORLDS, device, parameters={name: value})))


@pytest.mark.parametrize("name", ["mass", "friction", "gravity"])
def test_from_shared_to_per_world_and_back(simulator, name):
    before = final(simulator)
    shared = simulator.parameters[name]
    simulator.parameters[name] = np.repeat(shared[None], WORLDS, axis=0)
    np.testing.assert_array_equal(final(simulator), before)
    simulator.parameters[name] = np.stack([(0.8 + 0.1 * world) * shared for world in range(WORLDS)])
    np.testing.assert_array_equal(final(simulator)[2], before[2])
    assert not np.array_equal(final(simulator)[0], before[0])
    simulator.parameters[name] = shared
    np.testing.assert_array_equal(final(simulator), before)


def test_rows_of_joints_that_had_none(simulator):
    """A limit and dry friction given to joints that came without need other rows."""
    before = final(simulator)
    friction = np.full(simulator.model.nv, 0.3)
    simulator.parameters["friction_loss"] = friction
    held = final(simulator)
    assert np.abs(held - before).max() > 1e-3
    simulator.parameters["friction_loss"] = hopper().parameters["friction_loss"]
    np.testing.assert_array_equal(final(simulator), before)


def test_with_parameters_restores(simulator):
    before = final(simulator)
    with simulator.parameters.using({"mass": 2.0, "friction": np.full((WORLDS, 4), 0.1)}):
        np.testing.assert_array_equal(simulator.parameters["mass"], 2.0)
        assert not np.array_equal(final(simulator), before)
    np.testing.assert_array_equal(final(simulator), before)


def test_others_work_and_signals_come_within(simulator):
    """PyTorch goes back through what is on CUDA in a thread of its own, for which the one in the context waits."""
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    try:
        with simulator.parameters.using({"mass": 2.0}):
            signal.raise_signal(signal.SIGUSR1)
            assert came == [signal.SIGUSR1]
            other = threading.Thread(target=final, args=(simulator,), daemon=True)
            other.start()
            other.join(60.0)
            assert not other.is_alive()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_is_set_within_stays(simulator):
    with simulator.parameters.using({"mass": 2.0}):
        simulator.parameters["friction"] = 0.3
    np.testing.assert_array_equal(simulator.parameters["friction"], 0.3)
    np.testing.assert_array_equal(simulator.parameters["mass"], simulator.model.parameters["mass"])
    with simulator.parameters.using({"mass": 2.0}):
        simulator.parameters["mass"] = 3.0
    np.testing.assert_array_equal(simulator.parameters["mass"], simulator.model.parameters["mass"])


def test_with_parameters_restores_after_an_error(simulator):
    before = final(simulator)
    with pytest.raises(ZeroDivisionError), simulator.parameters.using({"mass": 2.0}):
        raise ZeroDivisionError
    np.testing.assert_array_equal(final(simulator), before)
    with pytest.raises(sim.ModelError, match="friction"), simulator.parameters.using({"mass": 2.0, "friction": [1.0]}):
        pass
    np.testing.assert_array_equal(final(simulator), before)
    with pytest.raises(sim.ModelError, match="unknown parameter 'mas'"), simulator.parameters.using({"mas": 2.0}):
        pass
    np.testing.assert_array_equal(final(simulator), before)


def test_refused_values(simulator):
    before = final(simulator)
    for name, value, message in [
        ("mas", 1.0, "unknown parameter 'mas'"),
        ("mass", [1.0], "parameter 'mass' has shape"),
        ("mass", [[1.0] * 3] * (WORLDS + 1), "parameter 'mass' has shape"),
        ("mass", [1.0, np.nan, 1.0], "not finite"),
        ("stiffness", 3.0, "stiffness.*spherical and free"),
        ("geometry_placement", np.zeros((4, 7)), "zero quaternion"),
    ]:
        with pytest.raises(sim.ModelError, match=message):
            simulator.parameters[name] = value
    for name, value in hopper().parameters.items():
        np.testing.assert_array_equal(simulator.parameters[name], value, err_msg=name)
    np.testing.assert_array_equal(final(simulator), before)
    with raises_naming("unknown", "parameter 'mas'"):
        simulator.parameters["mas"]
    assert simulator.parameters.get("mas", 3.0) == 3.0


def test_values_that_are_read_are_copies(simulator):
    before = final(simulator)
    simulator.parameters["mass"][:] = 7.0
    value = simulator.parameters["friction"]
    simulator.parameters["friction"] = value
    value[:] = 0.0
    np.testing.assert_array_equal(final(simulator), before)
    assert simulator.parameters["friction"].all()


def test_a_simulator_keeps_the_numbers_that_it_was_made_with():
    """What is written to the model later is the model's, and its own functions see it."""
    model = hopper()
    simulator = sim.Simulator(model, DT, WORLDS, "cpu")
    before, mass = final(simulator), sim.mass_matrix(model, model.q0[None]).numpy().copy()
    model.parameters["mass"][:] *= 2.0
    model.parameters["inertia"][:] *= 2.0
    np.testing.assert_allclose(sim.mass_matrix(model, model.q0[None]).numpy(), 2.0 * mass, rtol=1e-12)
    np.testing.assert_array_equal(simulator.parameters["mass"], hopper().parameters["mass"])
    np.testing.assert_array_equal(final(simulator), before)
    simulator.parameters["mass"] = model.parameters["mass"]
    assert not np.array_equal(final(simulator), before)


def test_few_layouts_are_kept():
    """Each zero pattern of dry friction has arrays of its own."""
    simulator = sim.Simulator(hopper(), DT, WORLDS, "cpu")
    nv = simulator.model.nv
    first = None
    for number in range(2 * MOST_LAYOUTS):
        friction = np.zeros(nv)
        friction[: 1 + number % nv] = 0.1
        simulator.parameters["friction_loss"] = friction
        first = final(simulator) if first is None else first
        assert len(simulator.engine._shard_sets) <= MOST_LAYOUTS
    simulator.parameters["friction_loss"] = 0.1 * (np.arange(nv) < 1)
    np.testing.assert_array_equal(final(simulator), first)


def test_the_model_is_left_alone(simulator):
    simulator.parameters["mass"] = 5.0
    np.testing.assert_array_equal(simulator.model.parameters["mass"], hopper().parameters["mass"])


def test_what_a_layout_reads_is_looked_at_on_the_host():
    """A name that is missing there would leave the layout as it is when its parameter changes."""

    class Noted(dict):
        def __getitem__(self, name):
            read.add(name)
            return super().__getitem__(name)

    read: set[str] = set()
    with_tendon = sim.ModelBuilder()
    with_tendon.add_link("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
    with_tendon.add_joint("hinge", "revolute", child="arm", axis=(0, 0, 1), limits=sim.Limits(-1.0, 1.0))
    with_tendon.add_actuator("hinge", force_limit=2.0)
    with_tendon.add_fixed_tendon("rope", {"hinge": 0.1}, limits=(-0.2, 0.2), friction_loss=0.1)
    with_tendon.add_ground()
    with_tendon.add_geometry("arm", "sphere", name="tip", size=0.1)
    with_tendon.set_pair_friction("tip", "ground", friction=1.0, rolling_friction=0.1)
    for model in (with_tendon.finalize(), hopper()):
        constraint_layout(model, Noted(sim.Simulator(model, DT, device="cpu").parameters), by_mujoco=False)
    assert read == set(DECISIVE)
