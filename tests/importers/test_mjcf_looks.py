"""Materials, textures and texture coordinates of MJCF files, compared with MuJoCo's compiled model."""

import warnings

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

import sim

CORNERS = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
FACES = "f 1/1 3/2 2/3\nf 1/1 2/3 4/4\nf 1/1 4/4 3/2\nf 2/3 3/2 4/4\n"
FILE = """<mujoco><compiler texturedir="pictures"/><asset>
<texture name="skin" type="2d" file="skin.png"/>
<texture name="turned" type="2d" file="skin.png" hflip="true"/>
<texture name="down" type="2d" file="skin.png" vflip="true"/>
<texture name="board" type="2d" builtin="checker" width="8" height="4" rgb1="1 0 0" rgb2="0 0 1" mark="edge"/>
<texture name="fade" type="2d" builtin="gradient" width="8" height="8" rgb1="1 1 1" rgb2="0 0.2 0"/>
<material name="skin" texture="skin" rgba="0.9 0.8 0.7 1" roughness="0.25" metallic="0.75"/>
<material name="turned" texture="turned" texrepeat="3 -2" shininess="0.9"/>
<material name="down" texture="down" texrepeat="3 2" texuniform="true" specular="0"/>
<material name="board" texture="board"/>
<material name="fade" texture="fade"/>
<mesh name="first" file="first.obj"/>
<mesh name="second" file="second.obj" scale="2 2 2"/>
</asset><worldbody>
<geom name="first" type="mesh" mesh="first" material="skin"/>
<geom name="second" type="mesh" mesh="second" material="skin"/>
<geom name="box" type="box" size="0.5 0.25 1" material="turned"/>
<geom name="ball" type="sphere" size="0.5" material="down"/>
<geom name="rod" type="capsule" size="0.1 0.4" material="turned"/>
<geom name="floor" type="plane" size="5 2 0.1" material="board"/>
<geom name="endless" type="plane" size="0 0 0.1" material="fade"/>
<geom name="own" type="sphere" size="1" material="skin" rgba="1 0 0 1"/>
<geom name="plain" type="sphere" size="1"/>
</worldbody></mujoco>"""


@pytest.fixture
def path(tmp_path):
    """A file with textures of every kind that is kept."""
    (tmp_path / "pictures").mkdir()
    pixels = np.random.default_rng(1).integers(0, 255, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "pictures" / "skin.png")
    for number, name in enumerate(("first", "second")):
        uv = np.random.default_rng(number).random((4, 2)).round(3)
        (tmp_path / f"{name}.obj").write_text(CORNERS + "".join(f"vt {u} {v}\n" for u, v in uv) + FACES)
    (tmp_path / "scene.xml").write_text(FILE)
    return tmp_path / "scene.xml"


def test_textures_are_those_of_mujoco(path):
    theirs, ours = mujoco.MjModel.from_xml_path(str(path)), sim.load(path)
    shown = {geometry.name: geometry for geometry in ours.geometries if geometry.visible}
    for geom in range(theirs.ngeom):
        name, material = theirs.geom(geom).name, int(theirs.geom_matid[geom])
        geometry = shown.get(f"{name}/visual", shown.get(name))
        if material < 0:
            assert geometry.material == sim.Material()
            continue
        texture = int(np.array(theirs.mat_texid[material]).max())
        height, width, channels = (int(x[texture]) for x in (theirs.tex_height, theirs.tex_width, theirs.tex_nchannel))
        data = theirs.tex_data[theirs.tex_adr[texture] :][: height * width * channels]
        assert_array_equal(geometry.material.texture.pixels, data.reshape(height, width, channels)[..., :3])
        own = theirs.geom_rgba[geom] if name == "own" else theirs.mat_rgba[material]
        assert_allclose(geometry.rgba, own, atol=1e-7)


