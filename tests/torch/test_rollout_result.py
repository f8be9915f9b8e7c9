"""The results of a rollout and of a step: their tensors in order, by name, and in what PyTorch does with results."""

import copy
import pickle

import pytest
import torch

import sim

STEPS = 4


def scene(activations: bool = False) -> tuple[sim.Simulator, dict[str, torch.Tensor]]:
    """A box on the ground beside a hinge with a motor, and the inputs of a rollout."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.1), name="box")
    builder.add_link("arm", mass=1.0, inertia=(0.1, 0.1, 0.1), com=(0.0, 0.0, -0.2))
    builder.add_joint("hinge", "revolute", child="arm", position=(2, 0, 2), axis=(0, 1, 0))
    activation = sim.Activation("filter", time_constant=0.1) if activations else sim.Activation()
    builder.add_actuator("hinge", "torque", activation=activation)
    builder.add_sensor("imu", "accelerometer", "box")
    builder.add_sensor("angle", "joint_position", "hinge")
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, dt=0.005, device="cpu", contact_sensors=["box/geometry"])
    given = {
        "q": torch.tensor(model.q0[None]), "qd": torch.full((1, model.nv), 0.1).double(),
        "control": torch.linspace(0.0, 1.0, STEPS).double()[:, None, None],
    }  # fmt: skip
    return simulator, given | ({"act": torch.full((1, 1), 0.3).double()} if activations else {})


@pytest.mark.parametrize("activations", [False, True])
@pytest.mark.parametrize("contact_forces", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_parts_are_those_asked_for(activations, contact_forces, read):
    """In the documented order, with the numbers that a rollout with all of them has."""
    simulator, given = scene(activations)
    sensors = sim.torch.Sensors(simulator)
    found = sim.torch.rollout(simulator, **given, contact_forces=contact_forces, sensors=sensors if read else None)
    there = {"q": True, "qd": True, "act": activations, "contact_force": contact_forces, "readings": read}
    every = sim.torch.rollout(simulator, **given, contact_forces=True, sensors=sensors)
    assert isinstance(found, sim.torch.Rollout)
    assert len(every) == 4 + activations
    rest = iter(found)
    for name, present in there.items():
        if present:
            assert next(rest) is getattr(found, name)
            assert torch.equal(getattr(found, name), getattr(every, name))
        else:
            assert getattr(found, name) is None
    assert next(rest, None) is None
    assert found.q.shape == (STEPS + 1, 1, simulator.model.nq)
    again = sensors(every.q, every.qd, given["control"], every.contact_force, act=every.act)
    torch.testing.assert_close(every.readings, again, rtol=1e-12, atol=1e-12)


def test_forces_and_readings_have_the_gradients_of_each():
    """One rollout with both, and one for each."""
    simulator, given = scene()
    sensors = sim.torch.Sensors(simulator)
    control = given.pop("control").requires_grad_()
    qd = given.pop("qd").requires_grad_()
    both = sim.torch.rollout(simulator, qd=qd, control=control, contact_forces=True, sensors=sensors, **given)
    forces = sim.torch.rollout(simulator, qd=qd, control=control, contact_forces=True, **given)
    reads = sim.torch.rollout(simulator, qd=qd, control=control, sensors=sensors, **given)
    found = torch.autograd.grad(both.contact_force.square().sum() + both.readings.square().sum(), (qd, control))
    first = torch.autograd.grad(forces.contact_force.square().sum(), (qd, control))
    second = torch.autograd.grad(reads.readings.square().sum(), (qd, control))
    for value, *parts in zip(found, first, second, strict=True):
        largest = float(value.abs().max())
        assert largest > 0.0
        torch.testing.assert_close(value, sum(parts), rtol=0, atol=1e-10 * largest)  # sums in another order


def test_it_is_frozen_copied_and_pickled():
    simulator, given = scene()
    found = sim.torch.rollout(simulator, **given, sensors=sim.torch.Sensors(simulator))
    with pytest.raises(AttributeError):
        found.q = found.qd
    for again in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert type(again) is sim.torch.Rollout
        assert len(again) == 3
        assert again.contact_force is None
        for name in ("q", "qd", "readings"):
            assert torch.equal(getattr(again, name), getattr(found, name))


def test_torch_func_returns_it():
    """A function may return it whole: its derivatives are those of a tuple's tensors."""
    simulator, given = scene()
    sensors, qd = sim.torch.Sensors(simulator), given.pop("qd")

    def function(qd):
        return sim.torch.rollout(simulator, qd=qd, **given, sensors=sensors)

    found, pull = torch.func.vjp(function, qd)
    assert type(found) is sim.torch.Rollout
    (slope,) = pull(sim.torch.Rollout(*(torch.ones_like(x) for x in found[:2]), readings=torch.ones_like(found[2])))
    x = qd.clone().requires_grad_()
    (expected,) = torch.autograd.grad(sum(part.sum() for part in function(x)), x)
    torch.testing.assert_close(slope, expected, rtol=1e-12, atol=1e-12)
    jacobian = torch.func.jacrev(lambda qd: function(qd).readings)(qd)
    torch.testing.assert_close(torch.func.jacrev(function)(qd).readings, jacobian, rtol=0, atol=0)
    torch.autograd.gradcheck(lambda qd: function(qd)[1:], x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activations", [False, True])
def test_a_step_is_named_likewise(activations):
    """With the tensors of a rollout of one step, and for torch.func."""
    simulator, given = scene(activations)
    control, qd = given.pop("control")[0], given.pop("qd")
    found = sim.torch.step(simulator, qd=qd, control=control, **given)
    assert type(found) is type(copy.deepcopy(found)) is sim.torch.NextState
    expected = sim.torch.rollout(simulator, qd=qd, control=control[None], **given)
    assert len(found) == len(expected) == 2 + activations
    for name, tensor in zip(("q", "qd", "act"), found, strict=False):
        assert tensor is getattr(found, name)
        assert torch.equal(tensor, getattr(expected, name)[-1])
    assert activations or found.act is None
    slopes = torch.func.jacrev(lambda qd: sim.torch.step(simulator, qd=qd, control=control, **given))(qd)
    assert type(slopes) is sim.torch.NextState
    torch.testing.assert_close(
        slopes.qd, torch.func.jacrev(lambda qd: sim.torch.step(simulator, qd=qd, control=control, **given).qd)(qd)
    )


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compile_reads_it_by_name_behind_a_graph_break():
    simulator, given = scene()
    sensors, qd = sim.torch.Sensors(simulator), given.pop("qd").requires_grad_()

    def function(qd):
        motion = sim.torch.rollout(simulator, qd=1.0 * qd, **given, contact_forces=True, sensors=sensors)
        q, *_ = motion
        return q.sum() + motion.qd.square().sum() + motion.readings.sum() + motion.contact_force.square().sum()

    torch._dynamo.reset()
    value = torch.compile(function, backend="aot_eager")(qd)
    torch.testing.assert_close(value, function(qd))
    torch.testing.assert_close(torch.autograd.grad(value, qd), torch.autograd.grad(function(qd), qd))


def test_what_is_refused():
    simulator, given = scene()
    other, _ = scene()
    sensors = sim.torch.Sensors(simulator)
    for wrong in (
        {"sensors": sim.torch.Sensors(other)},
        {"sensors": True},
        {"sensors": sensors, "hold": 2},
        {"sensors": sensors, "checkpoint_interval": 2},
        {"contact_forces": 1.0},
        {"contact_forces": None},
    ):
        with pytest.raises(sim.ModelError):
            sim.torch.rollout(simulator, **given, **wrong)
