"""A cylinder on a plane: which points of its rims touch, their gradients, and how it stands, falls, lies and rolls."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.collision.harness import INPUTS, OUTPUTS, Bench, Slots, assert_same_gradients, random_bench
from tests.collision.test_gradients import differences
from tests.contact.worlds import G, run
from warp_kernels.collision.shapes.cylinders import TRIANGLE
from warp_kernels.types import CYLINDER, PLANE

RADIUS, HALF = 0.1, 0.3
DEPTH = 1e-3
UPRIGHT_LIMIT = 1e-5
# Those of the triangle come last.
ALL_FEATURES = 2 * TRIANGLE + 4
# Of the rim points that are fixed to the body.
AXES = np.array([(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0)])


def cylinder_on_plane(rotation: Rotation, height: float, dtype: str = "float64") -> Bench:
    bench = Bench((PLANE, CYLINDER), 1, fixed=0, dtype=dtype)
    bench.values["geometry_size"][:, 1] = (RADIUS, HALF, 0.0)
    bench.values["pose"][0] = (0.5, -0.4, height, *rotation.as_quat())
    return bench


def touching(bench: Bench, margin: float) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Features, distances and points of the contacts found."""
    slots = bench.detect(margin)
    out = bench.evaluate(slots)
    count = slots.count.numpy()[0]
    return slots.features(0), out["distance"][:count, 0], out["point"][:count, 0]


def rim_height(tilt: float) -> float:
    """Height of the centre above the plane at which a tilted cylinder touches."""
    return HALF * np.cos(tilt) + RADIUS * np.sin(tilt)


@pytest.mark.parametrize("flip", [0.0, np.pi])
@pytest.mark.parametrize("tilt", [0.0, 1e-12, -1e-9, 0.9 * UPRIGHT_LIMIT])
def test_standing_has_the_same_four_points_whatever_the_rounding(tilt, flip):
    """Two across each other on the rim: they span a square in the disc, at their closed-form heights."""
    turn = Rotation.from_euler("z", 0.4)
    rotation = Rotation.from_euler("y", tilt) * turn * Rotation.from_euler("x", flip)
    features, distance, point = touching(cylinder_on_plane(rotation, HALF - DEPTH), 0.01)
    end = 0 if flip == 0.0 else 1
    assert features == [2 + end, 4 + end, 6 + end, 8 + end]
    arms = Rotation.from_euler("x", flip).apply(RADIUS * AXES)
    rim = Rotation.from_euler("y", tilt).apply(turn.apply(arms) - (0.0, 0.0, HALF))
    np.testing.assert_allclose(distance, rim[:, 2] + HALF - DEPTH, atol=1e-14)
    expected = rim + np.array((0.5, -0.4, HALF - DEPTH)) - 0.5 * np.outer(distance, (0.0, 0.0, 1.0))
    np.testing.assert_allclose(point, expected, atol=1e-14)
    deepest = HALF - DEPTH - rim_height(abs(tilt))
    assert -1e-14 < distance.min() - deepest < 3e-6 * RADIUS


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("tilt", [1.1 * UPRIGHT_LIMIT, 1e-3, 0.02, 0.5])
def test_tilted_has_the_deepest_point_of_the_lower_rim_and_three_on_the_axes(tilt, end, subtests):
    """Of the four on the body's axes all but the one beside it, whichever side is deepest."""
    for side in range(-7, 9):
        with subtests.test(side=side):
            check_tilted(tilt, end, side)


def check_tilted(tilt: float, end: int, side: int) -> None:
    towards = side * np.pi / 8.0 + 0.1  # of the deepest point in the body, from its x axis to its y axis
    turn = Rotation.from_euler("z", 1.1)
    body = Rotation.from_euler("z", np.pi - towards) if end == 0 else Rotation.from_euler("z", -towards)
    rotation = turn * Rotation.from_euler("y", -tilt + np.pi * end) * body
    features, distance, point = touching(cylinder_on_plane(rotation, rim_height(tilt) - DEPTH), 1.0)
    directions = np.array([(np.cos(towards), np.sin(towards), 0.0), *AXES])
    kept = [k for k in range(5) if k != 1 + np.argmax(AXES @ directions[0])]
    assert features == [2 * k + end for k in kept]
    rim = rotation.apply(RADIUS * directions[kept] + (0.0, 0.0, (2 * end - 1) * HALF))
    np.testing.assert_allclose(distance, rim[:, 2] + rim_height(tilt) - DEPTH, atol=1e-12)
    np.testing.assert_allclose(distance[0], -DEPTH, atol=1e-14)
    np.testing.assert_allclose(point[:, :2], rim[:, :2] + (0.5, -0.4), atol=1e-9)


