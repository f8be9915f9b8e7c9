"""Materials of a stage: one per colour, and one per pair of friction and restitution."""

from collections.abc import Sequence

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade

from sim.model.looks.looks import DEFAULT_MATERIAL, Material, Texture
from sim.render.colors import linear_light
from sim.render.texture_files import TextureFiles

Color = tuple[float, float, float, float]
COORDINATES = "st"  # name of texture coordinates


def linear_color(color: Sequence[float]) -> Gf.Vec3f:
    """Convert an sRGB colour to the linear light that USD uses, ignoring alpha."""
    return Gf.Vec3f(*map(float, linear_light(np.asarray(color[:3]))))


class Materials:
    """Materials under /World/Materials, created when they are first used."""

    def __init__(self, stage: Usd.Stage, textures: TextureFiles):
        self.stage = stage
        self.textures = textures
        self.colors: dict[tuple[object, ...], UsdShade.Material] = {}
        self.physics: dict[tuple[float, float], UsdShade.Material] = {}
        UsdGeom.Scope.Define(stage, "/World/Materials")

    def bind(self, prim: Usd.Prim, rgba: Color, material: Material = DEFAULT_MATERIAL, textured: bool = False) -> None:
        """Set colour, roughness and metallic of a prim, and its texture if it has texture coordinates.

        Colours are sRGB, alpha is opacity.
        """
        numbers = [round(float(value), 6) for value in (*rgba, material.roughness, material.metallic)]
        texture = material.texture if textured else None
        key = (*numbers, texture)
        if key not in self.colors:
            self.colors[key] = self._color(f"/World/Materials/color_{len(self.colors)}", numbers, texture)
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

    def _color(self, path: str, numbers: list[float], texture: Texture | None) -> UsdShade.Material:
        red, green, blue, opacity, roughness, metallic = numbers
        material = UsdShade.Material.Define(self.stage, path)
        shader = UsdShade.Shader.Define(self.stage, f"{path}/surface")
        shader.CreateIdAttr("UsdPreviewSurface")
        color, tint = shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f), linear_color((red, green, blue))
        if texture is None:
            color.Set(tint)
        else:
            color.ConnectToSource(self._image(path, texture, tint))
        shader.CreateInput("opacity", Sdf.ValueTypeNames.Float).Set(opacity)
        shader.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(roughness)
        shader.CreateInput("metallic", Sdf.ValueTypeNames.Float).Set(metallic)
        surface = shader.CreateOutput("surface", Sdf.ValueTypeNames.Token)
        material.CreateSurfaceOutput().ConnectToSource(surface)
        return material

    def _image(self, path: str, texture: Texture, tint: Gf.Vec3f) -> UsdShade.Output:
        """Add a texture that is multiplied by a colour, with its reader of coordinates; return its colour."""
        image = UsdShade.Shader.Define(self.stage, f"{path}/image")
        image.CreateIdAttr("UsdUVTexture")
        image.CreateInput("file", Sdf.ValueTypeNames.Asset).Set(Sdf.AssetPath(f"./{self.textures.add(texture)}"))
        image.CreateInput("sourceColorSpace", Sdf.ValueTypeNames.Token).Set("sRGB")
        for name in ("wrapS", "wrapT"):
            image.CreateInput(name, Sdf.ValueTypeNames.Token).Set("repeat")
        image.CreateInput("scale", Sdf.ValueTypeNames.Float4).Set(Gf.Vec4f(*tint, 1.0))
        reader = UsdShade.Shader.Define(self.stage, f"{path}/coordinates")
        reader.CreateIdAttr("UsdPrimvarReader_float2")
        reader.CreateInput("varname", Sdf.ValueTypeNames.String).Set(COORDINATES)
        found = reader.CreateOutput("result", Sdf.ValueTypeNames.Float2)
        image.CreateInput("st", Sdf.ValueTypeNames.Float2).ConnectToSource(found)
        return image.CreateOutput("rgb", Sdf.ValueTypeNames.Float3)
