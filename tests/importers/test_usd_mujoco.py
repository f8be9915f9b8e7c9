"""Files in MuJoCo's schema, as its converter writes them, compared with the MJCF file that they come from."""

import re

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import sim
from sim.simulation.stepping.pair_friction import five_frictions
from tests.errors import quietly

STAGE = """#usda 1.0
(
    metersPerUnit = 1
    upAxis = "Z"
)
def PhysicsScene "Scene" (prepend apiSchemas = ["MjcSceneAPI", "NewtonSceneAPI"])
{{
    uniform token mjc:compiler:angle = "radian"
    {scene}
}}
def Xform "robot"
{{
    def Xform "arm" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsArticulationRootAPI"{body_api}])
    {{
        {body}
        def Capsule "shape" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI", "MjcCollisionAPI"])
        {{
            double radius = 0.1
            double height = 0.6
            uniform token axis = "Z"
            double3 xformOp:translate = (0, 0, -0.3)
            uniform token[] xformOpOrder = ["xformOp:translate"]
            float physics:density = 700
            {shape}
        }}
        def Sphere "site" (prepend apiSchemas = ["MjcSiteAPI"])
        {{
            double radius = 0.01
            double3 xformOp:translate = (0.2, 0, -0.5)
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }}
        {more}
    }}
    def Sphere "anchor" (prepend apiSchemas = ["MjcSiteAPI"])
    {{
        double radius = 0.01
        double3 xformOp:translate = (0.6, 0.1, 0.2)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }}
    def PhysicsRevoluteJoint "hinge" (prepend apiSchemas = ["MjcJointAPI"])
    {{
        rel physics:body1 = </robot/arm>
        uniform token physics:axis = "Y"
        {joint}
    }}
    {physics}
}}
"""
MJCF = """<mujoco><compiler angle="radian" {compiler}/><option timestep="0.001" {option}/><worldbody>
  <site name="anchor" pos="0.6 0.1 0.2"/>
  <body name="arm" {body}><joint name="hinge" axis="0 1 0" {joint}/>
    <geom name="shape" type="capsule" size="0.1 0.3" pos="0 0 -0.3" density="700" {shape}/>
    <site name="site" pos="0.2 0 -0.5"/>{more}</body>
</worldbody>{physics}</mujoco>"""
SLOTS = ("scene", "body_api", "body", "shape", "more", "joint", "physics")


def stage(tmp_path, **parts):
    path = tmp_path / "stage.usda"
    text = STAGE.format(**dict.fromkeys(SLOTS, "") | parts)
    for short, whole in (("{ ", "{\n"), (" }", "\n}"), ("; ", "\n")):  # USD has no prims on one line
        text = text.replace(short, whole)
    path.write_text(text)
    return path


def peer_of(**parts):
    slots = ("compiler", "option", "body", "shape", "more", "joint", "physics")
    return mujoco.MjModel.from_xml_string(MJCF.format(**dict.fromkeys(slots, "") | parts))


def assert_same_motion(model, peer, steps=5, control=None):
    """Step both under MuJoCo's law from a moving state."""
    data, simulator = mujoco.MjData(peer), sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    data.qpos[:], data.qvel[:] = np.linspace(0.3, 0.5, peer.nq), np.linspace(1.5, 1.0, peer.nv)
    if control is not None:
        data.ctrl[:] = control
    state = simulator.state(data.qpos[None], data.qvel[None])
    for _ in range(steps):
        mujoco.mj_step(peer, data)
        state = simulator.step(state, **({} if control is None else {"control": data.ctrl[None].copy()}))
    assert_allclose(state.q.numpy()[0], data.qpos, rtol=2e-7)
    assert_allclose(state.qd.numpy()[0], data.qvel, rtol=2e-6)


