"""Textures and materials in pictures."""

import numpy as np
import pytest

import sim
from sim.model.geometries import Mesh
from sim.render import Camera, Renderer, render_frames
from sim.render.colors import linear_light
from sim.render.lights import SUN
from tests.errors import refuses

NO_LINKS = np.zeros((1, 0, 7))
RED, GREEN, BLUE, YELLOW = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)
# The top row is red and green, the lower one blue and yellow.
FOUR = sim.Texture(np.array([[RED, GREEN], [BLUE, YELLOW]], dtype=np.uint8).repeat(32, 0).repeat(32, 1))
ABOVE = Camera((0.0, 0.0, 6.0), (0.0, 0.0, 0.0), fov=30.0, up=(0.0, 1.0, 0.0))


def drawn(camera=ABOVE, **geometry):
    """Return the picture of one geometry of the world."""
    scene = sim.ModelBuilder()
    scene.add_geometry("world", **{"rgba": (1.0, 1.0, 1.0, 1.0), **geometry})
    return render_frames(scene.finalize(), NO_LINKS, camera, 64, 64, device="cpu")[0]


def named(pixel):
    """Return the name of a saturated colour: the channels that are bright."""
    return "".join(letter for letter, value in zip("rgb", pixel.astype(int), strict=True) if value > 100)


def quarters(picture, shift=12):
    """Return the colours left above, right above, left below and right below of the middle."""
    middle = len(picture) // 2
    return [named(picture[middle + row, middle + column]) for row in (-shift, shift) for column in (-shift, shift)]


QUAD = np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
FACES = np.array([[0, 1, 2], [0, 2, 3]])


def quad(uv):
    """Return a square with texture coordinates [4, 2] of its corners."""
    return Mesh(QUAD, FACES, np.asarray(uv, dtype=float)[FACES])


SQUARE = sim.Material(texture=FOUR, repeat=(0.5, 0.5))


@pytest.mark.parametrize("code", ["plane", "box"])
def test_an_image_is_projected_along_z(code):
    size = {"box": (1.0, 1.0, 0.01)}.get(code, (0.0, 0.0, 0.0))
    assert quarters(drawn(type=code, size=size, material=SQUARE)) == ["r", "g", "b", "rg"]


