"""Materials, textures and texture coordinates of mesh files, compared with trimesh and with the numbers written."""

import io
import json
import warnings
import zlib

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

import sim
from sim.importers.meshes import MeshLibrary
from sim.importers.model_file import model_from_bytes, model_to_bytes
from sim.importers.pictures import Budget, NoPictureError, texture_of
from sim.model.looks.looks import DEFAULT_MATERIAL
from sim.render.colors import linear_light
from tests.importers.test_mjcf_sizes import png

ONE = np.ones(3)
PIXELS = np.random.default_rng(3).integers(0, 255, (4, 6, 3), dtype=np.uint8)
OBJ = """mtllib part.mtl
v 0 0 0
v 1 0 0
v 0 1 0
v 1 1 1
vt 0.25 0.75
vt 1.5 -2
vt 0 1
usemtl skin
f 1/1 2/2 3/3
f 2/2 4/1 3/3
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a mesh of two textured triangles."""
    Image.fromarray(PIXELS).save(tmp_path / "skin.png")
    (tmp_path / "part.mtl").write_text("newmtl skin\nKd 1 0.5 0\nNs 30\nmap_Kd skin.png\n")
    (tmp_path / "part.obj").write_text(OBJ)
    return tmp_path


def robot(folder, mesh="part.obj"):
    """Return the model of a robot with that mesh, and the warnings of reading it."""
    shape = f'<geometry><mesh filename="{mesh}"/></geometry>'
    (folder / "robot.urdf").write_text(f'<robot name="r"><link name="l"><visual>{shape}</visual></link></robot>')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = sim.load(folder / "robot.urdf")
    return model, [str(warning.message) for warning in caught]


def test_obj(folder):
    """Also a copy that goes through bytes, and a mirrored one."""
    model, said = robot(folder)
    assert not any("texture" in text for text in said)
    for found in (model, model_from_bytes(model_to_bytes(model))):
        (geometry,) = found.geometries
        assert_array_equal(geometry.material.texture.pixels, PIXELS)
        assert geometry.material.roughness == pytest.approx((2.0 / 32.0) ** 0.25)
        assert geometry.material.metallic == 0.0
        assert_allclose(geometry.rgba, (1.0, 0.5, 0.0, 1.0), atol=0.003)
        assert_allclose(geometry.mesh.uv, [[(0.25, 0.75), (1.5, -2), (0, 1)], [(1.5, -2), (0.25, 0.75), (0, 1)]])
    (piece,) = MeshLibrary(folder).pieces("part.obj", np.array([1.0, -1.0, 1.0]))
    corners = piece.mesh.vertices[piece.mesh.faces[0]]
    of_corner = {(0.0, 0.0): (0.25, 0.75), (1.0, 0.0): (1.5, -2.0), (0.0, -1.0): (0.0, 1.0)}
    assert_allclose(piece.mesh.uv[0], [of_corner[x, y] for x, y, _ in corners.tolist()])


@pytest.mark.parametrize("lines", ["", "Kd 0 0 0\n"])
def test_an_image_without_a_colour_is_not_darkened(folder, lines):
    (folder / "part.mtl").write_text(f"newmtl skin\n{lines}map_Kd skin.png\n")
    assert robot(folder)[0].geometries[0].rgba == (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("suffix", ["glb", "gltf"])
def test_gltf(folder, suffix):
    box = trimesh.creation.box()
    rng = np.random.default_rng(0)
    uv = rng.random((len(box.vertices), 2))
    rough = np.full((2, 2, 3), (0, 128, 51), dtype=np.uint8)
    material = trimesh.visual.material.PBRMaterial(
        baseColorTexture=Image.fromarray(PIXELS), baseColorFactor=(255, 128, 64, 255), roughnessFactor=0.5,
        metallicFactor=1.0, metallicRoughnessTexture=Image.fromarray(rough), emissiveFactor=(0.5, 0, 0),
        normalTexture=Image.fromarray(PIXELS),
    )  # fmt: skip
    box.visual = trimesh.visual.TextureVisuals(uv=uv, material=material)
    one = {"model.glb": trimesh.exchange.gltf.export_glb(box.scene())}
    files = one if suffix == "glb" else trimesh.exchange.gltf.export_gltf(box.scene())
    for name, data in files.items():
        (folder / name).write_bytes(data)
    model, said = robot(folder, f"model.{suffix}")
    (geometry,) = model.geometries
    assert_array_equal(geometry.material.texture.pixels, PIXELS)
    assert_allclose(linear_light(np.array(geometry.rgba)), (1.0, 128 / 255, 64 / 255, 1.0), atol=1e-6)
    assert_allclose((geometry.material.roughness, geometry.material.metallic), (0.5 * 128 / 255, 51 / 255), atol=1e-6)
    # The same coordinate at the same place as in the mesh that was written.
    corners = geometry.mesh.vertices[geometry.mesh.faces].reshape(-1, 3)
    for corner, shown in zip(corners, geometry.mesh.uv.reshape(-1, 2), strict=True):
        vertex = np.linalg.norm(box.vertices - corner, axis=1).argmin()
        assert_allclose(shown, uv[vertex], atol=1e-6)
    assert any("normal maps" in text and "emission" in text for text in said)


def test_materials_of_gltf_without_numbers_have_its_defaults(folder):
    box = trimesh.creation.box()
    material = trimesh.visual.material.PBRMaterial(baseColorFactor=(9, 9, 9, 255))
    box.visual = trimesh.visual.TextureVisuals(material=material)
    (folder / "a.glb").write_bytes(trimesh.exchange.gltf.export_glb(box.scene()))
    (piece,) = MeshLibrary(folder).pieces("a.glb", ONE)
    assert (piece.material.metallic, piece.material.roughness) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (png(30000, 30000, bytes(30001)), "900000000 pixels"),
        (b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(1000)), None),
        (b"", None),
    ],
    ids=["huge", "broken", "empty"],
)
def test_bad_images_are_left_out(folder, data, said):
    (folder / "skin.png").write_bytes(data)
    model, notes = robot(folder)
    assert model.geometries[0].material.texture is None
    assert any((said or "can't be") in text and "texture 'skin.png'" in text for text in notes)