MASSES = {
    "zero": (
        {"more": """def Sphere "ball" (
            prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI", "MjcCollisionAPI"]
         ) { double radius = 0.2; float physics:mass = 0 }"""},
        {"more": '<geom size="0.2" mass="0"/>'},
    ),
    "total": ({"scene": "double mjc:compiler:setTotalMass = 3"}, {"compiler": 'settotalmass="3"'}),
    "bounds": (
        {"scene": "double mjc:compiler:boundMass = 20\ndouble mjc:compiler:boundInertia = 0.4"},
        {"compiler": 'boundmass="20" boundinertia="0.4"'},
    ),
    "groups": (
        {"scene": "int mjc:compiler:inertiaGroupRange:max = 2",
         "more": """def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI", "MjcCollisionAPI"])
         { double radius = 0.2; int mjc:group = 3 }"""},
        {"compiler": 'inertiagrouprange="0 2"', "more": '<geom size="0.2" group="3"/>'},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MASSES)
def test_masses_by_the_rules_of_the_compiler(tmp_path, name):
    usd, mjcf = MASSES[name]
    model, peer = quietly(sim.load, stage(tmp_path, **usd), dtype="float64"), peer_of(**mjcf)
    link, body = model.link("arm"), peer.body("arm")
    assert model.parameters["mass"][link] == pytest.approx(body.mass[0], rel=1e-7)
    assert_allclose(model.parameters["com"][link], body.ipos, atol=1e-7)
    moments = np.linalg.eigvalsh(model.parameters["inertia"][link].reshape(3, 3))
    assert_allclose(moments, np.sort(body.inertia), rtol=1e-6)


def points_of_a_channel():
    """A prism with the section of a U, which isn't convex; triangles of one closed surface."""
    section = [(0, 0), (3, 0), (3, 2), (2, 2), (2, 1), (1, 1), (1, 3), (0, 3)]
    low, high = ([(0.1 * x, 0.1 * y, z) for x, y in section] for z in (0.0, 0.25))
    count = len(section)
    caps = [(0, 1, 4), (1, 2, 3), (1, 3, 4), (0, 4, 5), (0, 5, 6), (0, 6, 7)]
    faces = [(a, c, b) for a, b, c in caps] + [(a + count, b + count, c + count) for a, b, c in caps]
    for k in range(count):
        j = (k + 1) % count
        faces += [(k, j, count + j), (k, count + j, count + k)]
    return low + high, faces


@pytest.mark.parametrize("inertia", ["legacy", "exact", "convex"])
def test_inertia_of_meshes(tmp_path, inertia):
    points, faces = points_of_a_channel()
    schemas = ["PhysicsCollisionAPI", "PhysicsMassAPI", "PhysicsMeshCollisionAPI", "MjcCollisionAPI"]
    stated = ""
    if inertia != "convex":  # that of the hull is implied
        schemas, stated = [*schemas, "MjcMeshCollisionAPI"], f'uniform token mjc:inertia = "{inertia}"'
    mesh = f"""def Mesh "mesh" (prepend apiSchemas = {str(schemas).replace("'", '"')})
    {{
        uniform token physics:approximation = "convexHull"
        point3f[] points = {points}
        int[] faceVertexCounts = {[3] * len(faces)}
        int[] faceVertexIndices = {[index for face in faces for index in face]}
        float physics:density = 500
        {stated}
    }}"""
    model = quietly(sim.load, stage(tmp_path, more=mesh), dtype="float64")
    spec = mujoco.MjSpec.from_string(MJCF.format(**dict.fromkeys(
        ("compiler", "option", "body", "shape", "more", "joint", "physics"), "")))  # fmt: skip
    own = spec.add_mesh(name="mesh", uservert=np.ravel(points).tolist(), userface=np.ravel(faces).tolist())
    own.inertia = getattr(mujoco.mjtMeshInertia, f"mjMESH_INERTIA_{inertia.upper()}")
    spec.body("arm").add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="mesh", density=500)
    body, link = spec.compile().body("arm"), model.link("arm")
    assert model.parameters["mass"][link] == pytest.approx(body.mass[0], rel=1e-6)
    assert_allclose(model.parameters["com"][link], body.ipos, atol=1e-7)
    moments = np.linalg.eigvalsh(model.parameters["inertia"][link].reshape(3, 3))
    assert_allclose(moments, np.sort(body.inertia), rtol=1e-6)


