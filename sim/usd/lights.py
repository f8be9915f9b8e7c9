"""Lights of a stage: those of a model as lights of UsdLux, and those of any stage for a model.

Colours of :class:`sim.Light` are the light that a white surface reflects. UsdLux has radiances, or with ``normalize``
all that a light emits; a directional light then has its irradiance.
"""

import warnings
from collections.abc import Sequence

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, UsdLux

from sim.arrays.device_model import DeviceModel
from sim.dynamics.kinematics import forward_kinematics
from sim.errors import ModelError, USDWarning
from sim.model.checks import some
from sim.model.looks.lights import SQUARE, Light, LightType, MountedLight
from sim.model.model import Model
from sim.model.poses import IDENTITY, compose, inverse
from sim.render.lights import brightness, middle_of, shown_lights
from sim.render.mounted import mounted_pose
from sim.render.texture_files import TextureFiles
from sim.usd.annotations import keep, keep_text, keep_texts, kept, kept_rows, kept_text, kept_texts
from sim.usd.geometries import child_name, set_pose
from sim.usd.motion import RESERVED

DEFAULT = "default_light"  # marks sun and sky of a model without lights
# Intensity of a normalised light over the light that a white surface reflects at 1 m
NORMALISED = {"directional": np.pi, "point": 4.0 * np.pi, "area": np.pi}
TYPES: dict[str, LightType] = {
    "DistantLight": "directional", "SphereLight": "point", "RectLight": "area", "DiskLight": "area",
    "DomeLight": "sky", "DomeLight_1": "sky",
}  # fmt: skip
SUN_ANGLE, POINT_RADIUS = 0.53, 0.01  # of lights without a size [degrees, m]
POLE_UP = np.array([0.0, 0.0, 0.0, np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])  # turns y, the pole of a dome, to z
MOST_EXPOSURE = 60.0  # stops, in either direction
# Attributes whose effect isn't shown
NOT_SHOWN = {
    "inputs:shaping:ies:file": "IES profiles", "light:filters": "filters",
    "portals": "portals",
}  # fmt: skip


def add_lights(stage: Usd.Stage, model: Model, paths: Sequence[Sdf.Path] | None, textures: TextureFiles) -> None:
    """Add the lights of a model below the prims of their links, or a sun and a sky if there are none.

    Lights that follow a link without turning are placed as at the start.

    Args:
        stage: the stage.
        model: the model.
        paths: prims of the links; None for several worlds, which have no lights with a position.
        textures: images of the stage, which those of skies are added to.
    """
    lights = model.lights if paths is not None else shown_lights(model, 2)
    if not lights:
        _add_default_lights(stage)
        if model.lights:
            lost = some([one.name for one in model.lights])
            warnings.warn(f"not written: lights of several worlds ({lost})", USDWarning, stacklevel=5)
        return
    poses = forward_kinematics(DeviceModel(model, "cpu"), model.q0[None]).numpy()[0]
    middle, _ = middle_of(model, poses)
    for one in (one for one in lights if one.light.type != "headlight"):
        world = mounted_pose(model, one, poses)
        parent = stage.GetDefaultPrim().GetPath() if one.link < 0 or paths is None else paths[one.link]
        taken = {*RESERVED, *(child.GetName() for child in stage.GetPrimAtPath(parent).GetChildren())}
        path = parent.AppendChild(child_name(one.name.rsplit("/", 1)[-1], taken))
        prim = _define(stage, path, one.light, float(np.linalg.norm(world[:3] - middle)))
        placement = one.placement
        if one.follows != "link":
            placement = compose(inverse(IDENTITY if one.link < 0 else poses[one.link]), world)
            keep_text(prim, "light_follows", one.follows)
            keep(prim, "light_placement", [*one.placement, *one.point])
        if one.light.texture is not None:
            dome, file = UsdLux.DomeLight(prim), Sdf.AssetPath(f"./{textures.add(one.light.texture)}")
            dome.CreateTextureFileAttr(file)
            dome.CreateTextureFormatAttr(UsdLux.Tokens.latlong)
            placement = compose(placement, POLE_UP)
        set_pose(UsdGeom.Xformable(prim), placement)
        keep_text(prim, "light", one.name)
    heads = [one for one in lights if one.light.type == "headlight"]
    keep_texts(stage.GetDefaultPrim(), "headlights", [one.name for one in heads])
    keep(stage.GetDefaultPrim(), "headlight_numbers", [_numbers(one.light) for one in heads])
    _warn_of_differences(lights)


