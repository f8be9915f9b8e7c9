"""Pictures of small, large and far scenes look as others do."""

import numpy as np
import pytest

import sim
from sim.render import AmbientOcclusion, Camera, Renderer, fit_camera, render_frames

SIZE = (96, 72)


def scene(size: float, position=(0.0, 0.0)):
    """A box and a ball on the ground, and their poses."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    x, y = position
    builder.add_box(half_extents=3 * (0.1 * size,), mass=1.0, position=(x, y, 0.1 * size), rgba=(0.9, 0.1, 0.1, 1.0))
    builder.add_sphere(radius=0.1 * size, mass=1.0, position=(x + 0.4 * size, y, 0.1 * size))
    model = builder.finalize("float64")
    return model, model.q0.reshape(1, 2, 7)


def difference(a, b):
    return np.abs(a.astype(int) - b.astype(int))


@pytest.mark.parametrize("size", [1e-5, 1e-2, 1e5])
def test_every_size_looks_alike(size):
    """Camera, shadows and squares of the ground, from micrometres to a hundred kilometres."""
    wanted, found = (render_frames(*scene(each), width=SIZE[0], height=SIZE[1])[0] for each in (1e3, size))
    assert difference(wanted, found).max() <= 2
    assert np.ptp(wanted, axis=(0, 1)).min() > 100  # box, ball, shadows


def test_far_from_the_origin_a_scene_looks_as_near_to_it():
    pictures = []
    for position in ((0.0, 0.0), (3e6, -2e6)):  # a whole number of squares away
        model, poses = scene(1.0, position)
        pictures.append(render_frames(model, poses, width=SIZE[0], height=SIZE[1])[0])
    assert (difference(*pictures) > 2).mean() < 0.01


def test_depth_is_in_metres():
    model, poses = scene(1e-3)
    camera = fit_camera(model, poses)
    survey = Renderer(model, width=SIZE[0], height=SIZE[1], camera=camera).survey(poses[0])
    ball = survey.depth[survey.geometry == 2]
    assert ball.min() == pytest.approx(np.linalg.norm(poses[0, 1, :3] - camera.position) - 1e-4, rel=0.05)


def test_reach_of_occlusion_is_in_metres():
    model, poses = scene(1e-2)
    options = {"width": SIZE[0], "height": SIZE[1], "camera": fit_camera(model, poses)}
    near, far = (
        Renderer(model, **options, occlusion=AmbientOcclusion(16, reach)).openness(poses[0]).mean()
        for reach in (1e-5, 1e-2)
    )
    assert near > 0.99 > 0.95 > far


def test_nothing_darkens_an_empty_ground():
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0, position=(5.0, 0.0, 0.1))
    model = builder.finalize()
    above = Camera((0.0, 0.0, 2.0), (0.0, 0.0, 0.0), up=(0.0, 1.0, 0.0))
    picture = render_frames(model, model.q0.reshape(1, 1, 7), above, 32, 32)[0]
    assert len(np.unique(picture[4:12, 4:12].reshape(-1, 3), axis=0)) == 1  # within one square
    assert np.array_equal(picture[15, 15], picture[8, 8])  # beside the origin and away from it
