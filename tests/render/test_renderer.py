"""What the pictures show."""

import gc
import warnings

import numpy as np
import pytest
from PIL import Image

import sim
from sim.render import (
    AmbientOcclusion,
    Camera,
    Marker,
    Renderer,
    Trail,
    grid_offsets,
    render_frames,
    write_gif,
    write_mp4,
    write_png,
)
from sim.render.frames import TOGETHER
from tests.errors import raises_naming, refuses
from warp_kernels import types as codes

CAMERA = Camera((0.0, -3.0, 1.2), (0.0, 0.0, 0.5), fov=45.0)
SIZE = (160, 120)
RED, BLUE = (0.9, 0.1, 0.1, 1.0), (0.1, 0.2, 0.9, 1.0)
# The sun of the pictures stands behind the viewer's left shoulder: shadows fall to (+0.45, +0.55) per metre of height.
SHADOW = np.array([0.45, 0.55, 0.0])


def scene():
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.2, mass=1.0, name="red", position=(0.0, 0.0, 0.6), rgba=RED)
    builder.add_box(half_extents=(0.15, 0.15, 0.15), mass=1.0, name="blue", position=(-0.8, 0.0, 0.15), rgba=BLUE)
    model = builder.finalize()
    return model, model.q0.reshape(1, 2, 7)


def pixel(picture, point):
    column, row = CAMERA.project(point, *SIZE).astype(int)
    return picture[row, column].astype(float)


def seen_points(camera, depth):
    """What the middles of the pixels show [height, width, 3], by their depth."""
    height, width = depth.shape
    right, up, backward = camera.axes()
    columns, rows = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    pixel_size = 2.0 * np.tan(np.radians(camera.fov / 2.0)) / height
    across, along = (columns - width / 2) * pixel_size, (height / 2 - rows) * pixel_size
    rays = -backward + across[..., None] * right + along[..., None] * up  # of depth one
    return np.array(camera.position) + rays * np.where(np.isfinite(depth), depth, 0.0)[..., None]


def test_colours_are_where_the_things_are(device):
    model, poses = scene()
    picture = render_frames(model, poses, CAMERA, *SIZE, device=device)[0]
    assert picture.shape == (120, 160, 3)
    assert picture.dtype == np.uint8
    red, blue = pixel(picture, (0.0, 0.0, 0.6)), pixel(picture, (-0.8, -0.15, 0.15))
    assert red[0] > 3 * max(red[1], red[2])
    assert blue[2] > 2 * max(blue[0], blue[1])
    sky = picture[0].astype(float).mean(axis=0)
    assert sky[2] > sky[0] > 120


def test_the_outline_of_a_sphere_is_where_it_should_be():
    model, poses = scene()
    picture = render_frames(model, poses, CAMERA, *SIZE)[0].astype(float)
    is_red = picture[..., 0] > 2 * picture[..., 1]
    row = int(CAMERA.project((0.0, 0.0, 0.6), *SIZE)[1])
    columns = np.flatnonzero(is_red[row])
    distance = np.linalg.norm(np.subtract(CAMERA.position, (0.0, 0.0, 0.6)))
    half = np.tan(np.arcsin(0.2 / distance)) * 60 / np.tan(np.radians(22.5))
    assert len(columns) == pytest.approx(2 * half, abs=2.0)
    assert columns.mean() == pytest.approx(79.5, abs=1.0)


def test_the_sphere_casts_a_shadow():
    model, poses = scene()
    with_ball = render_frames(model, poses, CAMERA, *SIZE)[0]
    away = poses.copy()
    away[0, 0, :3] = (0.0, 50.0, -50.0)
    without = render_frames(model, away, CAMERA, *SIZE)[0]
    spot = np.array([0.0, 0.0, 0.0]) + 0.6 * SHADOW
    assert pixel(with_ball, spot).sum() < 0.85 * pixel(without, spot).sum()
    lit_spot = np.array([0.8, -0.5, 0.0])
    np.testing.assert_array_equal(pixel(with_ball, lit_spot), pixel(without, lit_spot))


