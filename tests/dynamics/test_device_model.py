"""DeviceModel: parameters on a device, shared or per world, and their gradients in the shape they were given."""

import numpy as np
import pytest
import warp as wp
from numpy.testing import assert_allclose, assert_array_equal

import sim
from sim.arrays.topology import packed_ancestors
from sim.model.parameters import PARAMETERS
from tests.dynamics.trees import build, zoo
from tests.errors import raises_naming, refuses


@pytest.fixture(scope="module")
def model() -> sim.Model:
    return build(zoo(), "float64")


def test_arrays_are_those_of_the_model(model, device):
    m = sim.DeviceModel(model, device)
    for name in ("tree_link_start", "link_parent", "link_tree", "joint_type", "joint_q_start", "dof_q", "dof_parent"):
        assert_array_equal(getattr(m, name).numpy(), getattr(model, name))
    assert_array_equal(m.joint_qd_start.numpy(), [*model.joint_qd_start, model.nv])
    for name, value in model.parameters.items():
        assert m.parameters[name].shape == (1, 1 if name == "gravity" else len(value))
        assert_allclose(m.parameters[name].numpy().reshape(value.shape), value, rtol=1e-14)


def test_ancestors_lead_from_the_root_to_the_parent(model):
    packed = packed_ancestors(model)
    for k in range(model.nv):
        row = [*packed[model.dof_row_start[k] :][: model.dof_depth[k]], k]
        assert [model.dof_parent[j] for j in row] == [-1, *row[:-1]]


@pytest.mark.parametrize("worlds", [1, 3])
def test_gradients_come_in_the_given_shape(model, worlds, device):
    own = {
        name: np.repeat(model.parameters[name][None], worlds, axis=0) for name in ("mass", "gravity", "joint_placement")
    }
    m = sim.DeviceModel(model, device, worlds, own, model.parameters)
    for name in model.parameters:
        spec = PARAMETERS[name]
        single = ((model.counts[spec.per],) if spec.per != "world" else ()) + spec.shape
        assert m.gradient(name).shape == ((worlds, *single) if name in own else single)


def test_setting_a_parameter_keeps_the_array_and_clears_the_gradient(model, device):
    m = sim.DeviceModel(model, device, requires_grad=["mass"])
    array = m.parameters["mass"]
    array.grad.fill_(1.0)
    before = m.gradient("mass")
    m.set_parameter("mass", 2.0)
    assert m.parameters["mass"] is array
    assert_array_equal(array.numpy(), np.full((1, model.num_links), 2.0))
    assert_array_equal(m.gradient("mass"), np.zeros(model.num_links))
    assert_array_equal(before, np.ones(model.num_links))


def test_quaternions_are_normalised_and_inertias_made_symmetric(model, device):
    placement = model.parameters["joint_placement"] * 3.0
    inertia = model.parameters["inertia"].copy()
    inertia[:, 0, 1] += 0.01
    m = sim.DeviceModel(model, device, parameters={"joint_placement": placement, "inertia": inertia})
    assert_allclose(np.linalg.norm(m.parameters["joint_placement"].numpy()[0, :, 3:], axis=1), 1.0, rtol=1e-15)
    stored = m.parameters["inertia"].numpy()[0]
    assert_array_equal(stored, stored.transpose(0, 2, 1))
    assert placement[0, 0] == model.parameters["joint_placement"][0, 0] * 3.0


def test_errors_name_the_parameter(model, device):
    refuses(lambda: sim.DeviceModel(model, device, requires_grad=["weight"]), "weight")
    refuses(lambda: sim.DeviceModel(model, device, 2, {"mass": np.ones((3, model.num_links))}), "'mass'", "shape")
    with raises_naming("'com'", "not finite"):
        sim.DeviceModel(model, device, parameters={"com": np.full((model.num_links, 3), np.nan)})
    placement = model.parameters["joint_placement"].copy()
    placement[1, 3:] = 0.0
    with raises_naming("'joint_placement'", "zero quaternion", "(0, 1)"):
        sim.DeviceModel(model, device, parameters={"joint_placement": placement})
    refuses(lambda: sim.DeviceModel(model, device).gradient("mass"), "'mass'", "requires_grad")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "arm.urdf"}, "model is a str; it must be a sim.Model"),
        ({"num_worlds": 2.5}, "num_worlds is 2.5; it must be a whole number of at least 1"),
        ({"num_worlds": 0}, "num_worlds is 0; it must be a whole number of at least 1"),
        ({"requires_grad": 3}, "requires_grad is 3; it must be a name, or a list of names"),
    ],
)
def test_arguments_of_another_type_are_named(model, arguments, message):
    with pytest.raises(sim.ModelError, match=message):
        sim.DeviceModel(**{"model": model, "device": "cpu", **arguments})


def test_one_gradient_by_its_name(model, device):
    assert sim.DeviceModel(model, device, requires_grad="mass").requires_grad == ("mass",)


def test_singular_mass_matrices_are_refused(device):
    """By everything that divides by them, at the first call; inverse dynamics and the matrix itself don't."""
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, com=(0.0, 0.0, 0.0), inertia=(0.0, 0.0, 0.0))
    builder.add_joint("hinge", "revolute", child="arm", axis=(0.0, 0.0, 1.0))
    model = builder.finalize("float64")
    q = wp.zeros((1, 1), dtype=wp.float64, device=device)
    robot, x = sim.torch.Robot(model, device=wp.device_to_torch(device)), wp.to_torch(q)
    calls = [
        lambda: sim.forward_dynamics(model, q, q, q),
        lambda: sim.mass_matrix_inverse(model, q),
        lambda: robot.forward_dynamics(x, x, x),
        lambda: robot.mass_matrix_inverse(x),
    ]
    for call in calls:
        with raises_naming("joint 'hinge'", "inertia"):
            call()
    assert sim.mass_matrix(model, q).numpy() == 0.0
    assert robot.inverse_dynamics(x, x, x).isfinite().all()
    robot.armature = robot.armature + 2.0
    assert robot.forward_dynamics(x, x, x + 1.0).item() == 0.5
    with_rotor = sim.DeviceModel(model, device, parameters={"armature": [2.0]})
    np.testing.assert_array_equal(sim.mass_matrix_inverse(with_rotor, q).numpy(), [[[0.5]]])