def test_a_mesh_inside_out_has_the_mass_of_its_hull(tmp_path):
    mesh = """def Mesh "mesh" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI",
        "MjcMeshCollisionAPI"])
    {
        uniform token physics:approximation = "convexHull"
        point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        int[] faceVertexCounts = [3, 3, 3, 3]
        int[] faceVertexIndices = [0, 1, 2, 0, 3, 1, 0, 2, 3, 1, 3, 2]
        uniform token mjc:inertia = "exact"
    }"""
    with pytest.warns(sim.USDWarning, match="'/robot/arm/mesh': its mesh has no volume"):
        model = sim.load(stage(tmp_path, more=mesh), dtype="float64")
    alone = sim.load(stage(tmp_path), dtype="float64").parameters["mass"]
    assert_allclose(model.parameters["mass"] - alone, 1000 / 6, rtol=1e-6)


PHYSICS = {
    "medium": (
        {"scene": "double mjc:option:density = 50\ndouble mjc:option:viscosity = 2\n"
                  "double3 mjc:option:wind = (1, -2, 0.5)"},
        {"option": 'density="50" viscosity="2" wind="1 -2 0.5"'}, None,
    ),
    "compensated gravity": (
        {"body": "custom float mjc:body:gravcomp = 0.75"}, {"body": 'gravcomp="0.75"'}, None,
    ),
    "limit": (
        {"joint": "float physics:lowerLimit = -57.29577951308232\nfloat physics:upperLimit = 17.188733853924695\n"
                  "double mjc:margin = 0.05\ndouble[] mjc:solreflimit = [0.03, 0.7]\n"
                  "double[] mjc:solimplimit = [0.8, 0.9, 0.01, 0.4, 3]"},
        {"joint": 'range="-1 0.3" limited="true" margin="0.05" solreflimit="0.03 0.7" '
                  'solimplimit="0.8 0.9 0.01 0.4 3"'},
        None,
    ),
    "spring and damper by their time constant": (
        {"joint": "double[] mjc:springdamper = [0.2, 1.5]\ndouble mjc:stiffness = 7\ndouble mjc:damping = 9\n"
                  "double mjc:springref = 0.4\ndouble mjc:armature = 0.3"},
        {"joint": 'springdamper="0.2 1.5" stiffness="7" damping="9" springref="0.4" armature="0.3"'}, None,
    ),
    "dry friction": (
        {"joint": "double mjc:frictionloss = 4\ndouble[] mjc:solreffriction = [0.05, 1.5]"},
        {"joint": 'frictionloss="4" solreffriction="0.05 1.5"'}, None,
    ),
    "fixed tendon": (
        {"joint": "double mjc:springref = 0.1",
         "physics": """def MjcTendon "cable" {
            rel mjc:path = </robot/hinge>
            int[] mjc:path:indices = [0]
            double[] mjc:path:coef = [0.5]
            uniform token mjc:type = "fixed"
            double mjc:stiffness = 300
            double mjc:damping = 5
            double mjc:armature = 0.5
        }
        def MjcActuator "pull" { rel mjc:target = </robot/cable>; double[] mjc:gear = [4, 0, 0, 0, 0, 0] }"""},
        {"joint": 'springref="0.1"',
         "physics": '<tendon><fixed name="cable" stiffness="300" damping="5" armature="0.5">'
                    '<joint joint="hinge" coef="0.5"/></fixed></tendon>'
                    '<actuator><motor tendon="cable" gear="4"/></actuator>'}, 3.0,
    ),
    "limited tendon": (
        {"physics": """def MjcTendon "cable" {
            uniform token mjc:type = "fixed"
            rel mjc:path = </robot/hinge>
            int[] mjc:path:indices = [0]
            double[] mjc:path:coef = [0.5]
            double mjc:actuatorfrcrange:min = -2
            double mjc:actuatorfrcrange:max = 5
        }
        def MjcActuator "pull" { rel mjc:target = </robot/cable>; double[] mjc:gear = [4, 0, 0, 0, 0, 0]
            double[] mjc:gainPrm = [-3, 0, 0] }"""},
        {"physics": '<tendon><fixed name="cable" actuatorfrcrange="-2 5"><joint joint="hinge" coef="0.5"/></fixed>'
                    '</tendon><actuator><general tendon="cable" gear="4" gainprm="-3"/></actuator>'}, -3.0,
    ),
    "limited sum of a tendon": (
        {"physics": """def MjcTendon "cable" {
            uniform token mjc:type = "fixed"
            rel mjc:path = </robot/hinge>
            int[] mjc:path:indices = [0]
            double[] mjc:path:coef = [0.5]
            double mjc:actuatorfrcrange:min = -2
            double mjc:actuatorfrcrange:max = 5
        }
        def MjcActuator "hold" { rel mjc:target = </robot/cable>; double[] mjc:gainPrm = [0, 0, 0] }
        def MjcActuator "pull" { rel mjc:target = </robot/cable>; double[] mjc:gear = [4, 0, 0, 0, 0, 0]
            double[] mjc:gainPrm = [-3, 0, 0]; double mjc:forceRange:min = -1; double mjc:forceRange:max = 4 }"""},
        {"physics": '<tendon><fixed name="cable" actuatorfrcrange="-2 5"><joint joint="hinge" coef="0.5"/></fixed>'
                    '</tendon><actuator><general tendon="cable" gainprm="0"/>'
                    '<general tendon="cable" gear="4" gainprm="-3" forcerange="-1 4"/></actuator>'}, -3.0,
    ),
    "spatial tendon": (
        {"more": """def Sphere "pulley" { double radius = 0.15; double3 xformOp:translate = (0.3, 0, -0.1)
            uniform token[] xformOpOrder = ["xformOp:translate"] }""",
         "physics": """def MjcTendon "cable" {
            rel mjc:path = [</robot/anchor>, </robot/arm/pulley>, </robot/arm/site>]
            int[] mjc:path:indices = [0, 1, 2]
            int[] mjc:path:segments = [0, 0, 0]
            double[] mjc:path:divisors = [1]
            double[] mjc:springlength = [0.1, 0.2]
            double mjc:stiffness = 300
            double mjc:damping = 5
        }"""},
        {"more": '<geom name="pulley" size="0.15" pos="0.3 0 -0.1" contype="0" conaffinity="0" mass="0"/>',
         "physics": '<tendon><spatial springlength="0.1 0.2" stiffness="300" damping="5"><site site="anchor"/>'
                    '<geom geom="pulley"/><site site="site"/></spatial></tendon>'}, None,
    ),
    "actuator of a site": (
        {"physics": """def MjcActuator "jet" { rel mjc:target = </robot/arm/site>
          ; double[] mjc:gear = [3, 1, 2, 0, 4, 0] }"""},
        {"physics": '<actuator><motor site="site" gear="3 1 2 0 4 0"/></actuator>'}, 2.0,
    ),
    "actuator with a filter": (
        {"joint": "double mjc:actuatorfrcrange:min = -2\ndouble mjc:actuatorfrcrange:max = 1",
         "physics": """def MjcActuator "drive" { rel mjc:target = </robot/hinge>
            uniform token mjc:dynType = "filterexact"
            double[] mjc:dynPrm = [0.01, 0, 0]
            double[] mjc:gainPrm = [30, 0, 0] }"""},
        {"joint": 'actuatorfrcrange="-2 1"',
         "physics": '<actuator><general joint="hinge" dyntype="filterexact" dynprm="0.01" gainprm="30"/>'
                     '</actuator>'}, 0.4,
    ),
    "muscles": (  # the peak force of the first follows from the inertia, armature of the tendon included
        {"physics": """def MjcTendon "cable" {
            uniform token mjc:type = "fixed"; rel mjc:path = </robot/hinge>; double[] mjc:path:coef = [-0.4]
            double mjc:armature = 3 }
        def MjcActuator "scaled" { rel mjc:target = </robot/cable>; double[] mjc:gear = [1.5, 0, 0, 0, 0, 0]
            uniform token mjc:gainType = "muscle"; double[] mjc:gainPrm = [0.75, 1.05, -1, 30, 0.5, 1.6, 1.5, 1.3, 1.2]
            uniform token mjc:biasType = "muscle"; double[] mjc:biasPrm = [0.75, 1.05, -1, 30, 0.5, 1.6, 1.5, 1.3, 1.2]
            uniform token mjc:dynType = "muscle"; double[] mjc:dynPrm = [0.01, 0.04, 0.2]
            double mjc:lengthRange:min = -0.9; double mjc:lengthRange:max = -0.1 }
        def MjcActuator "strong" { rel mjc:target = </robot/hinge>
            uniform token mjc:gainType = "muscle"; double[] mjc:gainPrm = [0.6, 1.2, 20, 1, 0.4, 1.8, 2, 1, 1.5]
            uniform token mjc:dynType = "muscle"; double[] mjc:dynPrm = [0.003, 0.05, 0]
            double mjc:forceRange:min = -9; double mjc:forceRange:max = 9; double mjc:ctrlRange:max = 0.7
            double mjc:lengthRange:min = -1; double mjc:lengthRange:max = 1.5 }"""},
        {"physics": '<tendon><fixed name="cable" armature="3"><joint joint="hinge" coef="-0.4"/></fixed></tendon>'
                    '<actuator><muscle tendon="cable" gear="1.5" lengthrange="-0.9 -0.1" scale="30" tausmooth="0.2"/>'
                    '<general joint="hinge" gaintype="muscle" gainprm="0.6 1.2 20 1 0.4 1.8 2 1 1.5" ctrlrange="0 0.7"'
                    ' dyntype="muscle" dynprm="0.003 0.05 0" forcerange="-9 9" lengthrange="-1 1.5"/></actuator>'}, 0.9,
    ),
}  # fmt: skip
# Which implicitfast doesn't support here.
EXPLICIT = ("medium", "fixed tendon", "limited tendon", "limited sum of a tendon", "spatial tendon", "muscles")