def test_pictures_are_deterministic_and_do_not_depend_on_their_order(device):
    model, poses = scene()
    motion = np.repeat(poses, 4, axis=0)
    motion[:, 0, 0] = np.linspace(-0.5, 0.5, 4)
    trail = Trail("path", motion[:, 0, :3])
    marker = Marker("goal", (0.6, 0.0, 0.3), 0.1)
    options = {"device": device, "trails": [trail], "markers": [marker]}
    first = render_frames(model, motion, CAMERA, *SIZE, **options)
    np.testing.assert_array_equal(first, render_frames(model, motion, CAMERA, *SIZE, **options))
    np.testing.assert_array_equal(first[[3, 1]], render_frames(model, motion, CAMERA, *SIZE, frames=[3, 1], **options))
    assert (first[0] != first[3]).any()


def test_frames_drawn_together_are_those_drawn_alone(device, monkeypatch):
    """More frames than there are renderers, and than are drawn before the first is handed out."""
    model, poses = scene()
    count = TOGETHER + 3
    motion = np.repeat(poses, count, axis=0)
    motion[:, 0, 0] = np.linspace(-0.5, 0.5, count)
    trail = Trail("path", motion[:, 0, :3])
    renderer = Renderer(model, width=SIZE[0], height=SIZE[1], camera=CAMERA, trails=[trail], device=device)
    alone = np.stack([renderer.draw(motion[frame], frame) for frame in range(count)])
    for cores in (1, 3, 64):
        for module in ("frames", "renderer"):
            monkeypatch.setattr(f"sim.render.{module}.usable_cores", lambda cores=cores: list(range(cores)))
        together = render_frames(model, motion, CAMERA, *SIZE, trails=[trail], device=device)
        np.testing.assert_array_equal(together, alone)


def test_depth_and_what_is_seen(device):
    model, poses = scene()
    renderer = Renderer(model, width=SIZE[0], height=SIZE[1], camera=CAMERA, markers=[Marker("m", (0.9, 0, 0.5), 0.1)],
                        device=device)  # fmt: skip
    survey = renderer.survey(poses[0])
    names = [geometry.name for geometry in model.geometries]
    points = seen_points(CAMERA, survey.depth)
    for name, distance in (
        ("ground", np.abs(points[..., 2])),
        ("red/geometry", np.abs(np.linalg.norm(points - (0.0, 0.0, 0.6), axis=-1) - 0.2)),
        ("blue/geometry", np.abs(np.abs(points - (-0.8, 0.0, 0.15)).max(axis=-1) - 0.15)),
    ):
        shown = survey.geometry == names.index(name)
        assert shown.sum() > 100
        # The sphere is made of flat triangles.
        assert distance[shown].max() < (3e-3 if name.startswith("red") else 1e-5)
    assert (survey.geometry == -2).sum() > 20
    np.testing.assert_array_equal(survey.geometry == -1, np.isinf(survey.depth))
    assert set(np.unique(survey.world)) == {-1, 0}


def test_ambient_occlusion_of_a_wall(device):
    """An open plane sees all of the sky, at a distance d before an endless wall of height h (1 + d / hypot(h, d)) / 2.

    That is the view factor of a wall from what stands upright before it: at its foot a half is left.
    """
    height, reach = 0.8, 300.0
    for walled in (False, True):
        builder = sim.ModelBuilder()
        builder.add_ground()
        if walled:
            size = (1000.0, 0.5, height / 2)
            builder.add_geometry("world", codes.BOX, size=size, position=(0.0, 0.5, height / 2))
        builder.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 1e4))  # out of reach
        model = builder.finalize()
        camera = Camera((0.2, -4.0, 2.0), (0.0, -0.6, 0.0), fov=40.0)
        renderer = Renderer(model, width=40, height=30, camera=camera, device=device,
                            occlusion=AmbientOcclusion(rays=2048, reach=reach))  # fmt: skip
        part, survey = renderer.openness(model.q0[None, :7]), renderer.survey(model.q0[None, :7])
        names = np.array([geometry.name for geometry in model.geometries])[survey.geometry]
        points = seen_points(camera, survey.depth)
        ground = (names == "ground") & (points[..., 1] < 0.0)  # not behind the wall
        if not walled:
            assert ground.sum() > 400
            assert (part == 1.0).all()
            continue
        distance = -points[ground][:, 1]
        assert 0.0 < distance.min() < 0.06
        assert distance.max() > 2.0
        # 2048 rays; near the foot the wall is met by half of them.
        np.testing.assert_allclose(part[ground], 0.5 + 0.5 * distance / np.hypot(height, distance), atol=4e-3)
        # The wall itself sees the ground with its lower half, but for what is out of reach.
        front = ~ground & np.isfinite(survey.depth) & (np.abs(points[..., 1]) < 1e-4)
        assert front.sum() > 20
        np.testing.assert_allclose(part[front], 0.5, atol=6e-3)


