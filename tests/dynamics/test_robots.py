"""Every function of kinematics and dynamics against Pinocchio on robots of installed packages."""

import warnings

import numpy as np
import pytest

import sim
from sim.errors import URDFWarning

pin = pytest.importorskip("pinocchio")

from tests.dynamics.peer import Peer, check_against  # noqa: E402
from tests.importers.reference import ROBOTS  # noqa: E402

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
# A light hand or foot at the end of a heavy chain: its inertia is what is left when those of the chain cancel. The same
# algorithm about the origin of each link, instead of that of the root, errs as much (1e-4 to 1e-3 on these robots). The
# joint forces that these accelerations need are still right to 1e-4, which is checked beside.
FLOAT32_ACCELERATION_BOUND = 1e-3


def load(name: str, floating: bool, dtype: str, distance: float = 0.0) -> Peer:
    path = ROBOTS[name]
    if not path.is_file():
        pytest.skip(f"{path} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", URDFWarning)
        model = sim.load(
            path, floating_base=floating, dtype=dtype, visual=False, collision=False, mimic="free",
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


@pytest.mark.parametrize("name", ["panda", "laikago", "talos"])
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("distance", [0.0, 100.0])
def test_float32_also_far_from_the_origin(name, floating, distance, device):
    check_against(load(name, floating, "float32", distance), 2, 1e-4, FLOAT32_ACCELERATION_BOUND, device)
