"""Sliding across flush borders of static meshes and heightfields: constant speed, stopping distance, real steps."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.collision.harness import hull_mesh

G = 9.81
# Half the height of each body.
BODIES = {"box": 0.06, "hull": 0.06, "standing cylinder": 0.05, "lying cylinder": 0.04}
CORNERS = np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


def add_body(builder: sim.ModelBuilder, kind: str) -> None:
    builder.add_link("body", mass=1.0, inertia=(2e-3, 2e-3, 2e-3))
    builder.add_joint("free", "free", child="body")
    if kind == "box":
        builder.add_geometry("body", "box", size=(0.08, 0.07, BODIES[kind]))
    elif kind == "hull":
        # A frustum: its sides lean, its lower face is the larger one.
        narrow = np.where(CORNERS[:, 2] > 0.0, 0.7, 1.0)
        frustum = CORNERS * (0.08, 0.07, BODIES[kind]) * np.c_[narrow, narrow, np.ones(8)]
        builder.add_geometry("body", "convex", size=(1.0, 1.0, 1.0), mesh=hull_mesh(frustum))
    else:
        radius, half = (0.07, 0.05) if kind == "standing cylinder" else (0.04, 0.08)
        along = Rotation.from_euler("y", 0.0 if kind == "standing cylinder" else 90.0, degrees=True)
        builder.add_geometry("body", "cylinder", size=(radius, half, 0.0), orientation=along.as_quat())


def sheet(x: float, y: float, width: float, depth: float) -> tuple[np.ndarray, np.ndarray]:
    """A rectangle in the plane z = 0 with one corner at (x, y)."""
    corners = np.array([(x, y, 0.0), (x + width, y, 0.0), (x + width, y + depth, 0.0), (x, y + depth, 0.0)])
    return corners, np.array([(0, 1, 2), (0, 2, 3)])


def add_floor(builder: sim.ModelBuilder, kind: str, gap: float, size: float, friction: float, length: float) -> None:
    """Add tiles of one size, side by side from x = -1 to the length."""
    tiles = [(x, y) for x in np.arange(-1.0, length, size) for y in np.arange(-2.0 * size, 1.9 * size, size)]
    if kind == "pieces of one mesh":
        parts = [sheet(x + 0.5 * gap, y + 0.5 * gap, size - gap, size - gap) for x, y in tiles]
        vertices = np.concatenate([part[0] for part in parts])
        faces = np.concatenate([part[1] + 4 * number for number, part in enumerate(parts)])
        builder.add_static_mesh(vertices, faces, surface=sim.Surface(friction=friction))
        return
    for x, y in tiles:
        if kind == "meshes":
            corners, faces = sheet(x + 0.5 * gap, y + 0.5 * gap, size - gap, size - gap)
            builder.add_static_mesh(corners, faces, name=f"tile {x} {y}", surface=sim.Surface(friction=friction))
        else:
            middle = (x + 0.5 * size, y + 0.5 * size, 0.0)
            builder.add_heightfield(
                np.zeros((4, 4)),
                spacing=(size - gap) / 3.0,
                position=middle,
                name=f"tile {x} {y}",
                surface=sim.Surface(friction=friction),
            )


def slide(
    body: str, floor: str, gap: float, friction: float, speed: float, dtype: str, seed: int, seconds: float
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Simulate a slide across tiles of a random size in a random direction.

    Returns:
        the way along that direction, and the height above the start, after each step.
    """
    rng = np.random.default_rng(seed)
    size, course = rng.uniform(0.35, 0.7), rng.uniform(-0.04, 0.04)
    turn = course if body == "lying cylinder" else rng.uniform(-0.8, 0.8)
    builder = sim.ModelBuilder()
    direction = speed * seconds if friction == 0.0 else speed**2 / (2.0 * friction * G)
    add_floor(builder, floor, gap, size, friction, direction + 0.8)
    add_body(builder, body)
    model = builder.finalize(dtype)
    start = np.array([rng.uniform(-0.3, 0.0), rng.uniform(-0.02, 0.02), BODIES[body] - 1e-5])
    along = np.array([np.cos(course), np.sin(course), 0.0])
    q = [*start, *Rotation.from_euler("z", turn).as_quat()]
    simulator = sim.Simulator(model, 1e-3, device="cpu")
    state = simulator.state(q, [*(speed * along), 0.0, 0.0, 0.0])
    motion = simulator.rollout(state, steps=round(seconds / 1e-3)).q.numpy()[:, 0, :3] - start
    return motion @ along, motion[:, 2]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gap", [0.0, 1e-3])
