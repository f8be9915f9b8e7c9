"""Height scans, lidars and depth cameras beside closed forms, the renderer and central differences."""

import numpy as np
import pytest
import torch

import sim
from scenes.quadruped import QUADRUPED_URDF
from sim.render import Camera, Renderer
from tests.errors import raises_naming, refuses
from tests.rays.scenes import both, random_rays


def slope():
    """A ball over a heightfield whose height is half of x."""
    builder = sim.ModelBuilder()
    x = np.linspace(-4.0, 4.0, 9)
    builder.add_heightfield(np.broadcast_to(0.5 * x, (9, 9)), half_extents=(4.0, 4.0))
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.5, 0.2, 2.0), name="ball")
    return builder.finalize(dtype="float64")


def test_a_height_scan_turns_with_the_heading_alone():
    model = slope()
    robot = sim.torch.Robot(model)
    heading, tilt = 0.7, 0.4
    about_z = np.array([0.0, 0.0, np.sin(heading / 2), np.cos(heading / 2)])
    about_x = np.array([np.sin(tilt / 2), 0.0, 0.0, np.cos(tilt / 2)])
    x, y, z, w = about_z[3] * about_x[0], about_z[2] * about_x[0], about_z[2] * about_x[3], about_z[3] * about_x[3]
    q = torch.tensor([[0.5, 0.2, 2.0, x, y, z, w]], dtype=torch.float64, requires_grad=True)
    points = sim.rays.grid_pattern((1.6, 1.0), 0.2)
    assert points.shape == (9 * 6, 2)
    scan = sim.torch.height_scan(robot, q, "ball", points, sim.RayTargets(exclude=("ball",)))
    position = 0.5 + np.cos(heading) * points[:, 0] - np.sin(heading) * points[:, 1]
    np.testing.assert_allclose(scan.detach()[0], 0.5 * position - 2.0, atol=1e-12)
    scan.mean().backward()
    np.testing.assert_allclose(q.grad[0, :3], (0.5, 0.0, -1.0), atol=1e-12)


def test_a_lidar_sees_walls_where_they_are():
    builder = sim.ModelBuilder()
    for k, (x, y) in enumerate([(2.0, 0.0), (-2.0, 0.0), (0.0, 3.0), (0.0, -3.0)]):
        half = (0.1, 5.0, 1.0) if x else (5.0, 0.1, 1.0)
        builder.add_geometry("world", "box", size=half, position=(x, y, 0.0), name=f"wall{k}")
    builder.add_sphere(radius=0.1, mass=1.0, name="lidar")
    model = builder.finalize(dtype="float64")
    robot = sim.torch.Robot(model)
    fan = sim.rays.fan_pattern(360, rows=3, elevations=(-0.1, 0.1))
    distance, seen = sim.torch.lidar(
        robot, robot.initial_coordinates(), "lidar", fan, sim.RayTargets(exclude=("lidar",))
    )
    expected = np.minimum(1.9 / np.abs(fan[:, 0]).clip(1e-300), 2.9 / np.abs(fan[:, 1]).clip(1e-300))
    np.testing.assert_allclose(distance, expected, rtol=1e-12)
    assert set(seen.tolist()) == {model.geometry(f"wall{k}") for k in range(4)}
    near, _ = sim.torch.lidar(
        robot, robot.initial_coordinates(), "lidar", fan, sim.RayTargets(exclude=("lidar",)), max_distance=2.5
    )
    np.testing.assert_array_equal(near.isinf(), expected > 2.5)


def test_depth_and_segmentation_are_those_of_the_renderer(tmp_path):
    model, _ = both(tmp_path)
    worlds = 3
    q, _, _ = random_rays(model, worlds, 1)
    builder = sim.ModelBuilder()
    builder.add_mjcf(tmp_path / "scene.xml")
    builder.add_frame("camera", "world", position=(0.0, -6.0, 2.0), orientation=(np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)))
    model = builder.finalize(dtype="float64")
    robot = sim.torch.Robot(model)
    depth, seen = sim.torch.depth_image(robot, torch.as_tensor(q), "camera", 80, 60, 45.0, sim.RayTargets("visual"))
    assert depth.shape == seen.shape == (worlds, 60, 80)
    camera = Camera((0.0, -6.0, 2.0), (0.0, 0.0, 2.0), fov=45.0)
    renderer = Renderer(model, width=80, height=60, camera=camera)
    boxes = 0
    for world in range(worlds):
        survey = renderer.survey(sim.forward_kinematics(model, q[world][None]).numpy()[0])
        same = survey.geometry == seen[world].numpy()
        assert same.mean() > 0.98  # the renderer's round shapes are made of triangles, and differ along outlines
        solid = same & np.isfinite(survey.depth)
        assert np.isfinite(depth[world].numpy()[solid]).all()
        error = np.abs(depth[world].numpy() - np.where(solid, survey.depth, 0.0))[solid]
        assert np.quantile(error, 0.95) < 5e-3
        flat = solid & (survey.geometry == model.geometry("box"))
        boxes += flat.sum()
        np.testing.assert_allclose(depth[world].numpy()[flat], survey.depth[flat], rtol=1e-5)
    assert boxes > 5


