"""Gradients of the evaluated contacts in every input, against central differences, for every feature of every pair."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.collision.harness import CLOSED_PAIRS, INPUTS, Bench, Slots, random_bench
from tests.collision.oracle import NAMES
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, PLANE, SPHERE

WORLDS = 600
# Central differences of fourth order: the step may be so large that rounding doesn't matter.
STEP = 2e-4
STENCIL = ((-2.0, 1.0 / 12.0), (-1.0, -2.0 / 3.0), (1.0, 2.0 / 3.0), (2.0, -1.0 / 12.0))
# Which features the random poses must show: zones of a box other than the inside, modes of both capsules, points of a
# cylinder's rims (an upright one is in test_cylinders.py).
FEATURES = {
    (PLANE, SPHERE): {0},
    (PLANE, CAPSULE): {1, 2},
    (PLANE, BOX): set(range(8)),
    (PLANE, CONVEX): set(range(24)),
    (PLANE, CYLINDER): set(range(10)),
    (PLANE, ELLIPSOID): {0},
    (SPHERE, SPHERE): {0},
    (SPHERE, CAPSULE): {0, 1, 2},
    (SPHERE, BOX): set(range(1, 27)),
    (SPHERE, ELLIPSOID): {0},
    (CAPSULE, CAPSULE): set(range(9)),
}
CASES = [
    pytest.param(types, fixed, id=f"{NAMES[types[0]]}-{NAMES[types[1]]}-fixed-{fixed}")
    for types in CLOSED_PAIRS
    for fixed in ((None, 0) if types[0] == PLANE else (None, 0, 1) if types == (SPHERE, BOX) else (None,))
]


def differences(
    bench: Bench, slots: Slots, cotangents: dict[str, np.ndarray], step: float = STEP
) -> dict[str, dict[str, np.ndarray]]:
    """For each output the derivative of its contraction with the cotangents in each input, by central differences."""
    active = np.arange(slots.pair.shape[0])[:, None] < slots.count.numpy()

    def contracted(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        out = bench.evaluate(slots, values)
        shape = active.shape
        return {
            name: np.where(active, (out[name] * cotangents[name]).reshape(*shape, -1).sum(-1), 0.0).sum(0)
            for name in cotangents
        }

    result = {name: {key: np.zeros_like(value) for key, value in bench.values.items()} for name in cotangents}
    for key in bench.values:
        world_axis = 1 if key in ("pose", "origin") else 0
        value = bench.values[key]
        per_world = np.moveaxis(value, world_axis, 0)
        for index in np.ndindex(per_world.shape[1:]):
            for steps, weight in STENCIL:
                changed = value.copy()
                np.moveaxis(changed, world_axis, 0)[(slice(None), *index)] += steps * step
                for name, number in contracted({**bench.values, key: changed}).items():
                    np.moveaxis(result[name][key], world_axis, 0)[(slice(None), *index)] += weight / step * number
    return result


def well_conditioned(bench: Bench, slots: Slots) -> np.ndarray:
    """Worlds whose contacts are smooth on the scale of the finite differences [worlds]."""
    out = bench.evaluate(slots)
    radius = bench.values["geometry_size"][:, :, 0] * (np.isin(bench.types, (SPHERE, CAPSULE)))
    gap = np.nanmin(out["distance"] + radius.sum(1), axis=0, initial=1.0)
    normal = out["frame"][:, :, 0]
    good = np.ones(bench.num_worlds, dtype=bool)
    if bench.types[0] != PLANE and bench.types != (SPHERE, BOX):
        good &= gap > 0.05
    if bench.types == (SPHERE, BOX):
        zones = np.stack([slots.feature.numpy()[0] // 3**k % 3 for k in range(3)])
        good &= ((zones > 0).sum(0) == 1) | (gap > 0.05)
    if bench.types == (CAPSULE, CAPSULE):
        axes = [Rotation.from_quat(pose[:, 3:]).as_matrix()[:, :, 2] for pose in bench.world_poses()]
        good &= np.linalg.norm(np.cross(*axes), axis=1) > 0.3
    if bench.types == (PLANE, CYLINDER):
        plane, cylinder = (Rotation.from_quat(pose[:, 3:]).as_matrix()[:, :, 2] for pose in bench.world_poses())
        good &= np.linalg.norm(np.cross(plane, cylinder), axis=1) > 0.15
    # Tangents turn fast only near one direction.
    pole = np.array([-0.2817, -0.3672, -0.8864])
    return good & (np.nanmin(np.linalg.norm(normal - pole, axis=-1), axis=0, initial=1.0) > 0.2)


def along_sphere(bars: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Gradients in poses [..., 7] without what would stretch their quaternions."""
    q = poses[..., 3:]
    return np.concatenate([bars[..., :3], bars[..., 3:] - (bars[..., 3:] * q).sum(-1, keepdims=True) * q], axis=-1)


