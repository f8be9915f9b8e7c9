"""The camera: projection and framing."""

import numpy as np
import pytest

import sim
from sim.learn import load_task
from sim.render import (
    AmbientOcclusion,
    Camera,
    Marker,
    Outermost,
    Renderer,
    Trail,
    fit_camera,
    grid_offsets,
    render_frames,
    write_gif,
)
from sim.render.fit import fit_worlds_camera, visible_points
from sim.render.frames import fitting_spacing
from sim.render.view import check_poses
from sim.usd import write_usd
from sim.viewer import Viewer

CAMERA = Camera((0.0, -3.0, 1.0), (0.0, 0.0, 0.5))


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


def test_what_cannot_move_may_be_out_of_sight():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0)
    poses = np.array([[[0.2 * k, 0, 0, 0, 0, 0, 1]] for k in range(3)])
    alone = fit_camera(builder.finalize(), poses)
    builder.add_heightfield(np.zeros((3, 3)), spacing=50.0)
    assert fit_camera(builder.finalize(), poses, static=False) == alone
    assert fit_camera(builder.finalize(), poses).distance > 10.0 * alone.distance


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
        with pytest.raises(sim.ModelError, match=f"fov is {fov}; .* 0 and 180"):
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


def test_a_link_that_only_turns_is_seen_whole():
    """Rods that turn about their ends in several worlds: no corner of their boxes is outside the picture."""
    model = load_task("Pendulum").model()
    angles = np.linspace(0.0, 2.0 * np.pi, 61)[:, None] + np.arange(4)
    poses = sim.forward_kinematics(model, angles.reshape(-1, 1)).numpy().reshape(61, 4, 1, 7)
    offsets = grid_offsets(4, 2.0)
    camera = fit_worlds_camera(model, poses, offsets, margin=1.02)
    shifted = poses.copy()
    shifted[..., :3] += offsets[:, None]
    seen = (visible_points(model, shifted.reshape(-1, 1, 7)) - camera.position) @ camera.axes().T
    reach = abs(seen[:, :2] / seen[:, 2:]).max(axis=0) / np.tan(np.radians(camera.fov) / 2.0)
    assert (reach <= (4.0 / 3.0, 1.0)).all()
    assert (reach > (1.2, 0.6)).any(), "and no further away than needed"


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, p: Marker("goal", (0.0, 0.0), 0.1), r"marker 'goal': position: shape \(2,\), expected \(3,\)"),
        (lambda m, p: Marker("goal", (0.0, 0.0, 0.0), -1.0), "marker 'goal': radius is -1.0; it must be positive"),
        (lambda m, p: Marker("goal", (0.0, 0.0, 0.0), 0.1, (255, 0, 0)), "color is .*255"),
        (lambda m, p: Trail("hand", p[:, 0, :3], 0.0), "trail 'hand': radius is 0.0; it must be positive"),
        (lambda m, p: Camera((0.0, 0.0), (0.0, 0.0, 0.0)), r"camera: position: shape \(2,\), expected \(3,\)"),
        (lambda m, p: Camera((1.0, 0.0, 0.0), (0.0, 0.0, 0.0), fov="35"), "camera: fov is '35'; it must be one number"),
        (lambda m, p: render_frames(p, m), "model is a ndarray; it must be a sim.Model"),
        (lambda m, p: render_frames(m, p, (1.0, 1.0, 1.0)), "camera is a tuple; it must be a sim.render.Camera"),
        (lambda m, p: render_frames(m, p, frames=0), "frames is a int; it must be a list of numbers"),
        (lambda m, p: render_frames(m, p, markers=Marker("a", (0, 0, 0))), "markers is a Marker; it must be a list"),
        (lambda m, p: render_frames(m, p, width=10**6, height=10**6), "at most .* pixels are supported"),
        (lambda m, p: write_gif("a.gif", np.zeros((1, 4, 4, 3), np.uint8), "25"), "fps is '25'; a GIF supports"),
        (lambda m, p: write_usd("a.usda", m, p, fps="25"), "fps is '25'; it must be positive"),
        (lambda m, p: render_frames(m, p, spacing="1"), "grid_offsets: spacing is '1'; it must be one number"),
        (lambda m, p: AmbientOcclusion("many"), "ambient occlusion with 'many' rays and reach 0.5 m"),
        (lambda m, p: Renderer(m, width=9, height=9, camera=CAMERA, tile=0.0), "tile is 0.0; it must be positive"),
        (lambda m, p: Renderer(m, width=9, height=9, camera=CAMERA, offsets="no"), "offsets: 'no' is not an array of"),
        (lambda m, p: Viewer(m, port=0, markers="goal"), "markers is a str; it must be a list of sim.render.Marker"),
        (lambda m, p: fit_camera(m, p, azimuth="30"), "camera: azimuth is '30'; it must be one number"),
    ],
)
def test_arguments_of_another_type_are_named(call, message):
    with pytest.raises(sim.ModelError, match=message):
        call(ball_model(), np.array([[[0.0, 0, 0, 0, 0, 0, 1]]]))


def test_markers_of_a_generator_are_drawn():
    positions = ((0.3, 0.0, 0.2), (-0.3, 0.0, 0.2))
    poses = np.array([[[0.0, 0, 0, 0, 0, 0, 1]]])
    size = {"width": 64, "height": 48}
    several = render_frames(
        ball_model(), poses, markers=(Marker("goal", position, 0.1) for position in positions), **size
    )
    expected = render_frames(
        ball_model(), poses, markers=[Marker("goal", position, 0.1) for position in positions], **size
    )
    without = render_frames(ball_model(), poses, **size)
    np.testing.assert_array_equal(several[0], expected[0])
    assert (several[0] != without[0]).any()


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_worlds_have_room_for_their_shapes_and_all_are_seen(size):
    """A wall of the world, which no link shows, and a box as wide, of which the link is a point."""
    builder = sim.ModelBuilder()
    builder.add_geometry("world", "box", size=(size, 0.1 * size, size), position=(0, 2 * size, size), name="wall")
    builder.add_box(half_extents=3 * (size,), mass=1.0, position=(0, 0, size))
    model = builder.finalize("float64")
    poses = np.tile(model.q0.reshape(1, 1, 1, 7), (2, 9, 1, 1))
    spacing = fitting_spacing(model, poses)
    assert 2 * size < spacing < 7 * size
    offsets = grid_offsets(9, spacing)
    camera = fit_worlds_camera(model, poses, offsets)
    corners = size * np.array([[x, 2, z] for x in (-1, 1) for z in (0, 2)])
    seen = camera.project((corners + offsets[:, None]).reshape(-1, 3), 400, 300)
    assert seen.min() > 0
    assert seen[:, 0].max() < 400
    assert seen[:, 1].max() < 300
    assert np.ptp(seen[:, 0]) > 200