def test_images_of_other_formats_are_refused():
    """Pillow would start another program for some of them."""
    data = io.BytesIO()
    Image.new("RGB", (4, 4)).save(data, "PPM")
    with pytest.raises(NoPictureError, match="PPM"):
        texture_of(Image.open(data), "picture")


@pytest.mark.parametrize("name", ["/dev/zero", "gone.png", "../.."])
def test_files_that_are_no_images_are_not_read(folder, name):
    (folder / "part.mtl").write_text(f"newmtl skin\nKd 1 0 0\nmap_Kd {name}\n")
    model, said = robot(folder)
    (geometry,) = model.geometries
    assert any(f"'{name}', which doesn't exist" in text for text in said)
    assert geometry.material == DEFAULT_MATERIAL
    assert geometry.rgba == (1.0, 0.0, 0.0, 1.0)


def gltf(folder, edit):
    """Write a textured box as a .gltf file whose description is edited, and return its model and the warnings."""
    box = trimesh.creation.box()
    material = trimesh.visual.material.PBRMaterial(
        name="paint", baseColorTexture=Image.fromarray(PIXELS), baseColorFactor=(255, 255, 255, 255)
    )
    box.visual = trimesh.visual.TextureVisuals(uv=box.vertices[:, :2] + 0.5, material=material)
    for name, data in trimesh.exchange.gltf.export_gltf(box.scene()).items():
        (folder / name).write_bytes(data)
    description = json.loads((folder / "model.gltf").read_text())
    edit(description)
    (folder / "model.gltf").write_text(json.dumps(description))
    return robot(folder, "model.gltf")


@pytest.mark.parametrize(
    ("mode", "alpha", "more", "expected"),
    [
        (None, 0.3, {}, 1.0),
        ("BLEND", 0.3, {}, 0.3),
        ("MASK", 0.3, {}, 0.0),
        ("MASK", 0.5, {}, 1.0),
        ("MASK", 0.3, {"alphaCutoff": 0.25}, 1.0),
    ],
)
def test_colours_of_gltf_are_linear(folder, mode, alpha, more, expected):
    """To the last digit, with the opacity of their alpha mode."""

    def edit(description):
        (material,) = description["materials"]
        material["pbrMetallicRoughness"]["baseColorFactor"] = [0.001, 0.25, 1.0, alpha]
        material.update(more | ({} if mode is None else {"alphaMode": mode}))

    (geometry,) = gltf(folder, edit)[0].geometries
    assert_allclose(linear_light(np.array(geometry.rgba[:3])), (0.001, 0.25, 1.0), rtol=1e-9)
    assert geometry.rgba[3] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "doesn't exist"),
        (png(30000, 30000, bytes(30001)), "900000000 pixels"),
        (b"nothing", "can't be read"),
    ],
    ids=["gone", "huge", "broken"],
)
def test_images_of_gltf_and_collada_that_are_left_out(folder, data, said):
    """The file is named, and the shape is read."""
    if data is not None:
        (folder / "an image.png").write_bytes(data)
    (folder / "part.dae").write_text(DAE.format(image="an image.png"))
    coded = {"images": [{"uri": "an%20image.png"}]}
    for model, notes in (gltf(folder, lambda description: description.update(coded)), robot(folder, "part.dae")):
        assert model.geometries[0].material.texture is None
        assert any("image.png" in each and said in each for each in notes)


