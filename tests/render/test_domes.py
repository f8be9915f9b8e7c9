"""Skies that are images, compared with numerical integration and with uniform skies."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import sim
from sim.importers.model_file import model_from_bytes, model_to_bytes
from sim.render import AmbientOcclusion, Camera, Renderer
from sim.render.dome import directions, harmonics, images_of, light_coefficients, sampled, solid_angles
from tests.errors import refuses

ROWS, COLUMNS = 32, 64
TURNED = (np.sin(0.4), 0.0, 0.0, np.cos(0.4))


def smooth(toward):
    """Return a light that spherical harmonics up to order 2 describe [..., 3]."""
    x, y, z = np.moveaxis(toward, -1, 0)
    return np.stack([1.0 + 0.3 * x + 0.4 * z, 0.8 + 0.2 * y * z, 0.9 + 0.3 * (x**2 - y**2) - 0.2 * x * z], axis=-1)


def blotched(toward):
    """Return a light with a bright and a dark region [..., 3]."""
    spot = np.exp(6.0 * (toward @ np.array([0.48, -0.6, 0.64]) - 1.0))
    return spot[..., None] * np.array([3.0, 2.0, 1.0]) + 0.2 * (toward[..., 2:] > 0.0)


def sky(light=smooth, rows=ROWS):
    image = light(directions(rows, 2 * rows)).astype(np.float32)
    return sim.Light("sky", (0.5, 0.6, 0.7), texture=sim.Texture(image, "sky"))


def ball(*lights, roughness=1.0, metallic=0.0, plane=False):
    """Return a model of a white ball, with lights and their orientations."""
    scene = sim.ModelBuilder()
    white = {"rgba": (1.0, 1.0, 1.0, 1.0), "material": sim.Material(roughness=roughness, metallic=metallic)}
    scene.add_geometry("world", "sphere", size=1.0, **white)
    if plane:
        scene.add_geometry("world", "plane", position=(0.0, 0.0, -1.0), rgba=(0.8, 0.8, 0.8, 1.0))
    for number, (light, orientation) in enumerate(lights):
        scene.add_light(f"light {number}", light, orientation=orientation)
    scene.add_camera("camera", position=(0.0, -4.0, 0.0), orientation=(np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)), fov=40.0)
    return scene.finalize()


def linear(model, eye=(0.0, -4.0, 0.0), fov=40.0, target=(0.0, 0.0, 0.0), **options):
    up = (0.0, 1.0, 0.0) if eye[0] == eye[1] == 0.0 else (0.0, 0.0, 1.0)
    renderer = Renderer(
        model, width=33, height=33, camera=Camera(eye, target, fov, up), device="cpu", exposure=1.0, **options
    )
    renderer.draw(np.zeros((1, 0, 7)))
    return renderer.smooth.numpy()


def irradiance(light, normal):
    """Return the light of a sky on a matte white surface by numerical integration [3]."""
    toward = directions(400, 800)
    weight = solid_angles(400, 800)[:, None] * np.maximum(toward @ normal, 0.0) / np.pi
    return np.einsum("rc,rcd->d", weight, light(toward))


@pytest.mark.parametrize(("light", "most"), [(smooth, 2e-3), (blotched, 0.07)])
def test_light_on_matte_surfaces(light, most):
    """Skies of order 2 are exact but for the size of pixels; of any other, a few percent are missed at most."""
    coefficients = light_coefficients(sky(light, 128).texture)
    normals = np.random.default_rng(0).normal(size=(40, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    expected = np.array([irradiance(light, normal) for normal in normals])
    assert np.abs(harmonics(normals) @ coefficients - expected).max() < most * expected.max()


def test_solid_angles_fill_the_sphere():
    assert solid_angles(ROWS, COLUMNS).sum() * COLUMNS == pytest.approx(4.0 * np.pi, rel=1e-12)


@pytest.mark.parametrize("orientation", [(0.0, 0.0, 0.0, 1.0), TURNED])
def test_a_matte_ball(orientation):
    """Its middle has the light of the integral around its normal, in the light's frame."""
    model = ball((sky(rows=64), orientation))
    turn = np.eye(3) if orientation[0] == 0.0 else np.array(
        [[1, 0, 0], [0, np.cos(0.8), -np.sin(0.8)], [0, np.sin(0.8), np.cos(0.8)]]
    )  # fmt: skip
    lit = []
    for eye in ((0.0, -4.0, 0.0), (4.0, 0.0, 0.0), (0.0, 0.0, 4.0), (0.0, 0.0, -4.0)):
        normal = turn.T @ np.array(eye) / 4.0
        diffuse = np.array([0.5, 0.6, 0.7]) * irradiance(smooth, normal)
        found = linear(model, eye)[16, 16]
        assert (found >= 0.999 * diffuse).all()  # and the reflection of a rough surface
        assert (found <= 1.06 * diffuse).all()
        lit.append(found)
    assert np.ptp(np.array(lit)[:, 0]) > 0.1


