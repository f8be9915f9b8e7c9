"""Contact points under MuJoCo's law: one step of random scenes, and a robot whose feet are meshes."""

import re
from collections import Counter
from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from sim.model.shapes.hulls import convex_hull
from tests.contact.mujoco.random_contacts import SHAPES, one_step, scene, scenes
from tests.errors import quietly
from tests.importers.reference import EXAMPLE

EXACT = 1e-10
ON_PLANE = tuple(("plane", kind) for kind in SHAPES)
SHALLOW, DEEP = (1e-4, 3e-3), (5e-3, 0.3)


@pytest.mark.parametrize("depth", [SHALLOW, DEEP], ids=["shallow", "deep"])
@pytest.mark.parametrize("kind", SHAPES)
def test_shapes_on_a_plane(kind, depth):
    steps = [one_step(scene(("plane", kind), seed, depth)) for seed in range(6)]
    assert max(difference for difference, _, _ in steps) < EXACT
    assert all(theirs == ours > 0 for _, theirs, ours in steps)


def test_faces_with_many_corners_touch_in_four():
    """Of the prisms on planes some touch with faces of more than four corners, of which four are chosen."""
    steps = [one_step(scene(("plane", "mesh"), seed, DEEP)) for seed in (4, 21, 30, 36)]
    assert max(difference for difference, _, _ in steps) < EXACT
    assert max(ours for _, _, ours in steps) == 4


@pytest.mark.parametrize("shift", [0.06, 0.2, -0.3])
def test_hulls_whose_frame_is_not_at_their_centre(shift):
    """A box-shaped mesh stands on four corners wherever its frame is, as deep as one that is about its centre."""
    corners = 0.1 * np.array([[2.0 * (k >> axis & 1) - 1.0 for axis in range(3)] for k in range(8)])
    heights = []
    for moved in (0.0, shift):
        builder = sim.ModelBuilder()
        builder.add_ground()
        builder.add_link("body", mass=1.0, com=(0, 0, moved), inertia=(0.01, 0.01, 0.01))
        builder.add_joint("body_free", "free", child="body", position=(0, 0, 0.0995 - moved))
        mesh = convex_hull(corners + np.array([0.0, 0.0, moved]))
        builder.add_geometry("body", "convex", mesh=mesh, size=(1.0, 1.0, 1.0))
        simulator = sim.Simulator(builder.finalize("float64"), 0.002, contact=sim.MujocoContact())
        trajectory = simulator.rollout(simulator.initial_state(), steps=100)
        assert len(simulator.contacts(trajectory.state(100))) == 4
        heights.append(trajectory.q.numpy()[-1, 0, 2] + moved)
    assert heights[1] == pytest.approx(heights[0], abs=1e-9)


@pytest.mark.slow
def test_two_hundred_scenes_with_boxes_and_cylinders():
    """95 in 100 steps are within 1e-6 of MuJoCo's."""
    pairs = (("plane", "box"), ("plane", "cylinder"), ("plane", "mesh"), ("box", "box"))
    within: Counter[tuple[str, str]] = Counter()
    for each in scenes(200, pairs):
        within[each.pair] += one_step(each)[0] < 1e-6
    assert [within[pair] for pair in pairs[:3]] == [50, 50, 50]
    assert sum(within.values()) >= 190, within


def g1_with_mesh_feet(folder: Path) -> Path:
    """An MJCF file of Unitree's G1 on a plane, in which only the meshes of its feet collide."""
    robot = EXAMPLE / "g1_description"
    text = (robot / "urdf/g1_29dof_rev_1_0.urdf").read_text()
    text = text.replace("package://example-robot-data/robots", str(EXAMPLE))
    compiler = '<mujoco><compiler strippath="false" discardvisual="true" fusestatic="false"/></mujoco>'
    text = re.sub(r"(<robot[^>]*>)", rf"\1{compiler}", text, count=1)
    for side in ("left", "right"):
        link = re.search(rf'<link name="{side}_ankle_roll_link">.*?</link>', text, re.DOTALL)
        assert link is not None
        mesh = robot / f"meshes/{side}_ankle_roll_link.STL"
        foot = f'<collision><geometry><mesh filename="{mesh}"/></geometry></collision></link>'
        own = re.sub(r"\s*<collision>.*?</collision>", "", link.group(0), flags=re.DOTALL)
        text = text.replace(link.group(0), own.replace("</link>", foot))
    spec = mujoco.MjSpec.from_string(text)
    spec.option.timestep, spec.option.tolerance, spec.option.iterations = 0.002, 0.0, 100
    spec.worldbody.first_body().add_freejoint()
    for geom in spec.geoms:
        if "ankle_roll" not in geom.meshname:
            geom.contype = geom.conaffinity = 0
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 1])
    spec.compile()
    path = folder / "g1.xml"
    path.write_text(spec.to_xml())
    return path


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [(0.0, 0.0), (0.01, 0.02), (0.05, -0.1)], ids=["upright", "slightly", "tilted"])
def test_a_humanoid_on_its_mesh_feet(tmp_path, tilt):
    """It falls for 0.2 s, with soles of 93 corners."""
    if not EXAMPLE.is_dir():
        pytest.skip("example-robot-data is not installed")
    path = g1_with_mesh_feet(tmp_path)
    peer, model = mujoco.MjModel.from_xml_path(str(path)), quietly(sim.load, path, dtype="float64")
    data = mujoco.MjData(peer)
    data.qpos[3:7] = Rotation.from_rotvec((*tilt, 0.0)).as_quat()[[3, 0, 1, 2]]
    mujoco.mj_kinematics(peer, data)
    feet = [geom for geom in range(peer.ngeom) if peer.geom_contype[geom] and peer.geom_dataid[geom] >= 0]
    plane = peer.geom_type.tolist().index(mujoco.mjtGeom.mjGEOM_PLANE)
    data.qpos[2] -= min(mujoco.mj_geomDistance(peer, data, plane, foot, 10.0, None) for foot in feet) + 5e-4
    simulator = sim.Simulator(model, num_worlds=1, device="cpu", **sim.mujoco_settings(model))
    path_here = simulator.rollout(simulator.state(*sim.from_mujoco(model, data.qpos, data.qvel)), steps=100)
    touched = 0
    for _ in range(100):
        mujoco.mj_step(peer, data)
        touched = max(touched, data.ncon)
    assert touched > 6
    qpos, _ = sim.to_mujoco(model, path_here.q.numpy()[-1, 0], path_here.qd.numpy()[-1, 0])
    np.testing.assert_allclose(qpos, data.qpos, atol=1e-9)