def test_a_collada_image(folder):
    (folder / "part.dae").write_text(DAE.format(image="skin.png"))
    model, _ = robot(folder, "part.dae")
    assert_array_equal(model.geometries[0].material.texture.pixels, PIXELS)


def test_lights_of_gltf(folder):
    """A spotlight below two nodes, with the scale and pose of the visual; one of an unknown type is named."""
    spot = {"innerConeAngle": 0.3, "outerConeAngle": 0.6}
    stated = [
        {"type": "spot", "intensity": 20.0, "color": [1.0, 0.5, 0.25], "spot": spot}, {"type": "laser"},
    ]  # fmt: skip

    def edit(description):
        first = len(description["nodes"])
        description["extensions"] = {"KHR_lights_punctual": {"lights": stated}}
        quarter = [0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)]  # about y: -z becomes -x
        description["nodes"] += [
            {"translation": [1, 2, 3], "rotation": quarter, "children": [first + 1]},
            {"name": "lamp", "translation": [0, 0, 1], "extensions": {"KHR_lights_punctual": {"light": 0}}},
            {"name": "odd", "extensions": {"KHR_lights_punctual": {"light": 1}}},
        ]
        description["scenes"][0]["nodes"] += [first, first + 2]
        for number, index in enumerate((-1, "0", 2)):
            light = {"KHR_lights_punctual": {"light": index}}
            description["nodes"].append({"name": f"wrong {number}", "extensions": light})
        description["nodes"].append({"name": "elsewhere", "extensions": {"KHR_lights_punctual": {"light": 0}}})

    model, said = gltf(folder, edit)
    (one,) = model.lights
    assert one.name == "l/lamp"
    assert_allclose(one.light.color, np.array([1.0, 0.5, 0.25]) * 20.0 / np.pi)
    assert_allclose((one.light.cone, one.light.softness), (np.degrees(0.6), 0.5))
    assert_allclose(one.placement[:3], (2.0, 2.0, 3.0), atol=1e-12)
    x, y, z, w = one.placement[3:]
    assert_allclose((2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)), (1.0, 0.0, 0.0), atol=1e-12)
    assert any("light 'odd'" in text and "laser" in text for text in said)
    assert any("light 'elsewhere': its node isn't part of the scene" in text for text in said)
    assert all(any(f"light 'wrong {number}'" in text for text in said) for number in range(3))


def test_opacity_of_images_is_named(folder):
    Image.fromarray(np.full((2, 2, 4), 100, dtype=np.uint8)).save(folder / "other.png")

    def edit(description):
        description["images"] = [{"uri": "other.png"}]
        description["materials"][0]["alphaMode"] = "BLEND"

    assert any("opacity of the image of material 'paint'" in text for text in gltf(folder, edit)[1])


def test_all_images_of_a_robot_have_a_limit(folder, monkeypatch):
    monkeypatch.setattr(Budget, "__init__", lambda self: setattr(self, "left", 20))
    model, said = robot(folder)
    assert model.geometries[0].material.texture is None
    assert any("texture 'skin.png', which is too much" in text for text in said)


DAE = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset/>
<library_images><image id="i"><init_from>{image}</init_from></image></library_images>
<library_effects><effect id="e"><profile_COMMON>
<newparam sid="s"><surface type="2D"><init_from>i</init_from></surface></newparam>
<newparam sid="t"><sampler2D><source>s</source></sampler2D></newparam>
<technique sid="c"><phong><diffuse><texture texture="t" texcoord="U"/></diffuse></phong></technique>
</profile_COMMON></effect></library_effects>
<library_materials><material id="m"><instance_effect url="#e"/></material></library_materials>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="pa" count="9">0 0 0 1 0 0 0 1 0</float_array><technique_common>
<accessor source="#pa" count="3" stride="3"><param name="X" type="float"/><param name="Y" type="float"/>
<param name="Z" type="float"/></accessor></technique_common></source>
<source id="u"><float_array id="ua" count="6">0 0 1 0 0 1</float_array><technique_common>
<accessor source="#ua" count="3" stride="2"><param name="S" type="float"/><param name="T" type="float"/></accessor>
</technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="1" material="M"><input semantic="VERTEX" source="#v" offset="0"/>
<input semantic="TEXCOORD" source="#u" offset="1" set="0"/><p>0 0 1 1 2 2</p></triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="w"><node><instance_geometry url="#g"><bind_material><technique_common>
<instance_material symbol="M" target="#m"><bind_vertex_input semantic="U" input_semantic="TEXCOORD" input_set="0"/>
</instance_material></technique_common></bind_material></instance_geometry></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#w"/></scene></COLLADA>"""
