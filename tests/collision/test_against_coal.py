"""Distances, normals and points of every pair with a closed form against coal, at random poses."""

import numpy as np
import pytest

from tests.collision.harness import CLOSED_PAIRS, random_bench
from tests.collision.oracle import NAMES, coal_distances
from warp_kernels.collision.pairs import BALL_PAIRS, BALLS, CLOSED_FORM
from warp_kernels.types import BOX, CAPSULE, CONVEX, ELLIPSOID, PLANE, SPHERE

WORLDS = 10_000
MARGIN = 0.15
PAIRS = [pytest.param(types, id="-".join(NAMES[t] for t in types)) for types in CLOSED_PAIRS]


@pytest.fixture(scope="module", params=PAIRS)
def compared(request):
    """A pair with its contacts and what coal says of it."""
    types = request.param
    bench = random_bench(types, WORLDS, seed=sum(types), fixed=0 if types == (PLANE, BOX) else None)
    slots = bench.detect(MARGIN)
    out = bench.evaluate(slots)
    return bench, slots, out, coal_distances(bench, bench.world_poses())


def test_poses_are_deep_touching_and_apart(compared):
    _, _, _, (distance, _, _) = compared
    for low, high in ((-1.0, -0.05), (-0.05, 0.0), (0.0, MARGIN), (MARGIN, 10.0)):
        assert ((distance > low) & (distance < high)).sum() >= 20


def test_contacts_exist_within_margin(compared):
    _, slots, _, (distance, _, _) = compared
    clear = np.abs(distance - MARGIN) > 1e-8
    np.testing.assert_array_equal(slots.count.numpy()[clear] > 0, distance[clear] < MARGIN)
    assert (slots.overflow.numpy() == 0).all()


def test_least_distance_and_its_normal_and_point(compared):
    bench, slots, out, (distance, normal, middle) = compared
    touching = np.flatnonzero(slots.count.numpy())
    deepest = np.nanargmin(out["distance"][:, touching], axis=0)
    found = {name: value[deepest, touching] for name, value in out.items()}
    # The manifold of a hull may start at a vertex that is up to 1e-6 m less deep than the deepest. Between two curved
    # shapes coal iterates until the distance is right to 1e-7; the closest point is then right to the square root of
    # that (test_ellipsoids.py compares with more digits).
    iterated = bench.types == (SPHERE, ELLIPSOID)
    bound = 1e-6 if iterated or bench.types[1] == CONVEX else 1e-9
    np.testing.assert_allclose(found["distance"], distance[touching], rtol=0.0, atol=bound)
    # Directions from centres that nearly coincide magnify rounding.
    np.testing.assert_allclose(found["frame"][:, 0], normal[touching], rtol=0.0, atol=5e-3 if iterated else 1e-7)
    # Of two vertices that are equally deep either may be the nearest point.
    single = np.abs(found["distance"] - distance[touching]) < (bound if iterated else 1e-9)
    assert (~single).sum() < 5
    error = np.abs(found["point"] + bench.reference()[touching] - middle[touching]).max(axis=1)
    assert error[single].max() < (1e-3 if iterated else 1e-7)


def test_every_contact_lies_within_margin_once(compared):
    bench, slots, out, _ = compared
    counts = slots.count.numpy()
    active = np.arange(4)[:, None] < counts
    assert (out["distance"][active] < MARGIN).all()
    assert np.isnan(out["distance"][~active]).all()
    assert (slots.pair.numpy()[active] == 0).all()
    assert (counts <= CLOSED_PAIRS[bench.types]).all()
    features = slots.feature.numpy()
    for slot in range(3):
        both = active[slot + 1]
        assert (features[slot + 1][both] > features[slot][both]).all()


def test_friction_and_restitution_are_products(compared):
    bench, slots, out, _ = compared
    active = slots.count.numpy() > 0
    for name in ("friction", "restitution"):
        np.testing.assert_allclose(out[name][0, active], bench.values[name].prod(axis=1)[active], rtol=1e-14)


@pytest.mark.parametrize("types", sorted(BALL_PAIRS))
def test_kernels_of_balls_alone_do_the_same(types):
    """A model in which all pairs have a ball has kernels that leave out the rest: both ways, to rounding."""
    alone, among_others = (random_bench(types, 300, seed=3) for _ in range(2))
    among_others.collision._only_balls = False
    assert [bench.collision.kernels_of(CLOSED_FORM) for bench in (alone, among_others)] == [BALLS, CLOSED_FORM]
    slots, other_slots = (bench.detect(0.05) for bench in (alone, among_others))
    for one, other in ((slots.pair, other_slots.pair), (slots.feature, other_slots.feature)):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    found, others = alone.evaluate(slots), among_others.evaluate(slots)
    cotangents = {name: np.ones_like(value) for name, value in found.items()}
    back, others_back = alone.gradient(slots, cotangents), among_others.gradient(slots, cotangents)
    for mine, theirs in ((found, others), (back, others_back)):
        for name, value in mine.items():
            np.testing.assert_allclose(value, theirs[name], rtol=1e-11, atol=1e-11, err_msg=name)


def test_other_shapes_need_the_whole_family():
    assert random_bench((CAPSULE, CAPSULE), 1, seed=0).collision.kernels_of(CLOSED_FORM) == CLOSED_FORM
