"""Forward kinematics and its adjoint on blocks of several worlds beside one world at a time."""

import numpy as np
import pytest
import warp as wp

import sim
from sim.device_model import DeviceModel
from sim.operation import Bodies
from tests.dynamics.trees import build, zoo
from warp_kernels.types import LANES

PARAMETERS = ("joint_placement", "mass", "com", "inertia")


def gradients(model: sim.Model, worlds: int, lanes: int, parameters: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Of q and the parameters, from random cotangents of all that forward kinematics gives."""
    m = DeviceModel(model, "cpu", worlds, parameters, PARAMETERS)
    rng = np.random.default_rng(2)
    q = wp.array(rng.uniform(-1.0, 1.0, (worlds, model.nq)), dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        bodies = Bodies(m, q, lanes=lanes)
    for array in (bodies.pose, bodies.origin, bodies.subspace, bodies.link_inertia):
        shape = array.grad.numpy().shape
        components = shape[2]
        # Lanes without a world have no cotangents.
        given = np.zeros((shape[0], bodies.blocks * lanes, components))
        given[:, :worlds] = rng.standard_normal((shape[0], worlds, components))
        lanes_last = given.reshape(shape[0], bodies.blocks, lanes, components).swapaxes(2, 3)
        array.grad.assign(np.ascontiguousarray(lanes_last).reshape(shape))
    tape.backward()
    return [q.grad.numpy(), *(m.parameters[name].grad.numpy() for name in PARAMETERS)]


@pytest.mark.parametrize("worlds", [1, LANES, 2 * LANES + 1])
@pytest.mark.parametrize("per_world", [False, True])
def test_adjoint(worlds, per_world):
    model = build(zoo(), "float64")
    own = {}
    if per_world:
        rng = np.random.default_rng(1)
        for name in PARAMETERS:
            value = np.asarray(model.parameters[name])
            own[name] = value + rng.uniform(-0.05, 0.05, (worlds, *value.shape))
    for several, single in zip(gradients(model, worlds, LANES, own), gradients(model, worlds, 1, own), strict=True):
        np.testing.assert_allclose(several, single, rtol=0, atol=1e-13 * np.abs(single).max())
