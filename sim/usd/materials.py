"""Materials of a stage: one per colour, and one per pair of friction and restitution."""

from collections.abc import Sequence

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade

from sim.model.looks import DEFAULT_MATERIAL, Material
from sim.render.view import linear_light

Color = tuple[float, float, float, float]


def linear_color(color: Sequence[float]) -> Gf.Vec3f:
    """Convert an sRGB colour to the linear light that USD uses, ignoring alpha."""
    return Gf.Vec3f(*map(float, linear_light(np.asarray(color[:3]))))


class Materials:
    """Materials under /World/Materials, created when they are first used."""

    def __init__(self, stage: Usd.Stage):
        self.stage = stage
        self.colors: dict[tuple[float, ...], UsdShade.Material] = {}
        self.physics: dict[tuple[float, float], UsdShade.Material] = {}
        UsdGeom.Scope.Define(stage, "/World/Materials")

    def bind(self, prim: Usd.Prim, rgba: Color, material: Material = DEFAULT_MATERIAL) -> None:
        """Set colour, roughness and metallic of a prim; rgba is sRGB, alpha is opacity."""
        key = tuple(round(float(value), 6) for value in (*rgba, material.roughness, material.metallic))
        if key not in self.colors:
            self.colors[key] = self._color(f"/World/Materials/color_{len(self.colors)}", *key)
        UsdShade.MaterialBindingAPI.Apply(prim).Bind(self.colors[key])

    def bind_physics(self, prim: Usd.Prim, friction: float, restitution: float) -> None:
        """Set friction and restitution of a collider."""
        key = (friction, restitution)
        if key not in self.physics:
            material = UsdShade.Material.Define(self.stage, f"/World/Materials/contact_{len(self.physics)}")
            contact = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
            contact.CreateStaticFrictionAttr(friction)
            contact.CreateDynamicFrictionAttr(friction)
            contact.CreateRestitutionAttr(restitution)
            self.physics[key] = material
        UsdShade.MaterialBindingAPI.Apply(prim).Bind(
            self.physics[key], UsdShade.Tokens.weakerThanDescendants, "physics"
        )

    def _color(
        self, path: str, red: float, green: float, blue: float, opacity: float, roughness: float, metallic: float
    ) -> UsdShade.Material:
        material = UsdShade.Material.Define(self.stage, path)
        shader = UsdShade.Shader.Define(self.stage, f"{path}/surface")
        shader.CreateIdAttr("UsdPreviewSurface")
        shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).Set(linear_color((red, green, blue)))
        shader.CreateInput("opacity", Sdf.ValueTypeNames.Float).Set(opacity)
        shader.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(roughness)
        shader.CreateInput("metallic", Sdf.ValueTypeNames.Float).Set(metallic)
        surface = shader.CreateOutput("surface", Sdf.ValueTypeNames.Token)
        material.CreateSurfaceOutput().ConnectToSource(surface)
        return material