def test_least_distance_has_no_jump_from_upright_to_tilted():
    """The deepest point of the rim in closed form, through all directions and sizes of small tilts."""
    for tilt in np.geomspace(1e-7, 1e-2, 41):
        for towards in (0.0, 0.3, np.pi / 4.0, 2.0, -2.6):
            rotation = Rotation.from_rotvec(tilt * np.array((np.cos(towards), np.sin(towards), 0.0)))
            _, distance, _ = touching(cylinder_on_plane(rotation, HALF), 0.02)
            np.testing.assert_allclose(distance.min(), HALF - rim_height(tilt), atol=3e-6 * RADIUS)


def test_far_tilted_touches_once_within_margin():
    for tilt in (0.5, 1.2):
        features, distance, _ = touching(cylinder_on_plane(Rotation.from_euler("y", tilt), rim_height(tilt)), 0.02)
        assert features == [0]
        np.testing.assert_allclose(distance, 0.0, atol=1e-14)


@pytest.mark.parametrize("tilt", [-1e-3, -1e-15, 0.0, 1e-15, 1e-3])
@pytest.mark.parametrize("roll", [0.0, 0.3, 2.0, -1.4])
def test_lying_has_both_ends_of_its_lowest_line_however_it_rolled(roll, tilt):
    rotation = Rotation.from_euler("y", np.pi / 2.0 + tilt) * Rotation.from_euler("z", roll)
    features, distance, point = touching(cylinder_on_plane(rotation, RADIUS - DEPTH), 0.02)
    assert features == [0, 1]
    heights = RADIUS * (1.0 - np.cos(tilt)) + HALF * np.sin(tilt) * np.array((1.0, -1.0)) - DEPTH
    np.testing.assert_allclose(distance, heights, atol=1e-14)
    x = 0.5 + HALF * np.cos(tilt) * np.array((-1.0, 1.0)) - RADIUS * np.sin(tilt)
    np.testing.assert_allclose(point, np.column_stack([x, [-0.4] * 2, 0.5 * heights]), atol=1e-14)


def test_turning_end_is_met_before_it_arrives():
    """The reach grows by the way of the farthest point of a rim, sqrt(r^2 + l^2) from the centre; third size unused."""
    bench = Bench((PLANE, CYLINDER), 3, fixed=0)
    bench.values["geometry_size"][:, 1] = (0.3, 0.4, 5.0)
    bench.values["origin"][0, :, 2] = 1.0
    bench.values["pose"][0, :, 3:] = Rotation.from_euler("y", 0.5).as_quat()
    lowest = 1.0 - 0.4 * np.cos(0.5) - 0.3 * np.sin(0.5)
    velocity = np.zeros((1, 3, 6))
    velocity[0, :, 1] = (0.0, 0.99, 1.01)
    velocity *= (lowest - 0.01) / (0.1 * np.hypot(0.3, 0.4))
    assert bench.detect(0.01, velocity=velocity, dt=0.1).count.numpy().tolist() == [0, 0, 1]


def forced(bench: Bench, features: list[int]) -> Slots:
    """Slots of given features, whatever the pose."""
    slots = Slots.empty(len(features), bench.num_worlds, bench.device, bench.dtype)
    slots.pair.zero_()
    slots.feature.assign(np.tile(np.array(features, dtype=np.int32)[:, None], bench.num_worlds))
    slots.count.fill_(len(features))
    return slots


def test_gradients_of_every_feature_match_central_differences(device):
    """Random poses, away from the axis along the normal for the points that follow the deepest side."""
    bench = random_bench((PLANE, CYLINDER), 100, seed=4, device=device)
    slots = forced(bench, list(range(ALL_FEATURES)))
    plane, cylinder = (Rotation.from_quat(pose[:, 3:]).as_matrix()[:, :, 2] for pose in bench.world_poses())
    # Tangents turn fast near one normal.
    good = np.linalg.norm(np.cross(plane, cylinder), axis=1) > 0.2
    good &= np.linalg.norm(plane - (-0.2817, -0.3672, -0.8864), axis=1) > 0.2
    assert good.sum() > 80
    compare_gradients(bench, slots, good)


@pytest.mark.parametrize("end", [0, 1])
def test_gradients_of_the_points_of_a_standing_cylinder_match_central_differences(end):
    """Within the tilts where the detection chooses them, the axis along the normal included."""
    bench = random_bench((PLANE, CYLINDER), 20, seed=6, fixed=0)
    rng = np.random.default_rng(1)
    plane = Rotation.from_quat(bench.world_poses()[0][:, 3:])
    tilt = Rotation.from_rotvec(np.linspace(0.0, 0.5 * UPRIGHT_LIMIT, 20)[:, None] * (0.6, 0.8, 0.0))
    turn = Rotation.from_euler("z", rng.uniform(-3.0, 3.0, (20, 1)))
    wanted = plane * tilt * Rotation.from_euler("x", np.pi * end) * turn
    bench.values["geometry_placement"][:, 1, 3:] = (0.0, 0.0, 0.0, 1.0)
    bench.values["pose"][0, :, 3:] = wanted.as_quat()
    slots = bench.detect(10.0)
    for world in range(20):
        assert slots.features(world) == [2 + end, 4 + end, 6 + end, 8 + end]
    normal = plane.as_matrix()[:, :, 2]
    compare_gradients(bench, slots, np.linalg.norm(normal - (-0.2817, -0.3672, -0.8864), axis=1) > 0.2)


