"""Lights of a model in pictures, compared with closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sim
from sim.importers.model_file import model_from_bytes, model_to_bytes
from sim.render import Camera, Renderer, render_frames
from tests.errors import refuses

ABOVE = Camera((0.0, 0.0, 6.0), (0.0, 0.0, 0.0), fov=30.0, up=(0.0, 1.0, 0.0))
DOWN = (0.0, 0.0, 0.0, 1.0)
TURNED = (0.0, np.sin(0.3), 0.0, np.cos(0.3))  # by 0.6 rad about y
AT = np.array([0.3, -0.2, 1.5])
PIXELS = 65


def plate(*lights, block=None):
    """Return a builder with a white plate whose upper side is at z = 0, and lights with position and orientation."""
    scene = sim.ModelBuilder()
    scene.add_geometry("world", "box", size=(3.0, 3.0, 0.1), position=(0.0, 0.0, -0.1), rgba=(1.0, 1.0, 1.0, 1.0))
    if block is not None:
        scene.add_geometry("world", "box", name="block", size=(0.1, 0.1, 0.1), position=block)
    for number, (light, position, orientation) in enumerate(lights):
        scene.add_light(f"light {number}", light, position=position, orientation=orientation)
    return scene


def linear(scene, exposure=1.0, camera=ABOVE, offsets=((0.0, 0.0, 0.0),)):
    """Return the colours of a picture in linear light."""
    renderer = Renderer(
        scene.finalize(),
        width=PIXELS,
        height=PIXELS,
        camera=camera,
        device="cpu",
        exposure=exposure,
        offsets=offsets,
        shadow_rays=1,
    )
    renderer.draw(np.zeros((len(offsets), 0, 7)))
    return renderer.color.numpy()


def seen(row, column):
    """Return the point of the plate that ABOVE sees in the middle of a pixel."""
    size = 2.0 * 6.0 * np.tan(np.radians(15.0)) / PIXELS
    return np.array([(column - PIXELS // 2) * size, (PIXELS // 2 - row) * size, 0.0])


def light_on(light, axis, point):
    """Return the light of a light at AT that a white plate reflects diffusely at a point."""
    distance = np.linalg.norm(AT - point)
    if light.type == "directional":
        return np.array(light.color) * max(-axis[2], 0.0)
    to_light = (AT - point) / distance
    aligned = max(-to_light @ axis, 0.0)
    strength = aligned ** (light.exponent + (light.type == "area")) / (distance ** np.arange(3.0) @ light.attenuation)
    if light.cone < 180.0:
        angle, inner = np.degrees(np.arccos(-to_light @ axis)), light.cone * (1.0 - light.softness)
        part = np.clip((angle - inner) / (light.cone - inner), 0.0, 1.0)
        strength *= 1.0 - part**2 * (3.0 - 2.0 * part)
    return np.array(light.color) * strength * to_light[2]


LIGHTS = [
    sim.Light("directional", (0.5, 0.3, 0.1), specular=0.0),
    sim.Light("point", (2.0, 1.0, 0.5), specular=0.0),
    sim.Light("point", (0.5, 0.4, 0.3), attenuation=(1.0, 0.5, 0.0), specular=0.0),
    sim.Light("point", (0.5, 0.4, 0.3), (1.0, 0.0, 0.0), cone=40.0, softness=0.6, exponent=3.0, specular=0.0),
    sim.Light("area", (2.0, 1.0, 0.5), size=(0.5, 0.2), specular=0.0),
]


@pytest.mark.parametrize("orientation", [DOWN, TURNED])
def test_light_of_a_plate(orientation):
    """Each kind alone, and all of them together."""
    axis = np.array([-np.sin(0.6), 0.0, -np.cos(0.6)]) if orientation == TURNED else np.array([0.0, 0.0, -1.0])
    points = ((32, 32), (12, 20), (50, 33), (40, 55), (32, 8))
    total = np.zeros((len(points), 3))
    for light in LIGHTS:
        picture = linear(plate((light, AT, orientation)))
        expected = np.array([light_on(light, axis, seen(*pixel)) for pixel in points])
        assert_allclose([picture[pixel] for pixel in points], expected, rtol=2e-3, atol=1e-4)
        total += expected
    together = linear(plate(*((light, AT, orientation) for light in LIGHTS)))
    assert_allclose([together[pixel] for pixel in points], total, rtol=2e-3, atol=1e-4)


def test_shadows():
    """A block before a lamp casts a shadow, unless the lamp's shadows are off; one behind the lamp casts none."""
    lamp, point = sim.Light("point", (4.0, 4.0, 4.0), specular=0.0), (32, 46)
    at = (-1.0, 0.0, 1.0)
    middle = 0.6 * np.array(at) + 0.4 * seen(*point)  # between both
    bright = linear(plate((lamp, at, DOWN)))[point]
    assert (linear(plate((lamp, at, DOWN), block=middle))[point] < 1e-6).all()
    free = replace(lamp, shadow=False)
    assert_allclose(linear(plate((free, at, DOWN), block=middle))[point], bright, rtol=1e-6)
    behind = 2.0 * np.array(at) - middle
    assert_allclose(linear(plate((lamp, at, DOWN), block=behind))[point], bright, rtol=1e-6)


