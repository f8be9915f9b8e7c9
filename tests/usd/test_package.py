"""Packages of a stage with its textures, .usdz."""

import zipfile

import numpy as np
import pytest
from pxr import Usd, UsdGeom, UsdValidation

import sim
from sim.usd import UsdRecorder, write_usd


def checkered() -> sim.Texture:
    return sim.Texture(np.random.default_rng(0).integers(0, 256, (8, 16, 3), dtype=np.uint8), "checkered.png")


def textured_box() -> sim.Model:
    builder = sim.ModelBuilder()
    material = sim.Material(roughness=0.3, metallic=0.2, texture=checkered(), repeat=(2.0, 2.0))
    builder.add_box(half_extents=(0.1, 0.2, 0.3), mass=1.0, name="box", material=material)
    return builder.finalize()


def poses_of(model: sim.Model) -> np.ndarray:
    return np.repeat(sim.forward_kinematics(model, model.q0[None]).numpy(), 3, axis=0)


def test_textures_are_inside(tmp_path):
    model = textured_box()
    path = write_usd(tmp_path / "box.usdz", model, poses_of(model), fps=30)
    assert [each.name for each in tmp_path.iterdir()] == ["box.usdz"]
    assert zipfile.ZipFile(path).namelist() == ["box.usdc", "box_usdc_textures/checkered.png"]
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    found = UsdValidation.ValidationContext(validators).Validate(Usd.Stage.Open(str(path)))
    assert not [f"{each.GetName()}: {each.GetMessage()}" for each in found]
    (geometry,) = sim.load(path).geometries
    assert geometry.material.roughness == pytest.approx(0.3)
    np.testing.assert_array_equal(geometry.material.texture.pixels, checkered().pixels)


def test_a_motion_over_a_stage(tmp_path):
    """The package has the stage that the motion is over, with its textures."""
    below = write_usd(tmp_path / "below.usda", textured_box(), poses_of(textured_box())[:1], fps=30)
    model = sim.load(below)
    poses = poses_of(model)
    poses[:, 0, 0] = (0.0, 1.0, 2.0)
    path = write_usd(tmp_path / "motion.usdz", model, poses, fps=30, over=below)
    for each in ("below.usda", "below_usda_textures/checkered.png"):
        (tmp_path / each).unlink()
    stage = Usd.Stage.Open(str(path))
    box = UsdGeom.Xformable(next(prim for prim in stage.Traverse() if prim.GetName() == "box"))
    assert box.ComputeLocalToWorldTransform(2.0).ExtractTranslation()[0] == pytest.approx(2.0)
    (geometry,) = sim.load(path).geometries
    np.testing.assert_array_equal(geometry.material.texture.pixels, checkered().pixels)


@pytest.mark.parametrize("name", ["a[1]", "Würfel 箱", "folder [1]/box", "100% #;'"])
def test_textures_of_packages_with_any_name_are_read(tmp_path, name):
    file = tmp_path / f"{name}.usdz"
    file.parent.mkdir(exist_ok=True)
    model = textured_box()
    (geometry,) = sim.load(write_usd(file, model, poses_of(model), fps=30)).geometries
    np.testing.assert_array_equal(geometry.material.texture.pixels, checkered().pixels)


def test_textures_beside_a_file_with_brackets_are_read(tmp_path):
    model = textured_box()
    (geometry,) = sim.load(write_usd(tmp_path / "a[1].usda", model, poses_of(model), fps=30)).geometries
    np.testing.assert_array_equal(geometry.material.texture.pixels, checkered().pixels)


def test_a_motion_over_a_package(tmp_path):
    """A package in a package."""
    below = write_usd(tmp_path / "below.usdz", textured_box(), poses_of(textured_box())[:1], fps=30)
    model = sim.load(below)
    path = write_usd(tmp_path / "motion.usdz", model, poses_of(model), fps=30, over=below)
    below.unlink()
    (geometry,) = sim.load(path).geometries
    np.testing.assert_array_equal(geometry.material.texture.pixels, checkered().pixels)


def test_packages_that_cannot_be_written(tmp_path):
    """For a texture that is gone, and a name that USD refuses; nothing stays behind."""
    model = textured_box()
    below = write_usd(tmp_path / "below.usda", model, poses_of(model)[:1], fps=30)
    over = sim.load(below)
    (tmp_path / "below_usda_textures" / "checkered.png").unlink()
    with pytest.raises(sim.ModelError, match=r"motion\.usdz: cannot be written: not found: .*checkered\.png"):
        write_usd(tmp_path / "motion.usdz", over, poses_of(over), fps=30, over=below)
    for suffix in ("usdz", "usda"):
        with pytest.raises(sim.ModelError, match="cannot be written: Invalid asset path"):
            write_usd(tmp_path / f"two\nlines.{suffix}", model, poses_of(model), fps=30)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["below.usda", "below_usda_textures"]


def test_recorders_write_no_packages(tmp_path):
    with pytest.raises(sim.ModelError, match=r"the name must end in \.usda or \.usdc or \.usd$"):
        UsdRecorder(tmp_path / "box.usdz", textured_box(), fps=30)
