"""Joints, actuators and constraints in the schemas of Newton, MuJoCo and PhysX: read, or named in a warning."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sim
from tests.errors import quietly, raises_naming, strictly

# In centimetres and grams, so that every unit shows: a base on the world, a hinge and a slide on it.
ROBOT = """#usda 1.0
(
    metersPerUnit = 0.01
    kilogramsPerUnit = 0.001
    upAxis = "Z"
)
def PhysicsScene "s"
{
    SCENE
}
def Xform "R" (prepend apiSchemas = ["PhysicsArticulationRootAPI"])
{
    ARTICULATION
    def Cube "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
    {
        BASE
    }
    def Cube "a" (prepend apiSchemas = [BODY_API"PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
    {
        BODY
    }
    def Cube "b" (prepend apiSchemas = [BODY_API"PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
    {
        BODY
    }
    def PhysicsFixedJoint "root"
    {
        rel physics:body1 = </R/base>
    }
    def PhysicsRevoluteJoint "hinge" (prepend apiSchemas = ["HINGE_API"])
    {
        rel physics:body0 = </R/base>
        rel physics:body1 = </R/a>
        float physics:lowerLimit = -90
        float physics:upperLimit = 90
        HINGE
    }
    def PhysicsPrismaticJoint "slide" (prepend apiSchemas = ["SLIDE_API"])
    {
        rel physics:body0 = </R/base>
        rel physics:body1 = </R/b>
        float physics:lowerLimit = -90
        float physics:upperLimit = 90
        SLIDE
    }
    MORE
}
"""
SLOTS = ("ARTICULATION", "HINGE_API", "SLIDE_API", "SCENE", "BASE", "BODY_API", "BODY", "HINGE", "SLIDE", "MORE")
MOMENT, FORCE = 1e-7, 1e-5  # g cm^2/s^2 in N m, g cm/s^2 in N
DEGREE = np.radians(1.0)


def load(tmp_path, **texts):
    path = tmp_path / "robot.usda"
    usual = dict.fromkeys(SLOTS, "") | {"HINGE_API": "Some", "SLIDE_API": "Some"}
    path.write_text(re.sub("|".join(SLOTS), lambda found: (usual | texts)[found[0]], ROBOT))
    return sim.load(path, dtype="float64")


def load_quietly(tmp_path, **texts):
    return strictly(load, tmp_path, **texts)


def of_joint(model, joint, name):
    values = model.velocity_limit if name == "velocity" else model.parameters[name]
    return values[model.joint_qd_start[model.joint_names.index(joint)]]


JOINT = """float newton:armature = 500
    float newton:friction = 3000
    float newton:damping = 20
    float newton:velocityLimit = 90
    float newton:limitStiffness = 7000
    float newton:limitDamping = 8
"""
IN_MUJOCO = """double mjc:armature = 500
    double mjc:frictionloss = 3000
    double mjc:damping = 20
    double mjc:stiffness = 40
    double mjc:springref = 30
"""


def test_newton_joints(tmp_path):
    model = load_quietly(tmp_path, HINGE=JOINT, SLIDE=JOINT)
    for joint, inertia, effort, position in (
        ("hinge", MOMENT, MOMENT, DEGREE),
        ("slide", 1e-3, FORCE, 0.01),
    ):
        expected = {
            "armature": 500 * inertia, "friction_loss": 3000 * effort, "damping": 20 * effort / position,
            "velocity": 90 * position, "limit_stiffness": 7000 * effort / position,
            "limit_damping": 8 * effort / position,
        }  # fmt: skip
        for name, value in expected.items():
            assert_allclose(of_joint(model, joint, name), value, rtol=1e-6, err_msg=f"{joint} {name}")


def test_efforts_of_urdf_files(tmp_path):
    """The official converter keeps a joint's effort, and others its speed, damping and friction, in URDF's units; the
    force of a drive counts.
    """
    limit = "custom float urdf:limit:effort = 11"
    model = load_quietly(tmp_path, HINGE=limit, SLIDE=limit)
    assert model.effort_limit[[model.qd_slice(joint).start for joint in ("hinge", "slide")]].tolist() == [11, 11]
    others = "\n".join([
        "custom float urdf:limit:velocity = 3", "custom float urdf:dynamics:damping = 0.5",
        "custom float urdf:dynamics:friction = 0.25",
    ])  # fmt: skip
    with_others = load_quietly(tmp_path, HINGE=others, SLIDE=others)
    for joint in ("hinge", "slide"):
        assert of_joint(with_others, joint, "velocity") == 3.0
        assert of_joint(with_others, joint, "damping") == 0.5
        assert of_joint(with_others, joint, "friction_loss") == 0.25
    drive = "float drive:angular:physics:stiffness = 1e9\nfloat drive:angular:physics:maxForce = 5e7"
    driven = load_quietly(tmp_path, HINGE=f"{limit}\n{drive}", HINGE_API="PhysicsDriveAPI:angular")
    assert_allclose(driven.effort_limit[driven.qd_slice("hinge")], 5e7 * MOMENT)


def test_newton_inertia(tmp_path):
    """The whole tensor counts instead of principal moments."""
    text = """float physics:mass = 1000
        float3 physics:diagonalInertia = (1, 2, 3)
        double[] newton:inertia = [2e6, 3e6, 4e6, 1e5, 2e5, 3e5]
    """
    model = load_quietly(tmp_path, BODY=text, BODY_API='"PhysicsMassAPI", ')
    expected = np.array([[2.0, 0.1, 0.2], [0.1, 3.0, 0.3], [0.2, 0.3, 4.0]]) * 1e6 * MOMENT
    assert_allclose(model.parameters["inertia"][model.link_names.index("a")], expected, rtol=1e-6)


def test_what_newton_leaves_to_the_engine(tmp_path):
    text = "float newton:limitStiffness = -inf\n float newton:limitDamping = -inf\n float newton:velocityLimit = inf"
    model = load_quietly(tmp_path, HINGE=text)
    assert of_joint(model, "hinge", "limit_stiffness") == np.inf
    assert of_joint(model, "hinge", "limit_damping") == 0.0
    assert of_joint(model, "hinge", "velocity") == np.inf


@pytest.mark.parametrize(("angle", "unit"), [("", DEGREE), ('uniform token mjc:compiler:angle = "radian"', 1.0)])
def test_mujoco_joints(tmp_path, angle, unit):
    """MuJoCo's damping and stiffness are per rad; its angles in degrees unless the scene says otherwise."""
    model = quietly(load, tmp_path, HINGE=IN_MUJOCO, SLIDE=IN_MUJOCO, SCENE=angle)
    for joint, inertia, effort, own, position in (
        ("hinge", MOMENT, MOMENT, 1.0, unit),
        ("slide", 1e-3, FORCE, 0.01, 0.01),
    ):
        expected = {
            "armature": 500 * inertia, "friction_loss": 3000 * effort, "damping": 20 * effort / own,
            "stiffness": 40 * effort / own, "rest_position": 30 * position,
        }  # fmt: skip
        for name, value in expected.items():
            assert_allclose(of_joint(model, joint, name), value, rtol=1e-6, err_msg=f"{joint} {name}")


def test_physx_joints(tmp_path):
    text = "float physxJoint:armature = 500\n float physxJoint:maxJointVelocity = 90"
    limit = "float physxLimit:%s:stiffness = 7000\n float physxLimit:%s:damping = 8"
    angular, linear = (f"{text}\n{limit.replace('%s', axis)}" for axis in ("angular", "linear"))
    model = load_quietly(tmp_path, HINGE=angular, SLIDE=linear)
    for joint, inertia, effort, position in (("hinge", MOMENT, MOMENT, DEGREE), ("slide", 1e-3, FORCE, 0.01)):
        assert_allclose(of_joint(model, joint, "armature"), 500 * inertia, rtol=1e-6)
        assert_allclose(of_joint(model, joint, "velocity"), 90 * position, rtol=1e-6)
        assert_allclose(of_joint(model, joint, "limit_stiffness"), 7000 * effort / position, rtol=1e-6)
        assert_allclose(of_joint(model, joint, "limit_damping"), 8 * effort / position, rtol=1e-6)


def test_own_damping_adds_to_that_of_a_drive(tmp_path):
    drive = "float drive:angular:physics:damping = 5\n float newton:damping = 20"
    model = load_quietly(tmp_path, HINGE_API="PhysicsDriveAPI:angular", HINGE=drive)
    assert_allclose(of_joint(model, "hinge", "damping"), 25 * MOMENT / DEGREE, rtol=1e-6)


NEWTON_MIMIC = """rel newton:mimicJoint = </R/slide>
    float newton:mimicCoef0 = 30
    float newton:mimicCoef1 = 2
"""
PHYSX_MIMIC = """rel physxMimicJoint:rotX:referenceJoint = </R/slide>
    uniform token physxMimicJoint:rotX:referenceJointAxis = "transX"
    float physxMimicJoint:rotX:gearing = -2
    float physxMimicJoint:rotX:offset = -30
"""
MUJOCO_EQUALITY = """rel mjc:target = </R/slide>
    double mjc:coef0 = 0.5235987755982988
    double mjc:coef1 = 2
"""


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("NewtonMimicAPI", NEWTON_MIMIC),
        ("PhysxMimicJointAPI:rotX", PHYSX_MIMIC),
        ("MjcEqualityJointAPI", MUJOCO_EQUALITY),
        ("MjcEqualityJointAPI", NEWTON_MIMIC),
    ],
)
def test_joints_that_follow_others(tmp_path, schema, text):
    """q = 2 q_other + 30 degrees in all schemas."""
    model = load_quietly(tmp_path, HINGE_API=schema, HINGE=text)
    assert model.equalities.coupling_names == ("hinge",)
    assert model.joint_names[model.dof_link[model.equalities.coupling_other[0]]] == "slide"
    assert_allclose(model.parameters["coupling_ratio"], [2.0])
    assert_allclose(model.parameters["coupling_offset"], [30 * DEGREE], rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NEWTON_MIMIC + "double mjc:coef2 = 1", "'/R/hinge': it doesn't follow '/R/slide' here, since its polynomial"),
        (NEWTON_MIMIC.replace("slide", "root"), "'/R/hinge': it doesn't follow '/R/root' here; only"),
        (NEWTON_MIMIC.replace("slide", "none"), "'/R/hinge': its leader, joint '/R/none', doesn't exist"),
    ],
)
def test_joints_that_cannot_follow(tmp_path, text, message):
    with pytest.warns(sim.USDWarning, match=message):
        model = load(tmp_path, HINGE_API="NewtonMimicAPI", HINGE=text)
    assert model.equalities.coupling_names == ()


