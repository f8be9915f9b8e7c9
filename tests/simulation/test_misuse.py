"""What a simulator is given by mistake, and what is copied of it or sent to another process."""

import copy
import pickle
import re
import resource
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch
import warp as wp

import sim
import sim.torch
from sim.simulation.contacts import Contacts
from sim.simulation.engine import memory


def boxes(dtype="float32"):
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    builder.add_box(name="box", half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, 0.1))
    return builder.finalize(dtype)


def rolled(model, *given):
    simulator = sim.Simulator(model, 0.01, device="cpu")
    return simulator.rollout(simulator.initial_state(), *given)


def backward(model, **options):
    simulator = sim.Simulator(model, 0.01, device="cpu")
    trajectory = simulator.rollout(simulator.initial_state(), steps=1)
    return trajectory.backward(np.ones((1, model.nq)), **options)


def unfinished(model, call, **options):
    simulator = sim.Simulator(model, 0.01, device="cpu")
    q, qd = torch.tensor(model.q0[None]), torch.zeros(1, model.nv)
    return call(simulator, q.float(), qd, leave_out_bad_worlds="false", **options)


@pytest.fixture
def simulator():
    contact = sim.PgsContact(warm_start=True)
    simulator = sim.Simulator(boxes(), 2e-3, num_worlds=3, device="cpu", contact=contact, threads=1)
    simulator.parameters["friction"] = np.tile([0.3, 0.7], (3, 1))
    return simulator


@pytest.mark.parametrize("steps", [100.0, "3", -1, np.float32(2.0)])
def test_a_number_of_steps_that_is_not_whole(simulator, steps):
    with pytest.raises(sim.ModelError, match="rollout: steps is .*; it must be a whole number of at least 0"):
        simulator.rollout(simulator.initial_state(), steps=steps)


def test_a_whole_number_of_numpy_is_one(simulator):
    assert simulator.rollout(simulator.initial_state(), steps=np.int64(2)).steps == 2


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("dt", r"simulator.replace\(simulator.num_worlds, dt=...\)"),
        ("num_worlds", r"simulator.replace\(num_worlds\)"),
        ("model", r"sim.Simulator\(model, dt, num_worlds\)"),
        ("gravity", r"simulator.parameters\['gravity'\] = value"),
    ],
)
def test_what_a_simulator_was_made_with_is_not_set_as_an_attribute(simulator, name, call):
    with pytest.raises(sim.ModelError, match=f"Simulator: {name} .*{call}"):
        setattr(simulator, name, 3)
    assert simulator.dt == 2e-3
    assert simulator.num_worlds == 3


@pytest.mark.parametrize("method", ["rollout", "step", "contacts"])
def test_a_state_of_another_type(simulator, method):
    state = simulator.initial_state()
    given = {"steps": 2} if method == "rollout" else {}
    for wrong in ((state.q, state.qd), None, state.q):
        with pytest.raises(sim.ModelError, match=rf"state is a {type(wrong).__name__}; it must be a sim.State: make"):
            getattr(simulator, method)(wrong, **given)


def test_a_device_of_torch_is_a_device():
    device, model = torch.device("cpu"), boxes()
    assert sim.Simulator(model, 1e-3, device=device).device.is_cpu
    assert sim.DeviceModel(model, device).device.is_cpu
    assert sim.torch.Robot(model, device=device).mass.device == device
    with pytest.raises(sim.ModelError, match="there is no 'meta' on this machine; there is cpu"):
        sim.Simulator(model, 1e-3, device=torch.device("meta"))


def copies():
    return [lambda thing: pickle.loads(pickle.dumps(thing)), copy.deepcopy]


