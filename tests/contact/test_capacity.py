"""Capacity for contacts: the default holds packed bodies, and beyond it the nearest contacts are kept."""

import numpy as np
import pytest
import trimesh

import sim
from sim.model.geometries import Mesh
from sim.model.shapes.hulls import convex_hull
from tests.errors import quietly, strictly

DT = 0.01
SHAPES = ("box", "convex", "cylinder")
GROUNDS = ("plane", "box", "mesh")


def ground(builder: sim.ModelBuilder, kind: str) -> None:
    """Add level ground at z = 0."""
    if kind == "plane":
        builder.add_ground()
    elif kind == "box":
        builder.add_geometry("world", "box", size=(5.0, 5.0, 0.5), position=(0.0, 0.0, -0.5))
    else:
        plate = trimesh.creation.box((10.0, 10.0, 1.0))
        mesh = Mesh(np.array(plate.vertices), np.array(plate.faces, dtype=np.int32))
        builder.add_geometry("world", "mesh", mesh=mesh, size=(1.0, 1.0, 1.0), position=(0.0, 0.0, -0.5))


def packed(counts: tuple[int, int, int], half: float, gap: float, shape: str, under: str = "plane") -> sim.Model:
    """Bodies in a grid, each side by side with its neighbours at a distance of ``gap``, above the ground."""
    builder = sim.ModelBuilder()
    ground(builder, under)
    sizes = {"cylinder": (half, half, 0.0)}
    cube = convex_hull(np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float))
    for number, cell in enumerate(np.ndindex(counts)):
        position = (2.0 * half + gap) * np.array(cell) + (0.0, 0.0, half + gap)
        name = f"body{number}"
        mass = 200.0 * (2.0 * half) ** 3
        builder.add_link(name, mass=mass, inertia=(mass * half**2 * 2.0 / 3.0,) * 3)
        builder.add_joint(f"free{number}", "free", child=name, position=tuple(position))
        mesh = {"mesh": cube} if shape == "convex" else {}
        builder.add_geometry(name, shape, size=sizes.get(shape, (half,) * 3), surface=sim.Surface(friction=0.8), **mesh)
    return builder.finalize("float64")


def heights(simulator: sim.Simulator, steps: int, counts: tuple[int, int, int]) -> np.ndarray:
    """The heights of all centres after a rollout, by their cells."""
    trajectory = simulator.rollout(simulator.initial_state(), steps=steps)
    return trajectory.q.numpy()[-1, 0].reshape(-1, 7)[:, 2].reshape(counts)


def require_layers(z: np.ndarray, half: float) -> None:
    """Check that layer k has its centres at (2 k + 1) half edges, less what soft rows give way by."""
    expected = (2.0 * np.arange(z.shape[2]) + 1.0) * half
    np.testing.assert_allclose(z, np.broadcast_to(expected, z.shape), atol=5e-3 * half)


@pytest.mark.parametrize("seed", range(4))
def test_packed_bodies_stand_by_default(seed):
    """Random grids, sizes and gaps, of boxes, hulls and upright cylinders, on all kinds of ground."""
    rng = np.random.default_rng(seed)
    counts = tuple(rng.integers(2, 4, 3).tolist())
    half, gap = float(rng.choice([0.05, 0.2, 0.5])), float(rng.choice([0.001, 0.01, 0.019]))
    shape, under = SHAPES[seed % 3], GROUNDS[rng.integers(3)]
    simulator = sim.Simulator(packed(counts, half, gap, shape, under), DT)
    strictly(require_layers, heights(simulator, 200, counts), half)
    assert not simulator.contact_overflow.any()


@pytest.mark.parametrize("counts", [(3, 3, 3), (5, 5, 2), (2, 2, 2)])
def test_cubes_in_layers_stand_by_default(counts):
    simulator = sim.Simulator(packed(counts, 0.5, 0.001 if counts == (2, 2, 2) else 0.01, "box"), DT)
    require_layers(heights(simulator, 200, counts), 0.5)
    assert not simulator.contact_overflow.any()


