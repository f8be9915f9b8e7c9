"""USD files in: what was written comes back, and files written by hand mean what UsdPhysics says."""

import warnings
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from pxr import Gf, Usd, UsdGeom, UsdPhysics, UsdShade
from scipy.spatial.transform import Rotation

import sim
from scenes import quadruped
from sim.model.model import Mesh
from sim.render.shapes import tessellate
from sim.render.view import transform_points
from sim.usd import write_usd
from tests.importers.reference import ROBOTS
from warp_kernels import types as codes


def poses_at(model, q):
    return sim.forward_kinematics(model, np.asarray(q)[None]).numpy()


def everything():
    """A world with everything that a file can keep."""
    rng = np.random.default_rng(0)
    builder = sim.ModelBuilder(gravity=(0.1, 3.0, -4.0))
    builder.add_ground(friction=0.8, torsional_friction=0.01)
    inertia = np.array([[3, 0.2, 0.1], [0.2, 4, 0.3], [0.1, 0.3, 5]]) / 7.0
    orientation = Rotation.random(rng=rng).as_quat()
    builder.add_link("a b", mass=2.1, com=(0.1, 0.2, 0.3), inertia=inertia)
    builder.add_joint("1", "revolute", child="a b", axis=(1, 2, 3), position=(0, 0, 1), orientation=orientation,
                      lower=-1.1, upper=2.3, damping=0.51, stiffness=3.3, rest_position=0.1, armature=0.013,
                      friction_loss=0.07, limit_margin=0.01, limit_stiffness=900.0, limit_damping=3.1, q0=(0.3,),
                      effort=11.3, velocity=7.1)  # fmt: skip
    builder.add_link("a_b", mass=1.7, inertia=(1, 1.1, 1.2))
    builder.add_joint("2", "prismatic", child="a_b", parent="a b", axis=(-1, 0, 0), lower=-0.51, upper=0.27, q0=(0.1,))
    builder.add_link("ball", mass=0.7, inertia=(1, 1, 1))
    builder.add_joint("3", "spherical", child="ball", parent="a_b", position=(0, 1, 0), axis=(1, 1, 0),
                      swing_limit=1.2, twist_limit=0.7, damping=0.3, q0=Rotation.random(rng=rng).as_quat())  # fmt: skip
    builder.add_link("wheel", mass=0.3, inertia=(1, 1, 1))
    builder.add_joint("4", "continuous", child="wheel", parent="a_b", axis=(0, 0, 1))
    builder.add_link("tool")
    builder.add_joint("5", "fixed", child="tool", parent="wheel", position=(0.1, 0.2, 0.3), orientation=orientation)
    builder.add_part("robot", ("a b", "a_b", "ball", "wheel"), "1234")
    corners = np.concatenate([np.zeros((1, 3)), np.eye(3)])
    tetrahedron = Mesh(corners, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]))
    for link, kind, size, mesh in (
        ("a b", codes.BOX, (0.11, 0.22, 0.33), None),
        ("a_b", codes.CAPSULE, (0.11, 0.22, 0), None),
        ("a_b", codes.CYLINDER, (0.11, 0.22, 0), None),
        ("a_b", codes.ELLIPSOID, (0.11, 0.22, 0.33), None),
        ("ball", codes.SPHERE, (0.11, 0, 0), None),
        ("wheel", codes.CONVEX, (0.5, 0.5, 0.5), tetrahedron),
    ):
        builder.add_geometry(link, kind, size=size, mesh=mesh, position=(0.01, 0.02, 0.03), orientation=orientation,
                             friction=0.7, restitution=0.3, rolling_friction=0.001, contact_stiffness=1e5,
                             contact_damping=30.0, rgba=(0.2, 0.5, 0.8, 1.0), group=5, mask=7)  # fmt: skip
    builder.add_geometry("ball", codes.BOX, name="sign", size=(0.1, 0.1, 0.1), collides=False)
    builder.add_heightfield(np.arange(6.0).reshape(2, 3) / 3.0, spacing=0.3, orientation=(0.1, 0.2, 0, 1), friction=0.7)
    builder.add_sphere(radius=0.1, mass=0.3, name="loose", position=(1, 1, 1), orientation=orientation)
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=0.4, name="other")
    builder.add_actuator("4", "torque", gear=3.0, force_limit=0.3)
    builder.add_actuator("1", "position", name="servo", gear=2.0, kp=13.0, kd=0.7, force_limit=5.1)
    builder.add_actuator("2", "velocity", kd=0.9)
    builder.add_joint_coupling("4", "2", ratio=1.3, offset=0.2)
    builder.add_point_constraint("hook", "loose", "other", position_a=(0.1, 0.2, 0.0))
    builder.add_weld_constraint("weld", "other", "world", position_a=(0.1, 0.0, 0.0), orientation_a=orientation)
    builder.exclude_collision("ball", "loose")
    builder.exclude_collision("other", "world")
    builder.exclude_geometries("other/geometry", "loose/geometry")
    builder.add_frame("tip", "ball", (0.1, 0.2, 0.3), orientation)
    return builder.finalize("float64")