@pytest.mark.parametrize("again", copies(), ids=["pickle", "deepcopy"])
def test_copies_of_a_simulator_step_as_it_does(simulator, again):
    simulator.step(simulator.initial_state())  # the pool and the graphs are not copied
    other = again(simulator)
    assert (other.dt, other.num_worlds, other.contact) == (simulator.dt, 3, simulator.contact)
    np.testing.assert_array_equal(other.parameters["friction"], simulator.parameters["friction"])
    one, two = (each.rollout(each.initial_state(), steps=20) for each in (simulator, other))
    np.testing.assert_array_equal(one.q.numpy(), two.q.numpy())
    other.parameters["friction"] = [0.0, 0.0]
    assert simulator.parameters["friction"].shape == (3, 2)


@pytest.mark.parametrize("again", copies(), ids=["pickle", "deepcopy"])
def test_copies_of_a_state_are_where_it_is(simulator, again):
    state = simulator.step(simulator.initial_state())
    other = again(state)
    for name in ("q", "qd"):
        np.testing.assert_array_equal(getattr(other, name).numpy(), getattr(state, name).numpy())
    np.testing.assert_array_equal(other.impulses.value.numpy(), state.impulses.value.numpy())
    assert other.q.ptr != state.q.ptr
    steps = [simulator.step(each).q.numpy() for each in (state, other)]
    np.testing.assert_array_equal(*steps)
    assert copy.copy(state).q is state.q
    leaf = sim.State(wp.clone(state.q, requires_grad=True), state.qd)
    assert again(leaf).q.requires_grad
    assert again(leaf).impulses is None


