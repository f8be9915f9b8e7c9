"""Boxes, cylinders and capsules on each other: at rest, and coming to rest, without gain of energy."""

import numpy as np
import pytest

import sim
from sim.model.shapes.hulls import convex_hull
from tests.contact.worlds import G, run
from tests.simulation.differences import blocks
from warp_kernels.constraints.kinds import CONTACT


def tower(shapes: list[str], positions: list[tuple[float, float, float]], dtype: str = "float64") -> sim.Model:
    """Bodies of 1 kg on the ground, 0.2 m high each when they stand."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0))
    for shape, position in zip(shapes, positions, strict=True):
        if shape == "box":
            builder.add_box(
                half_extents=(0.1, 0.1, 0.1), mass=1.0, position=position, surface=sim.Surface(friction=0.8)
            )
        else:
            builder.add_cylinder(
                radius=0.1, half_length=0.1, mass=1.0, position=position, surface=sim.Surface(friction=0.8)
            )
    return builder.finalize(dtype)


def energy(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    """Of bodies of 1 kg with the inertia of a cube, at every step."""
    height = q.reshape(len(q), -1, 7)[:, :, 2].sum(axis=1)
    v = qd.reshape(len(qd), -1, 6)
    return G * height + 0.5 * (v[..., :3] ** 2).sum(axis=(1, 2)) + 0.5 * 0.04 / 6.0 * (v[..., 3:] ** 2).sum(axis=(1, 2))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_two_boxes_stand_still(dtype):
    model = tower(["box", "box"], [(0.0, 0.0, 0.1), (0.03, -0.02, 0.3)], dtype)
    q, qd, simulator = run(model, 3.0)
    np.testing.assert_allclose(q, np.tile(q[0], (len(q), 1)), atol=1e-9 if dtype == "float64" else 1e-5)
    # In float32 heights alternate by their last digit, which takes 0.06 N; the mean is right.
    state, weights = simulator.state(q[-1], qd[-1]), []
    for _ in range(30):
        state = simulator.step(state)
        impulse = sum(block.impulse[0] for block in blocks(simulator) if block.kind == CONTACT)
        weights.append(impulse / simulator.dt)
    # The ground carries both, the lower box one.
    np.testing.assert_allclose(np.mean(weights), 3.0 * G, rtol=1e-6 if dtype == "float64" else 1e-4)


@pytest.mark.parametrize("shapes", [["box", "box"], ["box", "cylinder"], ["cylinder", "box"], ["cylinder", "cylinder"]])
def test_dropped_body_comes_to_rest_on_the_other(shapes):
    """It falls 10 cm onto the lower one, beside its middle."""
    model = tower(shapes, [(0.0, 0.0, 0.1), (0.03, 0.02, 0.4)])
    q, qd, _ = run(model, 1.0)
    np.testing.assert_allclose(q[-1].reshape(2, 7)[:, 2], (0.1, 0.3), atol=1e-6)
    assert np.abs(qd[-1]).max() < 1e-4
    gain = np.diff(energy(q, qd))
    assert gain.max() < 1e-6


def test_tumbling_box_gains_no_energy():
    """Dropped onto the edge of another, it tips over and falls to the ground."""
    model = tower(["box", "box"], [(0.0, 0.0, 0.1), (0.13, 0.01, 0.31)])
    qd = np.zeros(12)
    qd[9:12] = (1.0, 2.0, 0.5)
    q, qd, _ = run(model, 1.5, qd)
    total = energy(q, qd)
    assert np.diff(total).max() < 1e-5
    assert total[-1] < total[0]
    assert np.abs(qd[-1]).max() < 1e-3
    np.testing.assert_allclose(q[-1].reshape(2, 7)[:, 2].min(), 0.1, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rounding", [3e-8, 1e-6])
def test_a_cube_of_many_triangles_in_single_precision_stands_on_a_pedestal(rounding, dtype):
    # Its faces are divided into 32 triangles, whose corners are rounded: some of them stand out of the face.
    line = np.linspace(-1.0, 1.0, 5)
    grid = np.array(np.meshgrid(line, line, line)).reshape(3, -1).T
    surface = grid[(np.abs(grid) == 1.0).any(axis=1)]
    surface += rounding * np.random.default_rng(0).normal(size=surface.shape)
    pedestal = np.array(np.meshgrid(*[(-1.0, 1.0)] * 3)).reshape(3, -1).T
    builder = sim.ModelBuilder()
    builder.add_geometry(
        "world", "convex", mesh=convex_hull(pedestal), size=(0.08, 0.08, 0.1), position=(0.0, 0.0, -0.1)
    )
    builder.add_link("cube", mass=1.0, inertia=np.full(3, 0.04 / 6.0))
    builder.add_joint("free", "free", child="cube", position=(0.0, 0.0, 0.101))
    builder.add_geometry("cube", "convex", mesh=convex_hull(surface), size=(0.1, 0.1, 0.1))
    q, qd, _ = run(builder.finalize(dtype), 2.0)
    np.testing.assert_allclose(q[-1], (0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0), atol=1e-4)
    assert np.abs(qd[-1]).max() < 0.01
