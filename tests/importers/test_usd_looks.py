"""Materials, textures and texture coordinates of USD files, compared with the numbers written and the image."""

import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade, UsdUtils

import sim
from sim.importers.model_file import model_from_bytes, model_to_bytes
from sim.importers.pictures import Budget
from sim.render.colors import linear_light

PIXELS = np.random.default_rng(5).integers(0, 255, (6, 4, 3), dtype=np.uint8)
CORNERS = np.arange(24, dtype=float).reshape(12, 2) / 24.0


def write_scene(path, interpolation="faceVarying", mirrored=False, file="skin.png", left=False, **inputs):
    """Write a body with a collider and a textured tetrahedron, and return its stage."""
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdGeom.SetStageUpAxis(stage, "Z")
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/body").GetPrim())
    UsdPhysics.RigidBodyAPI.Apply(stage.GetPrimAtPath("/body"))
    UsdPhysics.MassAPI.Apply(stage.GetPrimAtPath("/body")).CreateMassAttr(1.0)
    mesh = UsdGeom.Mesh.Define(stage, "/body/skin")
    mesh.CreatePointsAttr([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
    mesh.CreateFaceVertexCountsAttr([3, 3, 3, 3])
    mesh.CreateFaceVertexIndicesAttr([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3])
    if left:
        mesh.CreateOrientationAttr("leftHanded")
    if mirrored:
        mesh.AddScaleOp().Set(Gf.Vec3f(-1, 1, 1))
    values = {"faceVarying": CORNERS, "vertex": CORNERS[:4]}[interpolation]
    coordinates = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("map", Sdf.ValueTypeNames.TexCoord2fArray, interpolation)
    coordinates.Set([Gf.Vec2f(*map(float, value)) for value in values])
    material = UsdShade.Material.Define(stage, "/Looks/skin")
    surface, image, reader = (UsdShade.Shader.Define(stage, f"/Looks/skin/{name}") for name in ("s", "i", "r"))
    surface.CreateIdAttr("UsdPreviewSurface")
    image.CreateIdAttr("UsdUVTexture")
    reader.CreateIdAttr("UsdPrimvarReader_float2")
    reader.CreateInput("varname", Sdf.ValueTypeNames.String).Set("map")
    image.CreateInput("file", Sdf.ValueTypeNames.Asset).Set(file)
    image.CreateInput("scale", Sdf.ValueTypeNames.Float4).Set(Gf.Vec4f(0.5, 1.0, 0.25, 1.0))
    image.CreateInput("st", Sdf.ValueTypeNames.Float2).ConnectToSource(reader.ConnectableAPI(), "result")
    surface.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).ConnectToSource(image.ConnectableAPI(), "rgb")
    surface.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(0.25)
    metallic = material.CreateInput("metal", Sdf.ValueTypeNames.Float)
    metallic.Set(0.75)
    surface.CreateInput("metallic", Sdf.ValueTypeNames.Float).ConnectToSource(metallic)
    for name, value in inputs.items():
        surface.CreateInput(name, Sdf.ValueTypeNames.Color3f).Set(Gf.Vec3f(*value))
    material.CreateSurfaceOutput().ConnectToSource(surface.ConnectableAPI(), "surface")
    UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(material)
    stage.GetRootLayer().Save()
    return stage


@pytest.fixture
def path(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "skin.png")
    return tmp_path / "scene.usda"


def test_materials(path):
    write_scene(path)
    for model in (sim.load(path), model_from_bytes(model_to_bytes(sim.load(path)))):
        (geometry,) = model.geometries
        assert_array_equal(geometry.material.texture.pixels, PIXELS)
        assert (geometry.material.roughness, geometry.material.metallic) == (0.25, 0.75)
        assert_allclose(linear_light(np.array(geometry.rgba[:3])), (0.5, 1.0, 0.25), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"mirrored": True}, {"left": True}, {"interpolation": "vertex"}])
