"""The camera: projection and framing."""

import numpy as np
import pytest

import sim
from sim.render import Camera, Marker, Outermost, fit_camera
from sim.render.view import check_poses


def ball_model():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0)
    return builder.finalize()


def test_projection_of_known_points():
    camera = Camera((0.0, -2.0, 1.0), (0.0, 0.0, 1.0), fov=90.0)
    np.testing.assert_allclose(camera.project([0.0, 0.0, 1.0], 200, 100), [100.0, 50.0])
    # With 90 degrees of view and 2 m of distance, half a picture is 2 m high.
    np.testing.assert_allclose(camera.project([1.0, 0.0, 2.0], 200, 100), [125.0, 25.0])


@pytest.mark.parametrize("azimuth", [-60.0, 20.0, 135.0])
@pytest.mark.parametrize("aspect", [0.7, 4 / 3])
def test_the_whole_motion_fits_and_touches_two_opposite_sides(azimuth, aspect):
    model = ball_model()
    rng = np.random.default_rng(3)
    poses = np.tile([0.0, 0, 0, 0, 0, 0, 1], (30, 1, 1))
    poses[:, 0, :3] = rng.uniform(-1, 1, (30, 3))
    marker = Marker("goal", (2.0, 1.0, 0.5), 0.05)
    camera = fit_camera(model, poses, markers=[marker], azimuth=azimuth, aspect=aspect, margin=1.0)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * 0.1
    points = np.concatenate([(poses[:, 0, None, :3] + corners).reshape(-1, 3), marker.position + 0.5 * corners])
    size = round(1000 * aspect), 1000
    pixels = camera.project(points, *size) / size
    assert pixels.min() > -1e-2
    assert pixels.max() < 1 + 1e-2
    assert np.ptp(pixels, axis=0).max() > 0.95


@pytest.mark.parametrize("elevation", [90.0, -90.0])
def test_a_camera_straight_above_or_below_sees_what_one_beside_it_does(elevation):
    model = ball_model()
    poses = np.tile([0.0, 0, 0, 0, 0, 0, 1], (2, 1, 1))
    poses[:, 0, :2] = [(-1.0, 0.2), (1.0, -0.3)]
    straight, beside = (fit_camera(model, poses, azimuth=35.0, elevation=(1.0 - d) * elevation) for d in (0.0, 1e-5))
    np.testing.assert_allclose(straight.axes(), beside.axes(), atol=1e-4)
    np.testing.assert_allclose(
        straight.project(poses[:, 0, :3], 64, 48), beside.project(poses[:, 0, :3], 64, 48), atol=0.1
    )


def test_bad_cameras_and_poses_are_refused():
    for fov in (0.0, 180.0, np.nan):
        with pytest.raises(sim.ModelError, match=f"fov is {fov}; it must lie between 0 and 180 degrees"):
            Camera((0, 0, 3), (1, 0, 0), fov=fov)
        with pytest.raises(sim.ModelError, match="fov is"):
            fit_camera(ball_model(), np.array([[[0.0, 0, 0, 0, 0, 0, 1]]]), fov=fov)
    with pytest.raises(sim.ModelError, match="elevation is nan; it must be finite"):
        fit_camera(ball_model(), np.array([[[0.0, 0, 0, 0, 0, 0, 1]]]), elevation=np.nan)
    with pytest.raises(sim.ModelError, match=r"position \[0.0, 0.0, 3.0\], target"):
        Camera(np.array([0.0, 0.0, 3.0]), (0, 0, 0)).axes()
    with pytest.raises(sim.ModelError, match="up"):
        Camera((0, 0, 3), (0, 0, 0)).axes()
    with pytest.raises(sim.ModelError, match=r"\(2, 7\)"):
        check_poses(ball_model(), np.zeros((2, 7)))
    poses = np.tile([0.0, 0, 0, 0, 0, 0, 1], (3, 1, 1))
    poses[2, 0, 1] = np.nan
    with pytest.raises(sim.ModelError, match="frame 2, link 'sphere_0'"):
        check_poses(ball_model(), poses)
    with pytest.raises(sim.ModelError, match="zero quaternion"):
        check_poses(ball_model(), np.zeros((1, 1, 7)))


def test_outermost_poses_are_kept_once():
    """Of a motion those of the ends remain, each once; a world of many links takes the memory of a few."""
    rng = np.random.default_rng(0)
    poses = rng.uniform(-1.0, 1.0, (40, 1, 3, 7))
    outermost = Outermost(3)
    for frame in poses:
        outermost.add(frame)
    found = outermost.poses
    assert len(found) < 40
    assert len(np.unique(found, axis=0)) == len(found)
    for direction in Outermost.DIRECTIONS:
        reach = (poses[:, 0, :, :3] @ direction).max(axis=0)
        np.testing.assert_allclose((found[..., :3] @ direction).max(axis=0), reach, atol=1e-15)
    many = Outermost(2000)
    many.add(rng.uniform(-1.0, 1.0, (1, 2000, 7)))
    assert many.poses.shape == (1, 2000, 7)
    assert Outermost(0).poses.shape == (1, 0, 7)
