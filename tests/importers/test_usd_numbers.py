"""Numbers in USD files that no scene should hold: errors that name the prim, or warnings, never silence."""

import re

import numpy as np
import pytest

import sim
from sim.importers.usd.motion import read_motion
from tests.errors import raises_naming, strictly

SCENE = """#usda 1.0
(
    metersPerUnit = METRES
    kilogramsPerUnit = KILOGRAMS
    upAxis = "UP"
)
def PhysicsScene "s"
{
    GRAVITY
}
def Cube "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsCollisionAPI"])
{
    BODY
}
def Cube "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
{
}
def PhysicsRevoluteJoint "j" (prepend apiSchemas = ["PhysicsDriveAPI:angular"])
{
    rel physics:body0 = </a>
    rel physics:body1 = </b>
    JOINT
}
"""
USUAL = {"METRES": "1", "KILOGRAMS": "1", "UP": "Z", "GRAVITY": "", "BODY": "", "JOINT": ""}
MOVED = 'uniform token[] xformOpOrder = ["xformOp:%s"]'


def load(tmp_path, **texts):
    path = tmp_path / "scene.usda"
    path.write_text(re.sub("|".join(USUAL), lambda found: (USUAL | texts)[found[0]], SCENE))
    return sim.load(path, dtype="float64")


@pytest.mark.parametrize(
    ("slot", "text", "message"),
    [
        ("BODY", "float physics:mass = -5", "'/a': mass is -5.0"),
        ("BODY", "float physics:mass = nan", "'/a': physics:mass is nan"),
        ("BODY", "float physics:mass = inf", "'/a': its mass properties come to inf"),
        ("BODY", "float physics:density = -5", "'/a': density is -5.0"),
        ("BODY", "float physics:density = nan", "'/a': physics:density is nan"),
        (
            "BODY",
            "float physics:mass = 1\n point3f physics:centerOfMass = (nan, 0, 0)",
            "'/a': physics:centerOfMass is",
        ),
        ("BODY", "quatf physics:principalAxes = (nan, 0, 0, 0)", "'/a': physics:principalAxes is"),
        (
            "BODY",
            f"double3 xformOp:translate = (inf, 0, 0)\n {MOVED % 'translate'}",
            "'/a': its transform is not finite",
        ),
        ("BODY", f"quatf xformOp:orient = (0, 0, 0, 0)\n {MOVED % 'orient'}", "'/a': xformOp:orient is the zero"),
        ("BODY", "double size = nan", "'/a': its size is"),
        ("BODY", "double size = 1e200", "'/a': its size is .* at most 1e.30"),
        ("BODY", "double size = None", "'/a': size is None"),
        ("BODY", 'token size = "large"', "'/a': size is .*; it must be of type 'double'"),
        ("JOINT", 'token physics:localPos0 = "far"', "'/j': physics:localPos0 is .*; it must be of type 'point3f'"),
        ("JOINT", 'token newton:armature = "much"', "'/j': newton:armature is 'much'; it must be a number"),
        ("GRAVITY", "float physics:gravityMagnitude = nan", "'/s': gravity is nan"),
        ("GRAVITY", "float physics:gravityMagnitude = inf", "'/s': gravity is inf"),
        ("GRAVITY", "vector3f physics:gravityDirection = (nan, 0, 0)", "'/s': gravity is .*nan"),
        ("JOINT", "float physics:lowerLimit = nan\n float physics:upperLimit = 1", "'/j': physics:lowerLimit is nan"),
        ("JOINT", "float physics:lowerLimit = 0\n float physics:upperLimit = nan", "'/j': physics:upperLimit is nan"),
        ("JOINT", "float physics:lowerLimit = inf", "'/j': its limits are inf and inf"),
        ("JOINT", "quatf physics:localRot0 = (0, 0, 0, 0)", "'/j': holds the pose"),
        ("JOINT", "float drive:angular:physics:maxForce = nan", "'/j': drive:angular:physics:maxForce is nan"),
        ("JOINT", "float newton:armature = nan", "'/j': newton:armature is nan"),
        ("UP", "X", "upAxis is 'X'; it must be Y or Z"),
        ("METRES", "0", "metersPerUnit is 0.0; it must be positive"),
        ("METRES", "-0.01", "metersPerUnit is -0.01"),
        ("METRES", "nan", "metersPerUnit is nan"),
        ("KILOGRAMS", "0", "kilogramsPerUnit is 0.0"),
        ("KILOGRAMS", "-1", "kilogramsPerUnit is -1.0"),
    ],
)
def test_numbers_that_are_refused(tmp_path, slot, text, message):
    with pytest.raises(sim.ImportFileError, match=f"scene.usda: .*{message}"):
        load(tmp_path, **{slot: text})


def test_numbers_that_mean_something_else_are_reported(tmp_path):
    with pytest.warns(sim.USDWarning, match="'/a': mass 0 .* 8000 kg"):
        model = load(tmp_path, BODY="float physics:mass = 0")
    assert model.parameters["mass"][0] == 8000.0
    with pytest.warns(sim.USDWarning, match="'/j': its lower limit 10.0 is above the upper -10.0; it is locked"):
        model = load(tmp_path, JOINT="float physics:lowerLimit = 10\n float physics:upperLimit = -10")
    assert model.nv == 6


def test_usual_numbers_raise_no_warning(tmp_path):
    """A density instead of a mass, gravity and limits at their sentinels."""
    model = strictly(
        load, tmp_path, BODY="float physics:mass = 0\n float physics:density = 2",
        GRAVITY="float physics:gravityMagnitude = -inf",
        JOINT="float physics:lowerLimit = -inf\n float physics:upperLimit = inf",
    )  # fmt: skip
    np.testing.assert_allclose(model.parameters["mass"], (16.0, 8000.0))
    np.testing.assert_allclose(model.parameters["gravity"], (0.0, 0.0, -9.81))


def test_points_that_are_not_finite(tmp_path):
    mesh = """def Mesh "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
{
    point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, nan)]
    int[] faceVertexCounts = [3, 3, 3, 3]
    int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]
}
"""
    path = tmp_path / "mesh.usda"
    path.write_text(f"#usda 1.0\n{mesh}")
    with raises_naming("'/a'", "mesh", "not finite", error=sim.ImportFileError):
        sim.load(path)


def test_shapes_of_a_stored_motion_that_have_no_size(tmp_path):
    path = tmp_path / "drawn.usda"
    path.write_text('#usda 1.0\ndef Sphere "ball" {\n    double radius = None\n}\n')
    with raises_naming("'/ball'", "radius", "None", error=sim.ImportFileError):
        read_motion(path)