def test_texture_coordinates_stay_at_their_corners(path, options):
    """Each coordinate is on the face and at the point that the file gives it to."""
    stage = write_scene(path, **options)
    mesh = UsdGeom.Mesh.Get(stage, "/body/skin")
    points = np.array(mesh.GetPointsAttr().Get()) * ((-1, 1, 1) if "mirrored" in options else 1)
    indices = np.array(mesh.GetFaceVertexIndicesAttr().Get())
    values = CORNERS[indices] if options.get("interpolation") == "vertex" else CORNERS
    (geometry,) = sim.load(path).geometries
    for face in range(4):
        expected = {tuple(points[indices[3 * face + k]]): values[3 * face + k] for k in range(3)}
        corners = geometry.mesh.vertices[geometry.mesh.faces[face]]
        for corner, uv in zip(corners, geometry.mesh.uv[face], strict=True):
            assert_allclose(uv, expected[tuple(corner)], atol=1e-7)


def test_a_package(path, tmp_path):
    """Images in a .usdz file are read."""
    write_scene(path)
    package = tmp_path / "scene.usdz"
    assert UsdUtils.CreateNewUsdzPackage(Sdf.AssetPath(str(path)), str(package))
    assert any(name.endswith("skin.png") for name in zipfile.ZipFile(package).namelist())
    (geometry,) = sim.load(package).geometries
    assert_array_equal(geometry.material.texture.pixels, PIXELS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"file": "gone.png"}, "texture 'gone.png', which doesn't exist"),
        ({"file": "/dev/zero"}, "texture '/dev/zero', which doesn't exist"),
        ({"file": "scene.usda"}, "texture 'scene.usda', which can't be read as an image"),
        ({"emissiveColor": (1, 0, 0)}, "emission of material '/Looks/skin'"),
    ],
)
def test_what_is_left_out_is_named(path, options, said):
    write_scene(path, **options)
    with pytest.warns(sim.USDWarning, match=f"ignored: {said}"):
        sim.load(path)


ASSET = """#usda 1.0
(
    defaultPrim = "part"
)
def Xform "part" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
{
    float physics:mass = 1
    def Cube "skin" (prepend apiSchemas = ["MaterialBindingAPI"])
    {
        rel material:binding = </part/look>
    }
    def Material "look"
    {
        token outputs:surface.connect = </part/look/s.outputs:surface>
        def Shader "s"
        {
            uniform token info:id = "UsdPreviewSurface"
            color3f inputs:diffuseColor.connect = </part/look/i.outputs:rgb>
            token outputs:surface
        }
        def Shader "i"
        {
            uniform token info:id = "UsdUVTexture"
            asset inputs:file = @./skin.png@
            float3 outputs:rgb
        }
    }
}
"""


def test_assets_with_images_of_one_name(tmp_path):
    """Each referenced file has the image in its own folder, which cubes can't show."""
    colours = {"a": (255, 0, 0), "b": (0, 0, 255)}
    whole = Usd.Stage.CreateNew(str(tmp_path / "both.usda"))
    for name, colour in colours.items():
        (tmp_path / name).mkdir()
        Image.new("RGB", (2, 2), colour).save(tmp_path / name / "skin.png")
        (tmp_path / name / "one.usda").write_text(ASSET)
        whole.DefinePrim(f"/{name}").GetReferences().AddReference(f"./{name}/one.usda")
    whole.GetRootLayer().Save()
    with pytest.warns(sim.USDWarning, match="not shown: the texture of '/[ab]/skin'"):
        model = sim.load(tmp_path / "both.usda")
    pictures = [each.material.texture for each in model.geometries]
    assert [tuple(each.pixels[0, 0]) for each in pictures] == list(colours.values())


def shader_of(stage, name):
    return UsdShade.Shader(stage.GetPrimAtPath(f"/Looks/skin/{name}"))


