"""Lights of USD files: written ones read through UsdLux, and those of UsdLux read with the formulas of its page."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, Usd, UsdGeom, UsdLux, UsdPhysics

import sim
from sim.importers.usd.motion import read_motion
from sim.render.mounted import mounted_pose
from sim.usd import write_usd
from tests.render.test_lights import LIGHTS

TURN = np.array([0.0, np.sin(0.3), 0.0, np.cos(0.3)])
SIZES = {"lamp": sim.Light("point", (1.5, 1.0, 0.3), size=(0.2,)), "window": sim.Light("area", size=(0.5, 2.0))}
MORE = SIZES | {
    "spot": sim.Light("point", (0.1, 0.2, 0.7), cone=40.0, softness=0.25, exponent=2.0, specular=0.5, shadow=False),
    "dome": sim.Light("sky", (0.3, 0.4, 0.5)),
    "sun": sim.Light("directional", (0.9, 0.8, 0.7), size=(0.4,)),
    "disk": sim.Light("area", (3.0, 2.0, 1.0), size=(0.25,)),
}


def lit(lights, link="world"):
    """Return a model of a free ball with these lights."""
    scene = sim.ModelBuilder()
    scene.add_ground()
    scene.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.5), name="ball")
    for name, light in lights.items():
        scene.add_light(name, light, link, (0.1, 0.2, 1.0), TURN)
    return scene.finalize("float64")


def written(path, model):
    """Write a model at its first coordinates, and return the path."""
    return write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=24.0)


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
@pytest.mark.parametrize("link", ["world", "ball"])
def test_lights_survive_a_stage(tmp_path, suffix, link):
    model = lit(MORE, link)
    again = sim.load(written(tmp_path / f"a{suffix}", model), dtype="float64")
    assert {one.name: one.light for one in again.lights} == MORE
    q = model.q0 + np.array([0.3, -0.2, 0.5, 0.0, 0.0, 0.0, 0.0])
    q[3:] = (0.5, 0.5, -0.5, 0.5)
    poses, others = (sim.forward_kinematics(each, q[None]).numpy()[0] for each in (model, again))
    for one in model.lights:
        (other,) = (each for each in again.lights if each.name == one.name)
        assert_allclose(mounted_pose(again, other, others), mounted_pose(model, one, poses), atol=1e-6)


def irradiance(prim, distance):
    """Return what a light sends to a surface on its axis that faces it, by UsdLux: [W/m^2] if radiances are in W."""
    api = UsdLux.LightAPI(prim)
    radiance = api.GetIntensityAttr().Get() * 2.0 ** api.GetExposureAttr().Get() * np.array(api.GetColorAttr().Get())
    normal, kind = api.GetNormalizeAttr().Get(), prim.GetTypeName()
    if kind == "DistantLight":
        solid = np.pi * np.sin(0.5 * np.radians(UsdLux.DistantLight(prim).GetAngleAttr().Get())) ** 2
        return radiance * (1.0 if normal else solid)
    if kind == "DomeLight":
        return radiance * np.pi
    if kind == "RectLight":
        area = UsdLux.RectLight(prim).GetWidthAttr().Get() * UsdLux.RectLight(prim).GetHeightAttr().Get()
        whole = area
    else:
        area = np.pi * prim.GetAttribute("inputs:radius").Get() ** 2
        whole = 4.0 * area if kind == "SphereLight" else area
    return radiance * area / (whole if normal else 1.0) / distance**2


def test_other_programs_see_as_much_light(tmp_path):
    """Pi times the light that a white surface reflects, computed from the attributes of UsdLux."""
    stage = Usd.Stage.Open(str(written(tmp_path / "a.usda", lit(MORE))))
    for name, light in MORE.items():
        prim = stage.GetPrimAtPath(f"/World/{name}")
        distance = 1.0 if light.type in ("directional", "sky") else 2.0
        assert_allclose(irradiance(prim, distance), np.pi * np.array(light.color) / distance**2, rtol=1e-6)
    shaping = UsdLux.ShapingAPI(stage.GetPrimAtPath("/World/spot"))
    assert shaping.GetShapingConeAngleAttr().Get() == 40.0
    assert UsdLux.ShadowAPI(stage.GetPrimAtPath("/World/spot")).GetShadowEnableAttr().Get() is False
    assert not stage.GetPrimAtPath("/World/Lights")


def foreign(path, kind, **inputs):
    """Write a ball in centimetres with y up and a light of some kind above it; return the stage."""
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.SetStageMetersPerUnit(stage, 0.01)
    ball = UsdGeom.Sphere.Define(stage, "/Ball")
    for schema in (UsdPhysics.RigidBodyAPI, UsdPhysics.CollisionAPI):
        schema.Apply(ball.GetPrim())
    light = getattr(UsdLux, kind).Define(stage, "/Ball/Light")
    light.AddTranslateOp().Set(Gf.Vec3d(0.0, 50.0, 0.0))
    light.AddScaleOp().Set(Gf.Vec3f(2.0))
    for name, value in inputs.items():
        light.GetPrim().GetAttribute(f"inputs:{name}").Set(value)
    stage.GetRootLayer().Save()
    return stage


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", ["DistantLight", "SphereLight", "DiskLight", "RectLight", "DomeLight"])
def test_lights_of_other_programs(tmp_path, kind, normalize):
    """Their light in metres; a scale by two doubles the lengths of a light."""
    stage = foreign(tmp_path / "a.usda", kind, intensity=70.0, exposure=1.5, color=Gf.Vec3f(1.0, 0.5, 0.2),
                    normalize=normalize)  # fmt: skip
    model = sim.load(tmp_path / "a.usda", dtype="float64")
    (one,) = model.lights
    expected = irradiance(stage.GetPrimAtPath("/Ball/Light"), 1.0) / np.pi
    if kind in ("SphereLight", "DiskLight", "RectLight"):  # cm^2, or a distance of 1 cm
        expected = expected * 0.01**2 * (1.0 if normalize else 4.0)
    if kind == "DomeLight" and normalize:
        expected = 70.0 * 2.0**1.5 * np.array([1.0, 0.5, 0.2])
    assert_allclose(one.light.color, expected, rtol=1e-6)
    assert one.link == 0
    if kind != "DomeLight":
        seen = mounted_pose(model, one, sim.forward_kinematics(model, model.q0[None]).numpy()[0])
        assert_allclose(seen[:3], (0.0, 0.0, 0.5), atol=1e-9)


def test_colour_temperature(tmp_path):
    foreign(tmp_path / "a.usda", "DomeLight", enableColorTemperature=True, colorTemperature=3000.0)
    (one,) = sim.load(tmp_path / "a.usda").lights
    assert_allclose(one.light.color, UsdLux.BlackbodyTemperatureAsRgb(3000.0), rtol=1e-6)


def test_an_invalid_colour_temperature_is_named(tmp_path):
    foreign(tmp_path / "a.usda", "DomeLight", enableColorTemperature=True, colorTemperature=float("nan"))
    with pytest.warns(sim.USDWarning, match="ignored: light '/Ball/Light': its colour temperature is nan"):
        assert not sim.load(tmp_path / "a.usda").lights


def test_an_edited_light_wins(tmp_path):
    path = written(tmp_path / "a.usda", lit(SIZES))
    stage = Usd.Stage.Open(str(path))
    UsdLux.LightAPI(stage.GetPrimAtPath("/World/lamp")).GetExposureAttr().Set(1.0)
    stage.Save()
    (lamp,) = (one for one in sim.load(path).lights if one.name == "lamp")
    assert_allclose(lamp.light.color, (3.0, 2.0, 0.6), rtol=1e-6)


def test_what_usd_lacks_is_named_and_kept(tmp_path):
    lights = {"far": LIGHTS[2], "headlight": sim.Light("headlight", (0.1, 0.1, 0.1))}
    with pytest.warns(sim.USDWarning) as found:
        path = written(tmp_path / "a.usda", lit(lights))
    said = " ".join(str(each.message) for each in found)
    assert "('far') fall off with the square of the distance in other programs" in said
    assert "('headlight') shine from the eye" in said
    assert {one.name: one.light for one in sim.load(path).lights} == lights


@pytest.mark.parametrize(
    ("kind", "name", "value", "said"),
    [
        ("CylinderLight", "intensity", 1.0, "lights of type 'CylinderLight' are not supported"),
        ("SphereLight", "intensity", float("nan"), "color is"),
        ("SphereLight", "intensity", -1.0, "its intensity is -1"),
        ("SphereLight", "radius", float("nan"), "its radius is nan"),
        ("DistantLight", "angle", -1.0, "its angle is -1"),
        ("DomeLight", "texture:file", "sky.hdr", "texture 'sky.hdr', which doesn't exist"),
    ],
)
def test_what_is_left_out_is_named(tmp_path, kind, name, value, said):
    foreign(tmp_path / "a.usda", kind, **{name: value})
    with pytest.warns(sim.USDWarning, match=f"ignored: .*{said}"):
        sim.load(tmp_path / "a.usda")


def test_a_model_without_lights_has_none_afterwards(tmp_path):
    """Sun and sky are written for other programs, and hidden lights aren't read."""
    path = written(tmp_path / "a.usda", lit({}))
    stage = Usd.Stage.Open(str(path))
    assert stage.GetPrimAtPath("/World/Lights/Sun").IsA(UsdLux.DistantLight)
    assert not sim.load(path).lights
    hidden = foreign(tmp_path / "b.usda", "SphereLight")
    UsdGeom.Imageable(hidden.GetPrimAtPath("/Ball/Light")).MakeInvisible()
    hidden.GetRootLayer().Save()
    assert not sim.load(tmp_path / "b.usda").lights


def test_lights_of_a_stored_motion(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        motion = read_motion(written(tmp_path / "a.usda", lit(MORE)))
    assert {one.name: one.light for one in motion.model.lights} == MORE


def test_several_worlds_have_lights_without_a_position(tmp_path):
    sun = {"sun": MORE["sun"]}
    poses = np.zeros((1, 2, 1, 7)) + np.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])
    stage = Usd.Stage.Open(str(write_usd(tmp_path / "a.usda", lit(sun), poses, fps=24.0)))
    assert stage.GetPrimAtPath("/World/sun").IsA(UsdLux.DistantLight)
    with pytest.warns(sim.USDWarning, match="lights of several worlds \\('lamp', 'window'\\)"):
        write_usd(tmp_path / "b.usda", lit(SIZES), poses, fps=24.0)
