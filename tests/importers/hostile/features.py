"""Files that mean harm through what a simulation knows beyond bodies: softness, tendons, sensors, equalities, mocap
bodies, actuators with states, media, and joints of USD with several axes."""

# Files are easier to read in whole lines.
# ruff: noqa: E501

import re
from collections.abc import Iterator

NAMES = ("gone", "", None)
NUMBERS = ("1 NaN", "inf", "1e300", "-1", "", "1 2 3 4 5 6 7 8 9 10 11 12", "0 0 0 0 0", None)
WORDS = ("unheard_of", "", None)
MJCF = """<mujoco>
<option timestep="0.002" density="1.2" viscosity="0.01" wind="1 0 0" impratio="2" cone="elliptic" integrator="RK4" noslip_iterations="3" noslip_tolerance="0.001"/>
<worldbody>
<geom name="floor" type="plane" size="1 1 1" solref="0.02 1" solimp="0.9 0.95 0.001 0.5 2" solmix="1" priority="1" margin="0.001" gap="0.0005"/>
<site name="anchor" pos="-0.4 0 1"/><site name="side" pos="0 0 1.4"/><geom name="post" type="cylinder" size="0.05 0.3" pos="0 0 1" contype="0" conaffinity="0"/>
<body name="hand" mocap="true" pos="0 1 2" quat="1 0 0 0"><geom name="palm" size="0.05"/></body>
<body name="upper" pos="0 0 1"><joint name="a" axis="0 1 0" range="-1 1" limited="true" solreflimit="0.02 1" solimplimit="0.9 0.95 0.001 0.5 2" solreffriction="0.02 1" frictionloss="0.1"/>
<geom name="bone" size="0.1 0.2" type="capsule" fluidshape="ellipsoid" fluidcoef="0.5 0.25 1.5 1 1"/><geom name="knee" size="0.06" contype="0" conaffinity="0"/><site name="elbow" pos="0.3 0 0.1"/>
<body name="lower" pos="0.4 0 0"><joint name="b" axis="0 1 0"/><geom size="0.05"/><site name="wrist" pos="0.3 0 0"/></body></body>
<body name="free" pos="1 0 1"><freejoint name="f"/><geom name="ball" size="0.1"/></body>
</worldbody>
<contact><pair name="pair" geom1="ball" geom2="floor" friction="1 1 0.01 0.001 0.001" solref="0.03 1" solreffriction="0.04 1" solimp="0.8 0.9 0.01 0.5 2"/><exclude body1="upper" body2="free"/></contact>
<tendon>
<fixed name="sum" stiffness="8" damping="0.7" springlength="0.1 0.2" limited="true" range="-0.1 0.15" solreflimit="0.05 1" solimpfriction="0.9 0.95 0.001 0.5 2" frictionloss="0.2"><joint joint="a" coef="0.7"/><joint joint="b" coef="-1.2"/></fixed>
<spatial name="rope" stiffness="3" springlength="0.3" margin="0.01"><site site="anchor"/><geom geom="post" sidesite="side"/><site site="elbow"/><geom geom="knee"/><site site="wrist"/><pulley divisor="2"/><site site="anchor"/><site site="wrist"/></spatial>
</tendon>
<equality>
<joint name="couple" joint1="a" joint2="b" polycoef="0.1 1 0 0 0" solref="0.02 1" solimp="0.9 0.95 0.001 0.5 2"/>
<weld name="weld" body1="free" body2="hand" relpose="0 0 0 1 0 0 0" torquescale="1"/>
<connect name="pin" body1="lower" body2="free" anchor="0 0 0.1"/>
<tendon name="tie" tendon1="sum" tendon2="rope" polycoef="0.05 0.8 0.3 -0.2 0.1"/>
</equality>
<actuator>
<general name="integrator" joint="a" dyntype="integrator" gainprm="2 0 0" biastype="affine" biasprm="0.1 -2 -0.1" ctrlrange="-1 1" actlimited="true" actrange="-0.3 0.2"/>
<general name="filter" tendon="sum" dyntype="filterexact" dynprm="0.05" gear="3" actearly="true"/>
<intvelocity name="drive" joint="b" kp="3" kv="0.2" actrange="-1 1"/>
<motor name="jet" site="wrist" refsite="anchor" gear="0.1 0 1 0 0 0.3"/><adhesion name="cling" body="lower" gain="4" ctrlrange="0 2"/>
</actuator>
<sensor>
<jointpos name="reading" joint="a" cutoff="3"/><gyro site="wrist"/><framepos objtype="site" objname="wrist" reftype="body" refname="free"/>
<tendonpos tendon="sum"/><actuatorfrc actuator="filter"/>
</sensor>
<keyframe><key name="start" act="0.1 0.2 0.3" mpos="0 1 2" mquat="1 0 0 0"/></keyframe>
</mujoco>"""
# Attributes whose value is a number or several: the one with this text, of the first element that has it.
MJCF_NUMBERS = (
    'density="1.2"', 'viscosity="0.01"', 'wind="1 0 0"', 'impratio="2"', 'noslip_iterations="3"', 'noslip_tolerance="0.001"', 'solref="0.02 1"', 'solimp="0.9 0.95 0.001 0.5 2"',
    'solmix="1"', 'priority="1"', 'margin="0.001"', 'gap="0.0005"', 'pos="0 1 2"', 'quat="1 0 0 0"', 'solreflimit="0.02 1"',
    'solimplimit="0.9 0.95 0.001 0.5 2"', 'solreffriction="0.02 1"', 'fluidcoef="0.5 0.25 1.5 1 1"',
    'friction="1 1 0.01 0.001 0.001"', 'solref="0.03 1"', 'solreffriction="0.04 1"', 'stiffness="8"',
    'springlength="0.1 0.2"', 'range="-0.1 0.15"', 'solreflimit="0.05 1"', 'solimpfriction="0.9 0.95 0.001 0.5 2"',
    'frictionloss="0.2"', 'coef="0.7"', 'divisor="2"', 'polycoef="0.1 1 0 0 0"', 'relpose="0 0 0 1 0 0 0"', 'torquescale="1"',
    'anchor="0 0 0.1"', 'polycoef="0.05 0.8 0.3 -0.2 0.1"', 'gainprm="2 0 0"', 'biasprm="0.1 -2 -0.1"', 'actrange="-0.3 0.2"',
    'dynprm="0.05"', 'gear="3"', 'kv="0.2"', 'gear="0.1 0 1 0 0 0.3"', 'gain="4"', 'ctrlrange="0 2"', 'cutoff="3"', 'act="0.1 0.2 0.3"', 'mpos="0 1 2"', 'mquat="1 0 0 0"',
)  # fmt: skip
MJCF_WORDS = (
    'cone="elliptic"', 'integrator="RK4"', 'mocap="true"', 'fluidshape="ellipsoid"', 'dyntype="integrator"',
    'dyntype="filterexact"', 'actlimited="true"', 'actearly="true"', 'objtype="site"', 'reftype="body"',
)  # fmt: skip
# References, and what refers to the element itself or to what it already has.
MJCF_REFERENCES = {
    'geom1="ball"': "floor", 'body1="upper"': "free", '<joint joint="{a}" coef="0.7"': "b", '<site site="{anchor}"/><geom geom="post"': "elbow",
    'geom="post"': "knee", 'sidesite="side"': "elbow", 'joint1="a"': "b", 'joint2="b"': "a", 'body1="free"': "hand",
    'body2="hand"': "free", 'body1="lower"': "free", 'tendon1="sum"': "rope", 'tendon2="rope"': "sum",
    'name="integrator" joint="{a}"': "f", 'tendon="{sum}" dyntype="filterexact"': "rope", 'name="reading" joint="{a}"': "f",
    'objname="wrist"': "free", 'refname="free"': "wrist", '<tendonpos tendon="{sum}"': "rope", 'actuator="filter"': "filter",
    'name="jet" site="{wrist}"': "anchor", 'refsite="{anchor}"': "wrist", 'name="cling" body="{lower}"': "free",
}  # fmt: skip
MJCF_TWICE = (
    "<exclude", "<fixed", "<spatial", "<weld", "<connect", "<jointpos", "<intvelocity", "<key name", "<body name=\"hand\"",
    "<pulley", "<freejoint",
)  # fmt: skip
USDA = """#usda 1.0
( upAxis = "Z"
metersPerUnit = 1 )
def Xform "W" {
    def PhysicsScene "s" {}
    def Xform "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
        float physics:mass = 1
        def Sphere "g" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
            double radius = 0.1
        }
    }
    def Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
        float physics:mass = 1
        def Sphere "g" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
            double radius = 0.1
        }
    }
    def PhysicsJoint "d6" (prepend apiSchemas = ["PhysicsLimitAPI:transX", "PhysicsLimitAPI:transY", "PhysicsLimitAPI:transZ", "PhysicsLimitAPI:rotZ", "PhysicsDriveAPI:rotX"]) {
        rel physics:body0 = </W/a>
        rel physics:body1 = </W/b>
        point3f physics:localPos0 = (0.5, 0, 0)
        quatf physics:localRot1 = (1, 0, 0, 0)
        float limit:transX:physics:low = 1
        float limit:transX:physics:high = -1
        float limit:transY:physics:low = -0.5
        float limit:transY:physics:high = 0.5
        float limit:transZ:physics:low = 2
        float limit:transZ:physics:high = -2
        float limit:rotZ:physics:low = -90
        float limit:rotZ:physics:high = 90
        float drive:rotX:physics:stiffness = 3
        float drive:rotX:physics:damping = 0.5
        float drive:rotX:physics:targetPosition = 10
        float drive:rotX:physics:maxForce = 7
        bool physics:jointEnabled = 1
    }
}
"""
USD_NUMBERS = (
    "limit:transX:physics:low = 1", "limit:transX:physics:high = -1", "limit:transY:physics:low = -0.5",
    "limit:rotZ:physics:low = -90", "limit:rotZ:physics:high = 90", "drive:rotX:physics:stiffness = 3",
    "drive:rotX:physics:damping = 0.5", "drive:rotX:physics:targetPosition = 10", "drive:rotX:physics:maxForce = 7",
    "localPos0 = (0.5, 0, 0)", "localRot1 = (1, 0, 0, 0)",
)  # fmt: skip
USD_VALUES = (
    "nan",
    "inf",
    "-inf",
    "1e38",
    "-1",
    "[1, 2]",
    '"x"',
    "(0, nan, 0)",
    "(0, 0, 0, 0)",
    "(1e38, 0, 0, 0)",
    None,
)
USD_RELATIONS = {"body0 = </W/a>": "</W/b>", "body1 = </W/b>": "</W/a>"}
USD_TARGETS = ("</gone>", "[</W/a>, </W/b>]", "</W/d6>", "</W/s>", None)
AXES = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ", "distance", "nowhere")


