"""A capsule, a lying cylinder or an edge along the edge of a box or hull touches at both ends of their overlap.

Shapes are put together so that everything is known in closed form: line a is the z axis of a frame, line b is parallel
to it in the direction x, ``gap`` beyond the surface of a, and shifted along it.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.collision.harness import INPUTS, Bench, assert_same_gradients, hull_mesh
from tests.collision.oracle import NAMES
from tests.collision.test_convex import Found, check_first_contact
from tests.collision.test_convex_gradients import STEP, smooth
from tests.collision.test_gradients import differences
from tests.collision.test_manifolds import prism
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER

WORLDS = 300
SIDES = 5
ROUNDED = (CAPSULE, CYLINDER)
EDGED = [(CAPSULE, BOX), (CAPSULE, CONVEX), (BOX, CYLINDER), (CONVEX, CYLINDER)]
SMALL = (1e-12, 1e-8, 1e-6, 1e-5, 1e-4)
SHARP = [(BOX, BOX), (BOX, CONVEX), (CONVEX, CONVEX)]


def ids(pairs: list[tuple[int, int]]) -> list:
    return [pytest.param(types, id="-".join(NAMES[t] for t in types)) for types in pairs]


@dataclass
class Lines:
    """What is known of two parallel lines in many worlds, all [worlds, ...] in the world frame."""

    bench: Bench
    gap: np.ndarray
    normal: np.ndarray
    along: np.ndarray
    origin: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the overlap, midway between the surfaces."""
        middle = self.origin + 0.5 * self.gap[:, None] * self.normal
        return middle + self.lower[:, None] * self.along, middle + self.upper[:, None] * self.along


