"""Materials in written files, read by MuJoCo, by UsdShade and by our own importers."""

import mujoco
import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from pxr import Usd, UsdGeom, UsdShade

import sim
from sim.exporters import write_mjcf, write_urdf
from sim.model.geometries import Mesh
from sim.render.colors import linear_light
from sim.render.view import transform_points
from sim.usd import write_usd

MATERIALS = {"gold": (0.1, 1.0), "rubber": (0.9, 0.0), "plain": (0.5, 0.0)}
COLOURS = {"gold": (1.0, 0.7, 0.3, 1.0), "rubber": (0.5, 0.5, 0.5, 1.0), "plain": (0.1, 0.2, 0.3, 1.0)}
NO_LINKS = np.zeros((1, 0, 7))


def model(texture=None):
    """Balls of three materials, one of them with MuJoCo's default colour."""
    scene = sim.ModelBuilder()
    for x, (name, (roughness, metallic)) in enumerate(MATERIALS.items()):
        material = sim.Material(roughness, metallic, texture, (1.0, 1.0))
        scene.add_geometry(
            "world", "sphere", name=name, size=0.4, position=(x, 0.0, 0.0), rgba=COLOURS[name], material=material
        )
    return scene.finalize()


def reflections(read):
    return {g.name: (g.material.roughness, g.material.metallic) for g in read.geometries}


def colours(read):
    return {g.name: g.rgba for g in read.geometries}


def test_mjcf(tmp_path):
    path = write_mjcf(tmp_path / "balls.xml", model())
    theirs = mujoco.MjModel.from_xml_path(str(path))
    for name, (roughness, metallic) in MATERIALS.items():
        material = int(theirs.geom(name).matid[0])
        assert (material < 0) == (name == "plain")
        if material >= 0:
            assert_allclose((theirs.mat_roughness[material], theirs.mat_metallic[material]), (roughness, metallic))
    read = sim.load(path)
    assert_allclose(list(reflections(read).values()), list(MATERIALS.values()), atol=1e-7)
    assert_allclose(list(colours(read).values()), list(COLOURS.values()), atol=1e-7)


def test_usd(tmp_path):
    path = write_usd(tmp_path / "balls.usda", model(), NO_LINKS, fps=24)
    stage = Usd.Stage.Open(str(path))
    for name, (roughness, metallic) in MATERIALS.items():
        prim = stage.GetPrimAtPath(f"/World/Static/{name}")
        assert prim.IsA(UsdGeom.Mesh)
        shader = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0].ComputeSurfaceSource()[0]
        found = [shader.GetInput(each).Get() for each in ("roughness", "metallic")]
        assert_allclose(found, (roughness, metallic), rtol=1e-6)
    assert reflections(sim.load(path)) == MATERIALS


