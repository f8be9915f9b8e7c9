"""Contact points under MuJoCo's law: one step of random scenes, and a robot whose feet are meshes."""

import dataclasses
import re
from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from sim.model.shapes.hulls import convex_hull
from tests.contact.mujoco.random_contacts import SHAPES, XML, Scene, one_step, quaternion, scene, scenes
from tests.errors import quietly
from tests.importers.reference import EXAMPLE
from tests.simulation.differences import case, check

EXACT = 1e-10
ON_PLANE = tuple(("plane", kind) for kind in SHAPES)
SHALLOW, DEEP, DEEP_BOXES = (1e-4, 3e-3), (5e-3, 0.3), (5e-3, 0.08)


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
    corners = 0.1 * corner_signs()
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


@pytest.mark.parametrize("seed", [8, 9, 13, 16, 17, 23, 29, 31, 35])
def test_vertices_on_an_edge_are_no_corners(seed):
    """A vertex within an edge of the sole belongs to no face, and may be lowest by rounding."""
    chance = np.random.default_rng(seed)
    angles = 0.5 * np.pi * (np.arange(4) + chance.uniform(0.0, 0.4, 4))
    low = np.column_stack([0.1 * np.cos(angles), 0.06 * np.sin(angles), np.full(4, -0.02)])
    shares = chance.uniform(0.2, 0.8, (4, 1))
    between = (1.0 - shares) * low + shares * np.roll(low, -1, axis=0)
    vertices = np.concatenate([between, low, [[0.02, 0.01, 0.05], [-0.03, 0.02, 0.03]]])
    xml = XML.format(
        dt=0.002,
        cone="elliptic",
        assets=f'<mesh name="sole" vertex="{" ".join(map(str, vertices.ravel()))}"/>',
        bodies='<geom type="plane" size="5 5 1"/><body><freejoint/><geom type="mesh" mesh="sole"/></body>',
    )
    qpos = np.array([0.0, 0.0, 0.0195, 1.0, 0.0, 0.0, 0.0])
    difference, theirs, ours = one_step(Scene(("plane", "mesh"), xml, qpos, np.zeros(6)))
    assert difference < EXACT
    assert theirs == ours == 4


@pytest.mark.parametrize("depth", [SHALLOW, DEEP_BOXES], ids=["shallow", "deep"])
def test_two_boxes(depth):
    steps = [one_step(scene(("box", "box"), seed, depth)) for seed in (*range(6), 15, 36, 39, 42, 50)]
    assert max(difference for difference, _, _ in steps) < EXACT
    assert all(theirs == ours > 0 for _, theirs, ours in steps)


@pytest.mark.parametrize(("degrees", "contacts"), [(0, 12), (45, 18), (30, 16)])
def test_a_pile_of_equal_boxes(degrees, contacts):
    """Boxes that are turned by 45 degrees against each other touch in the eight corners of an octagon."""
    boxes = "".join(
        f'<body pos="{0.01 * k} {0.02 * k} {0.0495 + 0.0995 * k}" euler="0 0 {degrees * k}"><freejoint/>'
        '<geom type="box" size="0.05 0.05 0.05"/></body>'
        for k in range(3)
    )
    xml = XML.format(dt=0.002, cone="elliptic", assets="", bodies=f'<geom type="plane" size="5 5 1"/>{boxes}')
    peer = mujoco.MjModel.from_xml_string(xml)
    qvel = np.random.default_rng(0).normal(scale=0.1, size=peer.nv)
    difference, theirs, ours = one_step(Scene(("box", "box"), xml, mujoco.MjData(peer).qpos.copy(), qvel))
    assert difference < EXACT
    assert theirs == ours == contacts


def test_boxes_beside_other_shapes():
    """The contacts of boxes are found apart from those of other convex shapes, such as a capsule that stands on one."""
    bodies = (
        '<geom type="box" size="2 2 1" pos="0 0 -1"/>'
        '<body pos="0 0 0.0995" euler="0 0 20"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>'
        '<body pos="0.02 0.01 0.295" euler="20 0 0"><freejoint/><geom type="capsule" size="0.03 0.07"/></body>'
    )
    xml = XML.format(dt=0.002, cone="elliptic", assets="", bodies=bodies)
    peer = mujoco.MjModel.from_xml_string(xml)
    qpos = mujoco.MjData(peer).qpos.copy()
    difference, theirs, ours = one_step(Scene(("box", "box"), xml, qpos, 0.01 * np.arange(peer.nv)))
    assert difference < EXACT
    assert theirs == ours == 5


@pytest.mark.parametrize(("yaw", "pitch"), [(30.0, 1.0), (45.0, 0.5), (50.0, 44.0)])
def test_gradients_of_two_boxes(yaw, pitch):
    """Those of corners over a face, of cut edges, and of an edge on a face."""
    model = sim.load_text(
        XML.format(
            dt=0.002,
            cone="elliptic",
            assets="",
            bodies='<body pos="0 0 0.1"><freejoint/><geom type="box" size="0.2 0.15 0.1"/></body>'
            '<body pos="0 0 0.3"><freejoint/><geom type="box" size="0.16 0.12 0.1"/></body>',
        ),
        "mjcf",
        dtype="float64",
    )
    turn = Rotation.from_euler("zy", (yaw, pitch), degrees=True)
    qpos = np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0, 0.02, 0.01, 0.0, *turn.as_quat()[[3, 0, 1, 2]]])
    lowest = (turn.as_matrix() @ (0.1 * np.array([1.6, 1.2, 1.0]) * corner_signs()).T)[2].min()
    qpos[9] = 0.2 - lowest - 1e-3
    q, qd = sim.from_mujoco(model, qpos, 0.05 * np.arange(12.0))
    c = case(model, 3, q, qd, contact=sim.MujocoContact(solimp=(0.7, 0.95, 0.02, 0.4, 3.0)))
    check(c, ["mass", "geometry_size", "com", "gravity"])


