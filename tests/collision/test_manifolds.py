"""Which contacts are found: faces, lying and parallel capsules, hulls with many vertices, and what finds no room."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from sim.simulation.stepping.collision import candidate_pairs
from tests.collision.harness import Bench, Slots, hull_mesh, random_bench
from warp_kernels.types import BOX, CAPSULE, CONVEX, PLANE, SPHERE

SQUARE = np.array([(x, y) for x in (-1.0, 1.0) for y in (-1.0, 1.0)])


def set_pose(bench: Bench, geometry: int, position, rotation: Rotation | None = None) -> None:
    """Put a geometry's link at a position in all worlds, relative to the world as its tree's origin is zero."""
    q = (rotation or Rotation.identity()).as_quat()
    bench.values["pose"][bench.model.geometries[geometry].link] = np.concatenate([position, q])


def box_on_plane(rotation: Rotation, height: float, half_extents=(0.3, 0.2, 0.1)) -> Bench:
    bench = Bench((PLANE, BOX), 1, fixed=0)
    bench.values["geometry_size"][:, 1] = half_extents
    set_pose(bench, 1, (0.5, -0.4, height), rotation)
    return bench


@pytest.mark.parametrize("down", range(6))
def test_box_face_on_plane_gives_its_four_corners(down):
    """Whichever face is down and however it is turned about the vertical, with the box 1 mm deep."""
    face = Rotation.from_euler(
        "xyz", [(0, 0, 0), (180, 0, 0), (90, 0, 0), (-90, 0, 0), (0, 90, 0), (0, -90, 0)][down], True
    )
    turn = Rotation.from_euler("z", 0.3)
    extents = np.array((0.3, 0.2, 0.1))
    x, y, z = np.abs(face.apply(extents))
    bench = box_on_plane(turn * face, z - 1e-3, extents)
    slots = bench.detect(0.01)
    out = bench.evaluate(slots)
    assert slots.count.numpy()[0] == 4
    np.testing.assert_allclose(out["distance"][:, 0], -1e-3, atol=1e-14)
    np.testing.assert_allclose(out["frame"][:, 0], np.tile(np.roll(np.eye(3), 1, axis=0), (4, 1, 1)), atol=1e-15)
    corners = np.column_stack([SQUARE * (x, y), np.full(4, -z)])
    expected = turn.apply(corners) + np.array((0.5, -0.4, z - 1e-3 + 0.5e-3))
    found = out["point"][:, 0]
    nearest = np.linalg.norm(found[:, None] - expected, axis=2).argmin(1)
    assert sorted(nearest) == [0, 1, 2, 3]
    np.testing.assert_allclose(found, expected[nearest], atol=1e-14)


def test_plate_thinner_than_margin_gives_corners_of_lower_face():
    bench = box_on_plane(Rotation.from_euler("x", 1e-3), 5e-4, (0.3, 0.2, 1e-3))
    slots = bench.detect(0.02)
    assert slots.features(0) == [0, 1, 2, 3]


def test_box_on_edge_gives_two_corners_and_on_corner_one():
    edge = box_on_plane(Rotation.from_euler("x", 45.0, True), 0.3 / np.sqrt(2.0) - 1e-3)
    assert edge.detect(5e-3).count.numpy()[0] == 2
    lowest = Rotation.align_vectors([(0.0, 0.0, -1.0)], [(0.3, 0.2, 0.1)])[0]
    corner = box_on_plane(lowest, np.linalg.norm((0.3, 0.2, 0.1)) - 1e-3)
    assert corner.detect(5e-3).features(0) == [7]


def test_deepest_corner_is_always_among_those_of_box():
    bench = random_bench((PLANE, BOX), 500, seed=3)
    slots = bench.detect(10.0)
    out = bench.evaluate(slots)
    plane, box = bench.world_poses()
    corners = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    points = np.einsum(
        "wij,wkj->wki", Rotation.from_quat(box[:, 3:]).as_matrix(), corners * bench.values["geometry_size"][:, 1, None]
    )
    normal = Rotation.from_quat(plane[:, 3:]).as_matrix()[:, :, 2]
    heights = np.einsum("wi,wki->wk", normal, points + box[:, None, :3] - plane[:, None, :3])
    np.testing.assert_allclose(out["distance"].min(0), heights.min(1), atol=1e-12)


def test_capsule_lying_on_plane_gives_both_ends():
    bench = Bench((PLANE, CAPSULE), 1, fixed=0)
    bench.values["geometry_size"][:, 1] = (0.1, 0.4, 0.0)
    set_pose(bench, 1, (0.0, 0.0, 0.099), Rotation.from_euler("y", 90.0, True))
    slots = bench.detect(0.01)
    out = bench.evaluate(slots)
    assert slots.features(0) == [1, 2]
    np.testing.assert_allclose(out["distance"][:2, 0], -1e-3, atol=1e-15)
    np.testing.assert_allclose(out["point"][:2, 0], [(-0.4, 0.0, -5e-4), (0.4, 0.0, -5e-4)], atol=1e-15)


def test_tilted_capsule_gives_only_end_within_margin():
    bench = Bench((PLANE, CAPSULE), 1, fixed=0)
    bench.values["geometry_size"][:, 1] = (0.1, 0.4, 0.0)
    set_pose(bench, 1, (0.0, 0.0, 0.3), Rotation.from_euler("y", 120.0, True))
    assert bench.detect(0.05).features(0) == [2]


def parallel_capsules(shift: float, tilt: float = 0.0, flip: bool = False, halves=(0.3, 0.3)) -> Bench:
    """b lies above a, both along z of their frames, turned to x; shifted along x and tilted towards a."""
    bench = Bench((CAPSULE, CAPSULE), 1)
    bench.values["geometry_size"][:, 0] = (0.1, halves[0], 0.0)
    bench.values["geometry_size"][:, 1] = (0.05, halves[1], 0.0)
    along_x = Rotation.from_euler("y", 90.0, True)
    turned = Rotation.from_euler("y", tilt + (np.pi if flip else 0.0)) * along_x
    set_pose(bench, 0, (0.0, 0.0, 0.0), along_x)
    set_pose(bench, 1, (shift, 0.0, 0.149), turned)
    return bench


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    ("shift", "halves", "ends"),
    [
        (0.0, (0.3, 0.3), (-0.3, 0.3)),
        (0.2, (0.3, 0.3), (-0.1, 0.3)),
        (-0.2, (0.3, 0.3), (-0.3, 0.1)),
        (0.1, (0.5, 0.2), (-0.1, 0.3)),
        (0.1, (0.2, 0.5), (-0.2, 0.2)),
    ],
)
def test_parallel_capsules_touch_at_ends_of_overlap(shift, halves, ends, flip):
    bench = parallel_capsules(shift, flip=flip, halves=halves)
    slots = bench.detect(0.01)
    out = bench.evaluate(slots)
    assert slots.count.numpy()[0] == 2
    np.testing.assert_allclose(out["distance"][:2, 0], -1e-3, atol=1e-14)
    np.testing.assert_allclose(out["frame"][:2, 0, 0], [(0.0, 0.0, 1.0)] * 2, atol=1e-14)
    points = out["point"][:2, 0]
    np.testing.assert_allclose(np.sort(points[:, 0]), ends, atol=1e-14)
    np.testing.assert_allclose(points[:, 2], 0.0995, atol=1e-14)


def test_parallel_capsules_end_to_end_touch_once():
    bench = parallel_capsules(0.7)
    bench.values["pose"][1, :, 2] = 0.0
    slots = bench.detect(0.01)
    out = bench.evaluate(slots)
    assert slots.features(0) == [3 * 2 + 1]
    np.testing.assert_allclose(out["distance"][0, 0], 0.1 - 0.15, atol=1e-14)
    np.testing.assert_allclose(out["frame"][0, 0, 0], (1.0, 0.0, 0.0), atol=1e-14)


def test_nearly_parallel_capsules_have_two_contacts_and_the_rounding_of_an_angle_changes_nothing():
    found = {tuple(parallel_capsules(0.2, tilt).detect(0.05).features(0)) for tilt in (-5e-3, -1e-12, 0.0, 1e-12, 5e-3)}
    assert len(found) == 1
    assert len(found.pop()) == 2
    assert parallel_capsules(0.2, 0.02).detect(0.05).count.numpy()[0] == 1


def prism(sides: int) -> np.ndarray:
    angles = 2.0 * np.pi * np.arange(sides) / sides
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    return np.concatenate([np.column_stack([ring, np.full(sides, z)]) for z in (-1.0, 1.0)])


def prism_on_plane(sides: int, tilt: Rotation | None = None) -> Bench:
    bench = Bench((PLANE, CONVEX), 1, fixed=0, mesh=hull_mesh(prism(sides)))
    bench.values["geometry_size"][:, 1] = (0.2, 0.2, 0.3)
    set_pose(bench, 1, (0.0, 0.0, 0.299), tilt)
    return bench


def polygon_area(points: np.ndarray) -> float:
    centred = points - points.mean(0)
    x, y = centred[np.argsort(np.arctan2(centred[:, 1], centred[:, 0]))].T
    return 0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def test_hull_face_with_four_vertices_gives_all():
    slots = prism_on_plane(4).detect(0.01)
    assert slots.count.numpy()[0] == 4


@pytest.mark.parametrize("sides", [5, 8, 16, 40])
def test_hull_face_with_many_vertices_gives_four_that_span_it(sides):
    bench = prism_on_plane(sides)
    slots = bench.detect(0.01)
    assert slots.count.numpy()[0] == 4
    points = bench.evaluate(slots)["point"][:, 0]
    # The largest quadrilateral in a circle has the area 2 r^2; one on the vertices of a pentagon has 83 % of it.
    assert polygon_area(points[:, :2]) > 0.8 * 2.0 * 0.2**2
    np.testing.assert_allclose(points[:, 2], -5e-4, atol=1e-14)


def test_rounding_does_not_change_manifold_of_hull():
    tilts = [
        Rotation.from_rotvec(1e-9 * np.array(axis))
        for axis in ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (1, 1, 1))
    ]
    found = {tuple(prism_on_plane(16, tilt).detect(0.01).features(0)) for tilt in (None, *tilts)}
    assert len(found) == 1


def test_tilted_hull_has_its_deepest_vertex():
    bench = prism_on_plane(16, Rotation.from_rotvec((0.03, -0.02, 0.0)))
    slots = bench.detect(0.1)
    vertices = Rotation.from_rotvec((0.03, -0.02, 0.0)).apply(bench.mesh.vertices * (0.2, 0.2, 0.3))
    assert slots.count.numpy()[0] == 4
    np.testing.assert_allclose(bench.evaluate(slots)["distance"].min(), vertices[:, 2].min() + 0.299, atol=1e-14)


@pytest.mark.parametrize("tilt", [0.0, 5e-5, 5e-3])
def test_hull_with_bevelled_edges_lies_on_its_face(tilt):
    """The corners of the face, not those of the bevels around it, which are farther out and within the margin too."""
    rims = [np.column_stack([SQUARE * half, np.full(4, z)]) for half, z in ((0.19, -0.1), (0.2, -0.09), (0.2, 0.1))]
    bench = Bench((PLANE, CONVEX), 1, fixed=0, mesh=hull_mesh(np.concatenate(rims)))
    set_pose(bench, 1, (0.0, 0.0, 0.099), Rotation.from_rotvec((0.6 * tilt, 0.8 * tilt, 0.0)))
    slots = bench.detect(0.02)
    points = bench.evaluate(slots)["point"][:, 0]
    assert slots.count.numpy()[0] == 4
    np.testing.assert_allclose(np.abs(points[:, :2]), 0.19, atol=0.2 * tilt + 1e-12)


def test_collinear_vertices_within_margin_are_cut_down_to_the_outer_two():
    points = np.concatenate(
        [
            np.column_stack([np.linspace(-1, 1, 7), np.zeros(7), -1.0 + 0.005 * np.linspace(-1, 1, 7) ** 2]),
            prism(4) * (1, 1, 0.2),
        ]
    )
    bench = Bench((PLANE, CONVEX), 1, fixed=0, mesh=hull_mesh(points))
    set_pose(bench, 1, (0.0, 0.0, 0.99))
    slots = bench.detect(0.05)
    out = bench.evaluate(slots)
    x = out["point"][: slots.count.numpy()[0], 0, 0]
    assert x.min() == -1.0
    assert x.max() == 1.0


@pytest.mark.parametrize(("room", "count", "overflow"), [(0, 0, 4), (1, 1, 3), (3, 3, 1), (4, 4, 0), (6, 4, 0)])
def test_contacts_without_room_are_counted_and_nothing_is_written_past_the_end(room, count, overflow):
    bench = box_on_plane(Rotation.identity(), 0.099)
    guarded = Slots.empty(8, 1)
    details = tuple(array[:room] for array in guarded.details)
    part = dataclasses.replace(guarded, pair=guarded.pair[:room], feature=guarded.feature[:room], details=details)
    bench.fill(part, 0.01)
    assert guarded.count.numpy()[0] == count
    assert guarded.overflow.numpy()[0] == overflow
    assert guarded.feature.numpy()[:count, 0].tolist() == [0, 1, 2, 3][:count]
    assert (guarded.pair.numpy()[count:] == -7).all()
    assert (guarded.feature.numpy()[count:] == -7).all()


def test_detection_is_the_same_on_every_run():
    bench = random_bench((CAPSULE, CAPSULE), 300, seed=8)
    first, second = bench.detect(0.2), bench.detect(0.2)
    for name in ("pair", "feature", "count", "overflow"):
        np.testing.assert_array_equal(getattr(first, name).numpy(), getattr(second, name).numpy())


def test_sphere_through_face_of_box_changes_nothing_but_the_distance():
    bench = Bench((SPHERE, BOX), 201)
    bench.values["geometry_size"][:, 0] = 0.1
    bench.values["geometry_size"][:, 1] = (0.5, 0.6, 0.7)
    heights = np.linspace(0.25, 0.65, 201)
    bench.values["pose"][0, :, :3] = np.column_stack([heights, np.full(201, 0.05), np.full(201, 0.1)])
    slots = bench.detect(0.2)
    out = bench.evaluate(slots)
    assert set(slots.feature.numpy()[0].tolist()) == {2}
    np.testing.assert_allclose(out["distance"][0], heights - 0.6, atol=1e-14)
    np.testing.assert_allclose(out["frame"][0, :, 0], np.tile((-1.0, 0.0, 0.0), (201, 1)), atol=1e-15)


def test_slots_of_a_scene_follow_the_order_of_pairs():
    """Two balls that touch, a box and a ball on the ground, another ball in the air."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5, restitution=0.4))
    for position in ((0.0, 0.0, 0.1), (0.0, 0.19, 0.1), (5.0, 0.0, 3.0)):
        builder.add_sphere(radius=0.1, mass=1.0, position=position, surface=sim.Surface(friction=0.6, restitution=0.5))
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(-3.0, 0.0, 0.1))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 1 / 240, device="cpu", contact=sim.HardContact(margin=0.01))
    simulator.step(simulator.state(simulator.model.q0))
    step = simulator.engine.shards[0].step
    found = step.contact_stage.slot_pair.numpy()[: step.contact_stage.contact_count.numpy()[0], 0]
    pair_a, pair_b = candidate_pairs(model)
    assert list(zip(pair_a[found], pair_b[found], strict=True)) == [(0, 1), (0, 2), *[(0, 4)] * 4, (1, 2)]
    np.testing.assert_allclose(step.contact_stage.contact_distance.numpy()[:7, 0], [0.0] * 6 + [-0.01], atol=1e-14)
    np.testing.assert_allclose(step.contact_stage.contact_friction.numpy()[:7, 0], [0.3, 0.3, *[0.5] * 4, 0.36])
    np.testing.assert_allclose(step.contact_stage.contact_restitution.numpy()[:7, 0], [0.2, 0.2, *[0.0] * 4, 0.25])


def test_a_fast_ball_is_met_before_it_arrives() -> None:
    """The reach grows with the way that two geometries close within the step, turning included."""
    bench = Bench((PLANE, SPHERE), 3, fixed=0)
    bench.values["geometry_size"][:, 1] = 0.1
    link = bench.model.geometries[1].link
    bench.values["origin"][link] = (0.0, 0.0, 0.5)
    velocity = np.zeros((bench.model.num_links, 3, 6))
    velocity[link, :, 5] = (0.0, -3.8, -4.2)
    slots = bench.detect(0.01, velocity=velocity, dt=0.1)
    assert slots.count.numpy().tolist() == [0, 0, 1]  # 0.4 m away, 0.01 m of margin