def test_what_is_not_written_is_named(tmp_path):
    bare = sim.Texture(np.zeros((2, 2, 3), dtype=np.uint8))
    scene = sim.ModelBuilder()
    scene.add_link("base", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("hinge", "revolute", child="base", limits=sim.Limits(-1.0, 1.0))
    gold = sim.Material(*MATERIALS["gold"], bare)
    scene.add_geometry("base", "sphere", name="gold", size=0.4, material=gold)
    textured = scene.finalize()
    with pytest.warns(sim.MJCFWarning, match="not written: textures without [a-z ]* \\('gold'\\)"):
        write_mjcf(tmp_path / "ball.xml", textured)
    with pytest.warns(sim.USDWarning, match="not written: textures of geometries without [a-z ]* \\('gold'\\)"):
        write_usd(tmp_path / "ball.usda", textured, np.zeros((1, 1, 7)) + IDENTITY, fps=24)
    lost = pytest.warns(sim.URDFWarning, match="roughness and metallic of materials \\('gold'\\)")
    with lost, pytest.warns(sim.URDFWarning, match="not written: textures other than of meshes [a-z ]* \\('gold'\\)"):
        write_urdf(tmp_path / "ball.urdf", textured)


IDENTITY = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
PIXELS = np.random.default_rng(3).integers(0, 255, (5, 7, 3), dtype=np.uint8)
POINTS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
UV = np.arange(24.0).reshape(4, 3, 2) / 16.0 - 0.5


def pictured():
    """Return a model with a texture on a mesh, a colliding hull, a box, a ball and a plane; another on a second box."""
    scene = sim.ModelBuilder()
    scene.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("hinge", "revolute", child="body", limits=sim.Limits(-1.0, 1.0))
    skin, tiles = sim.Texture(PIXELS, "skin.png"), sim.Texture(PIXELS[:2, :3].copy(), "skin.jpg")
    mesh = Mesh(POINTS, FACES, UV)
    rough = sim.Material(0.25, 0.0, skin)
    show = {"collides": False, "mesh": mesh, "size": (1.0, 2.0, 0.5), "rgba": (0.5, 1.0, 0.25, 1.0)}
    scene.add_geometry("body", "convex", name="mesh", material=rough, **show)
    scene.add_geometry("body", "convex", name="hull", material=rough, mesh=mesh, size=(1.0, 1.0, 1.0))
    projected = sim.Material(0.4, 0.75, skin, (2.0, -3.0))
    scene.add_geometry("body", "box", name="box", size=(0.1, 0.2, 0.3), material=projected, collides=False)
    scene.add_geometry("body", "sphere", name="ball", size=0.3, material=projected)
    scene.add_geometry("world", "plane", name="floor", material=sim.Material(texture=tiles, repeat=(0.5, 0.25)))
    return scene.finalize("float64")


def corners(geometry):
    """Return the texture coordinates of a mesh by face and corner: the positions of both, and the coordinates."""
    mesh = geometry.mesh
    points = np.round(transform_points(geometry.placement, mesh.vertices * geometry.size), 5) + 0.0
    found = {}
    for face, uv in zip(mesh.faces, mesh.uv, strict=True):
        key = frozenset(map(tuple, points[face].tolist()))
        found |= {(key, tuple(points[v].tolist())): tuple(c) for v, c in zip(face, uv, strict=True)}
    return found


def same_looks(model, read, hull="hull"):
    """Check that geometries show the same pixels at the same coordinates; the hull has another name in MJCF files."""
    for name in ("mesh", "hull", "box", "ball", "floor"):
        old = model.geometries[model.geometry(name)]
        new = read.geometries[read.geometry(hull if name == "hull" else name)]
        assert_array_equal(old.material.texture.pixels, new.material.texture.pixels, err_msg=name)
        assert_allclose(new.rgba, old.rgba, atol=1e-6)
        if old.mesh is None:
            assert_allclose(new.material.repeat, old.material.repeat, rtol=1e-6)
            continue
        before, after = corners(old), corners(new)
        assert before.keys() == after.keys()
        assert_allclose([after[key] for key in before], list(before.values()), atol=1e-6)


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
def test_textures_of_a_stage(tmp_path, suffix):
    """UsdShade finds images beside the stage, with a reader of coordinates; our importer shows the same."""
    model = pictured()
    poses = sim.forward_kinematics(model, model.q0[None]).numpy()
    path = write_usd(tmp_path / f"a{suffix}", model, poses, fps=24)
    stage = Usd.Stage.Open(str(path))
    prim = next(each for each in stage.Traverse() if each.GetName() == "mesh")
    shader = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0].ComputeSurfaceSource()[0]
    image = UsdShade.Shader(shader.GetInput("diffuseColor").GetConnectedSources()[0][0].source)
    asset = image.GetInput("file").Get()
    assert asset.path.startswith(f"./a_{suffix[1:]}_textures/skin")
    assert_array_equal(np.asarray(Image.open(asset.resolvedPath)), PIXELS)
    assert_allclose(image.GetInput("scale").Get()[:3], linear_light(np.array([0.5, 1.0, 0.25])), atol=1e-6)
    reader = UsdShade.Shader(image.GetInput("st").GetConnectedSources()[0][0].source)
    coordinates = UsdGeom.PrimvarsAPI(prim).GetPrimvar(reader.GetInput("varname").Get())
    assert coordinates.GetInterpolation() == "faceVarying"
    assert_allclose(np.array(coordinates.Get()).reshape(4, 3, 2), UV, atol=1e-7)
    assert sorted(each.name for each in (tmp_path / f"a_{suffix[1:]}_textures").iterdir()) == ["skin.png", "skin_2.png"]
    same_looks(model, sim.load(path))


