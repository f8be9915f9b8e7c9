"""What rays meet: beside MuJoCo's rays in float64, closed forms, and which geometries count."""

import mujoco
import numpy as np
import pytest
import torch

import sim
from tests.rays.scenes import both, random_rays


def mujoco_hits(peer, model, q, origin, direction):
    """Distance, name and normal of what MuJoCo's rays meet in one world."""
    data = mujoco.MjData(peer)
    data.qpos = sim.to_mujoco(model, q, np.zeros(model.nv))[0]
    mujoco.mj_kinematics(peer, data)
    number, normal, found = np.zeros(1, dtype=np.int32), np.zeros(3), []
    for start, along in zip(origin, direction, strict=True):
        unit = along / np.linalg.norm(along)
        distance = mujoco.mj_ray(peer, data, start, unit, None, True, -1, number, normal)
        name = peer.geom(number[0]).name if number[0] >= 0 else None
        found.append((np.inf if distance < 0.0 else distance, name, normal.copy()))
    return found


def test_every_shape_is_met_where_mujoco_meets_it(tmp_path):
    model, peer = both(tmp_path)
    q, origin, direction = random_rays(model, worlds=20, rays=300)
    hits = sim.cast_rays(model, q, origin, direction)
    distance, number, normal = (array.numpy() for array in hits)
    met = set()
    for world in range(len(q)):
        expected = mujoco_hits(peer, model, q[world], origin[world], direction[world])
        for ray, (far, name, outward) in enumerate(expected):
            here = model.geometries[number[world, ray]].name if number[world, ray] >= 0 else None
            along = direction[world, ray] / np.linalg.norm(direction[world, ray])
            if name == "hills" and (outward[2] < 1e-3 or origin[world, ray, 2] + far * along[2] < 1e-3):
                continue  # walls and floor of the field, which are only MuJoCo's
            assert here == name
            met.add(name)
            if name is not None:
                close = 1e-6 if name in ("hills", "stone") else 1e-11  # MuJoCo keeps those in single precision
                assert distance[world, ray] == pytest.approx(far, abs=close)
                np.testing.assert_allclose(normal[world, ray], outward, atol=close)
    assert met == {geometry.name for geometry in model.geometries if geometry.collides} | {None}


def test_most_rays_from_above_meet_the_hills(tmp_path):
    # No ray slips through between two triangles: over the field all of them meet something.
    model, _ = both(tmp_path)
    rng = np.random.default_rng(1)
    origin = np.concatenate([rng.uniform(-1, 1, (1, 4000, 2)) * (2.99, 2.49), np.full((1, 4000, 1), 30.0)], axis=2)
    # Every other one exactly over a line of the grid.
    origin[0, ::2, 0] = np.round((origin[0, ::2, 0] + 3.0) * 11 / 6) * 6 / 11 - 3.0
    straight = np.broadcast_to((0.0, 0.0, -2.0), origin.shape)
    hits = sim.cast_rays(model, model.q0[None], origin, straight, sim.RayTargets(exclude=("first", "second", "third")))
    assert {model.geometries[k].name for k in np.unique(hits.geometry.numpy())} == {"hills"}


def triangles_met(triangles, origin, direction, slack):
    """How far rays go to the first of the triangles, enlarged by a share of their sides."""
    nearest = np.full(len(origin), np.inf)
    for a, b, c in triangles:
        across, beside = np.cross(direction, c - a), np.cross(origin - a, b - a)
        turning = across @ (b - a)
        inclined = np.abs(turning) > 1e-12
        turning[~inclined] = 1.0
        u, v, far = np.array([((origin - a) * across).sum(1), (direction * beside).sum(1), beside @ (c - a)]) / turning
        met = inclined & (np.minimum(np.minimum(u, v), 1.0 - u - v) >= -slack)
        nearest = np.where(met & (far >= -slack), np.minimum(nearest, far), nearest)
    return nearest


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rays_along_triangles_of_hills_meet_the_next_one(dtype):
    # From and to half numbers over heights of half numbers: through corners and edges, and in the planes of triangles.
    rng = np.random.default_rng(0)
    heights = 0.5 * rng.integers(-2, 3, (7, 9))
    builder = sim.ModelBuilder()
    builder.add_heightfield(heights, spacing=1.0)
    model = builder.finalize(dtype)
    origin, target = 0.5 * rng.integers(-9, 10, (2, 20000, 3))
    origin, direction = origin[(origin != target).any(axis=1)], (target - origin)[(origin != target).any(axis=1)]
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    rays = [array[None].astype(dtype) for array in (origin, direction)]
    distance = sim.cast_rays(model, np.zeros((1, 0), dtype), *rays).distance.numpy()[0]
    x, y = np.meshgrid(np.arange(9) - 4.0, np.arange(7) - 3.0)
    points = np.stack([x, y, heights], axis=2)
    start, right, up, far = points[:-1, :-1], points[:-1, 1:], points[1:, :-1], points[1:, 1:]
    triangles = np.concatenate(
        [np.stack(each, axis=2).reshape(-1, 3, 3) for each in ((start, right, far), (start, far, up))]
    )
    assert (distance >= triangles_met(triangles, origin, direction, 1e-6) - 1e-4).all()
    assert (distance <= triangles_met(triangles, origin, direction, -1e-6) + 1e-4).all()


