"""Borders of shadows of lights with a size, compared with closed forms."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import sim
from sim.render import Camera, Renderer
from tests.errors import refuses

HEIGHT, EDGE = 4.0, 1.0  # of the light and of an edge above the floor [m]
ROWS, PIXELS, PIXEL = 5, 129, 0.0065  # rows, columns and width of a pixel of the floor [m]
BELOW = 0.9  # height of the camera, which is below the edge [m]
FOV = float(np.degrees(2.0 * np.arctan(0.5 * ROWS * PIXEL / BELOW)))
CAMERA = Camera((0.0, 0.0, BELOW), (0.0, 0.0, 0.0), fov=FOV, up=(0.0, 1.0, 0.0))
RAYS = 256


def under_an_edge(light, height=HEIGHT, turn=(0.0, 0.0, 0.0, 1.0), edge=EDGE):
    """Return a white floor under a light above x = 0, and a thin plate over all of x < 0."""
    scene = sim.ModelBuilder()
    matte = {"rgba": (1.0, 1.0, 1.0, 1.0), "material": sim.Material(roughness=1.0)}
    scene.add_geometry("world", "box", size=(4.0, 4.0, 0.1), position=(0.0, 0.0, -0.1), **matte)
    scene.add_geometry("world", "box", size=(2.0, 4.0, 1e-4), position=(-2.0, 0.0, edge), **matte)
    scene.add_light("light", light, position=(0.0, 0.0, height), orientation=turn)
    scene.add_camera("camera", position=CAMERA.position, fov=CAMERA.fov)
    return scene.finalize()


def profile(model, rays=RAYS):
    """Return x of the middle row of a picture [m], and the linear light there."""
    renderer = Renderer(model, width=PIXELS, height=ROWS, camera=CAMERA, device="cpu", exposure=1.0, shadow_rays=rays)
    renderer.draw(np.zeros((1, 0, 7)))
    return (np.arange(PIXELS) - PIXELS // 2) * PIXEL, renderer.smooth.numpy()[ROWS // 2, :, 0]


def part_beyond(t):
    """Return the share of a disk of radius 1 beyond a line at a distance t from its middle."""
    t = np.clip(t, -1.0, 1.0)
    return (np.arccos(t) - t * np.sqrt(1.0 - t**2)) / np.pi


def disk_beyond(x, radius):
    """Return the light of a disk, 1 at a distance of 1 m, at points x of the floor, past the edge; by quadrature."""
    across = (np.arange(800) + 0.5) / 400.0 - 1.0
    spots = radius * np.stack(np.meshgrid(across, across), axis=-1).reshape(-1, 2)
    spots = spots[np.linalg.norm(spots, axis=1) < radius]
    found = []
    for each in x:
        seen = spots[spots[:, 0] > each * (1.0 - HEIGHT / EDGE)]
        squared = (seen[:, 0] - each) ** 2 + seen[:, 1] ** 2 + HEIGHT**2
        found.append((HEIGHT**2 / squared**2).sum() / len(spots))
    return np.array(found)


@pytest.mark.parametrize("radius", [0.3, 1.0])
def test_a_disk_over_an_edge(radius):
    """The light of the visible part of the disk, whose distance and angles differ from spot to spot."""
    light = sim.Light("area", (1.0, 1.0, 1.0), size=(radius,), specular=0.0)
    x, seen = profile(under_an_edge(light))
    expected = disk_beyond(x, radius)
    assert_allclose(seen, expected, atol=0.006 * expected.max())  # 1.5 of 256 rays
    half = radius * EDGE / (HEIGHT - EDGE)
    assert not seen[x < -1.01 * half].any()
    assert_allclose(seen[x > 1.01 * half], expected[x > 1.01 * half], rtol=2e-3)
    assert (seen[np.abs(x) < 0.9 * half] > 0.0).all()
    assert (seen[np.abs(x) < 0.9 * half] < 0.995 * expected.max()).all()


def test_a_ball_and_a_sun_over_an_edge():
    """Their projections on planes that face them are disks."""
    ball = sim.Light("point", (1.0, 1.0, 1.0), size=(0.3,), specular=0.0)
    x, seen = profile(under_an_edge(ball))
    bright = HEIGHT / (HEIGHT**2 + x**2) ** 1.5
    # On the plane of the lateral directions the ball has a radius of 0.3 / distance.
    assert_allclose(seen / bright, part_beyond(-x * (HEIGHT - EDGE) / EDGE / 0.3), atol=0.01)
    sun = sim.Light("directional", (1.0, 1.0, 1.0), size=(10.0,), specular=0.0)
    x, seen = profile(under_an_edge(sun))
    sine = -x / np.hypot(x, EDGE)  # of the angle at which the edge is seen
    assert_allclose(seen, part_beyond(sine / np.sin(np.radians(5.0))), atol=0.006)


def test_a_rectangle_over_an_edge():
    """Turned by a quarter about its axis, the penumbra is as wide as the rectangle is high."""
    light = sim.Light("area", (1.0, 1.0, 1.0), size=(1.2, 0.2), specular=0.0)
    for turn, width in (((0.0, 0.0, 0.0, 1.0), 1.2), ((0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)), 0.2)):
        x, seen = profile(under_an_edge(light, turn=turn))
        shadow = np.clip(0.5 + x * (HEIGHT - EDGE) / EDGE / width, 0.0, 1.0)
        # Irregularity of the lattice, and distances that differ from spot to spot
        assert_allclose(seen / seen[-1], shadow * (1.0 + (x[-1] ** 2 - x**2) * 2.0 / HEIGHT**2), atol=0.02)


def test_without_shadow_a_size_changes_only_near_areas():
    """A ball and a sun light surfaces as points do, up to half of what the lattice is irregular by."""
    for light in (
        sim.Light("point", (1.0, 1.0, 1.0), size=(0.5,), specular=0.0),
        sim.Light("directional", (1.0, 1.0, 1.0), size=(10.0,), specular=0.0),
    ):
        tilt = (0.0, np.sin(0.4), 0.0, np.cos(0.4))
        _, soft = profile(under_an_edge(light, turn=tilt, edge=-1.0))
        _, hard = profile(under_an_edge(light, turn=tilt, edge=-1.0), rays=1)
        assert_allclose(soft, hard, rtol=2e-3)


@pytest.mark.parametrize("size", [(), (0.3,)])
def test_one_ray_is_a_hard_shadow(size):
    """Without a size any number of rays gives the same bits; with one, a single ray does."""
    light, bare = (sim.Light("point", (1.0, 0.8, 0.6), size=each) for each in (size, ()))
    _, expected = profile(under_an_edge(bare))
    _, seen = profile(under_an_edge(light), rays=1 if size else 7)
    assert_array_equal(seen, expected)
    assert np.count_nonzero((seen > 0.0) & (seen < 0.9 * seen.max())) == 1  # the pixel on the edge


def test_the_default_is_smooth():
    """A few rays, and more of them in the penumbra: no pixel is far off, and none is on average."""
    light = sim.Light("directional", (1.0, 1.0, 1.0), size=(10.0,), specular=0.0)
    x, seen = profile(under_an_edge(light), rays=4)
    error = seen - part_beyond(-x / np.hypot(x, EDGE) / np.sin(np.radians(5.0)))
    assert np.abs(error).max() < 0.125  # two and a half of the twenty rays in a pixel
    assert np.sqrt(np.mean(error[np.abs(error) > 0.0] ** 2)) < 0.05
    assert abs(error.mean()) < 0.003


def test_cameras_of_many_worlds():
    """They draw the renderer's picture in every world, and hard shadows unless they are asked for soft ones."""
    light = sim.Light("area", (9.0, 9.0, 9.0), size=(1.2, 0.4), specular=0.0)
    model = under_an_edge(light, turn=(0.0, 0.0, np.sin(0.3), np.cos(0.3)))
    size = {"width": PIXELS, "height": ROWS, "exposure": 1.0}
    drawn = sim.torch.Cameras(model, shadow_rays=16, **size).draw(torch.zeros(3, 0)).rgb[:, 0]
    assert_array_equal(drawn[0], drawn[2])
    renderer = Renderer(model, camera=CAMERA, device="cpu", supersamples=1, shadow_rays=16, **size)
    expected = renderer.draw(np.zeros((1, 0, 7)))
    apart = np.abs(drawn[0].numpy().astype(int) - expected).max(axis=2)
    assert np.quantile(apart, 0.99) <= 2  # rays that graze the edge start at slightly different heights
    hard = sim.torch.Cameras(model, **size).draw(torch.zeros(3, 0)).rgb[:, 0]
    levels = [len(np.unique(each[ROWS // 2, :, 0].numpy())) for each in (hard[0], drawn[0])]
    assert levels[0] < levels[1]
    assert_array_equal(hard[1], sim.torch.Cameras(model, shadow_rays=1, **size).draw(torch.zeros(1, 0)).rgb[0, 0])


def test_what_is_refused():
    model = under_an_edge(sim.Light("area", size=(0.2,)))
    for rays in (0, 1.5, 2000, "many"):
        refuses(lambda rays=rays: profile(model, rays), "shadow_rays", "1 to 1024")
        refuses(lambda rays=rays: sim.torch.Cameras(model, shadow_rays=rays), "shadow_rays", "1 to 1024")
