"""USD files that are broken or not supported: errors and warnings name the prim."""

import warnings
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pxr import Gf, Usd, UsdGeom, UsdPhysics, UsdShade

import sim
from sim.usd import write_usd
from tests.errors import refuses
from tests.importers.usd_scenes import (
    add_body,
    add_joint,
    everything,
    poses_at,
    read,
    stage_of,
)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda stage: add_joint(stage, UsdPhysics.DistanceJoint, "rope", "a", "b"), "'/rope'.*distance joint"),
        (
            lambda stage: add_joint(stage, UsdPhysics.FixedJoint, "j", "a", "nowhere"),
            "'/j'.*'/nowhere', which doesn't exist",
        ),
        (lambda stage: add_joint(stage, UsdPhysics.FixedJoint, "j", "a", "a/box"), "'/j'.*to itself"),
        (lambda stage: UsdGeom.Xformable(stage.GetPrimAtPath("/a")).AddScaleOp().Set((1, 0, 1)), "'/a.*singular"),
        (lambda stage: stage.GetPrimAtPath("/a/box").SetTypeName("Points"), "'/a/box'.*type 'Points'"),
        (lambda stage: stage.GetPrimAtPath("/a/box").SetTypeName("Mesh"), "'/a/box'.*no points"),
        (lambda stage: UsdGeom.SetStageMetersPerUnit(stage, 0.0), "metersPerUnit is 0"),
        (
            lambda stage: add_joint(stage, UsdPhysics.RevoluteJoint, "j", "a", "b").CreateAxisAttr("W"),
            "'/j'.*its axis is 'W'; it must be X, Y or Z",
        ),
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


def test_what_is_skipped_is_reported(tmp_path):
    stage = stage_of(tmp_path)
    add_body(stage, "b", (1, 0, 0))
    UsdPhysics.RigidBodyAPI(stage.GetPrimAtPath("/b")).CreateVelocityAttr(Gf.Vec3f(1, 0, 0))
    UsdGeom.BasisCurves.Define(stage, "/line")
    with pytest.warns(sim.USDWarning) as caught:
        model = read(stage)
    said = " ".join(str(warning.message) for warning in caught)
    for part in ("'/b': its initial velocity", "BasisCurves (1)"):
        assert part in said
    assert model.link_names == ("b",)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda stage: UsdGeom.Mesh.Define(stage, "/a/v"),
            "not drawn: prim '/a/v': the mesh has no points or no faces",
        ),
        (lambda stage: UsdGeom.Sphere.Define(stage, "/a/v").CreateRadiusAttr(0.0), "not drawn: prim '/a/v': .* size"),
        (lambda stage: UsdGeom.Cube.Define(stage, "/a/v").AddScaleOp().Set((1, 0, 1)), "prim '/a/v': .*singular"),
        (
            lambda stage: UsdPhysics.CollisionAPI.Apply(UsdGeom.Xform.Define(stage, "/a/v").GetPrim()),
            "'/a/v' has CollisionAPI",
        ),
        (
            lambda stage: UsdPhysics.DriveAPI.Apply(
                add_joint(stage, UsdPhysics.RevoluteJoint, "j", "", "a").GetPrim(), "linear"
            ),
            "'/j': its drive 'linear' is not read; that of a revolute joint is 'angular'",
        ),
    ],
)
def test_pictures_colliders_and_drives_that_mean_nothing_are_left_out(tmp_path, edit, message):
    stage = stage_of(tmp_path)
    add_body(stage, "a")
    edit(stage)
    with pytest.warns(sim.USDWarning, match=message):
        model = read(stage)
    assert model.link_names == ("a",)
    assert [geometry.name for geometry in model.geometries] == ["a/box"]


def test_builder_is_left_alone_when_a_warning_is_an_error(tmp_path):
    stage = stage_of(tmp_path)
    UsdPhysics.RigidBodyAPI(add_body(stage, "a")).CreateVelocityAttr(Gf.Vec3f(1, 0, 0))
    stage.GetRootLayer().Save()
    builder = sim.ModelBuilder()
    with pytest.raises(sim.USDWarning, match="initial velocity"):  # the test run turns warnings into errors
        builder.add_usd(stage.GetRootLayer().realPath)
    assert not builder.links
    assert not builder.parts


def test_files_that_are_not_scenes(tmp_path):
    (tmp_path / "broken.usda").write_text('#usda 1.0\ndef Xform "a" {\n float b = "x"\n}')
    (tmp_path / "empty.usda").write_text("#usda 1.0\n")
    (tmp_path / "zeros.usdc").write_bytes(bytes(200))
    refuses(lambda: sim.load(tmp_path / "broken.usda"), "broken.usda", "USD", ":3:", error=sim.ImportFileError)
    refuses(lambda: sim.load(tmp_path / "empty.usda"), "rigid bodies", "colliders", error=sim.ImportFileError)
    refuses(lambda: sim.load(tmp_path / "zeros.usdc"), "opened", error=sim.ImportFileError)
    refuses(lambda: sim.load(tmp_path / "none.usd"), "no such file", error=sim.ImportFileError)
    refuses(lambda: sim.load(tmp_path / f"{'n' * 300}.usd"), "no such file", error=sim.ImportFileError)


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