def _add_default_lights(stage: Usd.Stage) -> None:
    UsdGeom.Scope.Define(stage, "/World/Lights")
    sun = UsdLux.DistantLight.Define(stage, "/World/Lights/Sun")
    sun.CreateNormalizeAttr(True)
    sun.CreateIntensityAttr(2.5)
    sun.CreateAngleAttr(1.0)
    sun.CreateColorAttr(Gf.Vec3f(1.0, 0.95, 0.85))
    sun.AddRotateXYZOp().Set(Gf.Vec3f(30.0, -22.0, 0.0))
    sky = UsdLux.DomeLight.Define(stage, "/World/Lights/Sky")
    sky.CreateIntensityAttr(0.6)
    sky.CreateColorAttr(Gf.Vec3f(0.85, 0.92, 1.0))
    for light in (sun, sky):
        keep(light.GetPrim(), DEFAULT, [1.0])


def _define(stage: Usd.Stage, path: Sdf.Path, light: Light, distance: float) -> Usd.Prim:
    """Define a light without its pose; one that doesn't fall off with the square of the distance is as bright as the
    original at a distance [m].
    """
    color = np.array(light.color)
    if light.type in ("point", "area") and light.attenuation != SQUARE:
        color = brightness(light, max(distance, 1e-3)) * max(distance, 1e-3) ** 2
    prim = _define_shape(stage, path, light)
    api, strength = UsdLux.LightAPI(prim), float(color.max())
    api.CreateIntensityAttr(strength * NORMALISED.get(light.type, 1.0))
    api.CreateColorAttr(Gf.Vec3f(*map(float, color / strength if strength > 0.0 else np.ones(3))))
    if light.type in NORMALISED:
        api.CreateNormalizeAttr(True)
    if light.specular != 1.0:
        api.CreateSpecularAttr(light.specular)
    if not light.shadow:
        UsdLux.ShadowAPI.Apply(prim).CreateShadowEnableAttr(False)
    if light.type in ("point", "area") and (light.cone < 180.0 or light.exponent > 0.0):
        shaping = UsdLux.ShapingAPI.Apply(prim)
        shaping.CreateShapingConeAngleAttr(light.cone)
        shaping.CreateShapingConeSoftnessAttr(light.softness)
        shaping.CreateShapingFocusAttr(light.exponent)
    keep(prim, "light_numbers", _numbers(light))
    keep(prim, "light_numbers_stated", _numbers(_stated(prim, np.ones(3), 1.0)))
    return prim


def _define_shape(stage: Usd.Stage, path: Sdf.Path, light: Light) -> Usd.Prim:
    if light.type == "directional":
        sun = UsdLux.DistantLight.Define(stage, path)
        sun.CreateAngleAttr(light.size[0] if light.size else SUN_ANGLE)
        return sun.GetPrim()
    if light.type == "point":
        ball = UsdLux.SphereLight.Define(stage, path)
        ball.CreateRadiusAttr(light.size[0] if light.size else POINT_RADIUS)
        ball.CreateTreatAsPointAttr(not light.size)
        return ball.GetPrim()
    if light.type == "sky":
        return UsdLux.DomeLight.Define(stage, path).GetPrim()
    if len(light.size) == 2:
        rectangle = UsdLux.RectLight.Define(stage, path)
        rectangle.CreateWidthAttr(light.size[0])
        rectangle.CreateHeightAttr(light.size[1])
        return rectangle.GetPrim()
    disk = UsdLux.DiskLight.Define(stage, path)
    disk.CreateRadiusAttr(light.size[0] if light.size else POINT_RADIUS)
    return disk.GetPrim()


def _warn_of_differences(lights: Sequence[MountedLight]) -> None:
    near = [one for one in lights if one.light.type in ("point", "area") and one.light.attenuation != SQUARE]
    heads = [one for one in lights if one.light.type == "headlight"]
    for which, said in (
        (near, "fall off with the square of the distance in other programs, where they are as bright in the middle of "
               "the scene"),
        (heads, "shine from the eye, which other programs don't show"),
    ):  # fmt: skip
        if which:
            warnings.warn(f"lights ({some([one.name for one in which])}) {said}", USDWarning, stacklevel=5)