def test_a_sky_lights_every_side_alike():
    """A matte ball far from anything is as bright everywhere, but for what grazing light is reflected."""
    scene = sim.ModelBuilder()
    matte = sim.Material(roughness=1.0)
    scene.add_geometry("world", "box", size=(1.0, 1.0, 1.0), rgba=(1.0, 1.0, 1.0, 1.0), material=matte)
    scene.add_light("sky", sim.Light("sky", (0.25, 0.5, 0.75)))
    sides = []
    for eye in ((0, 0, 6), (0, 0, -6), (6, 0, 0), (0, -6, 0)):
        up = (0.0, 1.0, 0.0) if eye[2] else (0.0, 0.0, 1.0)
        sides.append(linear(scene, camera=Camera(eye, (0.0, 0.0, 0.0), fov=10.0, up=up))[32, 32])
    assert_allclose(sides, [sides[0]] * 4, rtol=1e-5)
    assert_allclose(sides[0] / sides[0][0], (1.0, 2.0, 3.0), rtol=1e-5)
    assert 0.25 < sides[0][0] < 0.27


def test_a_headlight_shines_from_the_eye():
    headlight = sim.Light("headlight", (0.3, 0.2, 0.1), specular=0.0)
    slanted = Camera((3.0, 0.0, 3.0), (0.0, 0.0, 0.0), fov=10.0)
    for camera, cosine in ((ABOVE, 1.0), (slanted, np.sqrt(0.5))):
        picture = linear(plate((headlight, (9.0, 9.0, 9.0), TURNED)), camera=camera)
        assert_allclose(picture[32, 32], cosine * np.array(headlight.color), rtol=1e-4)


@pytest.mark.parametrize("strength", [1e-3, 1.0, 5e4])
def test_exposure(strength):
    """By default lights of any unit make a picture as bright as sun and sky do; a factor of 1 keeps them."""
    light = sim.Light("directional", (strength, strength, 0.5 * strength), specular=0.0)
    assert_allclose(linear(plate((light, AT, DOWN)), None)[32, 32], (1.2, 1.2, 0.6), rtol=1e-4)
    assert_allclose(linear(plate((light, AT, DOWN)))[32, 32], light.color, rtol=1e-4)
    refuses(lambda: linear(plate(), 0.0), "exposure", "positive")


def test_lights_move_with_links_and_units():
    """The same picture a thousand times smaller, with the lamp on a link."""
    pictures = []
    for size in (1.0, 1e-3):
        scene = sim.ModelBuilder()
        scene.add_link("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
        scene.add_joint("slide", "prismatic", child="arm", axis=(1.0, 0.0, 0.0))
        scene.add_geometry("world", "box", size=(3.0 * size, 3.0 * size, 0.1 * size), position=(0, 0, -0.1 * size))
        lamp = sim.Light(
            "point", (size, size, size), attenuation=(0.1, 0.5 / size, 1.0 / size**2), cone=50.0, specular=0.0
        )
        scene.add_light("lamp", lamp, "arm", (0.0, 0.0, 1.5 * size))
        model = scene.finalize()
        poses = sim.forward_kinematics(model, np.array([[0.5 * size]])).numpy()
        camera = Camera((0.0, 0.0, 6.0 * size), (0.0, 0.0, 0.0), fov=30.0, up=(0.0, 1.0, 0.0))
        pictures.append(render_frames(model, poses, camera, PIXELS, PIXELS, device="cpu", exposure=1.0 / size)[0])
    row = pictures[0][32].sum(axis=1).astype(int)
    assert abs(np.flatnonzero(row >= row.max() - 3).mean() - 42.1) < 1.0  # to the right of the middle
    assert np.abs(pictures[0].astype(int) - pictures[1]).max() <= 2


def test_lights_at_a_position_are_of_one_world():
    """Several worlds have sun and sky instead; lights without a position remain."""
    lamp, apart = sim.Light("point", (1.0, 1.0, 1.0)), ((-1.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    bare = linear(plate(), offsets=apart)
    assert_array_equal(linear(plate((lamp, AT, DOWN)), offsets=apart), bare)
    dim = linear(plate((sim.Light("directional", (0.1, 0.1, 0.1)), AT, DOWN)), offsets=apart)
    assert dim.max() < 0.5 * bare.max()


def test_lights_are_kept():
    scene = plate((sim.Light("point", cone=30.0), AT, TURNED))
    scene.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("free", "free", child="body")
    scene.add_link("plate", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("weld", "fixed", parent="body", child="plate", position=(0.0, 0.0, 2.0))
    scene.add_light("lamp", LIGHTS[3], "plate", (1.0, 0.0, 0.0))
    model = scene.finalize()
    for each in (model, model_from_bytes(model_to_bytes(model))):
        assert [one.name for one in each.lights] == ["light 0", "lamp"]
        assert each.lights[1].light == LIGHTS[3]
        assert_allclose(each.lights[1].placement[:3], (1.0, 0.0, 2.0))


def test_what_is_refused():
    refuses(lambda: sim.Light("laser"), "type", "'laser'", "'point'")
    refuses(lambda: sim.Light("point", (1.0, -1.0, 0.0)), "color", "-1.0")
    refuses(lambda: sim.Light("point", attenuation=(0.0, 0.0, 0.0)), "attenuation", "positive")
    refuses(lambda: sim.Light("point", cone=200.0), "cone", "200")
    refuses(lambda: sim.Light("point", softness=np.nan), "softness", "nan")
    refuses(lambda: sim.Light("sky", size=(1.0,)), "size", "sky")
    refuses(lambda: sim.Light("area", size=(1.0, 0.0)), "size", "positive")
    refuses(lambda: sim.ModelBuilder().add_light("a", "point"), "'a'", "sim.Light")
    refuses(lambda: sim.ModelBuilder().add_light("a", LIGHTS[0], follows="sun"), "'sun'")
    scene = plate((LIGHTS[0], AT, DOWN))
    refuses(lambda: scene.add_light("light 0", LIGHTS[0]), "'light 0'", "exists already")
    scene.add_light("b", LIGHTS[0], "nowhere")
    refuses(scene.finalize, "light 'b'", "'nowhere'")