def test_transforms_of_coordinates_and_connected_names(path):
    """UsdTransform2d: scale, then rotation, then translation; name and file may be inputs of the material."""
    stage = write_scene(path)
    material = UsdShade.Material(stage.GetPrimAtPath("/Looks/skin"))
    for owner, name, kind, value in (("r", "varname", Sdf.ValueTypeNames.String, "map"),
                                     ("i", "file", Sdf.ValueTypeNames.Asset, "skin.png")):  # fmt: skip
        above = material.CreateInput(name, kind)
        above.Set(value)
        shader_of(stage, owner).GetInput(name).ConnectToSource(above)
    turn = UsdShade.Shader.Define(stage, "/Looks/skin/t")
    turn.CreateIdAttr("UsdTransform2d")
    turn.CreateInput("in", Sdf.ValueTypeNames.Float2).ConnectToSource(shader_of(stage, "r").ConnectableAPI(), "result")
    for name, kind, value in (("scale", "Float2", Gf.Vec2f(2, 3)), ("rotation", "Float", 90.0),
                              ("translation", "Float2", Gf.Vec2f(0.5, -1))):  # fmt: skip
        turn.CreateInput(name, getattr(Sdf.ValueTypeNames, kind)).Set(value)
    shader_of(stage, "i").GetInput("st").ConnectToSource(turn.ConnectableAPI(), "result")
    stage.GetRootLayer().Save()
    (geometry,) = sim.load(path).geometries
    assert_array_equal(geometry.material.texture.pixels, PIXELS)
    u, v = 2.0 * CORNERS[:, 0], 3.0 * CORNERS[:, 1]
    expected = np.stack([-v + 0.5, u - 1.0], axis=1).reshape(4, 3, 2)
    points, indices = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]), [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]
    for face in range(4):
        wanted = {tuple(points[indices[3 * face + k]]): expected[face, k] for k in range(3)}
        corners = geometry.mesh.vertices[geometry.mesh.faces[face]]
        assert_allclose(geometry.mesh.uv[face], [wanted[tuple(corner)] for corner in corners], atol=1e-6)


@pytest.mark.parametrize(("threshold", "expected"), [(0.0, 0.4), (0.3, 1.0), (0.5, 0.0)])
def test_a_threshold_of_opacity(path, threshold, expected):
    stage = write_scene(path)
    for name, value in (("opacity", 0.4), ("opacityThreshold", threshold)):
        shader_of(stage, "s").CreateInput(name, Sdf.ValueTypeNames.Float).Set(value)
    stage.GetRootLayer().Save()
    assert sim.load(path).geometries[0].rgba[3] == pytest.approx(expected)


def test_images_that_are_not_repeated_are_named(path):
    stage = write_scene(path)
    shader_of(stage, "i").CreateInput("wrapS", Sdf.ValueTypeNames.Token).Set("clamp")
    stage.GetRootLayer().Save()
    with pytest.warns(sim.USDWarning, match="ignored: wrapS of image '/Looks/skin/i'"):
        sim.load(path)


def test_all_images_of_a_file_have_a_limit(path, monkeypatch):
    monkeypatch.setattr(Budget, "__init__", lambda self: setattr(self, "left", 20))
    write_scene(path)
    with pytest.warns(sim.USDWarning, match="texture 'skin.png', which is too much"):
        sim.load(path)


def test_a_collider_without_coordinates_is_named(path):
    """Shapes of UsdGeom have none; they keep the colour of the image's scale."""
    stage = write_scene(path)
    ball = UsdGeom.Sphere.Define(stage, "/body/ball")
    UsdPhysics.CollisionAPI.Apply(ball.GetPrim())
    UsdShade.MaterialBindingAPI.Apply(ball.GetPrim()).Bind(UsdShade.Material(stage.GetPrimAtPath("/Looks/skin")))
    stage.GetRootLayer().Save()
    with pytest.warns(sim.USDWarning, match="not shown: the texture of '/body/ball'"):
        sim.load(path)


@pytest.mark.parametrize("values", [[], [(0.0, 0.0)], [(float("nan"), 0.0), *(11 * [(0.0, 0.0)])]])
def test_a_visual_without_coordinates_is_named(path, values):
    stage = write_scene(path)
    UsdGeom.PrimvarsAPI(stage.GetPrimAtPath("/body/skin")).GetPrimvar("map").Set([Gf.Vec2f(*value) for value in values])
    stage.Save()
    with pytest.warns(sim.USDWarning, match="not shown: the texture of '/body/skin', whose shape has no texture coord"):
        sim.load(path)
