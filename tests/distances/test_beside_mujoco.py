"""Distances, points and normals beside ``mj_geomDistance``, and beside the distance that a motion leaves."""

import numpy as np
import pytest
import torch

import sim
from tests.distances.scenes import all_pairs, both, height_over_surface, mujoco_distances, random_poses

PAIRS = all_pairs()
# The capsule is measured against the same box as a mesh.
AS_MESH = [("capsule1", "crate2") if pair == ("capsule1", "box2") else pair for pair in PAIRS]
# Its searches end on curved shapes at 1e-9, and its meshes are of single precision: that of the crate is turned too.
CLOSE = np.where([pair == ("capsule1", "box2") for pair in PAIRS], 3e-7, 2e-9)
SMOOTH = ("sphere", "capsule", "ellipsoid", "plane")


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return both(tmp_path_factory.mktemp("scene"))


@pytest.mark.parametrize("spread", [0.1, 0.3, 1.0, 5.0])
def test_every_pair_is_as_far_apart_as_in_mujoco(scene, spread):
    model, peer = scene
    q = random_poses(model, 80, spread, seed=1)
    expected, points = mujoco_distances(model, peer, q, AS_MESH)
    distance, point_a, point_b, normal = (array.numpy() for array in sim.geometry_distances(model, q, PAIRS))
    overlapping = (expected < 0.0).mean(axis=0)
    if spread == 0.1:
        assert (overlapping > 0.5).all()
    if spread == 5.0:
        assert expected.max() > 10.0
        assert (overlapping < 0.7).all()
    assert (np.abs(distance - expected) < CLOSE).all()
    np.testing.assert_allclose(np.concatenate([point_a, point_b], axis=2), points, atol=1e-5)
    np.testing.assert_allclose(point_b - point_a, distance[..., None] * normal, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=2), 1.0, atol=1e-12)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_motion_along_the_normal_leaves_what_is_left_of_the_distance(scene, pair):
    model, _ = scene
    robot = sim.torch.Robot(model)
    q = random_poses(model, 40, 0.6, seed=3)
    distance, _, _, normal = (array.numpy()[:, 0] for array in sim.geometry_distances(model, q, [pair]))
    apart = distance > 0.0
    q, distance, normal = q[apart], distance[apart], normal[apart]
    assert len(q) > 10
    start = model.joint_q_start[model.geometries[model.geometry(pair[0])].link]
    smooth = any(name[:-1] in SMOOTH or name in SMOOTH for name in pair)
    for left in (1e-2, 1e-4, 1e-6, 1e-9, 0.0, -1e-9, -1e-6):
        moved = q.copy()
        moved[:, start : start + 3] += (distance - left)[:, None] * normal
        tracked = torch.as_tensor(moved).requires_grad_()
        found = robot.geometry_distances(tracked, [pair])
        sum(value.sum() for value in found).backward()
        assert all(torch.isfinite(value).all() for value in (*found, tracked.grad))
        if smooth or left >= 0.0:
            # Nearer than 1e-6 m, corners have other features within the 1e-9 m by which they are told apart.
            close = 1e-12 if smooth or left > 1e-5 else 3e-9
            np.testing.assert_allclose(found.distance[:, 0].detach().numpy(), left, atol=close)
        if smooth or left > 1e-5:
            np.testing.assert_allclose(found.normal[:, 0].detach().numpy(), normal, atol=1e-6)