def image_of(prim: Usd.Prim) -> Sdf.AssetPath | None:
    """Return the image of a dome light; None without.

    Raises:
        ModelError: for an image that isn't by latitude and longitude.
    """
    attribute = prim.GetAttribute("inputs:texture:file")
    asset = attribute.Get(Usd.TimeCode.EarliestTime()) if attribute else None
    if not isinstance(asset, Sdf.AssetPath) or not asset.path or TYPES.get(prim.GetTypeName()) != "sky":
        return None
    format = prim.GetAttribute("inputs:texture:format").Get(Usd.TimeCode.EarliestTime())
    if format not in (None, UsdLux.Tokens.automatic, UsdLux.Tokens.latlong):
        raise ModelError(f"its image has the format '{format}'; only latlong is supported")
    return asset


def sky_placement(prim: Usd.Prim, placement: np.ndarray) -> np.ndarray:
    """Return the pose of the image of a sky [7], as :class:`sim.Light` has it, for that of its prim."""
    pole = prim.GetAttribute("poleAxis").Get() if prim.HasAttribute("poleAxis") else "Y"
    up = UsdGeom.GetStageUpAxis(prim.GetStage()) if pole == "scene" else pole
    return placement if up == "Z" else compose(placement, inverse(POLE_UP))


def is_light(prim: Usd.Prim) -> bool:
    """Return whether a prim is a visible light, but not one that a model without lights was written with."""
    if not prim.HasAPI(UsdLux.LightAPI) or kept(prim, DEFAULT, 1) is not None:
        return False
    imageable = UsdGeom.Imageable(prim)
    return not imageable or imageable.ComputeVisibility(Usd.TimeCode.EarliestTime()) != UsdGeom.Tokens.invisible


def light_of_prim(prim: Usd.Prim, placement: np.ndarray, stretch: np.ndarray, length: float) -> MountedLight:
    """Return a light of a stage.

    Args:
        prim: the light.
        placement: its pose in the link [7].
        stretch: scale and unit that its own lengths are multiplied by, along its axes [3].
        length: metres per unit of the stage.

    Raises:
        ModelError: for a type of light that isn't supported, and invalid numbers.
    """
    if prim.GetTypeName() not in TYPES:
        raise ModelError(f"lights of type '{prim.GetTypeName()}' are not supported")
    light = _stated(prim, stretch, length)
    exact, stated = kept(prim, "light_numbers", 12), kept(prim, "light_numbers_stated", 12)
    if exact is not None and stated is not None and np.allclose(_numbers(light), stated, rtol=1e-5, atol=1e-9):
        light = _from_numbers(light.type, exact, light.shadow)
    name, follows = kept_text(prim, "light") or prim.GetName(), kept_text(prim, "light_follows")
    before = kept(prim, "light_placement", 10)
    if follows in ("point", "centre of mass") and before is not None:
        x, y, z = before[7:].tolist()
        return MountedLight(name, light, -1, before[:7], follows, (x, y, z))
    return MountedLight(name, light, -1, placement)


def kept_headlights(prim: Usd.Prim) -> list[MountedLight]:
    """Return the headlights of a model that was written to a stage with this default prim."""
    names, rows = kept_texts(prim, "headlights"), kept_rows(prim, "headlight_numbers", 12)
    if len(names) != len(rows):
        return []
    lights = [_from_numbers("headlight", row, True) for row in rows]
    return [MountedLight(name, light, -1, IDENTITY) for name, light in zip(names, lights, strict=True)]


def not_shown(prim: Usd.Prim) -> list[str]:
    """Return what a prim states of its light that isn't shown."""
    found = []
    for name, what in NOT_SHOWN.items():
        attribute, relation = prim.GetAttribute(name), prim.GetRelationship(name)
        if (attribute and attribute.HasAuthoredValue()) or (relation and relation.HasAuthoredTargets()):
            found.append(what)
    linked = Usd.CollectionAPI(prim, "lightLink")
    if linked and (linked.GetIncludesRel().HasAuthoredTargets() or linked.GetExcludesRel().HasAuthoredTargets()):
        found.append("links to single prims")
    return found


