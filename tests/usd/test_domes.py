"""Dome lights with images in USD files: written, read again, and read as the pages of UsdLux describe them."""

import contextlib
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pxr import Gf, Sdf, Usd, UsdGeom, UsdLux, UsdPhysics
from scipy.spatial.transform import Rotation

import sim
from sim.importers.pictures import Budget, NoPictureError
from sim.importers.radiance import read_sky
from sim.render.texture_files import hdr_of, png_of
from sim.usd import write_usd

RANDOM = np.random.default_rng(0)
BYTES = RANDOM.integers(0, 256, (16, 32, 3), dtype=np.uint8)
LIGHT = (10.0 ** RANDOM.uniform(-3.0, 4.0, (16, 32, 3))).astype(np.float32)
TURN = Rotation.from_rotvec((0.3, -0.8, 1.1))


def in_a_sky(texture, turn=TURN):
    scene = sim.ModelBuilder()
    scene.add_sphere(radius=0.1, mass=1.0, name="ball")
    scene.add_light("dome", sim.Light("sky", (0.3, 0.6, 0.9), texture=texture), orientation=turn.as_quat())
    return scene.finalize("float64")


def written(path, model):
    return write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=24.0)


def direction(u, v):
    """Return where a point of an image is, by OpenEXR's convention with y up: u to the right, v down, from 0 to 1."""
    longitude, latitude = np.pi * (1.0 - 2.0 * u), np.pi * (0.5 - v)
    return np.array(
        [np.sin(longitude) * np.cos(latitude), np.sin(latitude), np.cos(longitude) * np.cos(latitude)]
    )  # fmt: skip


def own_direction(u, v):
    """Return the same in the frame of sim.Light: z up, the middle towards -y, a quarter from the left towards x."""
    longitude, latitude = np.pi * (1.0 - 2.0 * u), np.pi * (0.5 - v)
    return np.array(
        [np.sin(longitude) * np.cos(latitude), -np.cos(longitude) * np.cos(latitude), np.sin(latitude)]
    )  # fmt: skip