BESIDE = XML.format(
    dt=0.002,
    cone="elliptic",
    assets="",
    bodies="".join(
        f'<body><freejoint/><geom type="box" size="0.1 0.1 {size}" margin="0.02"/></body>' for size in (0.2, 0.15)
    ),
)


def beside(turn: tuple[float, float, float], height: float) -> np.ndarray:
    """Positions of two boxes whose edges along z are close, the second turned by these angles [rad]."""
    upright = quaternion(Rotation.identity())
    return np.array([0, 0, 0, *upright, 0.205, 0.205, height, *quaternion(Rotation.from_rotvec(turn))])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("turn", "height"),
    [((1e-3, 2e-3, 0), 0.03), ((0.02, 0.01, 0), 0.03), ((0.02, 0.01, 0.3), 0.3), ((0.3, 0, 0.4), 0.03)],
)
def test_edges_that_do_not_cross_touch_midway_between_their_closest_points(turn, height, dtype):
    """Lines through nearly parallel edges cross far away from boxes that are apart by less than the margin."""
    qpos = beside(turn, height)
    peer = mujoco.MjModel.from_xml_string(BESIDE)
    data = mujoco.MjData(peer)
    data.qpos = qpos
    mujoco.mj_forward(peer, data)
    model = quietly(sim.load_text, BESIDE, "mjcf", dtype=dtype)
    simulator = sim.Simulator(model, device="cpu", **sim.mujoco_settings(model))
    found = simulator.contacts(simulator.state(*sim.from_mujoco(model, qpos, np.zeros(12))))
    precision = {"float32": 1e-6, "float64": EXACT}[dtype]
    np.testing.assert_allclose(found.point, [contact.pos for contact in data.contact], rtol=0.0, atol=precision)
    np.testing.assert_allclose(found.distance, [contact.dist for contact in data.contact], rtol=0.0, atol=precision)
    assert 0.0 < found.distance[0] < 0.04


@pytest.mark.parametrize(("turn", "height"), [((0.02, 0.01, 0.3), 0.3), ((0.3, 0.0, 0.4), 0.03)])
def test_gradients_of_edges_that_do_not_cross(turn, height):
    model = sim.load_text(BESIDE, "mjcf", dtype="float64")
    q, qd = sim.from_mujoco(model, beside(turn, height), 0.05 * np.arange(12.0))
    c = case(model, 3, q, qd, contact=sim.MujocoContact(solimp=(0.7, 0.95, 0.02, 0.4, 3.0)))
    check(c, ["mass", "geometry_size", "com", "gravity"])


def corner_signs() -> np.ndarray:
    return np.array([[2.0 * (k >> axis & 1) - 1.0 for axis in range(3)] for k in range(8)])


# Pairs whose points are MuJoCo's, and those whose points are where its search for convex shapes ends.
SAME_POINTS = (
    ("plane", "box"), ("plane", "cylinder"), ("plane", "capsule"), ("box", "box"), ("box", "capsule"),
    ("capsule", "capsule"),
)  # fmt: skip
SEARCHED = (("capsule", "cylinder"), ("box", "cylinder"), ("cylinder", "cylinder"))
# So far apart is MuJoCo's search from its limit with this tolerance.
TIGHT = 'ccd_tolerance="1e-14" ccd_iterations="200"'


@pytest.mark.slow
def test_two_hundred_scenes_with_boxes_and_cylinders():
    """All steps of boxes, cylinders, capsules and meshes on planes, and of boxes and capsules, are MuJoCo's."""
    steps = [one_step(each) for each in scenes(200, (*SAME_POINTS, ("plane", "mesh")))]
    assert max(difference for difference, _, _ in steps) < EXACT
    assert all(theirs == ours > 0 for _, theirs, ours in steps)


@pytest.mark.slow
def test_two_hundred_scenes_with_cylinders_among_each_other():
    """Boxes, cylinders and capsules with each other and on planes: with MuJoCo's tolerance tightened, 95 % of the steps
    are its steps to 1e-6. In the others MuJoCo finds another number of points.
    """
    tight = [
        dataclasses.replace(each, xml=each.xml.replace("<option ", f"<option {TIGHT} "))
        for each in scenes(200, SAME_POINTS + SEARCHED)
    ]
    assert np.mean([one_step(each)[0] < 1e-6 for each in tight]) >= 0.95


@pytest.mark.parametrize("pair", SEARCHED, ids="-".join)
def test_deepest_points_of_cylinders(pair):
    """With one point a pair, MuJoCo's is the deepest here, as near as its search comes with a tight tolerance."""
    for seed in range(12):
        each = scene(pair, seed, DEEP_BOXES)
        xml = re.sub("<option (.*?)/>", rf'<option {TIGHT} \1><flag multiccd="disable"/></option>', each.xml)
        peer = mujoco.MjModel.from_xml_string(xml)
        data = mujoco.MjData(peer)
        data.qpos = each.qpos
        mujoco.mj_forward(peer, data)
        model = quietly(sim.load_text, each.xml, "mjcf", dtype="float64")
        simulator = sim.Simulator(model, device="cpu", **sim.mujoco_settings(model))
        found = simulator.contacts(simulator.state(*sim.from_mujoco(model, each.qpos, each.qvel)))
        assert data.ncon == 1
        assert found.distance.min() == pytest.approx(data.contact[0].dist, abs=1e-7)
        apart = np.linalg.norm(found.point[found.distance < found.distance.min() + 1e-9] - data.contact[0].pos, axis=1)
        assert apart.min() < 1e-5


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
