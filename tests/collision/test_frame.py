"""The frame of a normal: orthonormal, right-handed, smooth where normals usually are; and where it is measured from."""

import itertools

import numpy as np
import pytest
import warp as wp

from tests.collision.harness import Bench, random_bench
from warp_kernels.collision.frame import geometry_frame_functions, pole_basis
from warp_kernels.types import BOX, CAPSULE, PLANE, SPHERE, warp_types

COMMON = np.array([v for v in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(v)])
COMMON /= np.linalg.norm(COMMON, axis=1)[:, None]


def frame_kernel(scalar):
    t = warp_types(scalar)
    function = geometry_frame_functions(scalar).contact_frame

    @wp.kernel(module="unique")
    def contact_frames(normal: wp.array(dtype=t.vec3), result: wp.array(dtype=t.mat33)):
        i = wp.tid()
        result[i] = function(normal[i])

    return contact_frames


KERNELS = {scalar: frame_kernel(scalar) for scalar in (wp.float32, wp.float64)}


def frames(normals: np.ndarray, scalar=wp.float64, cotangent: np.ndarray | None = None):
    """Frames [n, 3, 3] of normals [n, 3]; with a cotangent, the gradient in the normals."""
    t = warp_types(scalar)
    given = wp.array(normals, dtype=t.vec3, requires_grad=True, device="cpu")
    result = wp.zeros(len(normals), dtype=t.mat33, requires_grad=True, device="cpu")
    with wp.Tape() as tape:
        wp.launch(KERNELS[scalar], dim=len(normals), inputs=[given], outputs=[result], device="cpu")
    if cotangent is None:
        return result.numpy()
    tape.backward(grads={result: wp.array(cotangent, dtype=t.mat33, device="cpu")})
    return given.grad.numpy()


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def some_normals() -> np.ndarray:
    """Random ones, common ones, those near +-z, and those near where the tangents are singular."""
    rng = np.random.default_rng(0)
    pole = pole_basis()[0]
    near = [
        unit(d + 10.0**-e * rng.normal(size=(20, 3)))
        for d in (pole, -pole, np.eye(3)[2], -np.eye(3)[2])
        for e in range(1, 13)
    ]
    return np.concatenate([unit(rng.normal(size=(2000, 3))), COMMON, [pole, -pole], *near])


@pytest.mark.parametrize(("scalar", "bound"), [(wp.float64, 1e-12), (wp.float32, 5e-4)])
def test_orthonormal_and_right_handed(scalar, bound):
    """To rounding; a thousandfold of it right beside the singular direction, which is 1e-3 rad wide."""
    normals = some_normals()
    found = frames(normals, scalar).astype(np.float64)
    error = np.abs(found @ found.transpose(0, 2, 1) - np.eye(3)).max((1, 2))
    assert error.max() < bound
    away = np.linalg.norm(normals + pole_basis()[0], axis=1) > 0.1
    assert error[away].max() < bound / 100.0
    np.testing.assert_allclose(np.linalg.det(found), 1.0, atol=bound)
    np.testing.assert_allclose(found[:, 0], normals, atol=1e-7)


def test_tangents_of_ground_are_x_and_y():
    np.testing.assert_allclose(frames(np.array([(0.0, 0.0, 1.0)]))[0], np.roll(np.eye(3), 1, axis=0), atol=1e-15)


def test_common_normals_are_far_from_singular_direction():
    angles = np.degrees(np.arccos(COMMON @ -pole_basis()[0]))
    assert angles.min() > 27.5


@pytest.mark.parametrize("normal", COMMON, ids=str)
def test_smooth_around_common_normals(normal):
    """The frame turns by no more than a few times what the normal does: no jump, no change of sign."""
    changes = 1e-6 * np.random.default_rng(1).normal(size=(50, 3))
    turned = unit(normal + changes)
    moved = np.linalg.norm(frames(turned) - frames(normal[None]), axis=(1, 2))
    assert moved.max() < 6.0 * np.linalg.norm(turned - normal, axis=1).max()


