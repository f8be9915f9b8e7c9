"""Mirrored bodies of USD: where their mass is, in the world."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

from tests.importers.usd_scenes import poses_at, read, stage_of

COM = np.array([0.1, 0.2, 0.3])
MOMENTS = np.array([1.0, 2.0, 2.5])
AXES = Gf.Quatf(0.9, 0.1, 0.3, 0.2)
SCALES = [(1, 1, 1), (1, -1, 1), (-1, 1, 1), (-2, -2, -2), (-1, -1, 1), (0.5, 1, -3)]


def mirrored(tmp_path, scale, within):
    """A body at (1, 1, 1) in a scaled parent, turned, and a small cube at its stated centre of mass."""
    stage = stage_of(tmp_path)
    UsdGeom.Xform.Define(stage, "/top").AddScaleOp().Set(Gf.Vec3f(*(scale if within else (1, 1, 1))))
    body = UsdGeom.Xform.Define(stage, "/top/body")
    body.AddTranslateOp().Set(Gf.Vec3d(1, 1, 1))
    body.AddOrientOp().Set(Gf.Quatf(0.8, 0.6, 0, 0) if within and abs(scale[0]) != 0.5 else Gf.Quatf(1.0))
    body.AddScaleOp().Set(Gf.Vec3f(*((1, 1, 1) if within else scale)))
    UsdPhysics.RigidBodyAPI.Apply(body.GetPrim())
    mass = UsdPhysics.MassAPI.Apply(body.GetPrim())
    mass.CreateMassAttr(8.0)
    cube = UsdGeom.Cube.Define(stage, "/top/body/cube")
    cube.CreateSizeAttr(0.1)
    cube.AddTranslateOp().Set(Gf.Vec3d(*COM))
    UsdPhysics.CollisionAPI.Apply(cube.GetPrim())
    matrix = np.array(UsdGeom.XformCache().GetLocalToWorldTransform(body.GetPrim())).T
    return stage, mass, matrix


def in_world(model):
    """Centre of mass [3] and rotational inertia about it [3, 3] of the one body."""
    pose = poses_at(model, model.q0)[0, 0]
    turn = Rotation.from_quat(pose[3:])
    axes = turn.as_matrix()
    return pose[:3] + turn.apply(model.parameters["com"][0]), axes @ model.parameters["inertia"][0] @ axes.T


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("scale", SCALES)
def test_a_stated_centre_of_mass_is_mirrored_with_the_body(tmp_path, scale, within):
    stage, mass, matrix = mirrored(tmp_path, scale, within)
    computed = in_world(read(stage))  # from the cube, which is there
    mass.CreateCenterOfMassAttr(Gf.Vec3f(*COM))
    com, inertia = in_world(read(stage))
    assert_allclose(com, matrix[:3, :3] @ COM + matrix[:3, 3], atol=1e-6)
    assert_allclose(com, computed[0], atol=1e-6)
    assert_allclose(inertia, computed[1], atol=1e-6)


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("scale", SCALES)
def test_stated_principal_axes_are_mirrored_with_the_body(tmp_path, scale, within):
    stage, mass, matrix = mirrored(tmp_path, scale, within)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(*COM))
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*MOMENTS))
    mass.CreatePrincipalAxesAttr(AXES)
    turn = Rotation.from_quat([*AXES.GetImaginary(), AXES.GetReal()]).as_matrix()
    axes = matrix[:3, :3] / np.linalg.norm(matrix[:3, :3], axis=0)
    expected = axes @ turn @ np.diag(MOMENTS) @ turn.T @ axes.T
    assert_allclose(in_world(read(stage))[1], expected, atol=1e-6)
