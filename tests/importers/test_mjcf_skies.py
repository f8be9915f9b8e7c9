"""Skies of MJCF files: where each of their pixels is, compared with MuJoCo's faces, and written again."""

import warnings

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image

import sim
from sim.exporters import write_mjcf
from sim.render.dome import sampled

NAMES = ("right", "left", "up", "down", "front", "back")
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
# As MuJoCo's own pictures show a sky of six colours, each darker in its left upper and right upper corner: what is in
# the middle of each face, at the right of its image, and at its lower end.
AXES = {
    "right": ("+x", "+y", "-z"),
    "left": ("-x", "-y", "-z"),
    "up": ("+z", "+x", "-y"),
    "down": ("-z", "+x", "+y"),
    "front": ("-y", "+x", "-z"),
    "back": ("+y", "-x", "-z"),
}


def axis(name):
    return (1.0 if name[0] == "+" else -1.0) * np.eye(3)["xyz".index(name[1])]


def loaded(folder, texture, light="<light/>"):
    """Return the model of a file with a sky, and its warnings."""
    (folder / "a.xml").write_text(
        f"<mujoco><asset><texture type='skybox' name='sky' {texture}/></asset>"
        f"<worldbody>{light}<geom size='1'/></worldbody></mujoco>"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = sim.load(folder / "a.xml")
    return model, " ".join(str(each.message) for each in caught)


def check(model, faces, share=1.0):
    """Compare the pixels of a model's sky with those of six faces [6, width, width, 3]; a share of them must agree."""
    (one,) = (each for each in model.lights if each.light.texture is not None)
    assert one.light.type == "sky"
    assert_allclose(one.placement[3:], (0.0, 0.0, 0.0, 1.0), atol=1e-12)
    image, width, agree = one.light.texture.pixels.astype(float), faces.shape[1], []
    for face, name in zip(faces, NAMES, strict=True):
        middle, right, down = map(axis, AXES[name])
        for row, column in np.ndindex(width, width):
            across, along = (2.0 * np.array([column, row]) + 1.0) / width - 1.0
            toward = middle + across * right + along * down
            rows, columns = image.shape[:2]
            toward /= np.linalg.norm(toward)
            longitude, latitude = np.arctan2(toward[0], -toward[1]), np.arcsin(toward[2])
            at = int((0.5 - latitude / np.pi) * rows), int((0.5 - longitude / (2 * np.pi)) * columns) % columns
            agree.append(np.abs(image[at] - face[row, column]).max() <= 1.0)
    assert np.mean(agree) >= share


def test_six_files(tmp_path):
    for pixels, name in zip(PIXELS, NAMES, strict=True):
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    model, said = loaded(tmp_path, " ".join(f"file{name}='{name}.png'" for name in NAMES))
    assert not said
    check(model, PIXELS)
    theirs = mujoco.MjModel.from_xml_path(str(tmp_path / "a.xml"))
    check(model, theirs.tex_data.reshape(6, 8, 8, 3))


def test_a_grid(tmp_path):
    """Faces that the grid lacks are black, as in MuJoCo."""
    image = np.zeros((24, 32, 3), dtype=np.uint8)
    for (row, column), face in {(0, 1): 2, (1, 0): 1, (1, 1): 4, (1, 2): 0}.items():
        image[8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = PIXELS[face]
    Image.fromarray(image).save(tmp_path / "sky.png")
    model, said = loaded(tmp_path, "file='sky.png' gridsize='3 4' gridlayout='.U..LFR.....'")
    assert not said
    check(model, PIXELS * np.isin(np.arange(6), [0, 1, 2, 4])[:, None, None, None])


def test_one_face_on_all_sides(tmp_path):
    Image.fromarray(PIXELS[3]).save(tmp_path / "sky.png")
    model, said = loaded(tmp_path, "file='sky.png' hflip='true'")
    assert not said
    check(model, PIXELS[[3] * 6, :, ::-1])


@pytest.mark.parametrize("builtin", ["gradient", "checker", "flat"])
def test_generated_skies(tmp_path, builtin):
    colors = "rgb1='0.2 0.5 0.8' rgb2='0.4 0.1 0' width='8' height='48' mark='cross' markrgb='1 1 1'"
    model, said = loaded(tmp_path, f"builtin='{builtin}' {colors}")
    assert not said
    theirs = mujoco.MjModel.from_xml_path(str(tmp_path / "a.xml"))
    check(model, theirs.tex_data.reshape(6, 8, 8, 3))


def test_a_sky_without_lights_has_the_headlight(tmp_path):
    model, _ = loaded(tmp_path, "builtin='flat' width='8' height='8' rgb1='0.5 0.5 0.5'", "")
    assert [one.name for one in model.lights] == ["sky", "headlight", "ambient"]


def test_a_scene_has_one_sky(tmp_path):
    loaded(tmp_path, "builtin='flat' width='8' height='8'")
    scene = sim.ModelBuilder()
    scene.add_mjcf(tmp_path / "a.xml", name="a")
    with pytest.warns(UserWarning, match="one sky"):
        scene.add_mjcf(tmp_path / "a.xml", name="b", position=(5.0, 0.0, 0.0))
    assert sum(one.light.texture is not None for one in scene.finalize().lights) == 1


@pytest.mark.parametrize(
    ("texture", "said"),
    [
        ("file='gone.png'", "'sky', which has a file that doesn't exist"),
        (f"file='{'long' * 99}.png'", "'sky', which has a file that doesn't exist"),
        ("file='wide.png'", "isn't square"),
        ("file='wide.png' gridsize='2 3' gridlayout='RLUDFB'", "isn't a grid of 2 x 3"),
        ("file='strip.png' gridsize='-1 -6' gridlayout='RLUDFB'", "grid of -1 x -6"),
        ("file='strip.png' gridsize='1 6' gridlayout='RLUDFX'", "'RLUDFX'; letters are"),
        ("fileup='sky.png' filedown='large.png'", "different sizes"),
        ("builtin='flat' width='20000' height='8'", "too many pixels"),
    ],
)
def test_skies_that_cannot_be_shown_are_named(tmp_path, texture, said):
    Image.fromarray(PIXELS[0]).save(tmp_path / "sky.png")
    Image.fromarray(PIXELS[0].repeat(2, 1)).save(tmp_path / "wide.png")
    Image.fromarray(np.concatenate(list(PIXELS), axis=1)).save(tmp_path / "strip.png")
    Image.fromarray(PIXELS[0].repeat(2, 0).repeat(2, 1)).save(tmp_path / "large.png")
    model, messages = loaded(tmp_path, texture)
    assert said in messages
    assert not any(one.light.texture for one in model.lights)


def test_skies_are_written(tmp_path):
    """A sky by latitude and longitude, turned, is where MuJoCo and our importer look for it."""
    rows = 64
    image = np.random.default_rng(0).uniform(0.1, 0.9, (8, 16, 3)).repeat(rows // 8, 0).repeat(rows // 8, 1)
    turn = np.array([0.0, 0.0, np.sin(0.4), np.cos(0.4)])
    scene = sim.ModelBuilder()
    scene.add_sphere(radius=0.1, mass=1.0)
    light = sim.Light("sky", (0.5, 0.6, 0.7), texture=sim.Texture(image.astype(np.float32)))
    scene.add_light("evening", light, orientation=turn)
    with pytest.warns(sim.MJCFWarning, match="'evening'.*background alone"):
        path = write_mjcf(tmp_path / "out.xml", scene.finalize())
    theirs = mujoco.MjModel.from_xml_path(str(path))
    assert theirs.tex_type[0] == mujoco.mjtTexture.mjTEXTURE_SKYBOX
    again = sim.load(path)
    check(again, theirs.tex_data.reshape(6, 32, 32, 3), 0.97)  # in corners pixels are closest together
    (one,) = (each for each in again.lights if each.light.texture is not None)
    assert one.name == "evening"
    toward = np.array([0.6, -0.64, 0.48])
    inside = np.array([0.6 * np.cos(0.8) - 0.64 * np.sin(0.8), -0.6 * np.sin(0.8) - 0.64 * np.cos(0.8), 0.48])
    screen = sampled(one.light.texture.pixels / 255.0, toward)
    expected = np.array(light.color) * sampled(image, inside)
    assert_allclose(((screen + 0.055) / 1.055) ** 2.4, expected, atol=0.02)


def test_a_sky_named_as_a_texture_of_a_material(tmp_path):
    """MuJoCo's textures have unique names, and materials find theirs by name."""
    scene = sim.ModelBuilder()
    picture = sim.Material(texture=sim.Texture(PIXELS[0]), repeat=(1.0, 1.0))
    scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, material=picture)
    scene.add_light("texture_0", sim.Light("sky", texture=sim.Texture(PIXELS[1])))
    with pytest.warns(sim.MJCFWarning, match="background alone"):
        path = write_mjcf(tmp_path / "out.xml", scene.finalize())
    again = sim.load(path)
    assert_allclose(again.geometries[0].material.texture.pixels, PIXELS[0])
    assert sum(one.light.texture is not None for one in again.lights) == 1
