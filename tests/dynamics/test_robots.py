"""Every function of kinematics and dynamics against Pinocchio on robots of installed packages."""

import numpy as np
import pytest

import sim

pin = pytest.importorskip("pinocchio")

from tests.dynamics.peer import Peer, check_against, link_scale  # noqa: E402
from tests.dynamics.states import random_state, relative_error  # noqa: E402
from tests.errors import quietly  # noqa: E402
from tests.importers.reference import ROBOTS, installed  # noqa: E402

NAMES = [
    "cartpole", "ur5", "iiwa", "panda", "xarm7", "laikago", "go2", "anymal_b", "solo12", "allegro", "icub", "talos",
]  # fmt: skip
CASES = [
    pytest.param(name, floating, id=f"{name}-{'free' if floating else 'fixed'}")
    for name in NAMES
    for floating in (False, True)
    if (name, floating) != ("cartpole", True)  # its root link has no mass and can't float
]
# iCub's neck and wrists are a hundred thousand times lighter than what carries them: the condition number of the mass
# matrix, scaled to a unit diagonal, is 8e4, and Pinocchio's own accelerations are off by 2e-10.
ACCELERATION_BOUNDS = {"icub": 1e-8}


def load(name: str, floating: bool, dtype: str, distance: float = 0.0) -> Peer:
    path = installed(ROBOTS[name])
    model = quietly(
        sim.load, path, floating_base=floating, dtype=dtype, visual=False, collision=False, mimic="free",
        position=(distance, -distance, 0.0),
    )  # fmt: skip
    peer = pin.buildModelFromUrdf(str(path), *((pin.JointModelFreeFlyer(),) if floating else ()))
    if not floating:
        for joint in range(1, peer.njoints):
            if peer.parents[joint] == 0:
                peer.jointPlacements[joint] = pin.SE3(
                    peer.jointPlacements[joint].rotation,
                    peer.jointPlacements[joint].translation + np.array([distance, -distance, 0.0]),
                )
    return Peer(model, peer)


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_float64(name, floating, device):
    peer = load(name, floating, "float64")
    assert 1 <= peer.model.nv <= 46
    check_against(peer, 1, 1e-10, ACCELERATION_BOUNDS.get(name, 1e-10), device)


# Without iCub: rounding its parameters to float32 alone changes its accelerations by as much as they are (see below).
@pytest.mark.parametrize(("name", "floating"), [case for case in CASES if case.values[0] != "icub"])
@pytest.mark.parametrize("distance", [0.0, 100.0])
def test_float32_also_far_from_the_origin(name, floating, distance, device):
    peer = load(name, floating, "float32", distance)
    for seed in range(2, 5):
        check_against(peer, seed, 1e-4, 1e-4, device)


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_accelerations_in_float32_are_those_of_the_rounded_model(name, floating, device):
    """Storing numbers in float32 is all that a float32 model gives up."""
    single, double = (load(name, floating, dtype).model for dtype in ("float32", "float64"))
    q, qd, qdd, wrench = random_state(single, 0, 20)
    wrench *= link_scale(single)
    tau = sim.inverse_dynamics(double, q, qd, qdd, wrench).numpy().astype(np.float32).astype(np.float64)
    rounded = {name: value.astype(np.float32).astype(np.float64) for name, value in double.parameters.items()}
    expected = sim.forward_dynamics(sim.DeviceModel(double, device, parameters=rounded), q, qd, tau, wrench).numpy()
    found = sim.forward_dynamics(sim.DeviceModel(single, device), q, qd, tau, wrench).numpy()
    # iCub amplifies the last digits of float64, too.
    assert relative_error(found, expected) < (1e-4 if name == "icub" else 1e-6)