def test_ambient_occlusion_darkens_corners_only():
    model, poses = scene()
    plain, dark, again = (
        render_frames(model, poses, CAMERA, *SIZE, occlusion=occlusion)[0]
        for occlusion in (None, AmbientOcclusion(), AmbientOcclusion())
    )
    np.testing.assert_array_equal(dark, again)
    below = (-0.8, -0.15, 0.02)
    assert pixel(dark, below).sum() < 0.9 * pixel(plain, below).sum()
    for open_point in ((0.0, -0.15, 0.72), (1.0, -1.0, 0.0)):
        np.testing.assert_array_equal(pixel(dark, open_point), pixel(plain, open_point))
    refuses(lambda: AmbientOcclusion(rays=0), "positive")
    refuses(lambda: Renderer(model, width=8, height=6, camera=CAMERA).openness(poses[0]), "occlusion")


def test_a_camera_may_move():
    model, poses = scene()
    other = Camera((1.0, -3.0, 1.2), (0.0, 0.0, 0.5), fov=45.0)
    renderer = Renderer(model, width=SIZE[0], height=SIZE[1], camera=other)
    first = renderer.draw(poses[0])
    renderer.camera = CAMERA
    np.testing.assert_array_equal(renderer.draw(poses[0]), render_frames(model, poses, CAMERA, *SIZE)[0])
    assert (first != renderer.draw(poses[0])).any()


def test_worlds_stand_beside_each_other():
    model, poses = scene()
    worlds = np.repeat(poses, 4, axis=0)
    worlds[3, 0, 2] += 0.5
    offsets = grid_offsets(4, 2.0)
    assert sorted(map(tuple, offsets[:, :2])) == [(-1, -1), (-1, 1), (1, -1), (1, 1)]
    camera = Camera((0.0, -6.0, 3.0), (0.0, 0.0, 0.3), fov=50.0)
    renderer = Renderer(model, width=160, height=120, camera=camera, offsets=offsets)
    survey = renderer.survey(worlds)
    red = [geometry.name for geometry in model.geometries].index("red/geometry")
    for world in range(4):
        rows, columns = np.nonzero((survey.world == world) & (survey.geometry == red))
        expected = camera.project(worlds[world, 0, :3] + offsets[world], 160, 120)
        np.testing.assert_allclose([columns.mean() + 0.5, rows.mean() + 0.5], expected, atol=1.0)
    picture = render_frames(model, worlds[None], width=160, height=120, supersamples=1)[0]
    reds = (picture[..., 0] > 2.0 * picture[..., 1]).sum()
    assert reds > 4 * 20
    refuses(lambda: renderer.draw(worlds[:3]), "4 worlds")
    refuses(lambda: grid_offsets(0, 1.0), "negative")


