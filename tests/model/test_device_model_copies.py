"""Copies of a DeviceModel: pickled, deep and shallow."""

import copy
import pickle

import numpy as np
import pytest

import sim
from tests.model.trees import chain


@pytest.fixture
def arrays(device):
    """Masses per world, and a placement whose quaternion isn't a unit one."""
    model = chain("free", "revolute").finalize("float32")
    placement = model.parameters["joint_placement"].copy()
    placement[:, 3:] *= 2.0
    given = {"mass": [[1.0, 2.0], [3.0, 4.0]], "joint_placement": placement, "gravity": [0.0, 0.0, -1.6]}
    return sim.DeviceModel(model, device, 2, given, requires_grad=["joint_placement", "mass"])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda arrays: pickle.loads(pickle.dumps(arrays))])
def test_a_copy_has_arrays_of_its_own(arrays, copied):
    found = copied(arrays)
    assert found.requires_grad == arrays.requires_grad
    assert (found.num_worlds, found.device) == (2, arrays.device)
    for name, array in arrays.parameters.items():
        np.testing.assert_array_equal(found.parameters[name].numpy(), array.numpy(), err_msg=name)
    arrays.set_parameter("mass", 9.0)
    np.testing.assert_array_equal(found.parameters["mass"].numpy(), [[1.0, 2.0], [3.0, 4.0]])
    for each in (found, arrays):
        each.parameters["joint_placement"].grad.fill_(1.0)
    np.testing.assert_array_equal(found.gradient("joint_placement"), arrays.gradient("joint_placement"))


def test_a_shallow_copy_shares_its_arrays(arrays):
    assert copy.copy(arrays).parameters["mass"] is arrays.parameters["mass"]
