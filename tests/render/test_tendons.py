"""Tendons in pictures: where MuJoCo has them, and as thick as a capsule."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from sim.dynamics.kinematics import tendon_lengths
from sim.render import Camera, Renderer, render_frames
from sim.render.tendons import ARC_PIECES, RADIUS, num_tendon_pieces, tendon_pieces, turns_from_z

WRAPS = """
<mujoco>
  <worldbody>
    <site name="above" pos="-0.3 0.05 1.1"/>
    <geom name="drum" type="cylinder" size="0.08 0.2" pos="0.02 0 1" zaxis="0.3 1 0.2" contype="0" conaffinity="0"/>
    <site name="lid" pos="0.02 0.02 1.2"/>
    <body name="arm" pos="0 0 0.95">
      <joint name="elbow" axis="0 1 0"/>
      <joint name="roll" axis="1 0 0"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.02" mass="1" contype="0" conaffinity="0"/>
      <site name="middle" pos="0.2 0 0.03"/>
      <geom name="ball" type="sphere" size="0.05" pos="0.3 0 0" mass="0.1" contype="0" conaffinity="0"/>
      <site name="tip" pos="0.4 0 0.02"/>
    </body>
  </worldbody>
  <tendon>
    <spatial name="cord">
      <site site="above"/>
      <geom geom="drum"/>
      <site site="middle"/>
      <geom geom="ball" sidesite="tip"/>
      <site site="tip"/>
    </spatial>
    <spatial name="round">
      <site site="above"/>
      <geom geom="drum" sidesite="lid"/>
      <site site="tip"/>
    </spatial>
  </tendon>
</mujoco>
"""


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory):
    path = tmp_path_factory.mktemp("tendons") / "wraps.xml"
    path.write_text(WRAPS)
    builder = sim.ModelBuilder()
    builder.add_mjcf(path)
    return builder.finalize("float64")


def poses_at(model, q):
    return sim.forward_kinematics(model, np.asarray(q)[None]).numpy()[0]


@pytest.mark.parametrize("q", [(0.0, 0.0), (0.9, 0.4), (1.2, -1.5), (-0.7, -0.8), (2.6, 0.0)])
def test_paths_are_those_of_mujoco(q, wrapped):
    model = wrapped
    pieces = tendon_pieces(model, poses_at(model, q))
    assert len(pieces) == num_tendon_pieces(model)
    peer = mujoco.MjModel.from_xml_string(WRAPS)
    data = mujoco.MjData(peer)
    data.qpos[:] = q
    mujoco.mj_forward(peer, data)
    sizes = [4 + 2 * ARC_PIECES, 2 + ARC_PIECES]
    for tendon, own in enumerate(np.split(pieces, np.cumsum(sizes)[:-1])):
        np.testing.assert_allclose(own[1:, 0], own[:-1, 1], atol=1e-12)  # without gaps
        first, count = data.ten_wrapadr[tendon], data.ten_wrapnum[tendon]
        positions = data.wrap_xpos.reshape(-1, 3)[first : first + count]
        path = np.concatenate([own[:, 0], own[-1:, 1]])
        for position in positions:
            assert np.linalg.norm(path - position, axis=1).min() < 1e-7
        # An arc of angle a in n chords is shorter than itself by the factor sin(a / 2n) / (a / 2n), a at most a turn.
        angle = np.pi / ARC_PIECES
        drawn, true = np.linalg.norm(own[:, 1] - own[:, 0], axis=1).sum(), data.ten_length[tendon]
        assert true * np.sin(angle) / angle - 1e-9 <= drawn <= true + 1e-9
    np.testing.assert_allclose(tendon_lengths(model, np.asarray(q)), data.ten_length, atol=1e-7)


@pytest.mark.parametrize("q", [(0.0, 0.0), (0.9, 0.4), (1.2, -1.5)])
def test_arcs_lie_on_the_drum(q, wrapped):
    first = 4 + 2 * ARC_PIECES + 1  # the second tendon's
    arc = tendon_pieces(wrapped, poses_at(wrapped, q))[first : first + ARC_PIECES]
    out, axis = arc.reshape(-1, 3) - [0.02, 0, 1], np.array([0.3, 1, 0.2]) / np.linalg.norm([0.3, 1, 0.2])
    np.testing.assert_allclose(np.linalg.norm(out - (out @ axis)[:, None] * axis, axis=1), 0.08, atol=1e-9)
    lengths = np.linalg.norm(arc[:, 1] - arc[:, 0], axis=1)
    assert lengths.sum() > 0.01
    np.testing.assert_allclose(lengths, lengths.mean(), rtol=1e-9)


def straight(with_capsule):
    """A tendon from the world to a link, or a capsule in its place."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_link("bob", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("free", "free", child="bob")
    start, end = np.array([-0.2, 0.1, 0.9]), np.array([0.3, 0.0, 0.4])
    if with_capsule:
        along = (end - start) / np.linalg.norm(end - start)
        builder.add_geometry(
            "world", "capsule", size=(RADIUS, 0.5 * np.linalg.norm(end - start), 0), position=0.5 * (start + end),
            orientation=turns_from_z(along[None])[0], rgba=(0.72, 0.16, 0.14, 1), collides=False,
        )  # fmt: skip
    else:
        builder.add_spatial_tendon("cord", [("world", start), ("bob", end)])
    return builder.finalize()


@pytest.mark.parametrize("worlds", [1, 3])
def test_a_straight_tendon_looks_like_a_capsule(worlds):
    pictures = []
    camera = Camera((0.4, -1.2, 0.8), (0.05, 0.05, 0.65))
    for with_capsule in (False, True):
        model = straight(with_capsule)
        poses = np.tile(poses_at(model, model.q0), (1, worlds, 1, 1))
        pictures.append(render_frames(model, poses, camera, 160, 120, spacing=0.3)[0].astype(float))
    bare = render_frames(straight(False), np.tile([[0, 0, -9, 0, 0, 0, 1.0]], (1, worlds, 1, 1)), camera, 160, 120)[0]
    tendon, capsule = pictures
    assert np.abs(tendon - bare).max() > 80  # it is seen
    # Both have round sides of 12 and 32 faces: a few grey levels where an edge lies.
    assert np.abs(tendon - capsule).mean() < 0.15 * np.abs(tendon - bare).mean()
    assert (np.abs(tendon - capsule).max(axis=2) > 40).mean() < 2e-3


def test_it_moves_with_its_links():
    model = straight(False)
    poses = np.tile(poses_at(model, model.q0), (3, 1, 1))
    poses[:, 0, 0] = (0.0, 0.1, 0.2)
    renderer = Renderer(
        model, width=160, height=120, camera=Camera((0.4, -1.2, 0.8), (0.05, 0.05, 0.65)), supersamples=1
    )
    for frame in (0, 1, 2, 1):
        end = poses[frame, 0, :3] + (0.3, 0.0, 0.4)
        middle = renderer.camera.project(0.5 * (np.array([-0.2, 0.1, 0.9]) + end), 160, 120).astype(int)
        seen = renderer.survey(poses[frame]).geometry
        assert (seen[middle[1] - 1 : middle[1] + 2, middle[0] - 1 : middle[0] + 2] == -2).any()


@pytest.mark.parametrize("direction", [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0.6, 0, -0.8), (0, -0.6, 0.8)])
def test_turns_from_z(direction):
    turned = Rotation.from_quat(turns_from_z(np.array([direction], dtype=float))[0]).apply([0, 0, 1])
    np.testing.assert_allclose(turned, direction, atol=1e-12)