def test_a_mimic_joint_that_is_switched_off(tmp_path):
    model = load_quietly(tmp_path, HINGE_API="NewtonMimicAPI", HINGE=NEWTON_MIMIC + "bool newton:mimicEnabled = 0")
    assert model.equalities.coupling_names == ()


ACTUATORS = """def MjcActuator "motor"
{
    rel mjc:target = </R/hinge>
    double[] mjc:gear = [3, 0, 0, 0, 0, 0]
    double mjc:forceRange:min = -400
    double mjc:forceRange:max = 400
}
def MjcActuator "servo"
{
    rel mjc:target = </R/slide>
    double[] mjc:gainPrm = [50, 0, 0]
    uniform token mjc:biasType = "affine"
    double[] mjc:biasPrm = [0, -50, -6]
    double mjc:ctrlRange:min = -10
    double mjc:ctrlRange:max = 20
}
def MjcActuator "speed"
{
    rel mjc:target = </R/hinge>
    double[] mjc:gainPrm = [7]
    uniform token mjc:biasType = "affine"
    double[] mjc:biasPrm = [0, 0, -7]
}
"""


def test_mujoco_actuators(tmp_path):
    model = load_quietly(tmp_path, MORE=ACTUATORS)
    assert model.actuator_names == ("motor", "servo", "speed")
    kinds = [sim.model.model.ACTUATOR_KIND_NAMES[int(kind)] for kind in model.actuator_kind]
    assert kinds == ["torque", "position", "velocity"]
    # A motor's input in the file's unit of force drives the joint: its unit is in the gear.
    gear, kp, kd, limit = (model.parameters[f"actuator_{name}"] for name in ("gear", "kp", "kd", "force_limit"))
    assert_allclose(gear, [3 * MOMENT, 1, 1])
    assert_allclose(kp, [0, 50 * FORCE / 0.01, 0])
    assert_allclose(kd, [0, 6 * FORCE / 0.01, 7 * MOMENT])
    assert_allclose(limit[0] * gear[0], 3 * 400 * MOMENT)
    assert np.isinf(limit[1:]).all()
    # A slide's range is in the file's unit of length.
    bounds = [model.parameters[f"actuator_control_{side}"].tolist() for side in ("lower", "upper")]
    assert_allclose(bounds, [[-np.inf, -0.1, -np.inf], [np.inf, 0.2, np.inf]])


