"""Which pairs may be asked for, how far, and in which shapes of batches."""

import numpy as np
import pytest
import torch
import warp as wp

import sim
from tests.distances.scenes import all_pairs, both, mujoco_distances, random_poses
from tests.errors import raises_naming, refuses


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return both(tmp_path_factory.mktemp("scene"))


def shelf():
    """A ball on an arm with a ball of its own, over a ground, a static box, hills and a triangle mesh."""
    builder = sim.ModelBuilder()
    builder.add_ground(name="floor")
    builder.add_geometry("world", "box", name="shelf", size=(0.1, 0.1, 0.1), position=(0.0, 2.0, 1.0))
    builder.add_heightfield(np.zeros((3, 3)), half_extents=(1.0, 1.0), name="hills")
    vertices = np.array([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)])
    builder.add_static_mesh(vertices, [(0, 1, 2)], name="stairs")
    builder.add_sphere(radius=0.2, mass=1.0, position=(0.0, 0.0, 1.0), name="arm")
    builder.add_geometry("arm", "sphere", name="hand", size=(0.1, 0, 0), position=(0.0, 1.0, 0.0), collides=False)
    return builder.finalize(dtype="float64")


def test_geometries_that_never_touch_have_distances():
    model = shelf()
    pairs = [("hand", "arm/geometry"), ("shelf", "floor"), ("hand", "shelf"), (model.geometry("floor"), "hand")]
    found = sim.geometry_distances(model, model.q0[None], pairs)
    # Of one link, of the world, without contact, and by index.
    np.testing.assert_allclose(found.distance.numpy(), [[0.7, 0.9, 0.8, 0.9]], atol=1e-12)
    np.testing.assert_allclose(found.point_a.numpy()[0, 0], [0.0, 0.9, 1.0], atol=1e-12)
    np.testing.assert_allclose(found.normal.numpy()[0, 1:], [[0, 0, -1], [0, 1, 0], [0, 0, 1]], atol=1e-12)


def test_a_mesh_that_is_only_drawn_counts_as_its_hull():
    # An L, whose hull has a slanted face across the corner.
    corners = np.array([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)], dtype=float)
    vertices = np.concatenate([np.column_stack([corners, np.full(6, z)]) for z in (-1.0, 1.0)])
    builder = sim.ModelBuilder()
    drawn = {"size": (1.0, 1.0, 1.0), "collides": False}
    mesh = sim.model.geometries.Mesh(vertices, np.array([(0, 1, 2), (6, 7, 8)]))
    builder.add_geometry("world", "convex", name="corner", mesh=mesh, **drawn)
    flat = sim.model.geometries.Mesh(vertices[:6], np.array([(0, 1, 2)]))
    builder.add_geometry("world", "convex", name="sheet", mesh=flat, **drawn)
    builder.add_sphere(radius=0.1, mass=1.0, position=(2.0, 2.0, 0.0), name="ball")
    model = builder.finalize(dtype="float64")
    found = sim.geometry_distances(model, model.q0[None], [("corner", "ball/geometry")])
    assert found.distance.numpy()[0, 0] == pytest.approx(np.sqrt(0.5) - 0.1, abs=1e-12)
    with raises_naming("geometry 'sheet'"):
        sim.geometry_distances(model, model.q0[None], [("sheet", "ball/geometry")])


def test_beyond_the_largest_distance_there_is_that_alone(scene):
    model, peer = scene
    q = random_poses(model, 60, 1.0, seed=8)
    pairs = [pair for pair in all_pairs() if pair != ("capsule1", "box2")]
    expected, points = mujoco_distances(model, peer, q, pairs, farthest=0.5)
    found = sim.geometry_distances(model, q, pairs, max_distance=0.5)
    distance, point_a, point_b, normal = (array.numpy() for array in found)
    beyond = expected == 0.5
    assert 0.2 < beyond.mean() < 0.8
    np.testing.assert_array_equal(distance == 0.5, beyond)
    np.testing.assert_allclose(distance, expected, atol=1e-8)
    np.testing.assert_allclose(np.concatenate([point_a, point_b], axis=2), points, atol=1e-5)
    assert not normal[beyond].any()
    tracked = torch.as_tensor(q).requires_grad_()
    far = sim.torch.Robot(model).geometry_distances(tracked, pairs, max_distance=0.5)
    sum(value[torch.as_tensor(beyond)].sum() for value in far).backward()
    assert not tracked.grad.any()