def test_a_video_plays(tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="imageio-ffmpeg is not installed")
    model, poses = scene()
    motion = np.repeat(poses, 6, axis=0)
    motion[:, 0, 0] = np.linspace(-0.5, 0.5, 6)
    pictures = render_frames(model, motion, CAMERA, 161, 120, supersamples=1)
    path = write_mp4(tmp_path / "clip.mp4", iter(pictures), fps=30)
    with warnings.catch_warnings():
        # The reader of the test leaves it to the garbage collector to close its pipes.
        warnings.simplefilter("ignore", ResourceWarning)
        reader = imageio_ffmpeg.read_frames(str(path))
        about = next(reader)
        frames = np.stack([np.frombuffer(data, np.uint8).reshape(120, 162, 3) for data in reader])
        del reader
        gc.collect()
    assert (about["size"], about["fps"], about["codec"]) == ((162, 120), 30.0, "h264")
    assert len(frames) == 6
    # The last column of an odd width stands there twice.
    assert np.abs(frames[:, :, :161].astype(float) - pictures).mean() < 6.0
    assert np.abs(frames[:, :, 161].astype(float) - pictures[:, :, 160]).mean() < 6.0
    refuses(lambda: write_mp4(tmp_path / "none.mp4", [], fps=30), "no frames")
    refuses(lambda: write_mp4(tmp_path / "none.mp4", [pictures[0], pictures[0, 10:]], fps=30), "the first")
    assert list(tmp_path.iterdir()) == [path]
    assert write_mp4(tmp_path / "dot.mp4", pictures[:2, :1, :1], fps=30).stat().st_size > 0


def test_frames_of_a_gif_may_come_one_by_one(tmp_path):
    pictures = np.zeros((3, 4, 6, 3), np.uint8)
    pictures[1:, :2] = 255
    whole = write_gif(tmp_path / "whole.gif", pictures, fps=10).read_bytes()
    assert write_gif(tmp_path / "single.gif", iter(pictures), fps=10).read_bytes() == whole
    for frames in ([], iter(()), pictures[:0]):
        with raises_naming("no frames"):
            write_gif(tmp_path / "none.gif", frames, fps=10)
    with raises_naming("size"):
        write_gif(tmp_path / "none.gif", [pictures[0], pictures[0, 1:]], fps=10)


def test_markers_and_trails_are_drawn_and_trails_grow():
    model, poses = scene()
    motion = np.repeat(poses, 3, axis=0)
    motion[:, 0, 2] = 40.0  # out of sight, so that only its trail shows
    path = np.array([[-0.5, 0.0, 0.9], [0.0, 0.0, 0.9], [0.5, 0.0, 0.9]])
    trail = Trail("path", path, radius=0.05, color=(0.0, 1.0, 0.0))
    marker = Marker("goal", (0.8, 0.0, 0.4), 0.1, color=(1.0, 0.0, 1.0))
    pictures = render_frames(model, motion, CAMERA, *SIZE, trails=[trail], markers=[marker])
    goal = pixel(pictures[0], marker.position)
    assert min(goal[0], goal[2]) > 3 * goal[1]
    shown = [[bool(p[1] > 1.5 * max(p[0], p[2])) for p in (pixel(f, point) for point in path)] for f in pictures]
    assert shown == [[True, False, False], [True, True, False], [True, True, True]]
    # What isn't there yet takes no light from the ground under it.
    low = Trail("low", path * (1.0, 1.0, 0.05))
    ahead = [render_frames(model, motion, CAMERA, *SIZE, trails=trails, frames=[0])[0] for trails in ([], [low])]
    np.testing.assert_array_equal(*(pixel(picture, (0.4, 0.0, 0.0)) for picture in ahead))