def test_gradient_matches_central_differences():
    normals = some_normals()
    normals = normals[np.linalg.norm(normals + pole_basis()[0], axis=1) > 0.2]
    cotangent = np.random.default_rng(2).normal(size=(len(normals), 3, 3))
    found = frames(normals, cotangent=cotangent)
    expected = np.zeros_like(found)
    step = 2e-4
    for axis, (steps, weight) in itertools.product(range(3), ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))):
        changed = frames(normals + steps * step * np.eye(3)[axis])
        expected[:, axis] += weight / step * (changed * cotangent).sum((1, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


FAR = [
    ((PLANE, SPHERE), None), ((PLANE, SPHERE), 0), ((PLANE, BOX), 0), ((SPHERE, BOX), None), ((SPHERE, BOX), 0),
    ((SPHERE, BOX), 1), ((CAPSULE, CAPSULE), None), ((CAPSULE, CAPSULE), 0),
]  # fmt: skip


@pytest.mark.parametrize(("types", "fixed"), FAR)
def test_lever_arms_keep_their_digits_far_from_world_origin(types, fixed):
    """Single precision 100 m away against double precision of the same (rounded) inputs."""
    single, double = (random_bench(types, 300, seed=4, fixed=fixed, dtype=dtype) for dtype in ("float32", "float64"))
    far = np.array((60.0, -70.0, 40.0))
    for bench in (single, double):
        values = bench.values
        values["origin"] += far
        if fixed is not None:
            values["geometry_placement"][:, fixed, :3] += far
        for name, value in values.items():
            values[name] = value.astype(np.float32).astype(np.float64)
        # The rounded quaternions of links count as they are; the same ones of unit length in double precision.
        double.values["pose"][..., 3:] = unit(double.values["pose"][..., 3:])
    slots = double.detect(0.3)
    found, exact = single.evaluate(slots.in_dtype("float32")), double.evaluate(slots)
    active = np.arange(4)[:, None] < slots.count.numpy()
    assert active.sum() > 100
    origin = double.values["origin"]
    for tree in range(len(origin)):
        # Computed as the kernels do: the point plus the difference of two nearby origins.
        arm = found["point"] + (origin[-1] - origin[tree]).astype(np.float32)
        assert np.abs(arm - (exact["point"] + origin[-1] - origin[tree]))[active].max() < 1e-5
    assert np.abs(found["distance"] - exact["distance"])[active].max() < 1e-5


@pytest.mark.parametrize(("fixed", "reference"), [(None, 1), (0, 0), (1, 0)])
def test_points_are_relative_to_tree_of_second_link_or_else_of_first(fixed, reference):
    """A sphere at x = 5 against the face x = 5.2 of a box, 0.1 deep, with origins elsewhere."""
    bench = Bench((SPHERE, BOX), 1, fixed)
    values = bench.values
    values["geometry_size"][0] = ((0.3, 0.0, 0.0), (1.0, 1.0, 1.0))
    values["origin"][:, 0] = [(4.0, 1.0, -2.0), (7.0, -3.0, 0.5)][: len(values["origin"])]
    for geometry, centre in enumerate([(5.0, 0.0, 0.0), (6.2, 0.0, 0.0)]):
        link = bench.model.geometries[geometry].link
        if link < 0:
            values["geometry_placement"][0, geometry, :3] = centre
        else:
            values["pose"][link, 0, :3] = centre - values["origin"][link, 0]
    slots = bench.detect(0.01)
    out = bench.evaluate(slots)
    np.testing.assert_allclose(out["distance"][0, 0], -0.1, atol=1e-14)
    np.testing.assert_allclose(out["point"][0, 0] + values["origin"][reference, 0], (5.25, 0.0, 0.0), atol=1e-14)
