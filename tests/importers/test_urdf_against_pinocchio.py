"""Robots of installed packages, read by the importer and by Pinocchio: the same model, matched by names."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sim
from warp_kernels import types as codes

pin = pytest.importorskip("pinocchio")

from tests.errors import quietly  # noqa: E402
from tests.importers.reference import EXAMPLE, ROBOTS, frame_poses, installed, link_poses, matrix, random_coordinates  # noqa: E402

# Both sides compute in float64 from the same decimals; what differs is the order of a few products.
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}
# The inertias of small links are 1e-6 and less; they need a bound of their own.
INERTIA_TOLERANCE = {"rtol": 1e-10, "atol": 1e-15}


@functools.cache
def load_both(name: str, floating: bool):
    path = installed(ROBOTS[name])
    model = quietly(
        sim.load, path, floating_base=floating, dtype="float64", visual=False, collision=False, mimic="free"
    )
    root = (pin.JointModelFreeFlyer(),) if floating else ()
    return model, pin.buildModelFromUrdf(str(path), *root)


def joint_pairs(model, peer):
    """Index of the link and of Pinocchio's joint, for every joint that moves."""
    for link, name in enumerate(model.joint_names):
        yield link, (1 if model.joint_type[link] == codes.FREE else peer.getJointId(name))


def peer_coordinates(model, peer, q):
    result = pin.neutral(peer)
    for link, joint in joint_pairs(model, peer):
        start, at, count = model.joint_q_start[link], peer.idx_qs[joint], peer.nqs[joint]
        if count == 2:  # without limits: cosine and sine
            result[at : at + 2] = np.cos(q[start]), np.sin(q[start])
        else:
            result[at : at + count] = q[start : start + count]
    return result


CASES = [
    pytest.param(name, floating, id=f"{name}-{'free' if floating else 'fixed'}")
    for name in ROBOTS
    for floating in (False, True)
]


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_same_tree(name, floating):
    model, peer = load_both(name, floating)
    assert len(model.joint_names) == peer.njoints - 1
    assert model.nv == peer.nv
    names = set(model.joint_names) - {model.joint_names[0]} if floating else set(model.joint_names)
    assert names == set(peer.names) - {"universe", "root_joint"}
    for link, joint in joint_pairs(model, peer):
        parent = model.link_parent[link]
        assert peer.parents[joint] == (0 if parent < 0 else dict(joint_pairs(model, peer))[parent])


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_same_placements_and_axes(name, floating):
    model, peer = load_both(name, floating)
    data = peer.createData()
    neutral = pin.neutral(peer)
    pin.forwardKinematics(peer, data, neutral, np.zeros(peer.nv))
    for link, joint in joint_pairs(model, peer):
        placement = matrix(model.parameters["joint_placement"][link])
        assert_allclose(placement, peer.jointPlacements[joint].homogeneous, **TOLERANCE)
        if model.joint_type[link] == codes.FREE:
            continue
        linear, angular = np.split(np.asarray(data.joints[joint].S).reshape(6), 2)
        moving, still = (angular, linear) if model.joint_type[link] == codes.REVOLUTE else (linear, angular)
        assert_allclose(moving, model.joint_axis[link], **TOLERANCE)
        assert_allclose(still, 0.0, atol=1e-15)


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_same_inertias(name, floating):
    model, peer = load_both(name, floating)
    parameters = model.parameters
    for link, joint in joint_pairs(model, peer):
        theirs = peer.inertias[joint]
        assert_allclose(parameters["mass"][link], theirs.mass, **TOLERANCE)
        if theirs.mass > 0.0:
            assert_allclose(parameters["com"][link], theirs.lever, **TOLERANCE)
        assert_allclose(parameters["inertia"][link], theirs.inertia, **INERTIA_TOLERANCE)
    assert_allclose(parameters["mass"].sum(), pin.computeTotalMass(peer), **TOLERANCE)


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_same_limits_and_losses(name, floating):
    model, peer = load_both(name, floating)
    for link, joint in joint_pairs(model, peer):
        if model.joint_type[link] == codes.FREE:
            continue
        ours, theirs, at = model.joint_qd_start[link], peer.idx_vs[joint], peer.idx_qs[joint]
        if peer.nqs[joint] == 2:
            limits = (-np.inf, np.inf)
        else:
            limits = (peer.lowerPositionLimit[at], peer.upperPositionLimit[at])
        assert (model.parameters["lower_limit"][ours], model.parameters["upper_limit"][ours]) == limits
        assert model.effort_limit[ours] == peer.upperEffortLimit[theirs]
        assert model.velocity_limit[ours] == peer.upperVelocityLimit[theirs]
        assert model.parameters["damping"][ours] == peer.damping[theirs]
        assert model.parameters["friction_loss"][ours] == peer.upperDryFrictionLimit[theirs]


@pytest.mark.parametrize(("name", "floating"), CASES)
def test_same_forward_kinematics(name, floating):
    model, peer = load_both(name, floating)
    data = peer.createData()
    rng = np.random.default_rng(7)
    # A link called "world" is renamed, since the name is taken.
    names = {
        frame.name: frame.name.rpartition("/")[2] if frame.name.endswith("/world") else frame.name
        for frame in model.frames
    }
    for _ in range(3):
        q = random_coordinates(model, rng)
        pin.framesForwardKinematics(peer, data, peer_coordinates(model, peer, q))
        for ours, pose in frame_poses(model, q).items():
            assert peer.existFrame(names[ours], pin.BODY), ours
            theirs = data.oMf[peer.getFrameId(names[ours], pin.BODY)].homogeneous
            assert_allclose(pose, theirs, err_msg=ours, **TOLERANCE)


@pytest.mark.parametrize("name", ["panda", "ur5", "anymal_b"])
def test_same_meshes(name):
    """Bounds of every mesh in the world, with Pinocchio's own readers of .dae and .stl files."""
    path = installed(ROBOTS[name])
    model = quietly(sim.load, path, dtype="float64", mimic="free")
    peer = pin.buildModelFromUrdf(str(path))
    q = random_coordinates(model, np.random.default_rng(3))
    poses = link_poses(model, q)
    compared = 0
    for kind, type in (("visual", pin.VISUAL), ("collision", pin.COLLISION)):
        geometries = pin.buildGeomFromUrdf(peer, str(path), type, package_dirs=[str(EXAMPLE.parent.parent)])
        data = geometries.createData()
        pin.updateGeometryPlacements(peer, peer.createData(), geometries, data, peer_coordinates(model, peer, q))
        for link in {item.parentFrame for item in geometries.geometryObjects}:
            theirs, ours = [], []
            for index, item in enumerate(geometries.geometryObjects):
                if item.parentFrame == link and hasattr(item.geometry, "vertices"):
                    theirs.append(transform(data.oMg[index].homogeneous, np.array(item.geometry.vertices())))
            for geometry in model.geometries:
                if geometry.mesh is not None and geometry.name.startswith(f"{peer.frames[link].name}/{kind}"):
                    base = poses[geometry.link] if geometry.link >= 0 else np.eye(4)
                    ours.append(transform(base @ matrix(geometry.placement), geometry.mesh.vertices))
            assert len(theirs) == 0 or len(ours) > 0
            if theirs:
                # Their readers keep single precision.
                assert_allclose(bounds(ours), bounds(theirs), atol=1e-6)
                compared += 1
    assert compared >= 10


def transform(pose, points):
    return points @ pose[:3, :3].T + pose[:3, 3]


def bounds(clouds):
    points = np.concatenate(clouds)
    return np.array([points.min(axis=0), points.max(axis=0)])