def test_texture_coordinates_are_those_of_mujoco(path):
    """At each corner of each face, for both meshes, with rows counted from the bottom."""
    theirs, ours = mujoco.MjModel.from_xml_path(str(path)), sim.load(path)
    for name in ("first", "second"):
        mesh = theirs.mesh(name)
        (found,) = [geometry.mesh for geometry in ours.geometries if geometry.name == f"{name}/visual"]
        uv = theirs.mesh_texcoord[theirs.mesh_texcoordadr[mesh.id] :][: theirs.mesh_texcoordnum[mesh.id]]
        corners = theirs.mesh_facetexcoord[mesh.faceadr[0] :][: mesh.facenum[0]]
        assert_allclose(found.uv, uv[corners] * (1, -1) + (0, 1), atol=1e-7)
        # The numbers of the file are not mirrored.
        lines = (path.parent / f"{name}.obj").read_text().splitlines()
        written = {tuple(map(float, line.split()[1:])) for line in lines if line.startswith("vt")}
        assert {tuple(row) for row in found.uv.reshape(-1, 2).round(3).tolist()} == written


def test_reflection_and_repeats(path):
    """Repeats as in MuJoCo's renderer: over the size of an object, or per two metres where they are uniform."""
    shown = {geometry.name: geometry.material for geometry in sim.load(path).geometries if geometry.visible}
    assert (shown["own"].roughness, shown["own"].metallic) == (0.25, 0.75)
    assert shown["box"].roughness == pytest.approx((2.0 / (0.9 * 128.0 + 2.0)) ** 0.25)
    assert shown["ball"].roughness == 1.0
    assert shown["box"].repeat == pytest.approx((3.0, -4.0))
    assert shown["rod"].repeat == pytest.approx((15.0, -10.0))
    assert shown["ball"].repeat == pytest.approx((1.5, 1.0))
    assert shown["floor"].repeat == pytest.approx((0.1, 0.25))
    assert shown["endless"].repeat == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize(
    ("texture", "material", "said"),
    [
        ('<texture name="t" type="cube" builtin="flat" width="4" height="4"/>', "", "'t', which is a cube"),
        ('<texture name="t" type="2d" file="gone.png"/>', "", "'t', which has a file that doesn't exist"),
        (f'<texture name="t" type="2d" file="{"long" * 99}.png"/>', "", "'t', which has a file that doesn't exist"),
        ('<texture name="t" type="2d" file="broken.png"/>', "", "'t', which can't be read as an image"),
        ('<texture name="t" type="2d" builtin="flat" width="100000" height="100000"/>', "", "'t', which has too many"),
        (
            '<texture name="t" type="2d" builtin="flat" width="4" height="4"/>',
            'emission="1"',
            "emission of material 'm'",
        ),
    ],
)
def test_what_is_left_out_is_named(tmp_path, texture, material, said):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    asset = f'<asset>{texture}<material name="m" texture="t" {material}/></asset>'
    (tmp_path / "a.xml").write_text(f'<mujoco>{asset}<worldbody><geom size="1" material="m"/></worldbody></mujoco>')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sim.load(tmp_path / "a.xml")
    assert any(said in str(warning.message) for warning in caught)


def test_textures_of_attached_models(path):
    """They are in the folder of the attached file, under its own texturedir."""
    (path.parent / "robots" / "looks").mkdir(parents=True)
    Image.new("RGB", (2, 2), (255, 0, 0)).save(path.parent / "robots" / "looks" / "red.png")
    (path.parent / "robots" / "child.xml").write_text(
        '<mujoco><compiler texturedir="looks"/><asset><texture name="t" type="2d" file="red.png"/>'
        '<material name="m" texture="t"/></asset><worldbody><body name="b"><geom name="g" size="0.1" material="m"/>'
        "</body></worldbody></mujoco>"
    )
    path.write_text(
        '<mujoco><asset><model name="c" file="robots/child.xml"/></asset><worldbody><frame>'
        '<attach model="c" body="b" prefix="x"/></frame></worldbody></mujoco>'
    )
    theirs = mujoco.MjModel.from_xml_path(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sim.load(path)
    (geometry,) = (each for each in model.geometries if each.name == "xg")
    assert_array_equal(geometry.material.texture.pixels.reshape(-1), theirs.tex_data)
