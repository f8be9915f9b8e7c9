"""Gradients of a step at exactly parallel faces against differences, wherever the one-sided ones agree."""

import numpy as np
import pytest
import warp as wp

import sim
from tests.collision.harness import hull_mesh
from tests.simulation.differences import METHODS
from warp_kernels.types import CONVEX

HALF, DEPTH, EPS = 0.02, 3e-4, 1e-6
FACE = (0.02, 0.022)
# Half extents of the other face: beyond the first one, within it, and beyond it in one direction alone.
OTHERS = {
    "larger": (0.03, 0.031), "smaller": (0.013, 0.012), "taller": (0.012, 0.035), "wider": (0.033, 0.014),
    "equal": FACE,
}  # fmt: skip
SHAPES = ("box", "hull")


def pressed(
    shapes: tuple[str, str], other: tuple[float, float], offset: np.ndarray, depth: float = DEPTH, **pad
) -> sim.Model:
    """Two bodies that overlap by a little along x, their faces parallel; pad: material of the first one."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for name, shape, face, position in zip(
        "ab", shapes, (FACE, other), ((0, 0, 0), (2 * HALF - depth, *offset)), strict=True
    ):
        builder.add_link(name, mass=0.2, inertia=(1e-4, 1.2e-4, 1.1e-4))
        builder.add_joint(name, "free", child=name, position=position)
        material = sim.Surface(friction=0.8, **(pad if name == "a" else {}))
        if shape == "box":
            builder.add_geometry(name, "box", size=(HALF, *face), surface=material)
        else:
            corners = np.stack(np.meshgrid([-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]), axis=-1).reshape(-1, 3)
            builder.add_geometry(name, CONVEX, size=(HALF, *face), mesh=hull_mesh(corners), surface=material)
    return builder.finalize("float64")


def assert_gradient_of_a_side(model: sim.Model, rng: np.random.Generator, law: str, agreeing: float) -> None:
    """Where the one-sided differences agree to 1e-4, a step's derivative is their mean or one of them."""
    nq, nv = model.nq, model.nv
    tau = 0.02 * rng.normal(size=nv) * np.tile([1.0, 1.0, 1.0, 0.02, 0.02, 0.02], 2)
    tau[0] += 1.5
    tau[6] -= 1.5

    def slopes(eps: float) -> np.ndarray:
        """One-sided differences, from the left and from the right [2, nv, nq]."""
        q = np.tile(model.q0, (1 + 2 * nq, 1))
        q[1 + 2 * np.arange(nq), np.arange(nq)] -= eps
        q[2 + 2 * np.arange(nq), np.arange(nq)] += eps
        speed = step(q).qd.numpy()[-1]
        return np.stack([((speed[0] - speed[1::2]) / eps).T, ((speed[2::2] - speed[0]) / eps).T])

    def step(q: np.ndarray) -> sim.Trajectory:
        simulator = sim.Simulator(model, 1 / 500, len(q), "cpu", METHODS[law]())
        return simulator.rollout(simulator.state(q, np.zeros((len(q), nv))), np.tile(tau, (1, len(q), 1)), steps=1)

    left, right = slopes(EPS)
    if law == "pgs":
        # Curvatures are large there and have opposite signs on both sides.
        left, right = 2.0 * np.array([left, right]) - slopes(2.0 * EPS)
    central = (left + right) / 2
    scale = np.abs(central).max(axis=1, keepdims=True)
    agree = np.abs(right - left) < 1e-4 * scale
    assert agree.mean() > agreeing
    for worlds in (1, nv):
        seeds = np.eye(nv) if worlds == nv else np.eye(nv)[4:5]
        back = step(np.tile(model.q0, (worlds, 1))).backward(
            wp.zeros((worlds, nq), dtype=wp.float64), wp.array(seeds, dtype=wp.float64)
        )
        rows = slice(None) if worlds == nv else slice(4, 5)
        errors = [np.abs(back.q.numpy() - slope[rows]) for slope in (central, left, right)]
        wrong = agree[rows] & (np.min(errors, axis=0) > 1e-6 * scale[rows])
        assert not wrong.any(), np.argwhere(wrong)


@pytest.mark.parametrize("law", ["hard", "mujoco", "pgs"])
@pytest.mark.parametrize("first", SHAPES)
@pytest.mark.parametrize("second", SHAPES)
@pytest.mark.parametrize("size", OTHERS)
def test_a_step_turns_as_on_both_sides(size, second, first, law):
    rng = np.random.default_rng([len(size), SHAPES.index(first), SHAPES.index(second)])
    model = pressed((first, second), OTHERS[size], rng.uniform(-0.003, 0.003, size=2))
    assert_gradient_of_a_side(model, rng, law, agreeing=0.7)


@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", OTHERS)
def test_faces_that_just_touch(size, shape, law):
    """Half of the coordinates open or close contacts there, which is a kink."""
    rng = np.random.default_rng([len(size), SHAPES.index(shape)])
    model = pressed((shape, shape), OTHERS[size], rng.uniform(-0.003, 0.003, size=2), depth=0.0)
    assert_gradient_of_a_side(model, rng, law, agreeing=0.45)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", OTHERS)
def test_soft_pads(size, shape):
    rng = np.random.default_rng([len(size), SHAPES.index(shape)])
    soft = {"stiffness": 1e4, "damping": 10.0}
    model = pressed((shape, shape), OTHERS[size], rng.uniform(-0.003, 0.003, size=2), **soft)
    assert_gradient_of_a_side(model, rng, "hard", agreeing=0.7)
