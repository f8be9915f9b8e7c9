"""Shapes with an opacity below one are seen through."""

import numpy as np
import pytest

import sim
from sim.render import AmbientOcclusion, Camera, Renderer, fit_camera, render_frames
from sim.render.colors import linear_light

CAMERA = Camera((0.0, -4.0, 1.0), (0.0, 0.0, 1.0), fov=30.0)
SIZE = (64, 64)
WALL, PANE = 0.4, 0.25  # grey, dark enough to be below the shoulder of bright light


def scene(*panes, wall=True):
    """A wall, and before it panes, each (y, half thickness, opacity), with half their width where it isn't 0.3."""
    builder = sim.ModelBuilder()
    shapes = [(0.0, 0.1, 1.0, WALL, 2.0)] if wall else []
    for y, thick, opacity, grey, half in [*shapes, *((*pane[:3], PANE, *(pane[3:] or (0.3,))) for pane in panes)]:
        builder.add_geometry(
            "world", "box", size=(half, thick, half), position=(0, y, 1), rgba=(grey, grey / 2, grey / 4, opacity)
        )
    model = builder.finalize()
    return model, np.zeros((1, 0, 7))


def middle(*panes, wall=True, **options):
    """Colour in the middle of the picture, as linear light."""
    picture = render_frames(*scene(*panes, wall=wall), CAMERA, *SIZE, **options)[0]
    return linear_light(picture[28:36, 28:36].mean(axis=(0, 1)) / 255.0)


@pytest.mark.parametrize("opacity", [0.2, 0.7])
def test_light_is_shared_as_the_opacity_says(opacity):
    """One layer for a body however thick, two for two bodies."""
    behind, front = middle(), middle((-1.0, 0.05, 1.0))
    once = opacity * front + (1.0 - opacity) * behind
    twice = opacity * front + (1.0 - opacity) * once
    for thick in (1e-3, 0.3):
        assert middle((-1.0, thick, opacity)) == pytest.approx(once, abs=4e-3)
    assert middle((-1.0, 0.05, opacity), (-2.0, 0.05, opacity)) == pytest.approx(twice, abs=4e-3)


def test_before_the_sky():
    sky, front = middle(wall=False), middle((-1.0, 0.05, 1.0), wall=False)
    assert middle((-1.0, 0.05, 0.5), wall=False) == pytest.approx(0.5 * (sky + front), abs=0.015)


def test_without_opacity_nothing_is_drawn():
    model, poses = scene((-1.0, 0.05, 0.0))
    wanted = render_frames(*scene(), CAMERA, *SIZE)
    assert np.array_equal(render_frames(model, poses, CAMERA, *SIZE), wanted)
    assert fit_camera(model, poses) == fit_camera(*scene())


def test_a_pane_is_measured_and_casts_no_shadow():
    model, poses = scene((-1.0, 0.05, 0.3))
    survey = Renderer(model, width=SIZE[0], height=SIZE[1], camera=CAMERA).survey(poses[0])
    assert survey.geometry[32, 32] == 1
    assert survey.depth[32, 32] == pytest.approx(2.95, abs=1e-5)
    assert survey.geometry[2, 2] == 0
    picture, bare = (render_frames(*each, CAMERA, *SIZE)[0] for each in ((model, poses), scene()))
    assert np.array_equal(picture[survey.geometry == 0][::7], bare[survey.geometry == 0][::7])


def test_corners_behind_a_pane_are_darkened_by_its_share():
    block, pane = (-0.3, 0.2, 1.0, 0.2), (-2.0, 0.01, 0.5, 3.0)
    darkened = []
    for panes in ([block], [block, pane]):
        plain, dark = (
            linear_light(render_frames(*scene(*panes), CAMERA, *SIZE, occlusion=occlusion)[0] / 255.0)
            for occlusion in (None, AmbientOcclusion(32, 0.5))
        )
        darkened.append((plain - dark).sum())
    assert darkened[1] == pytest.approx(0.5 * darkened[0], rel=0.05)
    assert darkened[0] > 1.0