def test_a_constant_dome_is_a_uniform_sky():
    """Of matte, rough and smooth surfaces, plastic and metal, in the open and in corners."""
    constant = sim.Light("sky", (0.2, 0.3, 0.4), texture=sim.Texture(np.full((8, 16, 3), 1.5, np.float32)))
    bare = sim.Light("sky", (0.3, 0.45, 0.6))
    at = (0.0, 0.0, 0.0, 1.0)
    for roughness, metallic in ((0.0, 1.0), (0.4, 1.0), (0.6, 0.0), (1.0, 0.0)):
        options = {"roughness": roughness, "metallic": metallic, "plane": True}
        occlusion = AmbientOcclusion() if metallic == 0.0 else None
        seen, expected = (
            linear(ball((light, at), **options), (0.0, -3.0, 2.0), occlusion=occlusion, fov=30.0)
            for light in (constant, bare)
        )
        on_ball = np.linalg.norm(np.indices((33, 33)) - 16, axis=0) < 10
        assert_allclose(seen[on_ball], expected[on_ball], rtol=2e-6)


def test_the_background_and_a_mirror():
    """Each direction shows the light from there, and a mirror that of the opposite side."""
    model = ball((sky(blotched, 64), TURNED), roughness=0.0, metallic=1.0)
    inverse = np.array([[1, 0, 0], [0, np.cos(0.8), np.sin(0.8)], [0, -np.sin(0.8), np.cos(0.8)]])
    for toward in ((0.8, 0.0, 0.6), (0.0, 1.0, 0.0), (0.6, -0.64, 0.48), (0.0, -0.6, -0.8)):
        eye = 5.0 * np.array(toward)
        light = np.array([0.5, 0.6, 0.7]) * blotched(inverse @ np.array(toward))
        behind = linear(model, tuple(eye), target=tuple(2.0 * eye), fov=1.0)[16, 16]
        assert_allclose(behind, light, rtol=0.03, atol=0.01)
        mirrored = linear(model, tuple(eye), fov=1.0)[16, 16]
        assert_allclose(mirrored, light, rtol=0.05, atol=0.02)


def test_rough_mirrors_keep_the_mean():
    """The light that surfaces reflect grows smoother with their roughness, and has the same mean."""
    _, rough = images_of(sky(blotched, 64).texture)
    weights = solid_angles(*rough[0].shape[:2])[:, None, None] / (4.0 * np.pi)
    means = [(weights * image).sum(axis=(0, 1)) for image in rough]
    assert_allclose(means, [means[0]] * len(means), rtol=0.01)
    contrast = [np.ptp(image[..., 0]) for image in rough]
    assert contrast == sorted(contrast, reverse=True)


def test_two_domes_add_up():
    toward = np.array([0.6, -0.64, 0.48])
    model = ball((sky(smooth, 64), TURNED), (sky(blotched, 64), (0.0, 0.0, 0.0, 1.0)))
    inverse = np.array([[1, 0, 0], [0, np.cos(0.8), np.sin(0.8)], [0, -np.sin(0.8), np.cos(0.8)]])
    expected = np.array([0.5, 0.6, 0.7]) * (smooth(inverse @ toward) + blotched(toward))
    found = linear(model, tuple(5.0 * toward), target=tuple(10.0 * toward), fov=1.0)[16, 16]
    assert_allclose(found, expected, rtol=0.02)


def test_bytes_are_srgb():
    grey = sim.Texture(np.full((4, 8, 3), 128, dtype=np.uint8))
    model = ball((sim.Light("sky", (1.0, 1.0, 1.0), texture=grey), TURNED))
    assert_allclose(linear(model)[0, 0], 0.2158605, rtol=1e-4)


def test_cameras_show_domes():
    model = ball((sky(blotched), TURNED), roughness=0.3)
    cameras = sim.torch.Cameras(model, width=33, height=33, exposure=1.0)
    looks = cameras.looks("cpu")
    drawn = cameras.draw(torch.zeros(2, 0), looks).rgb
    renderer = Renderer(
        model, width=33, height=33, camera=Camera((0.0, -4.0, 0.0), (0.0, 0.0, 0.0)), device="cpu", exposure=1.0
    )
    expected = renderer.draw(np.zeros((1, 0, 7)))
    assert np.median(np.abs(drawn[1, 0].numpy().astype(int) - expected)) <= 1
    dark = cameras.draw(torch.zeros(2, 0), looks._replace(ambient=0.0 * looks.ambient)).rgb
    assert not dark.any()


def test_domes_are_kept():
    light = sky(blotched)
    model = ball((light, TURNED))
    kept = model_from_bytes(model_to_bytes(model)).lights[0]
    assert_allclose(kept.light.texture.pixels, light.texture.pixels)
    assert_allclose(kept.placement[3:], TURNED)


def test_sampling():
    """At the middles of pixels an image has their light, also across its border and at its poles."""
    image = np.random.default_rng(0).uniform(size=(6, 12, 3))
    assert_allclose(sampled(image, directions(6, 12)), image, atol=1e-12)


def test_what_is_refused():
    texture = sky().texture
    refuses(lambda: sim.Light("point", texture=texture), "texture", "point")
    refuses(lambda: sim.Light("sky", texture="sky.hdr"), "texture", "sim.Texture")
    refuses(lambda: sim.Material(texture=texture), "'sky'", "uint8")
    refuses(lambda: sim.Texture(np.full((2, 4, 3), -1.0, np.float32), "dark"), "'dark'", "negative")
    scene = sim.ModelBuilder()
    scene.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    refuses(lambda: scene.add_light("dome", sky(), "body"), "'dome'", "world")