def line_of(
    kind: int, size: np.ndarray, off: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A line of a shape along its z axis: a place on it, the angle of an outward normal there about z, half its length.

    Normals on an edge are ``off`` degrees or more off those of its faces.
    """
    spread, zero = rng.uniform(-1.0, 1.0, len(size)), np.zeros(len(size))
    if kind == BOX:
        return size * (1.0, 1.0, 0.0), np.deg2rad(45.0 + (45.0 - off) * spread), size[:, 2].copy()
    if kind == CONVEX:
        return np.stack([size[:, 0], zero, zero], axis=1), np.deg2rad((180.0 / SIDES - off) * spread), size[:, 2].copy()
    angle = np.pi * spread
    return size[:, :1] * np.stack([np.cos(angle), np.sin(angle), zero], axis=1), angle, size[:, 1].copy()


def parallel_lines(types: tuple[int, int], gaps: tuple[float, ...], seed: int = 0, dtype: str = "float64",
                   same: bool = False, worlds: int = WORLDS) -> Lines:  # fmt: skip
    """Lines side by side; of equal length, end beside end, where they are the ``same``."""
    rng = np.random.default_rng([seed, *types])
    # Beside a face within 8 degrees, edges have contacts with it too.
    off = 9.0 if types in SHARP else 2.0
    bench = Bench(types, worlds, dtype=dtype, mesh=hull_mesh(prism(SIDES)) if CONVEX in types else None)
    size = rng.uniform(0.1, 0.3, (worlds, 2, 3))
    size[:, :, 1] = np.where(np.isin(types, (CONVEX,)), size[:, :, 0], size[:, :, 1])
    if same:
        size[:] = size[:, :1, :1]
    base = Rotation.random(worlds, rng=rng)
    gap = rng.choice(gaps, worlds)
    half = []
    positions = []
    for shape, kind in enumerate(types):
        position, angle, length = line_of(kind, size[:, shape], off, rng)
        half.append(length)
        # Outwards is +x for a and -x for b; some stand on their heads.
        turn = Rotation.from_rotvec(np.outer(np.pi * shape - angle, (0.0, 0.0, 1.0)))
        upright = rng.random(worlds) < 0.5
        heads = Rotation.from_rotvec(np.outer(np.where(upright, 0.0, np.pi), (1.0, 0.0, 0.0)))
        turn = heads * turn
        positions.append(-turn.apply(position))
        if kind == BOX:
            # Which of the twelve edges it is.
            other = Rotation.create_group("O")[rng.integers(24, size=worlds)]
            size[:, shape] = np.abs(other.apply(size[:, shape]))
            turn = turn * other.inv()
        bench.values["pose"][shape, :, 3:] = (base * turn).as_quat()
    shift = rng.uniform(-0.9, 0.9, worlds) * (half[0] + half[1]) * (0.0 if same else 1.0)
    positions[1] = positions[1] + np.stack([gap, 0.0 * gap, shift], axis=1)
    for shape in range(2):
        bench.values["pose"][shape, :, :3] = base.apply(positions[shape])
    bench.values["geometry_size"] = size
    normal, along = base.apply((1.0, 0.0, 0.0)), base.apply((0.0, 0.0, 1.0))
    origin = np.zeros((worlds, 3))
    return Lines(
        bench, gap, normal, along, origin, np.maximum(-half[0], shift - half[1]), np.minimum(half[0], shift + half[1])
    )


def check_ends(lines: Lines, tolerance: float) -> None:
    """Two contacts, with the distance, the normal and the points that they should have."""
    slots = lines.bench.detect(0.02)
    out = lines.bench.evaluate(slots)
    np.testing.assert_array_equal(slots.count.numpy(), 2)
    np.testing.assert_allclose(out["distance"][:2], np.tile(lines.gap, (2, 1)), rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(out["frame"][:2, :, 0], np.tile(lines.normal, (2, 1, 1)), rtol=0.0, atol=30 * tolerance)
    height = np.einsum("kwi,wi->kw", out["point"][:2], lines.along)
    order = np.argsort(height, axis=0)
    points = np.take_along_axis(out["point"][:2], order[..., None], axis=0)
    for found, expected in zip(points, lines.expected(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=10 * tolerance)


@pytest.mark.parametrize("types", ids(EDGED))
@pytest.mark.parametrize("same", [False, True])
def test_a_capsule_or_cylinder_along_an_edge_touches_at_both_ends_of_their_overlap(types, same):
    check_ends(parallel_lines(types, (1e-2, 1e-3, 1e-6, 0.0, -1e-6, -1e-3, -1e-2), same=same), 1e-9)


@pytest.mark.parametrize("types", ids(SHARP))
@pytest.mark.parametrize("same", [False, True])
def test_edges_side_by_side_touch_at_both_ends_of_their_overlap(types, same):
    check_ends(parallel_lines(types, (1e-2, 1e-3, 1e-4), same=same), 1e-9)


@pytest.mark.parametrize("types", ids(SHARP))
def test_edges_that_overlap_touch_at_both_ends_with_a_face(types):
    """The way out is across one of the four faces, along which both edges lie."""
    lines = parallel_lines(types, (-1e-6, -1e-4, -1e-2))
    slots = lines.bench.detect(0.02)
    out = lines.bench.evaluate(slots)
    height = np.einsum("kwi,wi->kw", out["point"], lines.along)
    height[out["distance"] > np.nanmin(out["distance"], axis=0) + 1e-9] = np.nan
    assert (np.isfinite(height).sum(axis=0) == 2).all()
    np.testing.assert_allclose(np.nanmin(height, axis=0), lines.lower, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(np.nanmax(height, axis=0), lines.upper, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("types", ids([*EDGED, *SHARP]))
def test_single_precision(types):
    """Sharp edges only far apart: the direction across a gap of 1 mm suffers from rounding.

    A first contact may lie beyond the end of an edge by 1e-3 of its length.
    """
    lines = parallel_lines(types, (1e-2,) if types in SHARP else (1e-2, 1e-3, 0.0, -1e-3, -1e-2), dtype="float32")
    slots = lines.bench.detect(0.02)
    out = lines.bench.evaluate(slots)
    np.testing.assert_array_equal(slots.count.numpy(), 2)
    np.testing.assert_allclose(out["distance"][:2], np.tile(lines.gap, (2, 1)), rtol=0.0, atol=1e-6)
    height = np.sort(np.einsum("kwi,wi->kw", out["point"][:2], lines.along), axis=0)
    np.testing.assert_allclose(height, [lines.lower, lines.upper], rtol=0.0, atol=6e-4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("types", ids([(CAPSULE, BOX), (BOX, CYLINDER)]))
def test_a_line_that_lies_above_an_edge_to_rounding_keeps_both_ends(types, dtype):
    """Whether it is taken to stand on the face or on the edge."""
    beyond = np.concatenate([-np.logspace(-12, -3, 60), [0.0], np.logspace(-12, -3, 60)])
    bench = Bench(types, len(beyond), dtype=dtype)
    box = types.index(BOX)
    bench.values["geometry_size"][:, box] = (0.2, 0.3, 0.1)
    bench.values["geometry_size"][:, 1 - box] = (0.1, 0.25, 0.0)
    bench.values["pose"][box, :, 2] = -0.1
    lying = Rotation.from_euler("x", 90.0, True).as_quat()
    bench.values["pose"][1 - box] = [(0.2 + x, 0.1, 0.099, *lying) for x in beyond]
    slots = bench.detect(0.02)
    out = bench.evaluate(slots)
    np.testing.assert_array_equal(slots.count.numpy(), 2)
    # Past the edge the gap to it is longer.
    gap = np.hypot(0.099, np.maximum(beyond, 0.0)) - 0.1
    np.testing.assert_allclose(
        out["distance"][:2], np.tile(gap, (2, 1)), rtol=0.0, atol=1e-5 if dtype == "float32" else 2e-9
    )
    ends = np.sort(out["point"][:2, :, 1], axis=0)
    np.testing.assert_allclose(ends, np.tile([[-0.15], [0.3]], len(beyond)), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("types", "angle"),
    [(types, angle) for types in EDGED for angle in (*SMALL, 5e-3)]
    + [(types, angle) for types in SHARP for angle in SMALL],
)
def test_nearly_parallel_lines_keep_both_ends_and_where_they_cross(types, angle):
    """Turned about their normal; sharp edges by no more than keeps one above the other all along."""
    lines = parallel_lines(types, (5e-3, 1e-3) if types in SHARP else (5e-3, 0.0, -5e-3))
    sign = np.random.default_rng(3).choice((-1.0, 1.0), WORLDS)
    pose = lines.bench.values["pose"]
    turn = Rotation.from_rotvec((angle * sign)[:, None] * lines.normal)
    pose[1, :, 3:] = (turn * Rotation.from_quat(pose[1, :, 3:])).as_quat()
    found = Found(lines.bench, 0.02)
    check_first_contact(found, 1e-9)
    # No edge moves by more than this.
    direction = angle * np.linalg.norm(pose[1, :, :3], axis=1)
    np.testing.assert_array_less(np.abs(found.least - lines.gap), 1e-9 + direction**2 / 1e-3)
    assert set(found.count) <= {2, 3}
    height = np.einsum("kwi,wi->kw", found.point, lines.along)
    np.testing.assert_array_less(np.abs(np.nanmin(height, axis=0) - lines.lower), 1e-9 + 2.0 * direction)
    np.testing.assert_array_less(np.abs(np.nanmax(height, axis=0) - lines.upper), 1e-9 + 2.0 * direction)


@pytest.mark.parametrize("types", ids([*EDGED, *SHARP]))
def test_gradients_match_central_differences(types, device):
    """In every input; sharp edges where the direction across the gap turns slowly."""
    lines = parallel_lines(types, (0.3, 0.2) if types in SHARP else (0.05, 1e-3, 0.0, -1e-3), seed=1, worlds=100)
    bench = lines.bench
    bench.values["geometry_placement"][..., 3:] *= 1.3
    slots = bench.detect(0.4)
    good = smooth(bench, slots)
    assert good[:2].all(axis=0).mean() > 0.5
    good[2:] = False
    rng = np.random.default_rng(5)
    cotangents = {}
    for name, value in bench.evaluate(slots).items():
        cotangents[name] = rng.normal(size=value.shape) * good.reshape(*good.shape, *[1] * (value.ndim - 2))
    expected = differences(bench, slots, cotangents, STEP)
    assert_same_gradients(bench, slots, cotangents, expected, INPUTS, atol=2e-6)