@pytest.mark.parametrize(("under", "shape"), [("plane", "box"), ("box", "convex"), ("mesh", "box")])
def test_contacts_between_distant_faces_do_not_crowd_out_those_that_carry(under, shape):
    """Eighteen bodies rest on 4 contacts each, 72 in all; some 200 more are between faces 1 cm apart.

    With room for 80 they stand as with room for all, and the gradients are the same.
    """
    counts = (3, 3, 2)
    model = packed(counts, 0.25, 0.01, shape, under)
    few, many = (sim.Simulator(model, DT, contact=sim.HardContact(max_contacts=n)) for n in (80, 2000))
    with pytest.warns(sim.ContactOverflowWarning):
        require_layers(heights(few, 150, counts), 0.25)
    assert many.contact_overflow.sum() == 0
    weights = np.random.default_rng(0).normal(size=(1, model.nq))
    gradients = []
    for simulator in (few, many):
        settled = many.rollout(many.initial_state(), steps=60).final_state
        trajectory = simulator.rollout(simulator.state(settled.q.numpy(), settled.qd.numpy()), steps=3)
        gradients.append((trajectory.q.numpy(), trajectory.backward(weights, parameters=["mass", "friction"])))
    (q, found), (expected_q, expected) = gradients
    np.testing.assert_allclose(q, expected_q, atol=1e-9)
    for name in ("mass", "friction"):
        scale = np.abs(expected.parameters[name]).max() + 1e-6
        np.testing.assert_allclose(found.parameters[name], expected.parameters[name], atol=1e-7 * scale)
    np.testing.assert_allclose(found.qd.numpy(), expected.qd.numpy(), atol=1e-7 * np.abs(expected.qd.numpy()).max())


def balls(count: int, dtype: str = "float64") -> sim.Model:
    """Free balls of a radius of 0.1 m, without gravity."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for number in range(count):
        builder.add_sphere(radius=0.1, mass=1.0, name=f"ball{number}")
    return builder.finalize(dtype)


def kept_pairs(simulator: sim.Simulator) -> list[set[tuple[int, int]]]:
    """The pairs of balls in the slots of each world after its last step."""
    found = []
    for shard in simulator.engine.shards:
        step = shard.step
        a, b = step.collision.pair_a.numpy(), step.collision.pair_b.numpy()
        for count, slots in zip(
            step.contact_stage.contact_count.numpy(), step.contact_stage.slot_pair.numpy().T, strict=True
        ):
            found.append({(int(a[pair]), int(b[pair])) for pair in slots[:count]})
    return found


@pytest.mark.parametrize("num_worlds", [1, 19])
@pytest.mark.parametrize("moving", [False, True])
def test_the_nearest_contacts_are_kept(num_worlds, moving):
    """Balls at random places: kept are those that a straight motion through the step leaves nearest, by a closed form.

    What touches within the step is at distance zero then, and closes further at the rate of that moment.
    """
    count, radius = 12, 0.1
    model = balls(count)
    rng = np.random.default_rng(num_worlds + moving)
    x = rng.uniform(-0.25, 0.25, (num_worlds, count, 3))
    v = moving * rng.normal(scale=3.0, size=x.shape)
    q = np.concatenate([x, np.broadcast_to([0.0, 0.0, 0.0, 1.0], (*x.shape[:2], 4))], axis=2).reshape(num_worlds, -1)
    qd = np.concatenate([v, np.zeros_like(v)], axis=2).reshape(num_worlds, -1)

    def after_a_step(room: int) -> sim.Simulator:
        options = sim.HardContact(max_contacts=room, margin=0.05)
        simulator = sim.Simulator(model, DT, num_worlds, "cpu", options)
        quietly(simulator.rollout, simulator.state(q, qd), steps=1)
        return simulator

    every = kept_pairs(after_a_step(500))
    for room in (1, 5, 12):
        simulator = after_a_step(room)
        np.testing.assert_array_equal(simulator.contact_overflow, [max(len(pairs) - room, 0) for pairs in every])
        for world, found in enumerate(kept_pairs(simulator)):
            gap = {
                (a, b): left_after(x[world, b] - x[world, a], DT * (v[world, b] - v[world, a]), 2.0 * radius)
                for a, b in every[world]
            }
            assert len(found) == min(room, len(gap))
            dropped = every[world] - found
            assert max(gap[pair][0] for pair in found) <= min((gap[pair][1] for pair in dropped), default=np.inf)


def left_after(apart: np.ndarray, direction: np.ndarray, reach: float) -> tuple[float, float]:
    """Least and most distance of two balls that the step would leave at the rate of the present, or of their touch.

    For those that would touch at the rate of the present but don't, the distance at the end. Least and most differ
    only for balls that graze or overlap each other by less than a millimetre, which may count as passing.
    """

    def left(time: float) -> float:
        there = apart + time * direction
        distance = np.linalg.norm(there)
        return distance - reach + (1.0 - time) * (there @ direction) / distance

    if np.linalg.norm(apart) <= reach - 1e-3 or left(0.0) >= 0.0:
        return left(0.0), left(0.0)
    a, b, c = direction @ direction, apart @ direction, apart @ apart - reach**2
    touch = max((-b - np.sqrt(b * b - a * c)) / a, 0.0) if b * b > a * c else 1.0
    if touch >= 1.0:
        return left(1.0), left(1.0)
    nearest = np.linalg.norm(apart + min(-b / a, 1.0) * direction) - reach
    return left(touch), left(touch) if nearest < -1e-3 else left(1.0)