def test_shapes_in_a_row_have_points_on_their_surfaces(scene):
    # Faces, edges and axes are parallel: which points are the nearest is open, that they are on both shapes is not.
    model, peer = scene
    rng = np.random.default_rng(0)
    q = random_poses(model, 150, 1.0)
    quarter = np.sqrt(0.5)
    turns = np.array([(0, 0, 0, 1), (quarter, 0, 0, quarter), (0, quarter, 0, quarter), (0.5, 0.5, 0.5, 0.5)])
    for start in model.joint_q_start:
        q[:, start : start + 3] = rng.integers(-4, 5, (len(q), 3)) * rng.choice([0.05, 0.1, 0.25, 0.5], (len(q), 1))
        q[:, start + 3 : start + 7] = turns[rng.integers(0, len(turns), len(q))]
    pairs = [pair for pair in PAIRS if "plane" not in pair]
    expected, _ = mujoco_distances(model, peer, q, [pair for pair in AS_MESH if "plane" not in pair])
    tracked = torch.as_tensor(q).requires_grad_()
    found = sim.torch.Robot(model).geometry_distances(tracked, pairs)
    sum(value.sum() for value in found).backward()
    assert torch.isfinite(tracked.grad).all()
    distance, point_a, point_b, _ = (value.detach().numpy() for value in found)
    assert (np.abs(distance - expected) < np.maximum(CLOSE[: len(pairs)], 1e-7)).all()
    for k, pair in enumerate(pairs):
        apart = expected[:, k] > 1e-6
        for name, points in zip(pair, (point_a, point_b), strict=True):
            beside = np.abs(height_over_surface(model, name, q[apart], points[apart, k]))
            # Discs are octagons where what lies above them in parallel is above their edge alone.
            on_disc = "cylinder1" in pair or "cylinder2" in pair
            assert (beside < (0.08 * 0.2 if on_disc else 1e-9)).all(), (pair, name)
            assert (beside < 1e-9).mean() > 0.99, (pair, name)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_shapes_of_a_kilometre_are_as_far_apart_as_those_of_a_metre(scene, dtype):
    # Rounding, which grows with the shapes, hid the features that are nearest.
    metres, _ = scene
    builder = sim.ModelBuilder()
    for geometry in metres.geometries:
        link = "world" if geometry.link < 0 else metres.link_names[geometry.link]
        if geometry.link >= 0 and link not in builder.links:
            builder.add_link(link, mass=1.0, inertia=(1.0, 1.0, 1.0))
            builder.add_joint(link, "free", child=link)
        position = {"position": 1000.0 * geometry.placement[:3], "orientation": geometry.placement[3:]}
        builder.add_geometry(
            link, geometry.type, name=geometry.name, size=1000.0 * geometry.size, mesh=geometry.mesh, **position
        )
    kilometres = builder.finalize(dtype)
    q = random_poses(metres, 50, 0.5, seed=4).astype(np.float32).astype(np.float64)
    expected = sim.geometry_distances(metres, q, PAIRS)[0].numpy()
    for link in range(metres.num_links):
        start = metres.joint_q_start[link]
        q[:, start : start + 3] *= 1000.0
    found = sim.geometry_distances(kilometres, q.astype(dtype), PAIRS)[0].numpy() / 1000.0
    np.testing.assert_allclose(found, expected, atol=1e-12 if dtype == "float64" else 5e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "most"), [("float64", 1e-6), ("float32", 1e-3)])
def test_shapes_that_just_touch(tmp_path, dtype, most):
    """Of thousands of poses in which corners, edges and rims all but touch, none is a centimetre off.

    There the search names a vertex twice, and corners that lie on the other shape have many normals.
    """
    model, _ = both(tmp_path)
    builder = sim.ModelBuilder()
    builder.add_mjcf(tmp_path / "scene.xml")
    own = builder.finalize(dtype)
    poses = random_poses(model, 3000, 0.6, seed=21)
    tried = wrong = 0
    for pair in [("box1", "box2"), ("cylinder1", "box2"), ("cylinder1", "stone2"), ("stone1", "stone2")]:
        distance, _, _, normal = (array.numpy()[:, 0] for array in sim.geometry_distances(model, poses, [pair]))
        apart = distance > 0.0
        start = model.joint_q_start[model.geometries[model.geometry(pair[0])].link]
        for left in (1e-4, 1e-9, 0.0):
            q = poses[apart]
            q[:, start : start + 3] += (distance - left)[apart, None] * normal[apart]
            found = sim.geometry_distances(own, q.astype(dtype), [pair])[0].numpy()[:, 0]
            tried += len(q)
            wrong += int((np.abs(found - left) > most).sum())
    assert tried > 20_000
    # In single precision a rim and a corner in the same place have no normal that rounding leaves.
    assert wrong <= (0 if dtype == "float64" else 5)
