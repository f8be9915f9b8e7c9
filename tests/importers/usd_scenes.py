"""Models and USD stages for tests, and what they are compared by."""

import numpy as np
from numpy.testing import assert_allclose
from pxr import Gf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

import sim
from sim.model.geometries import Mesh
from sim.render.tessellation import tessellate
from sim.render.view import transform_points
from sim.simulation.stepping.pair_friction import five_frictions
from warp_kernels import types as codes

# A robot in centimetres and grams, Y up.
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


def poses_at(model, q):
    return sim.forward_kinematics(model, np.asarray(q)[None]).numpy()


def everything():
    """A world with everything that a file can keep."""
    rng = np.random.default_rng(0)
    builder = sim.ModelBuilder(gravity=(0.1, 3.0, -4.0))
    builder.add_ground(surface=sim.Surface(friction=0.8, torsional_friction=0.01))
    inertia = np.array([[3, 0.2, 0.1], [0.2, 4, 0.3], [0.1, 0.3, 5]]) / 7.0
    orientation = Rotation.random(rng=rng).as_quat()
    builder.add_link("a b", mass=2.1, com=(0.1, 0.2, 0.3), inertia=inertia)
    builder.add_joint("1", "revolute", child="a b", axis=(1, 2, 3), position=(0, 0, 1), orientation=orientation,
                      limits=sim.Limits(-1.1, 2.3, margin=0.01, stiffness=900.0, damping=3.1, effort=11.3,
                          velocity=7.1), spring=sim.Spring(damping=0.51, stiffness=3.3, rest=0.1), armature=0.013,
                      friction_loss=0.07, q0=(0.3,))  # fmt: skip
    builder.add_link("a_b", mass=1.7, inertia=(1, 1.1, 1.2))
    builder.add_joint(
        "2", "prismatic", child="a_b", parent="a b", axis=(-1, 0, 0), limits=sim.Limits(-0.51, 0.27), q0=(0.1,)
    )
    builder.add_link("ball", mass=0.7, inertia=(1, 1, 1))
    builder.add_joint("3", "spherical", child="ball", parent="a_b", position=(0, 1, 0), axis=(1, 1, 0),
                      limits=sim.Limits(swing=1.2, twist=0.7), spring=sim.Spring(damping=0.3),
                      q0=Rotation.random(rng=rng).as_quat())  # fmt: skip
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
                             surface=sim.Surface(friction=0.7, restitution=0.3, rolling_friction=0.001, stiffness=1e5,
                                 damping=30.0, group=5, mask=7), rgba=(0.2, 0.5, 0.8, 1.0))  # fmt: skip
    builder.add_geometry("ball", codes.BOX, name="sign", size=(0.1, 0.1, 0.1), collides=False)
    builder.add_heightfield(
        np.arange(6.0).reshape(2, 3) / 3.0, spacing=0.3, orientation=(0.1, 0.2, 0, 1), surface=sim.Surface(friction=0.7)
    )
    builder.add_sphere(
        radius=0.1, mass=0.3, name="loose", position=(1, 1, 1), orientation=orientation,
        surface=sim.Surface(friction=0.2, friction_across=0.4, friction_direction=(1, 2, 3), friction_angle=0.3),
    )  # fmt: skip
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=0.4, name="other")
    builder.add_actuator("4", "torque", gear=3.0, force_limit=0.3, control_range=(-0.2, np.inf))
    builder.add_actuator(
        "1",
        "position",
        name="servo",
        gear=2.0,
        gains=sim.Gains(kp=13.0, kd=0.7),
        force_limit=5.1,
        control_range=(-0.3, 0.8),
    )
    builder.add_actuator("2", "velocity", gains=sim.Gains(kd=0.9))
    builder.add_actuator(
        "2", "affine", name="law",
        gains=sim.Gains(gain=2.0, offset=-0.3, kp=4.0, kd=0.2, kp_per_input=-0.7, kd_per_input=0.6),
        force_limit=(-0.5, 2.0),
    )  # fmt: skip
    builder.add_joint_coupling("4", "2", ratio=1.3, offset=0.2)
    builder.add_point_constraint("hook", "loose", "other", position_a=(0.1, 0.2, 0.0))
    builder.add_weld_constraint("weld", "other", "world", position_a=(0.1, 0.0, 0.0), orientation_a=orientation)
    builder.exclude_collision("ball", "loose")
    builder.exclude_collision("other", "world")
    builder.exclude_geometries("other/geometry", "loose/geometry")
    builder.add_frame("tip", "ball", (0.1, 0.2, 0.3), orientation)
    return builder.finalize("float64")


def frictions_of_pairs(model):
    """What is stated for pairs of geometries, by their names."""
    return {
        frozenset((model.geometries[pair.a].name, model.geometries[pair.b].name)): tuple(numbers)
        for pair, numbers in zip(model.pair_frictions, five_frictions(model).tolist(), strict=True)
    }


def apart(model, i, j):
    """Whether two geometries are on different links."""
    return model.geometries[i].link != model.geometries[j].link


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
    # Geometries of one link never touch, whether it was welded together or not.
    assert {tuple(sorted((order[i], order[j]))) for i, j in a.excluded_pairs if apart(a, i, j)} == {
        (i, j) for i, j in b.excluded_pairs if apart(b, i, j)
    }
    assert frictions_of_pairs(a) == frictions_of_pairs(b)
    for one, k in zip(a.geometries, order, strict=True):
        two = b.geometries[k]
        directions = ("friction_direction", "friction_angle")
        for name in (
            "link", "collides", "visible", "group", "mask", "friction_rule", "contact_priority", *directions
        ):  # fmt: skip
            assert getattr(one, name) == getattr(two, name), (one.name, name)
        if one.collides:
            assert one.type == two.type, one.name
        if one.type != codes.PLANE:
            clouds = [transform_points(g.placement, tessellate(g).vertices) for g in (one, two)]
            assert_allclose(np.sort(clouds[1], axis=0), np.sort(clouds[0], axis=0), atol=1e-6)
        assert_allclose(two.rgba, one.rgba, atol=1e-6)


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
    for number, (body, position) in enumerate(((body0, pos0), (body1, pos1))):
        if body:
            getattr(joint, f"CreateBody{number}Rel")().SetTargets([f"/{body}"])
        getattr(joint, f"CreateLocalPos{number}Attr")(Gf.Vec3f(*position))
    return joint


def read(stage, **options):
    stage.GetRootLayer().Save()
    return sim.load(stage.GetRootLayer().realPath, dtype="float64", **options)


def lock(joint, *axes):
    for axis in axes:
        limit = UsdPhysics.LimitAPI.Apply(joint.GetPrim(), axis)
        limit.CreateLowAttr(1.0)
        limit.CreateHighAttr(-1.0)