def test_textures_of_mjcf(tmp_path):
    """MuJoCo has the images, their repeats and the coordinates of the mesh; our importer shows the same."""
    model = pictured()
    path = write_mjcf(tmp_path / "a.xml", model)
    theirs = mujoco.MjModel.from_xml_path(str(path))
    assert theirs.ntex == 2
    material = int(theirs.geom("mesh").matid[0])
    texture = int(theirs.mat_texid[material].max())
    size = theirs.tex_height[texture], theirs.tex_width[texture], theirs.tex_nchannel[texture]
    start = theirs.tex_adr[texture]
    assert_array_equal(theirs.tex_data[start : start + np.prod(size)].reshape(size), PIXELS)
    ball = int(theirs.geom("ball").matid[0])
    assert theirs.mat_texuniform[ball]
    assert_allclose(theirs.mat_texrepeat[ball], (4.0, -6.0))
    mesh = int(theirs.geom("mesh").dataid[0])
    first = theirs.mesh_texcoordadr[mesh]
    faces = theirs.mesh_facetexcoord[theirs.mesh_faceadr[mesh] :][:4]
    found = theirs.mesh_texcoord[first:][faces] * (1.0, -1.0) + (0.0, 1.0)  # MuJoCo's v counts from the top
    assert_allclose(np.sort(found.reshape(-1, 2), axis=0), np.sort(UV.reshape(-1, 2), axis=0), atol=1e-6)
    same_looks(model, sim.load(path), "hull/visual")


def test_textures_of_urdf(tmp_path):
    """Meshes with coordinates have their image, colour and roughness in files beside the URDF; shapes are named."""
    model = pictured()
    with pytest.warns(sim.URDFWarning) as found:
        path = write_urdf(tmp_path / "a.urdf", model)
    said = " ".join(str(each.message) for each in found)
    assert "textures other than of meshes with texture coordinates ('box', 'ball', 'floor')" in said
    whole = trimesh.load(tmp_path / "a_urdf_meshes" / "mesh.obj", process=False)
    assert_array_equal(np.asarray(whole.visual.material.image.convert("RGB")), PIXELS)
    read = sim.load(path, floating_base=False)
    new = next(each for each in read.geometries if each.visible and each.rgba[1] > 2.0 * each.rgba[2])
    old = model.geometries[model.geometry("mesh")]
    assert_array_equal(new.material.texture.pixels, PIXELS)
    assert_allclose(new.rgba, old.rgba, atol=1 / 255)
    assert new.material.roughness == pytest.approx(0.25)
    before, after = corners(old), corners(new)
    assert before.keys() == after.keys()
    assert_allclose([after[key] for key in before], list(before.values()), atol=1e-6)


def test_a_folder_of_textures_that_is_a_file(tmp_path):
    (tmp_path / "a_xml_meshes").write_text("")
    with pytest.raises(sim.ModelError, match="a_xml_meshes"):
        write_mjcf(tmp_path / "a.xml", pictured())
    assert not (tmp_path / "a.xml").exists()


def test_long_names_of_images(tmp_path):
    """File names have at most 255 characters."""
    images = [sim.Texture(np.full((2, 2, 3), value, dtype=np.uint8), 300 * "a") for value in (50, 100)]
    scene = sim.ModelBuilder()
    for image in images:
        scene.add_geometry("world", "plane", material=sim.Material(texture=image, repeat=(1.0, 1.0)))
    read = sim.load(write_mjcf(tmp_path / "a.xml", scene.finalize()))
    assert [geometry.material.texture.pixels.max() for geometry in read.geometries] == [50, 100]
