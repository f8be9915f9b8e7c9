"""Moving surfaces in USD files: PhysX's schema, and files that are written."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, Usd, UsdPhysics
from scipy.spatial.transform import Rotation

import sim
from sim.model.poses import compose
from tests.errors import raises_naming

# A belt in centimetres, Y up: a scaled kinematic body with a turned collider.
BELT = """#usda 1.0
( metersPerUnit = 0.01
  upAxis = "Y" )
def Xform "Belt" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysxSurfaceVelocityAPI"] ) {
    bool physics:kinematicEnabled = 1
    double3 xformOp:translate = (30, 20, -10)
    float xformOp:rotateX = 25
    double3 xformOp:scale = (2, 2, 2)
    uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateX", "xformOp:scale"]
    vector3f physxSurfaceVelocity:surfaceVelocity = (40, -10, 5)
    vector3f physxSurfaceVelocity:surfaceAngularVelocity = (30, 90, -20)
    MORE
    def Cube "shape" ( prepend apiSchemas = ["PhysicsCollisionAPI"] ) {
        double size = 10
        double3 xformOp:translate = (5, 7, 2)
        float xformOp:rotateZ = 40
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]
    }
}
"""
UP = Rotation.from_euler("x", 90, degrees=True)


def read(folder, more: str = "") -> sim.Model:
    path = folder / "belt.usda"
    path.write_text(BELT.replace("MORE", more))
    return sim.load(path)


def velocity_at(model: sim.Model, point: np.ndarray) -> np.ndarray:
    """Return the velocity of the surface of the first geometry at a point of the world."""
    (pose,) = sim.forward_kinematics(model, model.q0[None]).numpy()[0]
    pose = compose(pose, model.parameters["geometry_placement"][0])
    turn = Rotation.from_quat(pose[3:])
    inside = turn.inv().apply(point - pose[:3])
    velocity, spin = (model.parameters[f"surface_{name}"][0] for name in ("velocity", "spin"))
    return turn.apply(velocity + np.cross(spin, inside))


@pytest.mark.parametrize("local", [True, False])
def test_physx(tmp_path, local):
    model = read(tmp_path, "" if local else "bool physxSurfaceVelocity:surfaceVelocityLocalSpace = 0")
    origin, point = UP.apply((0.3, 0.2, -0.1)), np.array([0.4, 0.3, 0.5])
    turn = UP * (Rotation.from_euler("x", 25, degrees=True) if local else Rotation.identity())
    linear = turn.apply((2.0 if local else 1.0) * np.array([0.4, -0.1, 0.05]))
    spin = turn.apply(np.radians((30, 90, -20)))
    assert_allclose(velocity_at(model, point), linear + np.cross(spin, point - origin), atol=1e-6)


def test_disabled(tmp_path):
    assert not read(tmp_path, "bool physxSurfaceVelocity:surfaceVelocityEnabled = 0").moving_surfaces


def test_not_finite(tmp_path):
    more = "bool physxSurfaceVelocity:surfaceVelocityEnabled = 1"
    (tmp_path / "belt.usda").write_text(BELT.replace("MORE", more).replace("(40, -10, 5)", "(inf, 0, 0)"))
    with raises_naming("'/Belt'", "surface velocities", "inf", error=sim.ImportFileError):
        sim.load(tmp_path / "belt.usda")


def test_round_trip(tmp_path):
    """To the last digit; other readers see PhysX's schema, which another program may change."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(velocity=(0.3, 0.1, 0.0)))
    tracks = sim.Surface(velocity=(1 / 3, 0.0, 0.1), spin=(0.2, 0.0, -1.7))
    turned = (0.0, np.sin(0.3), 0.0, np.cos(0.3))
    builder.add_box(half_extents=(0.2, 0.1, 0.1), mass=1.0, position=(0, 0, 1), orientation=turned, surface=tracks)
    builder.add_sphere(radius=0.1, mass=1.0, position=(1, 0, 1))
    model = builder.finalize("float64")
    path = tmp_path / "scene.usda"
    sim.usd.write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy()[None], fps=30)
    again = sim.load(path)
    order = [[g.name for g in again.geometries].index(g.name) for g in model.geometries]
    for name in ("surface_velocity", "surface_spin"):
        np.testing.assert_array_equal(again.parameters[name][order], model.parameters[name])
    stage = Usd.Stage.Open(str(path))
    name = "physxSurfaceVelocity:surfaceVelocity"
    stated = [prim for prim in stage.Traverse() if prim.HasAttribute(name)]
    assert [prim.HasAPI(UsdPhysics.RigidBodyAPI) for prim in stated] == [False, True]
    stated[1].GetAttribute(name).Set(Gf.Vec3f(0.5, 0.0, 0.0))
    stage.GetRootLayer().Save()
    changed = sim.load(path).parameters["surface_velocity"][order[1]]
    assert_allclose(changed, (0.5, 0.0, 0.0), atol=1e-6)