def compare_gradients(bench: Bench, slots: Slots, good: np.ndarray) -> None:
    rng = np.random.default_rng(5)
    cotangents = {name: rng.normal(size=value.shape) for name, value in bench.evaluate(slots).items()}
    expected = differences(bench, slots, cotangents)
    assert_same_gradients(bench, slots, cotangents, expected, INPUTS, good)
    # The comparison isn't one of zeros.
    for name in ("distance", "point"):
        assert np.abs(expected[name]["geometry_size"][good, 1, :2]).max(axis=1).min() > 1e-3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("tilt", [0.0, 1e-30, 1e-20, 1e-9])
def test_every_feature_stays_finite_where_no_side_is_deepest(tilt, dtype):
    bench = cylinder_on_plane(Rotation.identity(), HALF, dtype)
    bench.values["pose"][0, :, 3] = 0.5 * tilt
    slots = forced(bench, list(range(ALL_FEATURES)))
    out = bench.evaluate(slots)
    for name in OUTPUTS:
        assert np.isfinite(out[name]).all()
        for gradient in bench.gradient(slots, {name: np.ones_like(out[name])}).values():
            assert np.isfinite(gradient).all()


def loose_cylinder(
    rotation: Rotation, height: float, *, half: float = HALF, friction: float = 0.8, dtype: str = "float64"
) -> sim.Model:
    """A free solid cylinder of 2 kg above the ground."""
    mass = 2.0
    across = mass * (RADIUS**2 / 4.0 + half**2 / 3.0)
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=friction))
    builder.add_link("log", mass=mass, inertia=(across, across, 0.5 * mass * RADIUS**2))
    builder.add_joint("free", "free", child="log", position=(0.0, 0.0, height), orientation=rotation.as_quat())
    builder.add_geometry("log", CYLINDER, size=(RADIUS, half, 0.0))
    return builder.finalize(dtype)


def test_rolling_without_slipping_keeps_its_speed():
    """For 1 s and 3.2 turns, with the axis along y turned about the vertical: no feature change is felt."""
    turn = Rotation.from_euler("z", 0.3)
    model = loose_cylinder(turn * Rotation.from_euler("x", np.pi / 2.0), RADIUS)
    speed = 2.0
    v, w = turn.apply((speed, 0.0, 0.0)), turn.apply((0.0, speed / RADIUS, 0.0))
    q, qd, _ = run(model, 1.0, [*v, *w])
    np.testing.assert_allclose(qd, np.tile([*v, *w], (len(qd), 1)), atol=1e-9)
    np.testing.assert_allclose(q[-1, :3], v + np.array((0.0, 0.0, RADIUS)), atol=1e-9)


def test_sliding_turns_into_rolling_at_two_thirds_of_the_speed():
    """A solid cylinder's share v (1 - 1 / (1 + m r^2 / I)); it slips for v / (3 mu g)."""
    model = loose_cylinder(Rotation.from_euler("x", np.pi / 2.0), RADIUS, friction=0.5)
    speed, slips = 1.0, 1.0 / (3.0 * 0.5 * G)
    _, qd, _ = run(model, 0.3, [speed, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(qd[-1], [2 / 3 * speed, 0, 0, 0, 2 / 3 * speed / RADIUS, 0], atol=1e-9)
    early = round(0.5 * slips / 1e-3)
    np.testing.assert_allclose(qd[early, 0], speed - 0.5 * G * early * 1e-3, atol=1e-9)


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-10), ("float32", 1e-5)])
@pytest.mark.parametrize("end", [0, 1])
def test_standing_stays_still(end, dtype, bound):
    model = loose_cylinder(Rotation.from_euler("xz", (np.pi * end, 0.7)), HALF, dtype=dtype)
    q, qd, simulator = run(model, 1.0)
    np.testing.assert_allclose(q, np.tile(q[0], (len(q), 1)), atol=bound)
    # Rounding of one step's velocity: h times it moves nothing.
    np.testing.assert_allclose(qd, 0.0, atol=100.0 * bound)
    assert simulator.contact_overflow.sum() == 0


def test_dropped_tilted_comes_to_stand_on_its_end():
    """A squat cylinder let go 3 degrees off upright, through the change of its features."""
    model = loose_cylinder(Rotation.from_euler("xy", (0.05, 0.02)), 0.1, half=0.05)
    q, qd, _ = run(model, 1.0)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-6)
    np.testing.assert_allclose(q[-1, 2], 0.05, atol=1e-6)
    axis = Rotation.from_quat(q[-1, 3:]).as_matrix()[:, 2]
    np.testing.assert_allclose(axis, (0.0, 0.0, 1.0), atol=1e-6)