@pytest.mark.parametrize(
    ("name", "integrator"),
    [(name, each) for name in PHYSICS for each in ("Euler", "RK4", *(() if name in EXPLICIT else ("implicitfast",)))],
)
def test_motion(tmp_path, name, integrator):
    usd, mjcf, control = PHYSICS[name]
    own = f'uniform token mjc:option:integrator = "{integrator.lower()}"'
    path = stage(tmp_path, **usd | {"scene": usd.get("scene", "") + "\n" + own})
    option = f'{mjcf.get("option", "")} integrator="{integrator}"'
    model = quietly(sim.load, path, dtype="float64", collision=False)
    assert_same_motion(model, peer_of(**mjcf | {"option": option}), control=control)


def test_options_of_the_scene(tmp_path):
    scene = """int newton:timeStepsPerSecond = 500
    uniform token mjc:option:cone = "elliptic"
    double mjc:option:impratio = 3
    uniform bool mjc:flag:eulerdamp = 0"""
    settings = sim.mujoco_settings(quietly(sim.load, stage(tmp_path, scene=scene)))
    assert settings["dt"] == 0.002
    assert settings["integrator"] == "explicit"
    assert settings["contact"].friction == "cone"
    assert sim.mujoco_settings(quietly(sim.load, stage(tmp_path)))["dt"] == 0.001  # the default of Newton's schema
    with pytest.warns(sim.USDWarning, match="integrator 'discrete'"):
        model = sim.load(stage(tmp_path, scene='uniform token mjc:option:integrator = "discrete"'))
    with pytest.raises(sim.ModelError, match="no part of the model"):
        sim.mujoco_settings(model)


