"""Link poses on the host against Pinocchio."""

import numpy as np
import pytest

import sim
from scenes.quadruped import QUADRUPED_URDF
from scenes.throw import ARM_URDF
from sim.render import link_poses

pin = pytest.importorskip("pinocchio")


@pytest.mark.parametrize(("path", "floating"), [(ARM_URDF, False), (QUADRUPED_URDF, True)])
def test_link_poses_equal_pinocchio(path, floating):
    builder = sim.ModelBuilder()
    builder.add_urdf(path, floating_base=floating)
    model = builder.finalize("float64")
    reference = pin.buildModelFromUrdf(str(path), *([pin.JointModelFreeFlyer()] if floating else []))
    data = reference.createData()
    pin.seed(0)
    q = np.stack([pin.randomConfiguration(reference, -np.ones(reference.nq), np.ones(reference.nq)) for _ in range(5)])
    poses = link_poses(model, q.reshape(5, 1, -1))[:, 0]
    for configuration, link_pose in zip(q, poses, strict=True):
        pin.framesForwardKinematics(reference, data, configuration)
        for link, name in enumerate(model.link_names):
            expected = pin.SE3ToXYZQUAT(data.oMf[reference.getFrameId(name)])
            np.testing.assert_allclose(link_pose[link, :3], expected[:3], atol=1e-12)
            np.testing.assert_allclose(abs(link_pose[link, 3:] @ expected[3:]), 1.0, atol=1e-12)


def test_spherical_and_prismatic_joints():
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("ball", "spherical", child="a", position=(0, 0, 1))
    builder.add_link("b", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("slide", "prismatic", child="b", parent="a", position=(0, 1, 0), axis=(1, 0, 0))
    model = builder.finalize("float64")
    turn = np.array([0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)])  # a quarter about z
    poses = link_poses(model, [*turn, 0.25])
    np.testing.assert_allclose(poses[0], [0, 0, 1, *turn], atol=1e-15)
    np.testing.assert_allclose(poses[1, :3], [-1.0, 0.25, 1.0], atol=1e-15)


def test_bad_coordinates_are_refused():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0)
    model = builder.finalize()
    with pytest.raises(sim.ModelError, match=r"expected \[..., 7\]"):
        link_poses(model, np.zeros(6))
    with pytest.raises(sim.ModelError, match="not finite at"):
        link_poses(model, np.full(7, np.nan))