@pytest.mark.parametrize("again", copies(), ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("interval", [1, 4])
def test_copies_of_a_trajectory_have_its_gradient(simulator, again, interval):
    tau = np.zeros((10, 3, 6))
    tau[:, :, 0] = 1.0
    trajectory = simulator.rollout(simulator.initial_state(), tau, checkpoint_interval=interval)
    other = again(trajectory)
    np.testing.assert_array_equal(other.q.numpy(), trajectory.q.numpy())
    assert (other.steps, other.checkpoint_interval) == (10, interval)
    seed = np.ones((3, 7), dtype=np.float32)
    first, second = (each.backward(seed, parameters=["friction"]) for each in (trajectory, other))
    np.testing.assert_array_equal(first.tau.numpy(), second.tau.numpy())
    np.testing.assert_array_equal(first.parameters["friction"], second.parameters["friction"])


def test_a_model_and_contacts_are_copied(simulator):
    model = pickle.loads(pickle.dumps(simulator.model))
    assert model.joint_names == simulator.model.joint_names
    np.testing.assert_array_equal(model.q0, simulator.model.q0)
    assert isinstance(pickle.loads(pickle.dumps(simulator.contacts(simulator.initial_state()))), Contacts)


def test_more_worlds_than_memory_are_refused_before_any_is_taken():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(sim.ModelError) as caught:
        sim.Simulator(boxes(), 1e-3, num_worlds=2_000_000_000, device="cpu")
    found = re.search(r"would take ([\d.]+) TB of memory, but cpu has (.+); at most (\d+) fit", str(caught.value))
    there = memory.host_memory()
    assert found[2] == memory.amount(there)
    assert 2e9 * there / float(found[3]) == pytest.approx(1e12 * float(found[1]), rel=0.01)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kB"


def test_fewer_worlds_that_find_no_room_on_a_gpu_are_refused_too(monkeypatch):
    """Warp says of one array that it couldn't be made. Other errors of Warp are its own."""
    zeros = wp.zeros

    def no_room(shape, *arguments, **options):
        if 11 in np.atleast_1d(shape):
            raise RuntimeError("Failed to allocate 4400 bytes on device 'cuda:0'")
        return zeros(shape, *arguments, **options)

    monkeypatch.setattr(wp, "zeros", no_room)
    with pytest.raises(RuntimeError, match="Failed to allocate"):
        sim.Simulator(boxes(), 1e-3, num_worlds=11, device="cpu", threads=1)
    monkeypatch.setattr(memory, "device_memory", lambda device: 10_000)
    with pytest.raises(
        sim.ModelError, match=r"11 worlds would take \d+(\.\d)? kB of memory, but cpu has 10 kB; at most \d fit"
    ):
        sim.Simulator(boxes(), 1e-3, num_worlds=11, device="cpu", threads=1)


def test_what_found_room_is_let_go_of_before_the_need_is_measured():
    """The sample would find none either on a GPU that is full."""
    held = []

    def make_all() -> None:
        some = wp.zeros(1000, device="cpu")
        held.append(weakref.ref(some))
        raise RuntimeError("Failed to allocate 4000 bytes on device 'cuda:0'")

    def make(worlds: int, contacts: int) -> wp.array:
        assert held[0]() is None
        return wp.zeros(worlds, device="cpu")

    with pytest.raises(RuntimeError, match="Failed to allocate"):
        memory.made_in_memory(11, 4, 2, wp.get_device("cpu"), make, make_all)


def test_more_steps_than_memory_are_refused_before_any_is_taken(simulator):
    """The message says with which checkpoint_interval they fit."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    state = simulator.state(simulator.model.q0)
    with pytest.raises(sim.ModelError, match="rollout: the states of 1000000000000 steps would take") as caught:
        simulator.rollout(state, steps=10**12)
    found = re.search(r"take ([\d.]+) TB of memory, but cpu has (.+); .+ of at least (\d+),", str(caught.value))
    there = memory.host_memory()
    assert found[2] == memory.amount(there)
    assert 1e12 * float(found[1]) / int(found[3]) == pytest.approx(there, rel=0.01)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kB"


def test_readings_of_sensors_count_too():
    """An interval doesn't make them fewer."""
    model = boxes()
    simulator = sim.Simulator(model, 1e-3, 1000, "cpu", contact_sensors=range(model.num_geometries))
    state = simulator.initial_state()
    steps = memory.host_memory() // (1000 * 3 * model.num_geometries * 4)
    with pytest.raises(sim.ModelError, match=r"B of memory, but cpu has [\d.]+ .B; take fewer steps"):
        simulator.rollout(state, steps=steps + 1, checkpoint_interval=10_000)


def test_a_robot_takes_the_devices_of_warp_and_of_torch():
    for device in ("cpu", torch.device("cpu"), wp.get_device("cpu")):
        assert sim.torch.Robot(boxes(), device=device).mass.device == torch.device("cpu")


def test_the_bytes_of_a_world_are_those_it_takes():
    """Measured by the growth of a process that makes more and more worlds."""
    script = """if True:
        import numpy as np, sys
        import sim
        from sim.simulation.engine import memory
        from tests.simulation.test_misuse import boxes
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096
        steps = []
        sim.Simulator(boxes(), 1e-3, num_worlds=1000, device="cpu")
        before = resident()
        simulator = sim.Simulator(boxes(), 1e-3, num_worlds=60_000, device="cpu")
        took = (resident() - before) / 60_000
        told = sum(memory.bytes_of(shard.step) for shard in simulator.engine.shards) / 60_000
        print(took, told)"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    took, told = map(float, done.stdout.split()[-2:])
    assert 0.7 * took < told < 1.3 * took


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: sim.load(None), "None is a NoneType; it must be the path of a file"),
        (lambda m: sim.load(5000 * "<robot/>"), "'<robot/>.*'.* path"),
        (lambda m: sim.ModelBuilder().add_mjcf("\n<mujoco/>"), "'.n<mujoco/>'"),
        (lambda m: sim.Simulator(m, "0.01"), "dt is '0.01'; it must be a positive number of seconds"),
        (lambda m: sim.load("scenes"), "scenes: is a folder; give a file in it"),
        (lambda m: sim.ModelBuilder().add_urdf(None), "None is a NoneType; it must be the path of a file"),
        (
            lambda m: sim.load("scenes/robots/arm.urdf", name=3),
            "add_urdf: name is 3; it must be text",
        ),
        (lambda m: sim.load("scenes/robots/arm.urdf", untrusted=3), "untrusted is a int; it must be True, False, or"),
        (lambda m: sim.jacobian(m, m.q0[None], 3), "frames is 3; it must be a name, or a list of names"),
        (
            lambda m: sim.integrate(m, m.q0[None], np.zeros((1, 6)), "0.1"),
            "integrate: dt is '0.1'; it must be one number",
        ),
        (
            lambda m: sim.cast_rays(m, m.q0[None], *np.ones((2, 1, 1, 3)), ["box"]),
            "targets is a list; it must be a sim",
        ),
        (lambda m: sim.geometry_distances(m, m.q0[None], (0, 1)), "geometry_distances: 0 is"),
        (
            lambda m: sim.geometry_distances(m, m.q0[None], [(0, 1)], max_distance="1"),
            "max_distance is '1'; it must be",
        ),
        (
            lambda m: sim.check_gradients(m, m.q0, steps=1),
            "check_gradients: simulator is a Model; it must be a sim.Sim",
        ),
        (lambda m: sim.to_mujoco(m.q0, m, np.zeros(6)), "model is a ndarray; it must be a sim.Model"),
        (
            lambda m: sim.HardContact(recovery_time="a"),
            "HardContact: recovery_time is 'a'; it must be one number",
        ),
        (lambda m: sim.HardContact(erp=None), "HardContact: erp is None; it must be one number"),
        (lambda m: sim.HardContact(margin=None), "HardContact: margin is None; it must be one number"),
        (lambda m: sim.forward_dynamics(m, m.q0[None], *np.zeros((2, 1, 6)), passive="false"), "passive is 'false'"),
        (lambda m: sim.inverse_dynamics(m, m.q0[None], *np.zeros((2, 1, 6)), passive=None), "passive is None"),
        (
            lambda m: sim.torch.Robot(m).forward_dynamics(*torch.zeros(3, 7), passive="no"),
            "passive is 'no'; it must be",
        ),
        (lambda m: sim.torch.Robot(m).inverse_dynamics(*torch.zeros(3, 7), passive=[]), r"passive is \[\]; it must be"),
        (lambda m: unfinished(m, sim.torch.rollout, steps=1), "rollout: leave_out_bad_worlds is 'false'; it must"),
        (lambda m: unfinished(m, sim.torch.step), "step: leave_out_bad_worlds is 'false'; it must be True or False"),
        (lambda m: backward(m, leave_out_bad_worlds="no"), "backward: leave_out_bad_worlds is 'no'; it must be"),
        (lambda m: sim.geometry_distances(m, m.q0[None], 3), "pairs is a int; it must be a list of pairs"),
        (lambda m: sim.to_mujoco(m, 1.0, np.zeros(6)), "q is a single number; expected an array"),
        (lambda m: sim.to_mujoco(m, m.q0, np.zeros(6), 3), "joint_order is 3; it must be a name, or a list of names"),
        (lambda m: sim.Simulator(m, 0.01, device="cpu", integrator=["rk4"]), r"integrator is \['rk4'\]; it must be"),
        (lambda m: sim.Simulator(m, 0.01, device="cpu").parameters[["mass"]], r"unknown parameter '\['mass'\]'"),
        (lambda m: sim.Simulator(m, 0.01, device="cpu").linearise(None), "state is a NoneType; it must be a sim.State"),
        (lambda m: sim.Softness(solref="stiff"), "Softness: solref: 'stiff' is not an array of numbers"),
        (
            lambda m: sim.ModelBuilder().add_ground(surface=sim.Surface(softness=(0.02, 1.0))),
            "softness is a tuple; it must be a sim.Softness",
        ),
        (lambda m: sim.torch.Sensors(m), "Sensors: simulator is a Model; it must be a sim.Simulator"),
        (lambda m: sim.torch.JointForces(m), "JointForces: simulator is a Model; it must be a sim.Simulator"),
        (
            lambda m: sim.torch.imu(m, *torch.zeros(2, 3, 7), 0.01, "box"),
            "imu: robot is a Model; it must be a sim.torch",
        ),
        (
            lambda m: sim.torch.imu(sim.torch.Robot(m), *torch.zeros(2, 3, 7), 0.0, "box"),
            "imu: dt is 0.0; it must be pos",
        ),
        (
            lambda m: sim.torch.rollout(sim.Simulator(m, 0.01), *torch.zeros(2, 7), steps=1, sensors=m),
            "sensors is a Model; it must be a sim",
        ),
        (lambda m: sim.torch.Positive(minimum="a"), "Positive: minimum is 'a'; it must be one number"),
        (lambda m: sim.torch.JointForces(sim.Simulator(m, 0.01, device="cpu"))(*torch.zeros(2, 3, 7)), "q has shape"),
        (lambda m: rolled(m, 100), "tau has shape .*steps="),
        (lambda m: m.q_slice(0), "part is a int; it must be the name of a joint or part, or a sim.Part"),
        (lambda m: sim.Simulator(m, 0.01, parameters=["mass"]), "parameters is a list; it must be a dictionary"),
        (lambda m: sim.mass_matrix(m.q0, m), "model is a ndarray; it must be a sim.Model"),
        (lambda m: sim.torch.Robot(sim.ModelBuilder()), "is a ModelBuilder; it must be the path of a file"),
        (lambda m: sim.torch.Robot(m, device="gpu"), "device: there is no 'gpu' on this machine; there is"),
        (
            lambda m: sim.torch.rollout(m, torch.zeros(7), torch.zeros(6), steps=1),
            "simulator is a Model; it must be a sim",
        ),
        (
            lambda m: sim.torch.step(m, torch.zeros(7), torch.zeros(6)),
            "simulator is a Model; it must be a sim.Simulator",
        ),
        (lambda m: sim.exporters.write_mjcf(m, "a.xml"), "is a Model; it must be the path of the file to write"),
        (lambda m: sim.terrain.generate([sim.terrain.Rough()], size=1000.0, spacing=0.01), "10040040000 .* 10000000"),
    ],
)
def test_arguments_of_another_type(call, message):
    with pytest.raises(sim.ModelError, match=message):
        call(boxes())


@pytest.mark.skipif(wp.is_cuda_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("make", [sim.Simulator, sim.torch.Robot])
def test_the_gpu_of_a_machine_without_one(make):
    with pytest.raises(sim.ModelError, match="device: there is no 'cuda' on this machine; there is cpu"):
        make(boxes(), **{"dt": 0.01} if make is sim.Simulator else {}, device="cuda")


def test_one_name_stands_for_a_list_of_one():
    model = boxes()
    assert sim.Simulator(model, 0.01, device="cpu", contact_sensors="ground").contact_sensors == (0,)
    builder = sim.ModelBuilder()
    ground = builder.add_ground()
    ball = builder.add_sphere(radius=0.1, mass=1.0)
    builder.add_contact_sensor("touch", "force", geometries=ground, against=f"{ball.links[0]}/geometry")
    (sensor,) = builder.finalize().sensors
    assert sensor.geometries == (ground,)
    assert sensor.readings == ("force",)
    assert sim.load("scenes/robots/arm.urdf", package_dirs="scenes").nq == 9


def test_lists_are_converted_to_mujoco_and_pinocchio():
    model = boxes("float64")
    q, qd = model.q0.tolist(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    for there in (sim.to_mujoco, sim.to_pinocchio):
        for listed, arrays in zip(there(model, q, qd), there(model, model.q0, np.array(qd)), strict=True):
            np.testing.assert_array_equal(listed, arrays)


def test_a_state_of_half_a_step(simulator):
    trajectory = simulator.rollout(simulator.initial_state(), steps=2)
    with pytest.raises(sim.ModelError, match="the state before step 1.0 is not stored"):
        trajectory.state(1.0)