def test_mujoco_actuators_of_affine_laws(tmp_path):
    """A spring with an offset and a damper whose strength is its input, on a slide; a range of forces that leans."""
    text = """def MjcActuator "act"
{
    rel mjc:target = </R/slide>
    uniform token mjc:gainType = "affine"
    double[] mjc:gainPrm = [2, -3, -4]
    uniform token mjc:biasType = "affine"
    double[] mjc:biasPrm = [5, -6, -7]
    double mjc:forceRange:min = -100
    double mjc:forceRange:max = 300
    double mjc:ctrlRange:min = 0
    double mjc:ctrlRange:max = 8
}
"""
    parameters = load_quietly(tmp_path, MORE=text).parameters
    names = ("gain", "offset", "kp", "kd", "kp_per_input", "kd_per_input", "force_centre", "force_limit")
    values = np.concatenate([parameters[f"actuator_{name}"] for name in names])
    assert_allclose(values, FORCE * np.array([2, 5, 6 / 0.01, 7 / 0.01, 3 / 0.01, 4 / 0.01, 100, 200]))
    assert_allclose(parameters["actuator_control_upper"], 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('uniform token mjc:dynType = "user"', "'/R/act', which has an internal state"),
        ("double mjc:forceRange:max = inf", "'/R/act', whose range of forces"),
        ("double[] mjc:gear = [0, 0, 0, 0, 0, 0]", "'/R/act', whose gear is zero"),
        ('uniform token mjc:gainType = "user"', "'/R/act', whose force law"),
        ('uniform token mjc:gainType = "muscle"', "'/R/act', which is a muscle of a stage whose units"),
        ("rel mjc:target = </R/root>", "'/R/act', which acts on '/R/root'"),
    ],
)
def test_actuators_without_a_counterpart(tmp_path, text, message):
    target = "" if "rel" in text else "rel mjc:target = </R/hinge>"
    with pytest.warns(sim.USDWarning, match=message):
        load(tmp_path, MORE=f'def MjcActuator "act"\n{{\n{target}\n{text}\n}}')