@pytest.mark.cpu_shapes  # calls that come again launch kernels of lane groups
def test_batches_and_orders(scene):
    model, _ = scene
    robot = sim.torch.Robot(model)
    pairs = all_pairs()
    q = random_poses(model, 600, 0.5, seed=9)  # more than are worked on at a time
    expected = [array.numpy() for array in sim.geometry_distances(model, q, pairs)]
    for shape in ((600,), (20, 30)):
        found = robot.geometry_distances(torch.as_tensor(q).reshape(*shape, -1), pairs)
        assert found.distance.shape == (*shape, len(pairs))
        assert found.normal.shape == found.point_a.shape == found.point_b.shape == (*shape, len(pairs), 3)
        for value, array in zip(found, expected, strict=True):
            np.testing.assert_allclose(value.numpy().reshape(array.shape), array, atol=1e-12)
    single = robot.geometry_distances(torch.as_tensor(q[0]), pairs[::-1])
    assert single.distance.shape == (len(pairs),)
    np.testing.assert_allclose(single.distance.numpy()[::-1], expected[0][0], atol=1e-12)
    turned = robot.geometry_distances(torch.as_tensor(q), [(b, a) for a, b in pairs])
    # The same shapes the other way round: the search starts from the other one of a kind.
    np.testing.assert_allclose(turned.distance.numpy(), expected[0], atol=1e-9)
    np.testing.assert_allclose(turned.point_b.numpy(), expected[1], atol=1e-5)
    np.testing.assert_allclose(turned.normal.numpy(), -expected[3], atol=1e-5)


def test_a_tape_has_the_gradients_of_warp_arrays(scene):
    model, _ = scene
    q = wp.array(random_poses(model, 3, 0.5), dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        distance = sim.geometry_distances(model, q, [("box1", "box2"), ("sphere1", "plane")]).distance
    tape.backward(grads={distance: wp.full(distance.shape, wp.float64(1.0))})
    tracked = torch.as_tensor(q.numpy()).requires_grad_()
    found = sim.torch.Robot(model).geometry_distances(tracked, [("box1", "box2"), ("sphere1", "plane")])
    found.distance.sum().backward()
    np.testing.assert_allclose(q.grad.numpy(), tracked.grad.numpy(), atol=1e-12)


def test_single_precision_has_most_of_its_digits(scene):
    model, _ = scene
    pairs = all_pairs()
    q = random_poses(model, 200, 0.5, seed=10)
    expected = sim.geometry_distances(model, q, pairs).distance.numpy()
    robot = sim.torch.Robot(model, dtype=torch.float32)
    tracked = torch.as_tensor(q, dtype=torch.float32).requires_grad_()
    found = robot.geometry_distances(tracked, pairs)
    sum(value.sum() for value in found).backward()
    assert torch.isfinite(tracked.grad).all()
    error = np.abs(found.distance.detach().numpy() - expected)
    assert error.max() < 1e-4
    assert np.quantile(error, 0.99) < 2e-6


def test_a_pair_is_anything_with_two_geometries():
    model = shelf()
    names = [geometry.name for geometry in model.geometries]
    numbers = [names.index(name) for name in ("hand", "floor")]
    expected = sim.geometry_distances(model, model.q0[None], [("hand", "floor")]).distance.numpy()
    for pair in (["hand", "floor"], np.array(numbers)):
        found = sim.geometry_distances(model, model.q0[None], [pair]).distance.numpy()
        np.testing.assert_array_equal(found, expected)


def test_refusals():
    model = shelf()
    q = model.q0[None]
    for pair, kinds in {
        ("hills", "hand"): "'hills' (heightfield) and geometry 'hand' (sphere)",
        ("hand", "stairs"): "'hand' (sphere) and geometry 'stairs' (triangle mesh)",
        ("floor", "hills"): "'floor' (plane) and geometry 'hills' (heightfield)",
    }.items():
        with pytest.raises(sim.ModelError) as raised:
            sim.geometry_distances(model, q, [pair])
        assert f"geometry {kinds} " in str(raised.value)
        assert "cast_rays" in str(raised.value)
    refuses(lambda: sim.geometry_distances(model, q, [("hand", "hand")]), "geometry 'hand' (sphere)")
    refuses(lambda: sim.geometry_distances(model, q, [("hand", "foot")]), "'foot'")
    refuses(lambda: sim.geometry_distances(model, q, [("hand", 99)]), 99, 6)
    refuses(lambda: sim.geometry_distances(model, q, ["hand"]), "geometry_distances: 'hand'")
    refuses(lambda: sim.geometry_distances(model, q, []), "geometry_distances: pairs")
    refuses(lambda: sim.geometry_distances(model, q, [("hand", "floor")], max_distance=-1.0), "max_distance", "-1.0")
    robot = sim.torch.Robot(model)
    with raises_naming("geometry_distances", "'height'"):
        robot.geometry_distances(torch.as_tensor(model.q0), [("hand", "floor")], height=torch.zeros(9))