def mjcfs() -> Iterator[tuple[str, str]]:
    """Names and texts."""
    yield "features.xml", MJCF
    for kind, texts, values in (("n", MJCF_NUMBERS, NUMBERS), ("w", MJCF_WORDS, WORDS)):
        for k, good in enumerate(texts):
            for number, value in enumerate(values):
                yield f"f{kind}_{k}_{number}.xml", _with(good, value)
    for k, (good, other) in enumerate(MJCF_REFERENCES.items()):
        for number, value in enumerate((other, *NAMES)):
            yield f"fr_{k}_{number}.xml", _with(good, value)
    for number, tag in enumerate(MJCF_TWICE):
        found = re.search(rf"{tag}[^<>]*(/>|>.*?</{tag.split()[0][1:]}>)", MJCF, re.DOTALL)
        assert found, tag
        yield f"ft_{number}.xml", MJCF.replace(found[0], found[0] * 2, 1)
    for number, good in enumerate(MJCF_NUMBERS[:12]):
        yield f"fa_{number}.xml", MJCF.replace(good, f"{good} {good}", 1)


def usds() -> Iterator[tuple[str, str]]:
    """Names and texts."""
    yield "d6.usda", USDA
    for k, good in enumerate(USD_NUMBERS):
        for number, value in enumerate(USD_VALUES):
            yield f"dn_{k}_{number}.usda", _with_line(good, value)
    for k, (good, other) in enumerate(USD_RELATIONS.items()):
        for number, value in enumerate((other, *USD_TARGETS)):
            yield f"dr_{k}_{number}.usda", _with_line(good, value)
    joint = USDA[USDA.index("    def PhysicsJoint") : USDA.rindex("}")]
    yield "d_twice.usda", USDA.replace(joint, joint + joint.replace('"d6"', '"second"'))
    yield "d_name.usda", USDA.replace(joint, joint * 2)
    yield (
        "d_loop.usda",
        USDA.replace(
            joint,
            joint
            + joint.replace('"d6"', '"back"').replace("/W/a", "/W/x").replace("/W/b", "/W/a").replace("/W/x", "/W/b"),
        ),
    )
    for axis in AXES:
        yield f"d_{axis}.usda", USDA.replace("rotZ", axis)


def _with(text: str, value: str | None) -> str:
    """A file with another value of an attribute, the one in braces of several, or without it (None)."""
    found = text.replace("{", "").replace("}", "")
    assert found in MJCF, found
    attribute = re.search(r'\w+="{[^}]*}"' if "{" in text else r'\w+="[^"]*"', text)[0]
    changed = "" if value is None else f'{attribute.split("=")[0]}="{value}"'
    return MJCF.replace(found, text.replace(attribute, changed), 1)


def _with_line(part: str, value: str | None) -> str:
    """A stage in which the line with this part has another value, or that isn't there (None)."""
    line = next(line for line in USDA.splitlines(keepends=True) if part in line)
    return USDA.replace(line, "" if value is None else f"{line.split(' = ')[0]} = {value}\n", 1)