def test_the_height_under_a_point_is_that_of_a_plane_through_three_heights():
    heights = np.array([[0.0, 1.0, 0.5], [0.3, -0.2, 0.4]])
    builder = sim.ModelBuilder()
    builder.add_heightfield(heights, half_extents=(2.0, 1.0))
    model = builder.finalize(dtype="float64")
    # Right of the diagonal of the second cell: 1 + u (0.5 - 1) + v (0.4 - 0.5) for u = 0.5, v = 0.25.
    hits = sim.cast_rays(model, model.q0[None], [[[1.0, -0.5, 5.0]]], [[[0.0, 0.0, -1.0]]])
    assert 5.0 - hits.distance.numpy()[0, 0] == pytest.approx(0.725, abs=1e-12)
    # Left of it: 1 + v (-0.2 - 1) + u (0.4 + 0.2) for u = 0.25, v = 0.5; from below it is met too.
    for start, along in ((-5.0, 1.0), (5.0, -1.0)):
        hits = sim.cast_rays(model, model.q0[None], [[[0.5, 0.0, start]]], [[[0.0, 0.0, along]]])
        assert start + along * hits.distance.numpy()[0, 0] == pytest.approx(0.55, abs=1e-12)
        assert hits.normal.numpy()[0, 0, 2] > 0.0


def test_far_away_rays_keep_their_digits():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0)
    model = builder.finalize(dtype="float32")
    x = np.array([0.0, 0.05, 0.099])
    origin = np.stack([np.full(3, 1000.0), x, np.zeros(3)], axis=1)[None]
    hits = sim.cast_rays(model, model.q0[None], origin, np.broadcast_to((-1.0, 0.0, 0.0), origin.shape))
    # One unit in the last place of 1000 is 6e-5.
    np.testing.assert_allclose(hits.distance.numpy()[0], 1000.0 - np.sqrt(0.01 - x * x), atol=1.3e-4)


def test_which_geometries_are_met(tmp_path):
    model, _ = both(tmp_path)
    down = np.broadcast_to((0.0, 0.0, -1.0), (1, 1, 3))

    def met(targets, **options):
        hits = sim.cast_rays(model, model.q0[None], [[[0.1, 0.0, 5.0]]], down, targets, **options)
        number = int(hits.geometry.numpy()[0, 0])
        return model.geometries[number].name if number >= 0 else None

    assert met(sim.RayTargets()) == "sphere"
    assert met(sim.RayTargets(exclude=("first",))) == "hills"
    assert met(sim.RayTargets(exclude=("first",), static=False)) is None
    assert met(sim.RayTargets(), max_distance=2.0) is None
    assert met(sim.RayTargets(groups=2)) is None
    with pytest.raises(sim.ModelError, match="'arm'"):
        sim.RayTargets(exclude=("arm",)).geometries(model)
    with pytest.raises(sim.ModelError, match="collision, visual, all"):
        sim.RayTargets(shapes="solid")
    assert met(sim.RayTargets(exclude="first")) == "hills"
    with pytest.raises(sim.ModelError, match="max_distance is -1"):
        met(sim.RayTargets(), max_distance=-1.0)