def test_a_world_without_anything_is_sky():
    builder = sim.ModelBuilder()
    builder.add_link("ghost", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("free", "free", child="ghost")
    model = builder.finalize()
    picture = render_frames(model, model.q0.reshape(1, 1, 7), CAMERA, 16, 12)[0]
    assert (np.ptp(picture, axis=1) <= 3).all()


def test_frames_count_from_the_end_too():
    model, poses = scene()
    motion = np.repeat(poses, 3, axis=0)
    motion[:, 0, 0] = [0.0, 0.2, 0.4]
    trail = Trail("path", motion[:, 0, :3] + (0.0, 0.0, 1.0), radius=0.05)
    last, same = render_frames(model, motion, CAMERA, 16, 12, trails=[trail], frames=[2, -1])
    np.testing.assert_array_equal(last, same)


def test_bad_arguments_are_refused():
    model, poses = scene()
    refuses(lambda: render_frames(model, poses, CAMERA, 0, 5), "0 x 5")
    refuses(lambda: render_frames(model, poses, CAMERA, 4.5, 5), "4.5", 5)
    refuses(lambda: render_frames(model, poses, None, 4, 0), "4 x 0")
    for frames, message in (
        ([], "frames is empty"),
        ([0, 5], "frame 5.* 0 to 0"),
        ([0.5], "no frame 0.5"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            render_frames(model, poses, CAMERA, 4, 4, frames=frames)
    refuses(lambda: render_frames(model, poses, CAMERA, 4, 4, supersamples=3), "square")
    refuses(lambda: render_frames(model, poses, CAMERA, 4, 4, trails=[Trail("path", np.zeros((2, 3)))]), "trail 'path'")
    refuses(lambda: render_frames(model, poses[:, :1], CAMERA, 4, 4), "expected")


def test_gif_has_all_frames_one_palette_and_the_right_length(tmp_path):
    model, poses = scene()
    motion = np.repeat(poses, 7, axis=0)
    motion[:, 0, 0] = np.linspace(-0.5, 0.5, 7)
    frames = render_frames(model, motion, CAMERA, *SIZE)
    path = write_gif(tmp_path / "a.gif", frames, fps=30)
    with Image.open(path) as image:
        assert (image.n_frames, image.size, image.info["loop"]) == (7, SIZE, 0)
        milliseconds = 0
        decoded = []
        for k in range(7):
            image.seek(k)
            milliseconds += image.info["duration"]
            decoded.append(np.asarray(image.convert("RGB"), dtype=float))
    assert milliseconds == pytest.approx(7000 / 30, abs=5)
    assert np.abs(np.array(decoded) - frames).mean() < 4.0
    # What stands still does not flicker: the sky is the same in every frame.
    assert (np.ptp(np.array(decoded)[:, :20], axis=0) == 0).all()
    assert list(tmp_path.iterdir()) == [path]


def test_gif_holds_what_changes(tmp_path):
    """Noise that stays takes the room of one frame; what changes in two corners, to black and back, is seen."""
    noise = np.random.default_rng(0).integers(40, 200, (90, 120, 1), dtype=np.uint8).repeat(3, axis=2)
    corners, shades, sizes = np.zeros((90, 120), dtype=bool), (0, 255, 0, 120), []
    corners[:16, :16] = corners[-16:, -16:] = True
    for count in (1, 4):
        frames = np.repeat(noise[None], count, axis=0)
        frames[:, corners] = np.array(shades[:count])[:, None, None]
        sizes.append(write_gif(tmp_path / "a.gif", frames, fps=30).stat().st_size)
    assert sizes[1] < 1.5 * sizes[0]
    with Image.open(tmp_path / "a.gif") as image:
        for number, frame in enumerate(frames):
            image.seek(number)
            assert np.abs(np.asarray(image.convert("RGB"), dtype=float) - frame).max() < 12.0


def test_png_round_trip_and_bad_paths(tmp_path):
    picture = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    with Image.open(write_png(tmp_path / "a.png", picture)) as image:
        np.testing.assert_array_equal(np.asarray(image), picture)
    refuses(lambda: write_png(tmp_path / "a.jpg", picture), ".png")
    refuses(lambda: write_png(tmp_path / "none" / "a.png", picture), "no folder")
    refuses(lambda: write_gif(tmp_path / "a.gif", picture[None].astype(float), 10), "uint8")
    refuses(lambda: write_gif(tmp_path / "a.gif", picture[None], 120), "fps")


def test_a_ball_that_fills_the_picture_is_round():
    """Its outline is nowhere a pixel inside of the circle."""
    builder = sim.ModelBuilder()
    # Matte, so that its rim doesn't reflect the sky.
    builder.add_geometry("world", "sphere", size=1.0, rgba=RED, material=sim.Material(roughness=1.0))
    model = builder.finalize()
    camera = Camera((0.0, -8.0, 0.0), (0.0, 0.0, 0.0), fov=16.0)
    picture = render_frames(model, np.zeros((1, 0, 7)), camera, 301, 301)[0].astype(float)
    rows, columns = np.indices((301, 301)) - 150
    radius = 150.5 * np.tan(np.arcsin(1.0 / 8.0)) / np.tan(np.radians(8.0))
    inside = np.hypot(rows, columns) < radius - 1.0
    assert (picture[inside][:, 0] > 2 * picture[inside][:, 2]).all()
