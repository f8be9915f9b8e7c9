"""Gradients of the contacts of convex pairs in every input, against central differences, in every mode."""

import numpy as np
import pytest

from tests.collision.harness import CONVEX_PAIRS, INPUTS, Bench, Slots, assert_same_gradients, random_bench
from tests.collision.oracle import NAMES
from tests.collision.test_gradients import differences
from warp_kernels.collision.convex.contact import EDGES, FACE_BACK, FACE_CUT, FACE_VERTEX, OF_B, ROUND
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, SPHERE

WORLDS = 400
# Smaller than elsewhere: one Newton step about the normal of the detection is the contact to second order in a change.
STEP = 1e-5
# Which modes the random poses must show.
ON_A = {FACE_VERTEX, FACE_CUT, FACE_BACK}
ON_B = {OF_B + mode for mode in ON_A}
SEGMENT_ON_B = {OF_B + FACE_VERTEX, OF_B + FACE_CUT}
MODES = {
    (SPHERE, CONVEX): {OF_B + FACE_VERTEX, ROUND},
    (SPHERE, CYLINDER): {OF_B + FACE_VERTEX, ROUND},
    (CAPSULE, BOX): {*SEGMENT_ON_B, EDGES, ROUND},
    (CAPSULE, CONVEX): {*SEGMENT_ON_B, EDGES, ROUND},
    (CAPSULE, CYLINDER): {*SEGMENT_ON_B, EDGES, ROUND},
    (CAPSULE, ELLIPSOID): {ROUND},
    (ELLIPSOID, ELLIPSOID): {ROUND},
    **{(kind, ELLIPSOID): {FACE_VERTEX, ROUND} for kind in (BOX, CONVEX, CYLINDER)},
    **{
        (a, b): {*ON_A, *ON_B, EDGES, ROUND} for a in (BOX, CONVEX, CYLINDER) for b in (BOX, CONVEX, CYLINDER) if a <= b
    },
}
PAIRS = [pytest.param(types, id="-".join(NAMES[t] for t in types)) for types in CONVEX_PAIRS]


def smooth(bench: Bench, slots: Slots) -> np.ndarray:
    """Slots whose contact is smooth on the scale of the finite differences [slots, worlds].

    Edges cross well; the plane of a cut stands across the edge; faces above each other are not steep; a normal from a
    corner or edge has some length, and a rim's lowest point is well defined: a small change of pose moves the point and
    the normal by no more than a few times as much.
    """
    first = bench.evaluate(slots)
    active = np.arange(slots.pair.shape[0])[:, None] < slots.count.numpy()
    result = active.copy()
    rng = np.random.default_rng(9)
    for _ in range(6):
        values = {key: value.copy() for key, value in bench.values.items()}
        for key in ("geometry_placement", "geometry_size", "pose"):
            values[key] += 1e-4 * rng.normal(size=values[key].shape)
        out = bench.evaluate(slots, values)
        for name, bound in (("point", 3e-3), ("frame", 5e-3), ("distance", 3e-3)):
            change = np.abs(out[name] - first[name]).reshape(*active.shape, -1).max(axis=2)
            result &= np.nan_to_num(change, nan=np.inf) < bound
    # Tangents turn fast only near one direction.
    pole = np.array([-0.2817, -0.3672, -0.8864])
    return result & (np.linalg.norm(first["frame"][:, :, 0] - pole, axis=-1) > 0.2)


@pytest.mark.parametrize("types", PAIRS)
def test_gradients_match_central_differences(types, device):
    bench = random_bench(types, WORLDS, seed=20 + sum(types), device=device)
    slots = bench.detect(margin=0.15)
    good = smooth(bench, slots)
    count = slots.count.numpy().sum()
    assert good.sum() > 0.8 * count
    assert set(slots.feature.numpy()[good].tolist()) == MODES[types]

    rng = np.random.default_rng(5)
    cotangents = {}
    for name, value in bench.evaluate(slots).items():
        weight = good.reshape(*good.shape, *[1] * (value.ndim - 2))
        cotangents[name] = rng.normal(size=value.shape) * weight
    expected = differences(bench, slots, cotangents, STEP)
    for name in ("point", "distance"):
        assert np.abs(expected[name]["pose"][:, good.any(0)]).max(axis=(0, 2)).min() > 1e-3
    assert_same_gradients(bench, slots, cotangents, expected, INPUTS, atol=2e-6)