def _stated(prim: Usd.Prim, stretch: np.ndarray, length: float) -> Light:
    """Return the light that the attributes of UsdLux describe."""
    api, time, type = UsdLux.LightAPI(prim), Usd.TimeCode.EarliestTime(), TYPES[prim.GetTypeName()]
    color = np.array(api.GetColorAttr().Get(time), dtype=np.float64)
    if api.GetEnableColorTemperatureAttr().Get(time):
        kelvin = float(api.GetColorTemperatureAttr().Get(time))
        if not np.isfinite(kelvin):  # on NaN, USD's function crashes
            raise ModelError(f"its colour temperature is {kelvin}")
        color = color * UsdLux.BlackbodyTemperatureAsRgb(kelvin)
    stops = float(np.clip(api.GetExposureAttr().Get(time), -MOST_EXPOSURE, MOST_EXPOSURE))
    strength = float(api.GetIntensityAttr().Get(time)) * 2.0**stops * float(api.GetDiffuseAttr().Get(time))
    if strength < 0.0:
        raise ModelError(f"its intensity is {strength:g}; it must not be negative")
    size = _size(prim, stretch)
    if type in NORMALISED and api.GetNormalizeAttr().Get(time):
        strength *= (1.0 if type == "directional" else length**2) / NORMALISED[type]
    else:
        strength *= _emission(type, size)
    diffuse = float(api.GetDiffuseAttr().Get(time))
    specular = float(api.GetSpecularAttr().Get(time)) / diffuse if diffuse > 0.0 else 1.0
    red, green, blue = np.maximum(strength * color, 0.0).tolist()
    as_point = prim.HasAttribute("treatAsPoint") and prim.GetAttribute("treatAsPoint").Get(time)
    shaping, shadow = UsdLux.ShapingAPI(prim), UsdLux.ShadowAPI(prim)
    shaped = prim.HasAPI(UsdLux.ShapingAPI) and type in ("point", "area")
    return Light(
        type, (red, green, blue), size=() if as_point else size, specular=max(specular, 0.0),
        cone=float(np.clip(shaping.GetShapingConeAngleAttr().Get(time), 0.0, 180.0)) if shaped else 180.0,
        softness=float(np.clip(shaping.GetShapingConeSoftnessAttr().Get(time), 0.0, 1.0)) if shaped else 0.0,
        exponent=max(float(shaping.GetShapingFocusAttr().Get(time)), 0.0) if shaped else 0.0,
        shadow=not prim.HasAPI(UsdLux.ShadowAPI) or bool(shadow.GetShadowEnableAttr().Get(time)),
    )  # fmt: skip


def _size(prim: Usd.Prim, stretch: np.ndarray) -> tuple[float, ...]:
    """Return the size as in :class:`sim.Light`; an empty one if it is zero. Raises ModelError for an invalid one."""

    def value(name: str) -> float:
        length = float(prim.GetAttribute(f"inputs:{name}").Get(Usd.TimeCode.EarliestTime()))
        if not 0.0 <= length < np.inf:
            raise ModelError(f"its {name} is {length}; it must be finite and not negative")
        return length

    kind = prim.GetTypeName()
    if kind == "DistantLight":
        size = [value("angle")]
    elif kind == "RectLight":
        size = [value("width") * stretch[0], value("height") * stretch[1]]
    elif kind in ("SphereLight", "DiskLight"):
        axes = stretch if kind == "SphereLight" else stretch[:2]
        size = [value("radius") * float(np.mean(axes))]
    else:
        size = []
    return tuple(size) if all(size) else ()


def _emission(type: LightType, size: tuple[float, ...]) -> float:
    """Return the light that a white surface reflects, at 1 m, for a radiance of 1."""
    if type == "directional":
        return float(np.sin(0.5 * np.radians(min(size[0], 180.0))) ** 2) if size else 1.0 / np.pi
    if type == "sky":
        return 1.0
    return size[0] * size[1] / np.pi if len(size) == 2 else (size[0] ** 2 if size else 0.0)


def _numbers(light: Light) -> list[float]:
    """Return the numbers of a light [12]."""
    size = [*light.size, 0.0, 0.0][:2]
    return [*light.color, *light.attenuation, light.cone, light.softness, light.exponent, light.specular, *size]


def _from_numbers(type: LightType, numbers: np.ndarray, shadow: bool) -> Light:
    """Return the light of :func:`_numbers`."""
    red, green, blue, a, b, c, cone, softness, exponent, specular, *size = numbers.tolist()
    return Light(
        type, (red, green, blue), (a, b, c), cone, softness, exponent, tuple(each for each in size if each > 0.0),
        specular, shadow,
    )  # fmt: skip