def test_worlds_have_their_own_sizes_and_heights():
    builder = sim.ModelBuilder()
    builder.add_heightfield(np.zeros((4, 4)), half_extents=(2.0, 2.0), name="hills")
    ball = builder.add_sphere(radius=0.2, mass=1.0, position=(1.0, 0.0, 1.0))
    model = builder.finalize(dtype="float64")
    sizes = np.repeat(model.parameters["geometry_size"][None], 2, axis=0)
    sizes[1, model.geometry(f"{ball.name}/geometry"), 0] = 0.3
    heights = np.stack([np.zeros(16), np.full(16, 0.5)])
    m = sim.DeviceModel(model, "cpu", 2, parameters={"geometry_size": sizes, "height": heights})
    q = np.repeat(model.q0[None], 2, axis=0)
    origin = np.broadcast_to([[1.0, 0.0, 3.0], [0.0, 0.0, 3.0]], (2, 2, 3))
    hits = sim.cast_rays(m, q, origin, np.broadcast_to((0.0, 0.0, -1.0), (2, 2, 3)))
    np.testing.assert_allclose(hits.distance.numpy(), [[1.8, 3.0], [1.7, 2.5]], atol=1e-12)


def test_a_ray_without_direction_and_a_world_without_geometries():
    model = sim.ModelBuilder().finalize()
    hits = sim.cast_rays(model, np.zeros((3, 0)), np.zeros((3, 2, 3)), np.ones((3, 2, 3)))
    assert np.isinf(hits.distance.numpy()).all()
    builder = sim.ModelBuilder()
    builder.add_ground()
    hits = sim.cast_rays(builder.finalize(), np.zeros((1, 0)), np.ones((1, 1, 3)), np.zeros((1, 1, 3)))
    assert (hits.distance.numpy()[0, 0], hits.geometry.numpy()[0, 0]) == (np.inf, -1)


def test_the_robot_casts_the_same_rays(tmp_path):
    model, _ = both(tmp_path)
    q, origin, direction = random_rays(model, worlds=3, rays=50)
    hits = sim.cast_rays(model, q, origin, direction)
    robot = sim.torch.Robot(model)
    distance, number, normal = robot.cast_rays(*map(torch.as_tensor, (q, origin, direction)))
    np.testing.assert_array_equal(number.numpy(), hits.geometry.numpy())
    np.testing.assert_allclose(distance.numpy(), hits.distance.numpy(), rtol=1e-12)
    np.testing.assert_allclose(normal.numpy(), hits.normal.numpy(), atol=1e-12)
    # The same rays in every world, without a dimension of worlds.
    again = robot.cast_rays(torch.as_tensor(q), torch.as_tensor(origin[0]), torch.as_tensor(direction[0]))[0]
    np.testing.assert_allclose(again[0].numpy(), hits.distance.numpy()[0], rtol=1e-12)
    with pytest.raises(sim.ModelError, match=r"cast_rays: origin .* direction"):
        robot.cast_rays(torch.as_tensor(q), torch.as_tensor(origin), torch.as_tensor(direction[:, :2]))
    with pytest.raises(sim.ModelError, match="'radius'"):
        robot.cast_rays(*map(torch.as_tensor, (q, origin, direction)), radius=torch.zeros(1))


def test_a_range_in_a_tensor_is_read_at_each_call(tmp_path):
    model, _ = both(tmp_path)
    inputs = [torch.as_tensor(x) for x in random_rays(model, worlds=3, rays=50)]
    robot = sim.torch.Robot(model)
    farthest = torch.tensor(0.5, dtype=torch.float64)
    for value in (0.5, 0.5, 0.5, 0.5, 3.0):
        farthest.fill_(value)
        found = [robot.cast_rays(*inputs, max_distance=x)[0] for x in (farthest, np.array(value), value)]
        assert torch.equal(found[0], found[2])
        assert torch.equal(found[1], found[2])
    farthest.requires_grad_()
    with pytest.raises(sim.ModelError, match="max_distance"):
        robot.cast_rays(*inputs, max_distance=farthest)
    pair = [("box", "floor")]
    with pytest.raises(sim.ModelError, match="max_distance"):
        robot.geometry_distances(inputs[0], pair, max_distance=farthest)
    near, far = (robot.geometry_distances(inputs[0], pair, max_distance=np.array(x)).distance for x in (1e-3, 9.0))
    assert (near <= 1e-3).all()
    assert torch.equal(far, robot.geometry_distances(inputs[0], pair, max_distance=9.0).distance)