CONSTRAINT = """def PhysicsJoint "hold" (prepend apiSchemas = ["%s"])
{
    rel physics:body0 = </R/a>
    rel physics:body1 = </R/b>
    point3f physics:localPos0 = (10, 0, 0)
    point3f physics:localPos1 = (10, 0, 0)
}
"""


@pytest.mark.parametrize(("schema", "welded"), [("MjcEqualityConnectAPI", 0), ("MjcEqualityWeldAPI", 1)])
def test_mujoco_constraints(tmp_path, schema, welded):
    model = load_quietly(tmp_path, MORE=CONSTRAINT % schema)
    assert model.equalities.anchor_names == ("hold",)
    assert list(model.equalities.anchor_welded) == [welded]
    assert_allclose(model.parameters["anchor_a"][0, :3], (0.1, 0, 0), atol=1e-9)


@pytest.mark.parametrize("name", ["newton:gravityEnabled", "mjc:flag:gravity"])
def test_gravity_that_is_switched_off(tmp_path, name):
    model = load_quietly(tmp_path, SCENE=f"bool {name} = 0")
    assert_allclose(model.parameters["gravity"], np.zeros(3))
    assert_allclose(load_quietly(tmp_path, SCENE=f"bool {name} = 1").parameters["gravity"], (0, 0, -9.81))