def assert_same_models(a, b):
    """All parameters alike to double precision, all names and indices alike."""
    assert (a.link_names, a.joint_names, a.actuator_names) == (b.link_names, b.joint_names, b.actuator_names)
    for name in ("link_parent", "joint_type", "actuator_kind", "actuator_dof"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    # Quaternions of either sign are one rotation.
    assert_allclose(sim.difference(a, a.q0[None], b.q0[None]).numpy(), 0.0, atol=1e-14)
    for name in ("joint_axis", "effort_limit", "velocity_limit"):
        assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=1e-14, err_msg=name)
    # Links that were merged into others come back as frames.
    assert [(part.name, [link for link in part.links if link in a.link_names]) for part in a.parts] == [
        (part.name, list(part.links)) for part in b.parts
    ]
    index = {geometry.name: k for k, geometry in enumerate(b.geometries)}
    order = [index[geometry.name] for geometry in a.geometries]
    assert len(order) == b.num_geometries
    for name, value in a.parameters.items():
        other = b.parameters[name]
        if sim.model.parameters.PARAMETERS[name].per == "geometry":
            # Meshes come back in metres, and what is only looked at as a mesh; their points are in single precision.
            solid = [k for k, g in enumerate(a.geometries) if g.mesh is None and g.collides]
            value, other = value[solid], other[order][solid]
        if name.startswith("anchor"):
            # A point has no orientation.
            turns = a.equalities.anchor_welded.astype(bool)
            assert_allclose(other[turns], value[turns], rtol=0, atol=1e-15)
            value, other = value[:, :3], other[:, :3]
        assert_allclose(other, value, rtol=0, atol=1e-15, err_msg=name)
    assert {tuple(sorted((order[i], order[j]))) for i, j in a.excluded_pairs} == set(b.excluded_pairs)
    for one, k in zip(a.geometries, order, strict=True):
        two = b.geometries[k]
        for name in ("link", "collides", "visible", "group", "mask"):
            assert getattr(one, name) == getattr(two, name), (one.name, name)
        if one.collides:
            assert one.type == two.type, one.name
        if one.type != codes.PLANE:
            clouds = [transform_points(g.placement, tessellate(g).vertices) for g in (one, two)]
            assert_allclose(np.sort(clouds[1], axis=0), np.sort(clouds[0], axis=0), atol=1e-6)
        assert_allclose(two.rgba, one.rgba, atol=1e-6)


