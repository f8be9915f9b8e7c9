"""A floating joint with an origin: coordinates and velocities in Pinocchio's conventions, both ways."""

import numpy as np
import pinocchio
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim

LINK = """<link name="{}"><inertial><origin xyz="0.1 0.2 0.3" rpy="0.3 0.2 0.1"/><mass value="{}"/>
<inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0.01" ixz="0.02" iyz="-0.01"/></inertial></link>"""
JOINT = """<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/><origin xyz="{}" rpy="{}"/>
<axis xyz="0 0.6 0.8"/><limit lower="-3" upper="3" effort="9" velocity="9"/></joint>"""


def pair(path, rng, **options):
    """The model of a body that floats from an origin, with a link on a hinge, and Pinocchio's."""
    origins = [(" ".join(map(str, rng.normal(size=3))), " ".join(map(str, rng.uniform(-2, 2, 3)))) for _ in range(3)]
    tree = [("f", "fixed", "a", "stand"), ("j", "floating", "stand", "b"), ("h", "revolute", "b", "c")]
    joints = [JOINT.format(*names, *origin) for names, origin in zip(tree, origins, strict=True)]
    links = "".join(LINK.format(name, mass) for name, mass in (("a", 1.0), ("stand", 2.0), ("b", 1.5), ("c", 0.7)))
    path.write_text(f'<robot name="r">{links}{"".join(joints)}</robot>')
    return sim.load(path, dtype="float64", **options), pinocchio.buildModelFromUrdf(str(path))


@pytest.mark.parametrize("seed", range(4))
def test_conversions_agree_with_pinocchio(tmp_path, seed):
    rng = np.random.default_rng(seed)
    model, peer = pair(tmp_path / "r.urdf", rng)
    data = peer.createData()
    q, v = pinocchio.randomConfiguration(peer, np.full(peer.nq, -1.0), np.ones(peer.nq)), rng.normal(size=peer.nv)
    ours, qd = sim.from_pinocchio(model, q, v, list(peer.names)[1:])
    pinocchio.forwardKinematics(peer, data, q, v)
    pinocchio.updateFramePlacements(peer, data)
    poses = sim.forward_kinematics(model, ours[None]).numpy()[0]
    for link, pose in zip(model.link_names, poses, strict=True):
        position = data.oMf[peer.getFrameId(link)]
        assert_allclose(pose[:3], position.translation, atol=1e-12)
        assert_allclose(Rotation.from_quat(pose[3:]).as_matrix(), position.rotation, atol=1e-12)
    speed = pinocchio.getFrameVelocity(peer, data, peer.getFrameId("b"), pinocchio.LOCAL_WORLD_ALIGNED)
    assert_allclose(qd[:6], np.concatenate([speed.linear, speed.angular]), atol=1e-12)
    mass = sim.mass_matrix(model, ours[None]).numpy()[0]
    assert_allclose(qd @ mass @ qd / 2.0, pinocchio.computeKineticEnergy(peer, data, q, v), rtol=1e-12)
    back, speeds = sim.to_pinocchio(model, ours, qd, list(peer.names)[1:])
    assert_allclose(back[3:7] * np.sign(back[3:7] @ q[3:7]), q[3:7], atol=1e-12)
    assert_allclose(np.delete(back, range(3, 7)), np.delete(q, range(3, 7)), atol=1e-12)
    assert_allclose(speeds, v, atol=1e-12)
    neutral, _ = sim.to_pinocchio(model, model.q0, np.zeros(model.nv))
    assert_allclose(neutral, pinocchio.neutral(peer), atol=1e-12)


def test_conversions_have_gradients_and_batches(tmp_path):
    rng = np.random.default_rng(7)
    model, peer = pair(tmp_path / "r.urdf", rng)
    q, v = (torch.tensor(rng.normal(size=(2, 3, size)), requires_grad=True) for size in (peer.nq, peer.nv))
    for convert in (sim.from_pinocchio, sim.to_pinocchio):
        assert torch.autograd.gradcheck(lambda q, v, f=convert: f(model, q, v), (q, v))
        expected = convert(model, q.detach().numpy(), v.detach().numpy())
        for tensor, array in zip(convert(model, q, v), expected, strict=True):
            assert_allclose(tensor.detach().numpy(), array, atol=1e-12)