@pytest.mark.parametrize("read", ["lidar", "depth"])
def test_gradients_in_the_coordinates(tmp_path, read):
    model, _ = both(tmp_path)
    robot = sim.torch.Robot(model)
    q = torch.as_tensor(random_rays(model, 2, 1)[0])
    targets = sim.RayTargets(exclude=("third",))

    def look(q):
        if read == "lidar":
            return sim.torch.lidar(robot, q, "third", sim.rays.fan_pattern(40, 5, elevations=(-1.0, 0.5)), targets)
        return sim.torch.depth_image(robot, q, "third", 16, 12, 90.0, targets)

    value, seen = look(q)
    near = value.isfinite() & (value < 3.0)
    weight = torch.as_tensor(np.random.default_rng(0).normal(size=value.shape)) * near
    tracked = q.clone().requires_grad_()
    (torch.where(near, look(tracked)[0], 0.0) * weight).sum().backward()
    for direction in torch.as_tensor(np.random.default_rng(1).normal(size=(3, *q.shape))):
        ahead, behind = (look(q + side * 1e-7 * direction) for side in (1.0, -1.0))
        steady = (ahead[1] == seen) & (behind[1] == seen)
        assert steady.all()
        expected = float((torch.where(near, ahead[0] - behind[0], 0.0) * weight).sum()) / 2e-7
        assert float((tracked.grad * direction).sum()) == pytest.approx(expected, rel=2e-5, abs=1e-4)


def test_patterns_refuse_what_has_no_rays():
    refuses(lambda: sim.rays.grid_pattern((1.0, 1.0), 0.0), "grid_pattern: size")
    refuses(lambda: sim.rays.fan_pattern(0), "0 columns")
    with pytest.raises(sim.ModelError, match="180"):
        sim.rays.pixel_pattern(4, 4, 180.0)


@pytest.mark.parametrize(
    ("read", "pattern", "message"),
    [
        ("lidar", np.zeros((5, 2)), r"lidar: directions have shape \(5, 2\); expected \(..., rays, 3\)"),
        ("lidar", np.zeros(3), r"lidar: directions have shape \(3,\); expected \(..., rays, 3\)"),
        ("height_scan", np.zeros((5, 3)), r"height_scan: points have shape \(5, 3\); expected \(..., rays, 2\)"),
        ("height_scan", np.zeros(2), r"height_scan: points have shape \(2,\); expected \(..., rays, 2\)"),
    ],
)
def test_patterns_of_another_shape_are_refused(read, pattern, message):
    robot = sim.torch.Robot(slope())
    with pytest.raises(sim.ModelError, match=message):
        getattr(sim.torch, read)(robot, robot.initial_coordinates(), "ball", pattern)


@pytest.mark.parametrize("source", ["file", "model"])
def test_rays_of_a_robot_without_geometries_say_what_to_do(source):
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("hinge", "revolute", child="arm", axis=(0.0, 0.0, 1.0))
    robot = sim.torch.Robot(QUADRUPED_URDF if source == "file" else builder.finalize())
    q, frame = torch.zeros(2, robot.nq), robot.link_names[-1]
    rays = torch.zeros(2, 3, 3), torch.ones(2, 3, 3)
    for cast in (
        lambda: robot.cast_rays(q, *rays),
        lambda: sim.torch.lidar(robot, q, frame, torch.ones(5, 3)),
        lambda: sim.torch.depth_image(robot, q, frame, 4, 4),
        lambda: sim.torch.height_scan(robot, q, frame, torch.zeros(4, 2)),
    ):
        with raises_naming("collision=True", "visual=True"):
            cast()


def test_rays_that_may_meet_none_of_a_robots_geometries_meet_nothing():
    scene = sim.ModelBuilder()
    scene.add_ground()
    scene.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.5), name="ball")
    robot = sim.torch.Robot(scene.finalize())
    nothing = sim.RayTargets(exclude="ball", static=False)
    distance, geometry, normal = robot.cast_rays(
        robot.initial_coordinates(), torch.zeros(2, 3), torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]), nothing
    )
    assert distance.isinf().all()
    assert (geometry == -1).all()
    assert (normal == 0.0).all()