def test_a_mesh_shows_its_image_at_its_coordinates():
    """Turned by a quarter, mirrored, and repeated with its border in the middle."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    show = {"type": "convex", "size": (1.0, 1.0, 1.0), "material": SQUARE, "collides": False}
    assert quarters(drawn(mesh=quad(corners), **show)) == ["r", "g", "b", "rg"]
    assert quarters(drawn(mesh=quad(np.roll(corners, 1, axis=0)), **show)) == ["g", "rg", "r", "b"]
    assert quarters(drawn(mesh=quad(corners * (-1.0, 1.0)), **show)) == ["g", "r", "rg", "b"]
    assert quarters(drawn(mesh=quad(corners + np.array([7.5, -2.5])), **show)) == ["rg", "b", "g", "r"]


def test_an_image_without_coordinates_is_not_shown():
    plain = sim.Material(texture=FOUR)
    assert (drawn(type="box", size=(1.0, 1.0, 0.01), material=plain)[32, 32] > 200).all()


def test_the_colour_of_a_geometry_multiplies_its_image():
    picture = drawn(type="box", size=(1.0, 1.0, 0.01), material=SQUARE, rgba=(1.0, 0.0, 0.0, 1.0))
    assert quarters(picture) == ["r", "", "", "r"]


def test_planes_show_the_same_image_from_every_side():
    """The plane is moved towards the camera, by whole repeats."""
    pictures = []
    for x, y in ((0.0, 0.0), (1.0 / 0.3, 0.0), (-40.0 / 0.3, 70.0 / 0.2)):
        camera = Camera((x, y, 6.0), (x, y, 0.0), fov=30.0, up=(0.0, 1.0, 0.0))
        pictures.append(drawn(camera, type="plane", material=sim.Material(texture=FOUR, repeat=(0.3, -0.2))))
    for picture in pictures[1:]:
        assert np.abs(picture.astype(int) - pictures[0]).max() <= 3


def test_small_squares_far_away_have_their_mean_light():
    """A board of black and white, seen as less than a pixel, equals the grey of half of its light."""
    board = (255 * (np.indices((64, 64)).sum(axis=0) % 2)).astype(np.uint8)
    fine = sim.Texture(np.repeat(board[..., None], 3, axis=2))
    picture = drawn(type="box", size=(1.0, 1.0, 0.01), material=sim.Material(texture=fine, repeat=(8.0, 8.0)))
    half = float(np.interp(0.5, linear_light(np.arange(256) / 255.0), np.arange(256) / 255.0))
    grey = drawn(type="box", size=(1.0, 1.0, 0.01), rgba=(half, half, half, 1.0))
    middle = np.s_[24:40, 24:40]
    # The highlight is that of the material in both.
    assert np.abs(picture[middle].astype(int) - grey[middle]).max() <= 2


@pytest.mark.parametrize(("roughness", "metallic"), [(0.5, 0.0), (0.3, 0.0), (0.6, 1.0), (1.0, 1.0), (0.8, 0.4)])
def test_light_of_a_flat_plate(roughness, metallic):
    """Diffuse light, the highlight of the sun and the reflected sky, written out for a plate that faces up."""
    base = np.array([0.5, 0.3, 0.1])
    rgba = (*np.interp(base, linear_light(np.arange(4001) / 4000.0), np.arange(4001) / 4000.0), 1.0)
    eye = np.array([1.5, 1.0, 2.0])
    material = sim.Material(roughness=roughness, metallic=metallic)
    scene = sim.ModelBuilder()
    scene.add_geometry("world", "box", size=(1.0, 1.0, 0.5), position=(0, 0, -0.5), rgba=rgba, material=material)
    camera = Camera(eye, (0.0, 0.0, 0.0), fov=10.0)
    renderer = Renderer(scene.finalize(), width=33, height=33, camera=camera, device="cpu")
    renderer.draw(NO_LINKS[0])
    seen, sun, view = eye[2] / np.linalg.norm(eye), SUN / np.linalg.norm(SUN), renderer.view
    sunlight = renderer.scene.lights.colors.numpy()[0]
    zenith, horizon, bounce = map(np.array, (view.zenith, view.horizon, view.bounce))
    half = sun + eye / np.linalg.norm(eye)
    half /= np.linalg.norm(half)
    alpha, mirror = roughness**2, 0.04 * (1.0 - metallic) + base * metallic
    lobe = alpha**2 / (half[2] ** 2 * (alpha**2 - 1.0) + 1.0) ** 2
    visible = 0.5 / ((1.0 - alpha) * 2.0 * sun[2] * seen + alpha * (sun[2] + seen))
    fresnel = mirror + (1.0 - mirror) * (1.0 - sun @ half) ** 5
    a = min((1.0 - roughness) ** 2, 2.0 ** (-9.28 * seen)) * (1.0 - roughness) + 0.0425 - 0.0275 * roughness
    share = mirror * (1.04 - 0.572 * roughness - 1.04 * a) + max(1.04 * a - 0.04 + 0.022 * roughness, 0.0)
    upward = min(0.5 + 0.5 * seen / roughness, 1.0)
    above = horizon + (zenith - horizon) * np.sqrt(seen)
    expected = base * (1.0 - metallic) * (sunlight * sun[2] + 0.35 * zenith + 0.38)
    expected += sunlight * sun[2] * fresnel * lobe * visible + share * (bounce + (above - bounce) * upward)
    np.testing.assert_allclose(renderer.color.numpy()[16, 16], expected, rtol=1e-3)


def test_what_is_refused():
    refuses(lambda: sim.Material(roughness=1.5), "roughness", "1.5", "between 0 and 1")
    refuses(lambda: sim.Material(metallic=float("nan")), "metallic", "nan")
    refuses(lambda: sim.Material(texture="wood.png"), "texture", "sim.Texture")
    refuses(lambda: sim.Material(texture=FOUR, repeat=(1.0, 0.0)), "repeat", "zero")
    refuses(lambda: sim.Texture(np.zeros((4, 4, 3))), "float64", "uint8")
    refuses(lambda: sim.Texture(np.zeros((4, 4, 3), dtype=np.uint8), 3), "name is 3", "text")
    refuses(lambda: sim.Texture(np.zeros((0, 4, 3), dtype=np.uint8), "empty"), "'empty'", "at least one")
    refuses(lambda: drawn(type="box", size=(1, 1, 1), material=FOUR), "material", "sim.Material")
    wrong = Mesh(QUAD, FACES, np.full((2, 3, 2), np.nan))
    refuses(lambda: drawn(type="convex", size=(1, 1, 1), mesh=wrong, collides=False), "texture coordinates", "finite")


def test_numbers_of_materials_are_kept_as_floats():
    """Whole numbers and arrays are drawn as floats are, and materials stay hashable."""
    given = sim.Material(roughness=np.array(0.5), metallic=1, texture=FOUR, repeat=np.array([1, 2]))
    same = sim.Material(roughness=0.5, metallic=1.0, texture=FOUR, repeat=(1.0, 2.0))
    assert hash(given) == hash(same)
    assert given == same
    assert all(type(each) is float for each in (given.roughness, given.metallic, *given.repeat))
    drawn(type="plane", material=given)