@pytest.mark.parametrize("lever_arrival", [0.0, 0.5])
@pytest.mark.parametrize(("types", "fixed"), CASES)
def test_gradients_match_central_differences(types, fixed, lever_arrival, device):
    bench = random_bench(types, WORLDS, seed=11 + sum(types), fixed=fixed, device=device)
    bench.lever_arrival = lever_arrival
    slots = bench.detect(margin=0.3)
    good = well_conditioned(bench, slots)
    active = (np.arange(4)[:, None] < slots.count.numpy()) & good
    assert set(slots.feature.numpy()[active].tolist()) == FEATURES[types]

    rng = np.random.default_rng(5)
    cotangents = {name: rng.normal(size=value.shape) for name, value in bench.evaluate(slots).items()}
    expected = differences(bench, slots, cotangents)
    # Every point and distance depends on the pose of a link: the comparison isn't one of zeros.
    assert (
        min(np.abs(expected[name]["pose"][:, active.any(0)]).max(axis=(0, 2)).min() for name in ("point", "distance"))
        > 1e-3
    )
    for name, cotangent in cotangents.items():
        found = bench.gradient(slots, {name: cotangent})
        for key in INPUTS:
            world_axis = 1 if key in ("pose", "origin") else 0
            a = np.moveaxis(found[key], world_axis, 0)[good]
            b = np.moveaxis(expected[name][key], world_axis, 0)[good]
            if key == "pose":  # along the sphere of unit quaternions, which poses don't leave
                a, b = (along_sphere(each, np.moveaxis(bench.values["pose"], 1, 0)[good]) for each in (a, b))
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6, err_msg=f"{name} in {key}")


def test_gradient_of_shared_parameters_is_the_sum_over_worlds():
    bench = random_bench((SPHERE, CAPSULE), 50, seed=2)
    for name in ("geometry_placement", "geometry_size", "friction", "restitution"):
        bench.values[name][:] = bench.values[name][0]
    slots = bench.detect(margin=10.0)
    assert (slots.count.numpy() == 1).all()
    out = bench.evaluate(slots)
    cotangents = {name: np.random.default_rng(3).normal(size=value.shape) for name, value in out.items()}
    each = bench.gradient(slots, cotangents)
    for name in ("geometry_placement", "geometry_size", "friction", "restitution"):
        bench.values[name] = bench.values[name][:1]
    for name, value in bench.evaluate(slots).items():
        np.testing.assert_array_equal(value, out[name])
    shared = bench.gradient(slots, cotangents)
    for name in INPUTS:
        total = each[name] if name in ("pose", "origin") else each[name].sum(0, keepdims=True)
        np.testing.assert_allclose(shared[name], total, rtol=1e-12, atol=1e-12)


def test_length_of_placements_quaternion_does_not_matter():
    bench = random_bench((SPHERE, BOX), 50, seed=2)
    slots = bench.detect(margin=0.3)
    out = bench.evaluate(slots)
    bench.values["geometry_placement"][..., 3:] *= 1.7
    for name, value in bench.evaluate(slots).items():
        np.testing.assert_allclose(value, out[name], rtol=1e-12, atol=1e-12)
