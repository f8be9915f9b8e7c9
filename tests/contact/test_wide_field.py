"""Hulls of many vertices on heightfields of many points, whose contacts have ids within a window."""

import numpy as np
import pytest

import sim
from tests.collision.harness import hull_mesh
from warp_kernels.collision.field.hull.contact import MOST, window_size

SPACING, DT, STEPS = 0.05, 2e-3, 60
POINTS, VERTICES = 400, 900
PARTS = 6 * VERTICES + (2 * VERTICES - 4) + 4 * (3 * VERTICES - 6)
BORDER = 256
# Rows and columns of the smaller field, around a border of the window along both axes.
FIRST, LAST = 240, 272


def at(index: float) -> float:
    """The coordinate of a row or column of the whole field."""
    return SPACING * (index - 0.5 * (POINTS - 1))


def hull_on(heights: np.ndarray, middle: float, scale: float = 1.0) -> sim.Model:
    """A hull over a field whose middle is here."""
    points = np.random.default_rng(0).standard_normal((VERTICES, 3))
    points *= (0.2, 0.14, 0.09) / np.linalg.norm(points, axis=1)[:, None]
    builder = sim.ModelBuilder()
    builder.add_heightfield(heights, spacing=SPACING, position=(middle, middle, 0.0), surface=sim.Surface(friction=0.6))
    builder.add_link("hull", mass=2.0, inertia=np.diag([0.01, 0.02, 0.02]))
    builder.add_joint("free", "free", child="hull")
    builder.add_geometry("hull", "convex", size=(scale, scale, scale), mesh=hull_mesh(points))
    return builder.finalize("float64")


def whole_field() -> np.ndarray:
    """Heights of the whole field."""
    return np.random.default_rng(1).uniform(-0.02, 0.02, (POINTS, POINTS))


def test_a_hull_rolls_over_the_windows_border_as_on_a_smaller_field():
    assert PARTS * (LAST - FIRST) ** 2 < MOST < PARTS * POINTS**2
    assert window_size(PARTS) == BORDER
    whole = whole_field()
    found = []
    for heights, middle in ((whole, 0.0), (whole[FIRST:LAST, FIRST:LAST], at(0.5 * (FIRST + LAST - 1)))):
        model = hull_on(heights, middle)
        simulator = sim.Simulator(model, DT, device="cpu")
        q, qd = model.q0[None].copy(), np.array([[1.2, 0.8, -0.2, -4.0, 6.0, 0.5]])
        q[0, :3] = at(BORDER) - 0.04, at(BORDER) - 0.03, 0.1
        motion = simulator.rollout(simulator.state(q, qd), steps=STEPS)
        gradients = motion.backward(q_grad=np.tile(np.eye(7)[0], (STEPS + 1, 1, 1)), parameters=["height"])
        own = np.zeros((POINTS, POINTS))
        part = slice(0, POINTS) if middle == 0.0 else slice(FIRST, LAST)
        own[part, part] = gradients.parameters["height"].reshape(heights.shape)
        found.append((motion.q.numpy(), gradients.qd, own))
    (q, gradient, by_height), (q_small, gradient_small, by_height_small) = found
    assert (q[0, 0, :2] < at(BORDER)).all()
    assert (q[-1, 0, :2] > at(BORDER)).all()
    assert np.abs(by_height).max() > 1e-3
    np.testing.assert_allclose(q, q_small, atol=1e-11)
    np.testing.assert_allclose(gradient, gradient_small, atol=1e-8)
    np.testing.assert_allclose(by_height, by_height_small, atol=1e-8)


def test_a_hull_that_is_too_wide_for_the_window_is_refused():
    with pytest.raises(sim.ModelError, match="900 vertices .* 160000 points, together too many; simplify the mesh"):
        sim.Simulator(hull_on(whole_field(), 0.0, scale=20.0), DT, device="cpu")