@pytest.mark.parametrize("floor", ["meshes", "pieces of one mesh", "heightfields"])
@pytest.mark.parametrize("body", BODIES)
def test_a_body_without_friction_keeps_its_speed(body, floor, gap, dtype):
    for seed, speed in enumerate((0.5, 2.0, 8.0)):
        seconds = 1.2 / max(speed, 1.0)
        direction, height = slide(body, floor, gap, 0.0, speed, dtype, seed, seconds)
        np.testing.assert_allclose(direction[-1], speed * seconds, rtol=1e-3)
        np.testing.assert_allclose(direction[-1] - direction[-101], 0.1 * speed, rtol=1e-3)
        assert np.ptp(height) < 1e-4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gap", [0.0, 1e-3])
@pytest.mark.parametrize("floor", ["meshes", "pieces of one mesh", "heightfields"])
@pytest.mark.parametrize("body", BODIES)
def test_a_body_with_friction_stops_where_it_should(body, floor, gap, dtype):
    for seed, speed in enumerate((0.7, 2.0)):
        direction, height = slide(body, floor, gap, 0.3, speed, dtype, 10 + seed, 1.1 * speed / (0.3 * G))
        np.testing.assert_allclose(direction[-1], speed**2 / (2.0 * 0.3 * G), rtol=0.01)
        assert np.ptp(height) < 1e-4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("speed", [0.5, 1.2])
@pytest.mark.parametrize("body", ["box", "standing cylinder"])
def test_a_step_of_5_mm_stops_a_body(body, speed, dtype):
    """The second of two closed slabs is 5 mm higher; below 1.7 m/s a body's centre doesn't reach it, by energy."""
    builder = sim.ModelBuilder()
    for name, low, high, top in (("first", -2.0, 0.3, 0.0), ("second", 0.3, 2.0, 0.005)):
        middle, half = np.array([(low + high) / 2, 0.0, top - 0.1]), np.array([(high - low) / 2, 1.0, 0.1])
        slab = hull_mesh(CORNERS * half + middle)
        builder.add_static_mesh(slab.vertices, slab.faces, name=name, surface=sim.Surface(friction=0.0))
    add_body(builder, body)
    model = builder.finalize(dtype)
    simulator = sim.Simulator(model, 1 / 240, device="cpu")
    state = simulator.state([0, 0, BODIES[body] - 1e-5, 0, 0, 0, 1], [speed, 0, 0, 0, 0, 0])
    x = simulator.rollout(state, steps=round(240 * 0.8 / speed)).q.numpy()[:, 0, 0]
    assert x.max() < 0.3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spin", [0.0, -0.02, 0.05])
@pytest.mark.parametrize("floor", ["meshes", "heightfields"])
def test_a_cylinder_slides_along_a_gap(floor, spin, dtype):
    """It lies on the edges of two tiles 1 mm apart, which bear both its ends while it turns past their direction."""
    builder = sim.ModelBuilder()
    size, gap = 3.0, 1e-3
    for name, side in (("left", 1.0), ("right", -1.0)):
        near = 0.5 * side * gap
        if floor == "meshes":
            corners, faces = sheet(-1.0, min(near, near + side * size), size, size)
            builder.add_static_mesh(corners, faces, name=name, surface=sim.Surface(friction=0.0))
        else:
            middle = (-1.0 + 0.5 * size, near + 0.5 * side * size, 0.0)
            heights, surface = np.zeros((4, 4)), sim.Surface(friction=0.0)
            builder.add_heightfield(heights, spacing=size / 3.0, position=middle, name=name, surface=surface)
    add_body(builder, "lying cylinder")
    model = builder.finalize(dtype)
    simulator = sim.Simulator(model, 1e-3, device="cpu")
    turn = Rotation.from_euler("z", -0.5 * spin).as_quat()
    state = simulator.state([0.0, 1e-4, BODIES["lying cylinder"], *turn], [0.5, 0.0, 0.0, 0.0, 0.0, spin])
    x, _y, z = simulator.rollout(state, steps=1000).q.numpy()[:, 0, :3].T
    np.testing.assert_allclose(x[-1], 0.5, rtol=1e-3)
    assert np.ptp(z) < 2e-5