@pytest.mark.parametrize("name", ["newton:selfCollisionEnabled", "physxArticulation:enabledSelfCollisions"])
def test_articulations_that_do_not_collide_with_themselves(tmp_path, name):
    for stated, pairs in (("1", 2), ("0", 3)):
        model = load_quietly(tmp_path, ARTICULATION=f"bool {name} = {stated}")
        # Base and each of the others are joined, so that they never touch.
        assert len(model.excluded_pairs) == pairs


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("double mjc:gravcomp = 0.6", 0.6),
        ("bool physxRigidBody:disableGravity = 1", 1.0),
        ("double mjc:gravcomp = 0", None),
    ],
)
def test_gravity_that_bodies_do_not_feel(tmp_path, text, share):
    model = load_quietly(tmp_path, BODY=text)
    assert model.compensated == (share is not None)
    if share is not None:
        assert_allclose(model.parameters["gravity_compensation"], share)


def test_gravity_compensation_that_is_no_number(tmp_path):
    with raises_naming("'/R/a'", "mjc:gravcomp", "'much'", error=sim.ImportFileError):
        load(tmp_path, BODY='string mjc:gravcomp = "much"')


def test_what_is_not_read_is_named_once(tmp_path):
    """One warning for each schema, with the number of prims; values that mean "as usual" are left out."""
    body = """float physxRigidBody:linearDamping = 5
        float physxRigidBody:angularDamping = 0.05
        bool physxRigidBody:enableCCD = 0
        double mjc:solref = 1
        float physics:mass = 3
    """
    with pytest.warns(sim.USDWarning) as caught:
        load(
            tmp_path, BODY=body, HINGE="float physxJoint:jointFriction = 0.5\n float physxJoint:maxJointVelocity = 1e6"
        )
    said = sorted(str(warning.message).split(": ", 1)[1] for warning in caught)
    assert said == [
        "not read: mjc:solref ('/R/a' and 1 more)",
        "not read: physics:mass ('/R/a' and 1 more)",  # without MassAPI
        "not read: physxJoint:jointFriction ('/R/hinge')",
        "not read: physxRigidBody:linearDamping ('/R/a' and 1 more)",
    ]


@pytest.mark.parametrize("text", ["double mjc:gear = 3", "double mjc:gainType = 1", 'token mjc:forceRange:max = "x"'])
def test_actuators_with_values_of_other_types(tmp_path, text):
    with pytest.raises(sim.ImportFileError, match="'/R/act': mjc:.*; it must be (numbers|a text|a number)"):
        load(tmp_path, MORE=f'def MjcActuator "act"\n{{\nrel mjc:target = </R/hinge>\n{text}\n}}')


def test_negative_properties_name_the_joint(tmp_path):
    with raises_naming("'/R/hinge'", "joint 'hinge'", "armature is -", error=sim.ImportFileError):
        load(tmp_path, HINGE="float newton:armature = -1")