def loaded(path):
    """Return the only light of a file, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (one,) = sim.load(path).lights
    return one, " ".join(str(each.message) for each in caught)


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
@pytest.mark.parametrize("pixels", [BYTES, LIGHT])
def test_domes_survive_a_stage(tmp_path, suffix, pixels):
    model = in_a_sky(sim.Texture(pixels, "evening"))
    one, said = loaded(written(tmp_path / f"a{suffix}", model))
    assert not said
    assert_allclose(one.light.color, (0.3, 0.6, 0.9), rtol=1e-12)
    turn = Rotation.from_quat(one.placement[3:])
    assert_allclose(turn.as_matrix(), TURN.as_matrix(), atol=1e-6)
    if pixels is BYTES:
        assert_array_equal(one.light.texture.pixels, pixels)
    else:  # eight bits for the largest of the three colours
        assert (np.abs(one.light.texture.pixels - pixels) <= pixels.max(axis=2, keepdims=True) / 128.0).all()


def test_a_written_dome_points_as_usdlux_says(tmp_path):
    stage = Usd.Stage.Open(str(written(tmp_path / "a.usda", in_a_sky(sim.Texture(BYTES)))))
    prim = stage.GetPrimAtPath("/World/dome")
    matrix = np.array(UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(Usd.TimeCode.Default()))[:3, :3].T
    assert UsdLux.DomeLight(prim).GetTextureFormatAttr().Get() == "latlong"
    file = UsdLux.DomeLight(prim).GetTextureFileAttr().Get()
    assert file.path.endswith(".png")
    assert file.resolvedPath
    for u, v in RANDOM.uniform(size=(5, 2)):
        assert_allclose(matrix @ direction(u, v), TURN.apply(own_direction(u, v)), atol=1e-6)


def stage_with_a_dome(folder, kind, up, turn, file, **attributes):
    """Write a stage and return its path."""
    path = folder / "stage.usda"
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, up)
    UsdGeom.SetStageMetersPerUnit(stage, 0.01)
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/World").GetPrim())
    ball = UsdGeom.Sphere.Define(stage, "/World/ball").GetPrim()
    UsdPhysics.CollisionAPI.Apply(ball)
    dome = kind.Define(stage, "/World/dome")
    dome.CreateTextureFileAttr(Sdf.AssetPath(file))
    dome.CreateIntensityAttr(2.0)
    dome.CreateExposureAttr(1.0)
    for name, value in attributes.items():
        dome.GetPrim().GetAttribute(name.replace("_", ":")).Set(value)
    x, y, z, w = turn.as_quat()
    UsdGeom.Xformable(dome).AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Quatd(w, x, y, z))
    stage.Save()
    return path


@pytest.mark.parametrize(
    ("kind", "up", "pole"),
    [
        (UsdLux.DomeLight, "Y", "Y"),
        (UsdLux.DomeLight, "Z", "Y"),
        (UsdLux.DomeLight_1, "Y", "scene"),
        (UsdLux.DomeLight_1, "Z", "scene"),
        (UsdLux.DomeLight_1, "Z", "Y"),
        (UsdLux.DomeLight_1, "Y", "Z"),
    ],
)
def test_domes_of_other_programs(tmp_path, kind, up, pole):
    """An image is placed by its pole, the transform of the prim, and the axis of the stage that is up."""
    (tmp_path / "sky.png").write_bytes(png_of(BYTES))
    more = {"poleAxis": pole} if kind is UsdLux.DomeLight_1 else {}
    one, said = loaded(stage_with_a_dome(tmp_path, kind, up, TURN, "./sky.png", **more))
    assert not said
    assert_allclose(one.light.color, (4.0, 4.0, 4.0))
    assert_array_equal(one.light.texture.pixels, BYTES)
    to_z_up = Rotation.from_euler("x", 90.0 if up == "Y" else 0.0, degrees=True)
    pole_is_z = pole == "Z" or (pole == "scene" and up == "Z")
    for u, v in RANDOM.uniform(size=(5, 2)):
        inside = own_direction(u, v) if pole_is_z else direction(u, v)  # UsdLux's page has both
        expected = (to_z_up * TURN).apply(inside)
        assert_allclose(Rotation.from_quat(one.placement[3:]).apply(own_direction(u, v)), expected, atol=1e-6)


def test_images_that_are_not_shown(tmp_path):
    """Their domes are uniform, or ignored if the light depends on the shape; a warning says so."""
    (tmp_path / "sky.exr").write_bytes(b"v/1\x01")
    (tmp_path / "broken.hdr").write_bytes(hdr_of(LIGHT)[:-40])
    for file, why in (("./none.png", "doesn't exist"), ("./sky.exr", "can't be read"), ("./broken.hdr", "broken")):
        one, said = loaded(stage_with_a_dome(tmp_path, UsdLux.DomeLight, "Z", TURN, file))
        assert one.light.texture is None
        assert why in said
        assert file in said
        (tmp_path / "stage.usda").unlink()
    mirrored = {"inputs_texture_format": "mirroredBall"}
    path = stage_with_a_dome(tmp_path, UsdLux.DomeLight, "Z", TURN, "./sky.png", **mirrored)
    with pytest.warns(UserWarning, match=r"/World/dome.*mirroredBall"):
        assert not sim.load(path).lights


def test_rows_of_radiance():
    """Plain rows, and rows with repeated and different bytes, have the light of their mantissas and exponents."""
    head = b"#?RADIANCE\n# made by hand\nFORMAT=32-bit_rle_rgbe\nEXPOSURE=1\n\n-Y 1 +X 8\n"
    red = bytes([128 + 6, 200, 2, 100, 50])  # six times 200, then two different ones
    packed = bytes([2, 2, 0, 8]) + red + bytes([128 + 8, 0]) + bytes([128 + 8, 64]) + bytes([128 + 8, 130])
    found = read_sky(head + packed, "sky").pixels
    assert found.dtype == np.float32
    assert_allclose(found[0, :, 0] * 64.0, [200.0] * 6 + [100.0, 50.0])
    assert_allclose(found[0, :, 1:], [(0.0, 1.0)] * 8)
    plain = b"#?RGBE\nFORMAT=32-bit_rle_rgbe\n\n-Y 2 +X 1\n" + bytes([128, 64, 32, 129, 9, 9, 9, 0])
    assert_allclose(read_sky(plain, "sky").pixels[:, 0], [(1.0, 0.5, 0.25), (0.0, 0.0, 0.0)])


def test_exposures_of_radiance():
    """The light of pixels was multiplied by all exposures of the header."""
    whole = hdr_of(LIGHT)
    stated = b"FORMAT=32-bit_rle_rgbe\nEXPOSURE=4\nEXPOSURE= 0.5"
    exposed = read_sky(whole.replace(b"FORMAT=32-bit_rle_rgbe", stated), "sky").pixels
    assert_array_equal(2.0 * exposed, read_sky(whole, "sky").pixels)
    for wrong in (b"0", b"-1", b"nan", b"1e300", b"bright", b""):
        stated = b"FORMAT=32-bit_rle_rgbe\nEXPOSURE=" + wrong
        with pytest.raises(NoPictureError, match="exposure"):
            read_sky(whole.replace(b"FORMAT=32-bit_rle_rgbe", stated), "sky")


def test_broken_files_of_radiance():
    whole = hdr_of(LIGHT)
    assert_allclose(read_sky(whole, "sky").pixels, LIGHT, rtol=1.0, atol=LIGHT.max() / 128.0)
    for end in (3, 30, 60, 90, len(whole) - 1):
        with pytest.raises(NoPictureError):
            read_sky(whole[:end], "sky")
    with pytest.raises(NoPictureError, match="go down"):
        read_sky(whole.replace(b"-Y", b"+Y"), "sky")
    with pytest.raises(NoPictureError, match="at most"):
        read_sky(whole.replace(b"+X 32", b"+X 99999999"), "sky")
    with pytest.raises(NoPictureError, match="at most"):
        read_sky(whole, "sky", Budget(100))
    for place in range(60, len(whole), 41):
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        with contextlib.suppress(NoPictureError):
            assert np.isfinite(read_sky(bytes(changed), "sky").pixels).all()
