"""Where a direction or a place is not defined, numbers stay finite and normals stay of unit length."""

import numpy as np
import pytest

from tests.collision.harness import OUTPUTS, Bench
from warp_kernels.types import BOX, CAPSULE, CYLINDER, ELLIPSOID, PLANE, SPHERE

HALF_TURN_ABOUT_X = (1.0, 0.0, 0.0, 0.0)
QUARTER_TURN_ABOUT_X = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
CASES = {
    "coincident spheres": ((SPHERE, SPHERE), (0, 0, 0), UPRIGHT, (1, 1, 1), (1, 1, 1)),
    "spheres 1e-12 apart": ((SPHERE, SPHERE), (1e-12, 0, 0), UPRIGHT, (1, 1, 1), (1, 1, 1)),
    "points": ((SPHERE, SPHERE), (0, 0, 0), UPRIGHT, (0, 0, 0), (0, 0, 0)),
    "sphere on axis of capsule": ((SPHERE, CAPSULE), (0, 0, 0.2), UPRIGHT, (0.1, 0, 0), (0.1, 0.5, 0)),
    "sphere at end of axis": ((SPHERE, CAPSULE), (0, 0, 0.5), UPRIGHT, (0.1, 0, 0), (0.1, 0.5, 0)),
    "sphere in capsule of no length": ((SPHERE, CAPSULE), (0, 0, 0), UPRIGHT, (0.1, 0, 0), (0.1, 0, 0)),
    "coincident capsules": ((CAPSULE, CAPSULE), (0, 0, 0), UPRIGHT, (0.1, 0.5, 0), (0.1, 0.5, 0)),
    "opposite capsules": ((CAPSULE, CAPSULE), (0, 0, 0), HALF_TURN_ABOUT_X, (0.1, 0.5, 0), (0.1, 0.5, 0)),
    "crossing capsules": ((CAPSULE, CAPSULE), (0, 0, 0), QUARTER_TURN_ABOUT_X, (0.1, 0.5, 0), (0.1, 0.5, 0)),
    "capsules in line": ((CAPSULE, CAPSULE), (0, 0, 1.0), UPRIGHT, (0.1, 0.5, 0), (0.1, 0.5, 0)),
    "capsules of no length": ((CAPSULE, CAPSULE), (0, 0, 0), UPRIGHT, (0.1, 0, 0), (0.1, 0, 0)),
    "sphere at centre of cube": ((SPHERE, BOX), (0, 0, 0), UPRIGHT, (0.1, 0, 0), (0.5, 0.5, 0.5)),
    "sphere on face": ((SPHERE, BOX), (0, 0, 0.5), UPRIGHT, (0.1, 0, 0), (0.5, 0.5, 0.5)),
    "sphere on edge": ((SPHERE, BOX), (0, 0.5, 0.5), UPRIGHT, (0.1, 0, 0), (0.5, 0.5, 0.5)),
    "sphere on corner": ((SPHERE, BOX), (0.5, 0.5, 0.5), UPRIGHT, (0.1, 0, 0), (0.5, 0.5, 0.5)),
    "sphere 1e-12 off corner": ((SPHERE, BOX), (0.5 + 1e-12,) * 3, UPRIGHT, (0.1, 0, 0), (0.5, 0.5, 0.5)),
    "upright cylinder": ((PLANE, CYLINDER), (0, 0, -0.5), UPRIGHT, (0, 0, 0), (0.1, 0.5, 0)),
    "cylinder on its head": ((PLANE, CYLINDER), (0, 0, 0.5), HALF_TURN_ABOUT_X, (0, 0, 0), (0.1, 0.5, 0)),
    "lying cylinder": ((PLANE, CYLINDER), (0, 0.1, 0), QUARTER_TURN_ABOUT_X, (0, 0, 0), (0.1, 0.5, 0)),
    "cylinder of no extent": ((PLANE, CYLINDER), (0, 0, 0), UPRIGHT, (0, 0, 0), (0, 0, 0)),
    "upright ellipsoid": ((PLANE, ELLIPSOID), (0, 0, -0.2), UPRIGHT, (0, 0, 0), (0.1, 0.5, 0.2)),
    "ellipsoid of no extent": ((PLANE, ELLIPSOID), (0, 0, 0), UPRIGHT, (0, 0, 0), (0, 0, 0)),
    "sphere at centre of ellipsoid": ((SPHERE, ELLIPSOID), (0, 0, 0), UPRIGHT, (0.1, 0, 0), (0.5, 0.3, 0.4)),
    "sphere at centre of ball": ((SPHERE, ELLIPSOID), (0, 0, 0), UPRIGHT, (0.1, 0, 0), (0.5, 0.5, 0.5)),
    "sphere at focus of ellipsoid": ((SPHERE, ELLIPSOID), (0.4, 0, 0), UPRIGHT, (0.1, 0, 0), (0.5, 0.3, 0.3)),
    "sphere at edge of medial disc": ((SPHERE, ELLIPSOID), (0.32, 0, 0), UPRIGHT, (0.1, 0, 0), (0.5, 0.3, 0.3)),
    "sphere in plate of no thickness": ((SPHERE, ELLIPSOID), (0.1, 0, 0), UPRIGHT, (0.1, 0, 0), (0.5, 0.5, 0)),
    "sphere in ellipsoid of no extent": ((SPHERE, ELLIPSOID), (0, 0, 0), UPRIGHT, (0.1, 0, 0), (0, 0, 0)),
    "sphere above ellipsoid of no extent": ((SPHERE, ELLIPSOID), (0.1, 0, 0), UPRIGHT, (0.1, 0, 0), (0, 0, 0)),
    "box of no extent": ((SPHERE, BOX), (0, 0, 0), UPRIGHT, (0.1, 0, 0), (0, 0, 0)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_numbers_stay_finite(name, dtype):
    types, position, quaternion, size_a, size_b = CASES[name]
    bench = Bench(types, 1, dtype=dtype)
    # The position is that of a, seen from b.
    bench.values["pose"][0, 0] = (*position, *quaternion)
    bench.values["geometry_size"][0] = (size_a, size_b)
    slots = bench.detect(0.01)
    count = slots.count.numpy()[0]
    assert count >= 1
    out = {key: value[:count, 0] for key, value in bench.evaluate(slots).items()}
    for key in OUTPUTS:
        assert np.isfinite(out[key]).all()
        cotangent = np.ones_like(bench.evaluate(slots)[key])
        for gradient in bench.gradient(slots, {key: cotangent}).values():
            assert np.isfinite(gradient).all()
    for frame in out["frame"]:
        np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-6 if dtype == "float32" else 1e-14)


def test_coincident_centres_are_as_deep_as_their_radii_and_push_along_the_same_axis():
    bench = Bench((SPHERE, SPHERE), 1)
    bench.values["geometry_size"][0] = ((0.2, 0, 0), (0.3, 0, 0))
    slots = bench.detect(0.01)
    out = bench.evaluate(slots)
    np.testing.assert_allclose(out["distance"][0, 0], -0.5)
    np.testing.assert_allclose(out["frame"][0, 0, 0], (0.0, 0.0, 1.0))
    gradient = bench.gradient(slots, {"distance": np.ones((4, 1))})["pose"]
    np.testing.assert_allclose(gradient[:, 0, :3], [(0.0, 0.0, -1.0), (0.0, 0.0, 1.0)])