def test_everything_comes_back(tmp_path):
    model = everything()
    path = write_usd(tmp_path / "all.usda", model, poses_at(model, model.q0), fps=30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = sim.load(path, dtype="float64")
    assert_same_models(model, again)
    tips = [next(frame for frame in m.frames if frame.name == "tip") for m in (model, again)]
    assert tips[0].link == tips[1].link
    assert_allclose(tips[0].placement, tips[1].placement, atol=1e-15)
    assert again.equalities.anchor_names == ("hook", "weld")


def test_a_robot_moves_as_before(tmp_path):
    scene = quadruped.build(dtype="float64")
    poses = poses_at(scene.model, scene.model.q0)
    again = sim.load(write_usd(tmp_path / "robot.usdc", scene.model, poses, fps=30), dtype="float64")
    assert_same_models(scene.model, again)
    q = np.asarray(scene.q0)[None]
    masses = [sim.mass_matrix(model, q).numpy() for model in (scene.model, again)]
    assert_allclose(masses[1], masses[0], rtol=1e-10, atol=1e-12)
    ends = []
    for model in (scene.model, again):
        simulator = sim.Simulator(model, dt=1 / 240, num_worlds=1, device="cpu")
        state = simulator.state(scene.q0, np.full(model.nv, 0.1))
        for _ in range(60):
            state = simulator.step(state)
        ends.append(state.q.numpy())
    np.testing.assert_array_equal(ends[1], ends[0])


# ---- files written by hand -----------------------------------------------------------------------------------------

CENTIMETRES_Y_UP = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 0.01
    kilogramsPerUnit = 0.001
    upAxis = "Y"
)
def Xform "World" {
    def PhysicsScene "Scene" { }
    def Xform "Robot" ( prepend apiSchemas = ["PhysicsArticulationRootAPI"] ) {
        double3 xformOp:translate = (0, 50, 0)
        double3 xformOp:scale = (2, 2, 2)
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
        def Cube "base" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"] ) {
            double size = 10
            float physics:density = 2
        }
        def Xform "arm" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"] ) {
            double3 xformOp:translate = (20, 0, 0)
            uniform token[] xformOpOrder = ["xformOp:translate"]
            float physics:mass = 300
            def Capsule "shape" ( prepend apiSchemas = ["PhysicsCollisionAPI"] ) {
                uniform token axis = "X"
                double height = 20
                double radius = 2
            }
        }
        def PhysicsRevoluteJoint "hinge" ( prepend apiSchemas = ["PhysicsDriveAPI:angular"] ) {
            rel physics:body0 = </World/Robot/arm>
            rel physics:body1 = </World/Robot/base>
            uniform token physics:axis = "Z"
            point3f physics:localPos0 = (-12, 0, 0)
            point3f physics:localPos1 = (8, 0, 0)
            float physics:lowerLimit = -30
            float physics:upperLimit = 90
            float drive:angular:physics:stiffness = 1000
            float drive:angular:physics:damping = 20
            float drive:angular:physics:maxForce = 5000000
        }
    }
}
"""


def written_by_hand(tmp_path, text, **options):
    path = tmp_path / "scene.usda"
    path.write_text(text)
    return sim.load(path, dtype="float64", **options)


def test_units_axes_scales_and_densities(tmp_path):
    """A robot in centimetres and grams, Y up, under a scale of 2, its joint from the child to the parent."""
    model = written_by_hand(tmp_path, CENTIMETRES_Y_UP)
    assert model.link_names == ("base", "arm")
    assert model.joint_names == ("base_free", "hinge")
    assert_allclose(model.parameters["gravity"], (0, 0, -9.81))
    # A cube of 20 cm and 2 g/cm^3; the arm of 300 g, a capsule of 4 cm radius between balls 40 cm apart.
    assert_allclose(model.parameters["mass"], [16.0, 0.3], rtol=1e-6)
    assert_allclose(model.parameters["inertia"][0], np.eye(3) * 16.0 * 0.2**2 / 6.0, rtol=1e-6, atol=1e-9)
    # The arm's link stands at its joint.
    poses = poses_at(model, model.q0)[0]
    assert_allclose(poses[:, :3], [(0, 0, 0.5), (0.16, 0, 0.5)], atol=1e-7)
    assert_allclose(model.parameters["com"][1], (0.24, 0, 0), atol=1e-7)
    sizes = {geometry.name: geometry.size for geometry in model.geometries}
    assert_allclose(sizes["base/base"], (0.1, 0.1, 0.1))
    assert_allclose(sizes["arm/shape"], (0.04, 0.2, 0.0))
    # The hinge was from the arm to the base about Z, which is -y here: seen from the base it turns the other way.
    q = model.q0.copy()
    q[7] = 0.5
    turned = Rotation.from_quat(poses_at(model, q)[0, 1, 3:])
    in_file = Rotation.from_matrix([[1, 0, 0], [0, 0, -1], [0, 1, 0]]) * Rotation.from_rotvec([0, 0, -0.5])
    assert_allclose(turned.as_matrix(), in_file.as_matrix(), atol=1e-7)
    limits = [model.parameters[name][6] for name in ("lower_limit", "upper_limit")]
    assert_allclose(limits, np.radians([-30, 90]), rtol=1e-6)
    # g cm^2/s^2 per degree; the largest moment becomes 0.5 N m.
    unit = 1e-7 * 180 / np.pi
    drive = [model.parameters[f"actuator_{name}"][0] for name in ("kp", "kd", "force_limit")]
    assert_allclose(drive, [1000 * unit, 20 * unit, 0.5], rtol=1e-6)


def test_drives_may_become_springs(tmp_path):
    model = written_by_hand(tmp_path, CENTIMETRES_Y_UP.replace("5000000", "inf"), drives="springs")
    assert model.nu == 0
    assert_allclose(model.parameters["stiffness"][6], 1000 * 1e-7 * 180 / np.pi, rtol=1e-6)
    with pytest.raises(sim.ModelError, match="drives is 'motors'"):
        written_by_hand(tmp_path, CENTIMETRES_Y_UP, drives="motors")


def stage_of(tmp_path, name="scene.usda"):
    """An empty stage with a way to add bodies."""
    stage = Usd.Stage.CreateNew(str(tmp_path / name))
    UsdGeom.SetStageUpAxis(stage, "Z")
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    return stage


def add_body(stage, name, position=(0, 0, 0), size=0.2, mass=1.0):
    body = UsdGeom.Xform.Define(stage, f"/{name}")
    body.AddTranslateOp().Set(Gf.Vec3d(*position))
    UsdPhysics.RigidBodyAPI.Apply(body.GetPrim())
    UsdPhysics.MassAPI.Apply(body.GetPrim()).CreateMassAttr(mass)
    box = UsdGeom.Cube.Define(stage, f"/{name}/box")
    box.CreateSizeAttr(size)
    UsdPhysics.CollisionAPI.Apply(box.GetPrim())
    return body.GetPrim()


def add_joint(stage, schema, name, body0, body1, pos0=(0, 0, 0), pos1=(0, 0, 0)):
    joint = schema.Define(stage, f"/{name}")
    for number, (body, place) in enumerate(((body0, pos0), (body1, pos1))):
        if body:
            getattr(joint, f"CreateBody{number}Rel")().SetTargets([f"/{body}"])
        getattr(joint, f"CreateLocalPos{number}Attr")(Gf.Vec3f(*place))
    return joint


def read(stage, **options):
    stage.GetRootLayer().Save()
    return sim.load(stage.GetRootLayer().realPath, dtype="float64", **options)


def lock(joint, *axes):
    for axis in axes:
        limit = UsdPhysics.LimitAPI.Apply(joint.GetPrim(), axis)
        limit.CreateLowAttr(1.0)
        limit.CreateHighAttr(-1.0)


def test_joints_of_six_degrees_of_freedom(tmp_path):
    stage = stage_of(tmp_path)
    for number in range(5):
        add_body(stage, f"b{number}", (number, 0, 0))
    free = {"hinge": "rotY", "slide": "transZ", "weld": None, "ball": None}
    every = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")
    for number, (name, axis) in enumerate(free.items()):
        joint = add_joint(stage, UsdPhysics.Joint, name, f"b{number}", f"b{number + 1}", pos1=(-1, 0, 0))
        lock(joint, *(other for other in every if other != axis and (name != "ball" or other.startswith("trans"))))
    limit = UsdPhysics.LimitAPI.Apply(stage.GetPrimAtPath("/hinge"), "rotY")
    limit.CreateLowAttr(-45.0)
    limit.CreateHighAttr(90.0)
    model = read(stage, collapse_fixed=False)
    names = [sim.model.model.JOINT_TYPE_NAMES[int(kind)] for kind in model.joint_type]
    assert names == ["free", "revolute", "prismatic", "fixed", "spherical"]
    assert_allclose(model.joint_axis[1:3], [(0, 1, 0), (0, 0, 1)])
    assert_allclose([model.parameters[f"{side}_limit"][6] for side in ("lower", "upper")], np.radians([-45, 90]))
    # Each link stands at its joint, which is where the body before it is.
    assert_allclose(poses_at(model, model.q0)[0, :, 0], [0, 0, 1, 2, 3], atol=1e-12)


def test_loops_and_fixed_bases(tmp_path):
    """Three bodies in a ring, the last of them on the world: the tree starts there, the ring is closed by a point."""
    stage = stage_of(tmp_path)
    for number in range(3):
        add_body(stage, f"b{number}", (number, 0, 0))
    add_joint(stage, UsdPhysics.RevoluteJoint, "j01", "b0", "b1", (0.5, 0, 0), (-0.5, 0, 0))
    add_joint(stage, UsdPhysics.RevoluteJoint, "j12", "b1", "b2", (0.5, 0, 0), (-0.5, 0, 0))
    add_joint(stage, UsdPhysics.FixedJoint, "base", None, "b2", (2, 0, 0))
    ring = add_joint(stage, UsdPhysics.SphericalJoint, "ring", "b0", "b2", (1, 0, 0), (-1, 0, 0))
    model = read(stage)
    assert model.link_names == ("b1", "b0")
    assert model.equalities.anchor_names == ("ring",)
    # b2 is welded to the world; its anchor lies at 1 there, b0's a metre from its middle, half a metre from its link.
    anchors = np.stack([model.parameters["anchor_a"][0], model.parameters["anchor_b"][0]])
    assert_allclose(anchors[:, :3], [(0.5, 0, 0), (1, 0, 0)], atol=1e-7)
    UsdPhysics.RevoluteJoint.Define(stage, ring.GetPath())
    with pytest.raises(sim.ImportFileError, match="closes a loop"):
        read(stage)


def touching_pairs(model):
    """Names of links whose boxes may touch."""
    link = [model.link_names[geometry.link] for geometry in model.geometries]
    return {
        (link[i], link[j])
        for i, a in enumerate(model.geometries)
        for j, b in enumerate(model.geometries)
        if i < j and (i, j) not in model.excluded_pairs and a.group & b.mask and b.group & a.mask
    }


def test_groups_and_filtered_pairs(tmp_path):
    stage = stage_of(tmp_path)
    for name in "abcde":
        add_body(stage, name)
    for name, members, filtered in (("red", "ab", "red"), ("blue", "bc", "green"), ("green", "d", "")):
        group = UsdPhysics.CollisionGroup.Define(stage, f"/{name}")
        group.GetCollidersCollectionAPI().CreateIncludesRel().SetTargets([f"/{member}" for member in members])
        group.CreateFilteredGroupsRel().SetTargets([f"/{filtered}"] if filtered else [])
    pairs = UsdPhysics.FilteredPairsAPI.Apply(stage.GetPrimAtPath("/a"))
    pairs.CreateFilteredPairsRel().SetTargets(["/d"])
    colliders = UsdPhysics.FilteredPairsAPI.Apply(stage.GetPrimAtPath("/e/box"))
    colliders.CreateFilteredPairsRel().SetTargets(["/c/box"])
    every = {(a, b) for a in "abcde" for b in "abcde" if a < b}
    assert touching_pairs(read(stage)) == every - {("a", "b"), ("b", "d"), ("c", "d"), ("a", "d"), ("c", "e")}


def test_meshes_and_materials(tmp_path):
    stage = stage_of(tmp_path)
    add_body(stage, "a")
    points = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    both = np.concatenate([points, points + np.array([3, 0, 0])])
    for name, token in (("hull", "convexHull"), ("ball", "boundingSphere"), ("cube", "boundingCube"),
                        ("pieces", "convexDecomposition")):  # fmt: skip
        mesh = UsdGeom.Mesh.Define(stage, f"/a/{name}")
        mesh.CreatePointsAttr(both)
        mesh.CreateFaceVertexCountsAttr([4] * 12)
        mesh.CreateFaceVertexIndicesAttr([k + 8 * copy for copy in (0, 1) for quad in quads for k in quad])
        UsdPhysics.CollisionAPI.Apply(mesh.GetPrim())
        UsdPhysics.MeshCollisionAPI.Apply(mesh.GetPrim()).CreateApproximationAttr(token)
    material = UsdShade.Material.Define(stage, "/ice")
    contact = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
    contact.CreateDynamicFrictionAttr(0.05)
    contact.CreateStaticFrictionAttr(0.05)
    contact.CreateRestitutionAttr(0.5)
    UsdShade.MaterialBindingAPI.Apply(stage.GetPrimAtPath("/a/hull")).Bind(
        material, UsdShade.Tokens.weakerThanDescendants, "physics"
    )
    model = read(stage, friction=0.9)
    found = {geometry.name: geometry for geometry in model.geometries if geometry.collides}
    assert_allclose(np.ptp(found["a/hull"].mesh.vertices, axis=0), (4, 1, 1))
    assert len(found["a/hull"].mesh.vertices) == 8
    assert_allclose(found["a/cube"].size, (2, 0.5, 0.5))
    assert_allclose(found["a/cube"].placement[:3], (2, 0.5, 0.5))
    assert_allclose(found["a/ball"].size[0], np.linalg.norm((2, 0.5, 0.5)), rtol=1e-6)
    assert {len(found[name].mesh.vertices) for name in ("a/pieces", "a/pieces_1")} == {8}
    index = [geometry.name for geometry in model.geometries].index("a/hull")
    assert_allclose(model.parameters["friction"][index], 0.05, rtol=1e-6)
    assert_allclose(model.parameters["restitution"][index], 0.5)
    assert_allclose(np.delete(model.parameters["friction"], index)[:4], 0.9)


def test_instances_and_references(tmp_path):
    """Two robots that are instances of one file, each in its place."""
    part = stage_of(tmp_path, "part.usda")
    part.SetDefaultPrim(UsdGeom.Xform.Define(part, "/part").GetPrim())
    for name, x in (("one", 0.0), ("two", 0.5)):
        add_body(part, f"part/{name}", (x, 0, 0))
    add_joint(part, UsdPhysics.PrismaticJoint, "part/slide", "part/one", "part/two", (0.5, 0, 0))
    part.GetRootLayer().Save()
    stage = stage_of(tmp_path)
    for number in range(2):
        prim = UsdGeom.Xform.Define(stage, f"/copy_{number}")
        prim.AddTranslateOp().Set(Gf.Vec3d(0, 2.0 * number, 0))
        prim.GetPrim().GetReferences().AddReference("part.usda")
        prim.GetPrim().SetInstanceable(True)
    model = read(stage)
    assert model.link_names == ("copy_0/one", "copy_0/two", "copy_1/one", "copy_1/two")
    assert_allclose(poses_at(model, model.q0)[0, :, :2], [(0, 0), (0.5, 0), (0, 2), (0.5, 2)], atol=1e-7)


def test_copies_stand_where_they_are_put(tmp_path):
    model = everything()
    path = write_usd(tmp_path / "all.usdc", model, poses_at(model, model.q0), fps=30)
    builder = sim.ModelBuilder()
    place, turn = np.array([1.0, 2.0, 3.0]), Rotation.from_rotvec((0.1, 0.2, 0.3))
    parts = builder.add_usd(path, name="left")
    builder.add_usd(path, name="right", position=place, orientation=turn.as_quat())
    assert [part.name for part in parts] == ["left/robot", "left/loose", "left/other"]
    both = builder.finalize("float64")
    poses = poses_at(both, both.q0)[0]
    count = model.num_links
    assert_allclose(poses[count:, :3], turn.apply(poses[:count, :3]) + place, atol=1e-7)
    anchors = both.parameters["anchor_b"][[1, 3], :3]
    assert_allclose(anchors[1], turn.apply(anchors[0]) + place, atol=1e-7)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda stage: add_joint(stage, UsdPhysics.DistanceJoint, "rope", "a", "b"), "'/rope'.*distance joint"),
        (lambda stage: add_joint(stage, UsdPhysics.Joint, "loose", "a", "b"), "'/loose'.*leaves.*free"),
        (lambda stage: add_joint(stage, UsdPhysics.FixedJoint, "j", "a", "nowhere"), "'/j'.*'/nowhere', which is not"),
        (lambda stage: add_joint(stage, UsdPhysics.FixedJoint, "j", "a", "a/box"), "'/j'.*to itself"),
        (lambda stage: UsdGeom.Xformable(stage.GetPrimAtPath("/a")).AddScaleOp().Set((1, 0, 1)), "'/a.*flattens"),
        (lambda stage: stage.GetPrimAtPath("/a/box").SetTypeName("Points"), "'/a/box'.*type 'Points'"),
        (lambda stage: stage.GetPrimAtPath("/a/box").SetTypeName("Mesh"), "'/a/box'.*no points"),
        (lambda stage: UsdGeom.SetStageMetersPerUnit(stage, 0.0), "metersPerUnit is 0"),
    ],
)
def test_what_cannot_be_read_names_its_prim(tmp_path, edit, message):
    stage = stage_of(tmp_path)
    add_body(stage, "a")
    add_body(stage, "b", (1, 0, 0))
    edit(stage)
    builder = sim.ModelBuilder()
    builder.add_ground()
    stage.GetRootLayer().Save()
    with pytest.raises(sim.ImportFileError, match=message):
        builder.add_usd(stage.GetRootLayer().realPath)
    assert not builder.links
    assert list(builder.geometries) == ["ground"]


def test_what_is_left_out_is_said(tmp_path):
    stage = stage_of(tmp_path)
    a = add_body(stage, "a")
    add_body(stage, "b", (1, 0, 0))
    UsdPhysics.RigidBodyAPI(a).CreateKinematicEnabledAttr(True)
    UsdPhysics.RigidBodyAPI(stage.GetPrimAtPath("/b")).CreateVelocityAttr(Gf.Vec3f(1, 0, 0))
    UsdGeom.BasisCurves.Define(stage, "/line")
    with pytest.warns(sim.USDWarning) as caught:
        model = read(stage)
    said = " ".join(str(warning.message) for warning in caught)
    for part in ("'/a' is a kinematic body", "'/b': its start velocity", "BasisCurves (1)"):
        assert part in said
    assert model.link_names == ("b",)


def test_files_that_are_no_scenes(tmp_path):
    (tmp_path / "broken.usda").write_text('#usda 1.0\ndef Xform "a" {\n float b = "x"\n}')
    (tmp_path / "empty.usda").write_text("#usda 1.0\n")
    (tmp_path / "zeros.usdc").write_bytes(bytes(200))
    with pytest.raises(sim.ImportFileError, match=r"broken.usda: can't be opened as USD: .*:3:"):
        sim.load(tmp_path / "broken.usda")
    with pytest.raises(sim.ImportFileError, match="neither rigid bodies nor colliders"):
        sim.load(tmp_path / "empty.usda")
    with pytest.raises(sim.ImportFileError, match="can't be opened"):
        sim.load(tmp_path / "zeros.usdc")
    with pytest.raises(sim.ImportFileError, match="no such file"):
        sim.load(tmp_path / "none.usd")


def broken_value(attribute, number):
    """A value that no attribute should have, of the type that this one has; None if it has no such type."""
    kind = str(attribute.GetTypeName())
    if kind in ("double", "float"):
        return number
    if kind in ("double3", "point3f", "vector3f", "float3"):
        return (number, 0.0, number)
    if kind in ("quatd", "quatf"):
        return (Gf.Quatd if kind == "quatd" else Gf.Quatf)(number, 0.0, 0.0, 0.0)
    if kind.endswith("[]"):
        values = attribute.Get()
        return type(values)(list(values)[: len(values) // 2])
    return "unheard of" if kind in ("token", "string") else None


@pytest.fixture(scope="module")
def file_of_everything(tmp_path_factory):
    model = everything()
    return write_usd(tmp_path_factory.mktemp("usd") / "all.usdc", model, poses_at(model, model.q0), fps=30)


@settings(max_examples=30, deadline=None)
@given(which=st.integers(0, 10**6), number=st.sampled_from([0.0, -1.0, 1e30, np.inf, -np.inf, np.nan]))
def test_broken_values_are_read_or_refused(file_of_everything, which, number):
    """Whatever stands in an attribute, the file is read or an error of ours is raised."""
    stage = Usd.Stage.Open(str(file_of_everything))
    physical = [prim for prim in stage.Traverse() if not prim.IsA(UsdShade.Material)]
    attributes = [attribute for prim in physical for attribute in prim.GetAuthoredAttributes()]
    attribute = attributes[which % len(attributes)]
    value = broken_value(attribute, number)
    if value is not None:
        attribute.Set(value)
    path = file_of_everything.with_name("broken.usdc")
    stage.GetRootLayer().Export(str(path))
    stage.GetRootLayer().Reload(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sim.USDWarning)
        with suppress(sim.ModelError):
            sim.load(path)


def test_an_edited_value_wins(tmp_path):
    """What another program changed counts, though the value that we wrote stands beside it."""
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.1, name="box", friction=0.7)
    model = builder.finalize("float64")
    path = write_usd(tmp_path / "box.usda", model, poses_at(model, model.q0), fps=30)
    stage = Usd.Stage.Open(str(path))
    prim = next(prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.MassAPI))
    UsdPhysics.MassAPI(prim).GetMassAttr().Set(2.0)
    stage.GetRootLayer().Save()
    again = sim.load(path, dtype="float64")
    assert again.parameters["mass"][0] == 2.0
    assert again.parameters["friction"][0] == 0.7


@pytest.mark.parametrize("robot", ["panda", "anymal_c"])
def test_published_robots_come_back(tmp_path, robot):
    if not ROBOTS[robot].exists():
        pytest.skip("the robots come with example-robot-data")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sim.URDFWarning)
        model = sim.load(ROBOTS[robot], dtype="float64", visual=False)
    again = sim.load(write_usd(tmp_path / "robot.usdc", model, poses_at(model, model.q0), fps=30), dtype="float64")
    q = model.q0[None] + 0.1
    masses = [sim.mass_matrix(m, q).numpy() for m in (model, again)]
    assert_allclose(masses[1], masses[0], rtol=1e-10, atol=1e-12)
    assert {g.name for g in again.geometries} == {g.name for g in model.geometries}


@pytest.mark.slow  # Newton compiles kernels of its own
def test_newton_reads_the_same(tmp_path):
    """Masses, centres of mass and inertias in the world as Newton's reader has them, which leaves units to its user."""
    newton = pytest.importorskip("newton", reason="Newton is not installed")
    pytest.importorskip("newton_usd_schemas", reason="Newton's USD schemas are not installed")
    model = everything()
    ours = write_usd(tmp_path / "ours.usda", model, poses_at(model, model.q0), fps=30)
    hand = tmp_path / "hand.usda"
    hand.write_text(CENTIMETRES_Y_UP)
    for path, kilograms, metres in ((ours, 1.0, 1.0), (hand, 1e-3, 1e-2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            builder = newton.ModelBuilder()
            builder.add_usd(str(path))
        theirs = {}
        for label, pose, mass, com, inertia in zip(
            builder.body_label, builder.body_q, builder.body_mass, builder.body_com, builder.body_inertia, strict=True
        ):
            turn = Rotation.from_quat(np.array(pose)[3:])
            tensor = turn.as_matrix() @ np.array(inertia).reshape(3, 3) @ turn.as_matrix().T
            centre = (np.array(pose)[:3] + turn.apply(np.array(com))) * metres
            theirs[label.rsplit("/", 1)[-1]] = (mass * kilograms, centre, tensor * kilograms * metres**2)
        mine = sim.load(path, dtype="float64")
        assert len(theirs) == mine.num_links
        poses = poses_at(mine, mine.q0)[0]
        for link, name in enumerate(mine.link_names):
            turn = Rotation.from_quat(poses[link, 3:]).as_matrix()
            mass, com, inertia = (mine.parameters[key][link] for key in ("mass", "com", "inertia"))
            found = theirs[PRIM_NAMES.get(name, name)]
            assert_allclose(found[0], mass, rtol=1e-6)
            assert_allclose(found[1], poses[link, :3] + turn @ com, atol=1e-5)
            assert_allclose(found[2], turn @ inertia @ turn.T, rtol=1e-4, atol=1e-5 * np.abs(inertia).max())


PRIM_NAMES = {"a b": "a_b", "a_b": "a_b_2"}
