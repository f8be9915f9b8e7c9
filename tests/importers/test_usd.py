"""USD files written by hand mean what UsdPhysics says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, UsdGeom, UsdPhysics, UsdShade
from scipy.spatial.transform import Rotation

import sim
from sim.model.joint_types import JOINT_TYPES
from sim.usd import write_usd
from tests.errors import raises_naming
from tests.importers.usd_scenes import CENTIMETRES_Y_UP, add_body, add_joint, everything, lock, poses_at, read, stage_of


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
    with raises_naming("drives", "'motors'"):
        written_by_hand(tmp_path, CENTIMETRES_Y_UP, drives="motors")


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
    names = [JOINT_TYPES[int(kind)].name for kind in model.joint_type]
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
    UsdPhysics.PrismaticJoint.Define(stage, ring.GetPath())
    with raises_naming("'/ring'", "prismatic", "joint", "loop", error=sim.ImportFileError):
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


def test_an_inverted_group_collides_only_with_the_groups_that_it_names(tmp_path):
    stage = stage_of(tmp_path)
    for name in "abcd":
        add_body(stage, name)
    for name, members in (("red", "a"), ("blue", "b"), ("green", "c")):
        group = UsdPhysics.CollisionGroup.Define(stage, f"/{name}")
        group.GetCollidersCollectionAPI().CreateIncludesRel().SetTargets([f"/{member}" for member in members])
    red = UsdPhysics.CollisionGroup(stage.GetPrimAtPath("/red"))
    red.CreateInvertFilteredGroupsAttr(True)
    red.CreateFilteredGroupsRel().SetTargets(["/blue"])
    assert touching_pairs(read(stage)) == {("a", "b"), ("b", "c"), ("b", "d"), ("c", "d")}
    for name in ("red", "green"):
        UsdPhysics.CollisionGroup(stage.GetPrimAtPath(f"/{name}")).CreateMergeGroupNameAttr("one")
    assert touching_pairs(read(stage)) == {("a", "b"), ("b", "c"), ("b", "d")}


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


MATERIAL = """def Material "{name}" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {{
    float physics:dynamicFriction = {friction}
    float physics:staticFriction = {friction}
}}"""


def test_a_material_bound_above_a_collider_counts(tmp_path):
    """As by the rules of UsdShade: inside instances too, unless the collider has its own."""
    box = """def Cube "{}" (prepend apiSchemas = ["PhysicsCollisionAPI"{}]) {{ {}
 }}"""
    binding = 'prepend apiSchemas = ["MaterialBindingAPI"]'
    model = written_by_hand(
        tmp_path,
        f"""#usda 1.0
class "Asset" {{
    {MATERIAL.format(name="inner", friction=0.125)}
    def Xform "in" ({binding}) {{ rel material:binding:physics = </Asset/inner>; {box.format("d", "", "")}
    }}
    {box.format("c", "", "")}
}}
{MATERIAL.format(name="ice", friction=0.25)}
{MATERIAL.format(name="rubber", friction=0.75)}
def Xform "body" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "MaterialBindingAPI"]) {{
    rel material:binding:physics = </ice>
    {box.format("a", "", "")}
    {box.format("b", ', "MaterialBindingAPI"', "rel material:binding:physics = </rubber>")}
    def Xform "instance" (prepend references = </Asset>
        instanceable = true) {{ }}
}}""",
    )
    friction = {g.name: f for g, f in zip(model.geometries, model.parameters["friction"], strict=True) if g.collides}
    assert friction == {"body/a": 0.25, "body/b": 0.75, "body/c": 0.25, "body/d": 0.125}


def test_meshes_of_one_name_that_collide_and_are_seen(tmp_path):
    tetrahedron = """def Mesh "mesh" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
        point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        int[] faceVertexCounts = [3, 3, 3, 3]
        int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3]
    }"""
    parts = "".join(f'def Xform "{name}" {{ {tetrahedron}\n}}\n' for name in ("left", "right"))
    model = written_by_hand(
        tmp_path, f'#usda 1.0\ndef Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{ {parts} }}'
    )
    assert [(g.collides, g.visible) for g in model.geometries] == [(True, False)] * 2 + [(False, True)] * 2


def test_a_cone_has_the_mass_of_a_cone(tmp_path):
    model = written_by_hand(
        tmp_path,
        """#usda 1.0
( metersPerUnit = 1 )
def Cone "c" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]) {
    double radius = 0.3
    double height = 0.5
}""",
    )
    assert model.parameters["mass"][0] == pytest.approx(1000.0 * np.pi * 0.3**2 * 0.5 / 3.0, rel=1e-6)


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
    position, turn = np.array([1.0, 2.0, 3.0]), Rotation.from_rotvec((0.1, 0.2, 0.3))
    parts = builder.add_usd(path, name="left")
    builder.add_usd(path, name="right", position=position, orientation=turn.as_quat())
    assert [part.name for part in parts] == ["left/robot", "left/loose", "left/other"]
    both = builder.finalize("float64")
    poses = poses_at(both, both.q0)[0]
    count = model.num_links
    assert_allclose(poses[count:, :3], turn.apply(poses[:count, :3]) + position, atol=1e-7)
    anchors = both.parameters["anchor_b"][[1, 3], :3]
    assert_allclose(anchors[1], turn.apply(anchors[0]) + position, atol=1e-7)