def test_contacts_of_several_dimensions(tmp_path):
    """Of two geoms with one and four dimensions, MuJoCo takes four, and the larger friction of each kind."""
    schemas = 'prepend apiSchemas = ["PhysicsCollisionAPI", "MjcCollisionAPI", "MaterialBindingAPI"]'
    floor = f"""def Plane "floor" ({schemas}) {{ int mjc:condim = 1; rel material:binding:physics = </robot/rubber> }}
    def Material "rubber" (prepend apiSchemas = ["PhysicsMaterialAPI", "NewtonMaterialAPI"])
    {{
        float physics:dynamicFriction = 0.8
        float physics:staticFriction = 0.8
        float newton:torsionalFriction = 0.02
    }}"""
    shape = """int mjc:condim = 4
    double[] mjc:solref = [0.03, 0.6]
    double[] mjc:solimp = [0.5, 0.99, 0.01, 0.5, 1]
    double mjc:solmix = 2
    float newton:contactMargin = 0.01"""
    model = quietly(sim.load, stage(tmp_path, physics=floor, shape=shape), dtype="float64", friction=0.3)
    geometry = next(each for each in model.geometries if each.name.endswith("shape"))
    assert geometry.softness == sim.Softness((0.03, 0.6), (0.5, 0.99, 0.01, 0.5, 1.0))
    assert (geometry.softness_mix, geometry.friction_rule) == (2.0, "maximum")
    assert geometry.contact_margin == pytest.approx(0.01)
    assert_allclose(five_frictions(model), [[0.8, 0.8, 0.02, 0.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("slot", "text", "message"),
    [
        ("scene", "double mjc:option:wind = 3", "mjc:option:wind is 3.0; it must be 3 finite numbers"),
        ("scene", "double mjc:option:impratio = -1", "mjc:option:impratio is -1"),
        ("joint", "double[] mjc:solreflimit = [1]", "mjc:solreflimit"),
        ("shape", 'string mjc:solref = "soft"', "mjc:solref is 'soft'; it must be 2 finite numbers"),
        ("shape", "double[] mjc:solimp = [inf, 0, 0, 0, 0]", "mjc:solimp"),
    ],
)
def test_numbers_that_are_refused(tmp_path, slot, text, message):
    with pytest.raises(sim.ImportFileError, match=re.escape(message)):
        quietly(sim.load, stage(tmp_path, **{slot: text}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "its path has no targets"),
        ("rel mjc:path = </robot/hinge>", "it has 1 joints, but 0 coefficients"),
        ("rel mjc:path = </robot/arm>\ndouble[] mjc:path:coef = [1]", "it acts on '/robot/arm', which isn't a hinge"),
        ("rel mjc:path = </robot/hinge>\nint[] mjc:path:indices = [3]", "its path has no targets, or names some"),
        ('rel mjc:path = </robot/arm/shape>\nuniform token mjc:type = "spatial"', "it wraps around '/robot/arm/shape'"),
        ('rel mjc:path = </nothing>\nuniform token mjc:type = "spatial"', "'/nothing' doesn't exist"),
    ],
)
def test_tendons_without_a_counterpart(tmp_path, text, message):
    kind = "" if "mjc:type" in text else 'uniform token mjc:type = "fixed"'
    with pytest.warns(sim.USDWarning, match=f"ignored: tendon '/robot/cable': {message}"):
        sim.load(stage(tmp_path, physics=f'def MjcTendon "cable" {{\n{text}\n{kind}\n}}'))


def test_switched_off_features_are_named(tmp_path):
    with pytest.warns(sim.USDWarning, match="not read: mjc:flag:contact"):
        sim.load(stage(tmp_path, scene="uniform bool mjc:flag:contact = 0"))


HINGE = "rel mjc:target = </robot/hinge>; "
SITE = "rel mjc:target = </robot/arm/site>; "
TENDON = "rel mjc:path = [</robot/arm/site>, </robot/anchor>]; "
COUPLED = 'uniform token mjc:type = "fixed"; rel mjc:path = </robot/hinge>; '
WRAPPED = (
    "rel mjc:path = [</robot/arm/site>, </robot/arm/ball>, </robot/anchor>]; int[] mjc:sideSites:indices = [-1,0,-1]; "
)
INVALID = {
    "mass": ("scene", "double mjc:compiler:setTotalMass = inf", "/Scene.*setTotalMass is inf"),
    "step": ("scene", "double mjc:option:timestep = -1", "/Scene.*timestep is -1"),
    "angle": ("scene", 'uniform token mjc:compiler:angle = "turn"', "/Scene.*'turn'.*degree, radian"),
    "dimension": ("shape", "int mjc:condim = 2", "shape.*condim is 2; it must be 1, 3, 4 or 6"),
    "flag": ("actuator", HINGE + 'uniform token mjc:ctrlLimited = "maybe"', "/robot/a'.*'maybe'.*auto, true, false"),
    "range": ("actuator", HINGE + 'uniform token mjc:forceLimited = "true"', r"forceRange is \(0, 0\); its ends"),
    "spring": ("tendon", TENDON + "double mjc:stiffness = -1", "/robot/t'.*stiffness is -1"),
    "length": ("tendon", TENDON + "double[] mjc:springlength = [2,1]", "/robot/t'.*rest is"),
    "type": ("tendon", TENDON + 'uniform token mjc:type = "loose"', "/robot/t'.*'loose'.*spatial, fixed"),
    "whole": ("tendon", COUPLED + "double[] mjc:path:indices = [0.5]", "/robot/t'.*whole numbers"),
    "finite": ("tendon", COUPLED + "double[] mjc:path:coef = [inf]", "/robot/t'.*must be finite"),
    "text": ("tendon", COUPLED + 'string mjc:path:coef = "1"', "/robot/t'.*several numbers"),
}  # fmt: skip
MUSCLE = 'uniform token mjc:gainType = "muscle"; double[] mjc:gainPrm = [0.7, 1, 1, 1, 0.5, 1.6, 1, 1, 1.2]; '
LENGTHS = "double mjc:lengthRange:max = 1; "
SKIPPED = {
    "lengths of a muscle": ("actuator", HINGE + MUSCLE, "'/robot/a', which is a muscle without a range of lengths"),
    "muscle of a site": ("actuator", SITE + MUSCLE + LENGTHS, "'/robot/a', which is a muscle, but acts neither on"),
    "bias of a muscle": ("actuator", HINGE + MUSCLE + LENGTHS + 'uniform token mjc:biasType = "affine"',
                         "'/robot/a', which is a muscle with a passive force that isn't"),
    "speed of a muscle": ("actuator", HINGE + LENGTHS + 'uniform token mjc:gainType = "muscle"',
                          "'/robot/a', whose parameters are out of range"),
    "gear": ("actuator", HINGE + "double[] mjc:gear = []", "'/robot/a', whose gear is zero"),
    "targets": ("actuator", "rel mjc:target = [</robot/hinge>, </nope>]", "'/robot/a', which acts on 2 prims"),
    "reference": ("actuator", SITE + "rel mjc:refSite = </nope>", "'/robot/a', whose reference '/nope' doesn't exist"),
    "side": ("tendon", WRAPPED + "rel mjc:sideSites = </nope>", "'/robot/t': its side site '/nope' doesn't exist"),
}  # fmt: skip
PRIMS = {"actuator": 'def MjcActuator "a" { %s }', "tendon": 'def MjcTendon "t" { %s }'}


def changed(tmp_path, slot, text):
    """Return a stage with attributes in a slot, or with a prim of these attributes and a ball."""
    if slot in PRIMS:
        return stage(tmp_path, physics=PRIMS[slot] % text, more='def Sphere "ball" { double radius = 0.05 }')
    path = stage(tmp_path, **{slot: text, "joint": "double mjc:springref = 1"})
    if "compiler:angle" in text:  # in place of the one stated
        path.write_text(path.read_text().replace('uniform token mjc:compiler:angle = "radian"', "", 1))
    return path


@pytest.mark.parametrize("name", INVALID)
def test_invalid_values_are_refused(tmp_path, name):
    slot, text, said = INVALID[name]
    with pytest.raises(sim.ImportFileError, match=said):
        quietly(sim.load, changed(tmp_path, slot, text))


@pytest.mark.parametrize("name", SKIPPED)
def test_actuators_and_tendons_without_their_targets_are_named(tmp_path, name):
    slot, text, said = SKIPPED[name]
    with pytest.warns(sim.USDWarning, match=said):
        sim.load(changed(tmp_path, slot, text))
