"""Near pairs found by a grid: the contacts are those of all pairs, whatever is large, fast, far, excluded or ruled."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from scenes import crowd
from sim.simulation.stepping import collision
from tests.collision.test_broad_phase import BRICK, DT, MASK, ROD, bodies
from warp_kernels.collision.pairs import FAMILIES
from warp_kernels.constraints.kinds import CONTACT
from warp_kernels.types import BOX, SPHERE


def with_and_without_grid(monkeypatch, make) -> list[sim.Simulator]:
    """Simulators that list all pairs, and that find near ones by the grid."""
    found = []
    for listed in (10**6, 0):
        monkeypatch.setattr(collision, "MOST_LISTED", listed)
        found.append(make())
    assert [each.engine.shards[0].step.collision.by_grid for each in found] == [False, True]
    return found


def contacts(simulator: sim.Simulator, world: int) -> set[tuple[int, int, int]]:
    """Geometries and feature of the contacts that a step found."""
    step = simulator.engine.shards[0].step
    slots = slice(0, int(step.contact_stage.contact_count.numpy()[world]))
    pairs = step.contact_stage.slot_pair.numpy()[slots, world]
    features = step.contact_stage.slot_feature.numpy()[slots, world]
    a, b = step.collision.pair_a.numpy()[pairs], step.collision.pair_b.numpy()[pairs]
    return set(zip(a.tolist(), b.tolist(), features.tolist(), strict=True))


@pytest.mark.cpu_shapes
@pytest.mark.parametrize(("dtype", "offset"), [("float64", 0.0), ("float32", 300.0)])
@pytest.mark.parametrize("speed", [0.0, 1.0, 20.0])
def test_finds_the_contacts_of_all_pairs(monkeypatch, dtype, offset, speed, device):
    """Loose bodies of four shapes above a tilted plane, one ten times as large: contacts, states and gradients."""
    worlds = 6
    model = bodies(dtype, offset)
    rng = np.random.default_rng(8)
    model.parameters["geometry_size"][7] *= 10.0  # in the cells nonetheless: sizes may change later
    q = np.tile(model.q0, (worlds, 1)).reshape(worlds, -1, 7)
    q[..., :3] += 0.05 * rng.normal(size=q[..., :3].shape)
    q[..., 3:] = Rotation.random(q[..., 3:].size // 4, rng=rng).as_quat().reshape(q[..., 3:].shape)
    qd = speed * rng.normal(size=(worlds, q.shape[1], 6))
    listed, grid = with_and_without_grid(monkeypatch, lambda: sim.Simulator(model, DT, worlds, device, threads=1))
    seed = rng.normal(size=(2, worlds, model.nq))
    found = []
    for simulator in (listed, grid):
        trajectory = simulator.rollout(simulator.state(q.reshape(worlds, -1), qd.reshape(worlds, -1)), steps=1)
        assert not simulator.contact_overflow.any()
        assert dtype == "float32" or simulator.residual.max() < 1e-9
        back = trajectory.backward(seed, parameters=["friction"])
        found.append((trajectory.qd.numpy()[-1], back.q.numpy(), back.parameters["friction"]))
    for world in range(worlds):
        # Beside each other, bodies that spin are listed with contacts that can't close, which the grid leaves out.
        assert contacts(grid, world) <= contacts(listed, world)
        if speed < 20.0:
            assert contacts(grid, world) == contacts(listed, world)
    if dtype == "float64":
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-7 * np.abs(one).max())


def test_every_family_of_pairs_at_once(monkeypatch):
    """Balls and boxes on each other, and on a plane, a heightfield and a static mesh side by side."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_heightfield(np.full((5, 5), 0.02), half_extents=(0.4, 0.4), position=(-1.0, 0.0, 0.0))
    corners = np.array([[-0.4, -0.4, 0.02], [0.4, -0.4, 0.02], [0.4, 0.4, 0.02], [-0.4, 0.4, 0.02]])
    builder.add_static_mesh(corners, np.array([[0, 1, 2], [0, 2, 3]]), position=(1.0, 0.0, 0.0))
    for number in range(24):
        position = number // 8 - 1.0, 0.19 * (number % 4) - 0.3, 0.118 + 0.19 * (number // 4 % 2)
        if number % 2:
            builder.add_sphere(radius=0.1, mass=1.0, position=position)
        else:
            builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=position)
    model = builder.finalize("float64")
    listed, grid = with_and_without_grid(monkeypatch, lambda: sim.Simulator(model, DT, 1, "cpu"))
    for simulator in (listed, grid):
        simulator.step(simulator.state(simulator.model.q0))
        assert not simulator.contact_overflow.any()
    assert {family for family in FAMILIES if grid.engine.shards[0].step.collision.has_pairs(family)} == {*FAMILIES}
    assert contacts(grid, 0) == contacts(listed, 0)
    assert len(contacts(grid, 0)) > 40


def mixed_rules() -> sim.Model:
    """Balls and boxes in a clump on a ramp: some excluded, some by group, some with another rule of friction."""
    rng = np.random.default_rng(0)
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.8))
    builder.add_geometry(
        "world", BOX, size=(2.0, 2.0, 0.1), position=(0.0, 0.0, 0.0), surface=sim.Surface(friction=0.3)
    )
    for number in range(24):
        shape, size = ((SPHERE, (0.1, 0.0, 0.0)), (BOX, (0.1, 0.08, 0.09)))[number % 2]
        name = builder.add_link(f"body{number}", mass=1.0, inertia=(0.01, 0.02, 0.015))
        position = rng.uniform(-0.3, 0.3, 3) + np.array([0.0, 0.0, 0.5])
        builder.add_joint(f"free{number}", "free", child=name, position=position)
        rules = {"friction_rule": "maximum"} if number % 3 else {"priority": 1}
        group = {"group": ROD, "mask": MASK[ROD] | 1} if number % 5 == 0 else {"group": BRICK, "mask": -1}
        builder.add_geometry(
            name, shape, size=size, name=f"shape{number}", surface=sim.Surface(friction=rng.uniform(), **rules, **group)
        )
    for number in range(0, 20, 2):
        builder.exclude_collision(f"body{number}", f"body{number + 3}")
    for number in range(3, 20, 4):
        builder.set_pair_friction(f"shape{number}", f"shape{number + 1}", friction=rng.uniform())
    return builder.finalize("float64")


def test_keeps_exclusions_and_rules(monkeypatch):
    """The same contacts with the same friction as from the list of all pairs."""
    model = mixed_rules()
    listed, grid = with_and_without_grid(monkeypatch, lambda: sim.Simulator(model, DT, 1, "cpu"))
    found = []
    for simulator in (listed, grid):
        simulator.step(simulator.state(simulator.model.q0))
        step = simulator.engine.shards[0].step
        count = int(step.contact_stage.contact_count.numpy()[0])
        pairs = step.contact_stage.slot_pair.numpy()[:count, 0]
        a, b = step.collision.pair_a.numpy()[pairs].tolist(), step.collision.pair_b.numpy()[pairs].tolist()
        features = step.contact_stage.slot_feature.numpy()[:count, 0].tolist()
        friction = step.contact_stage.contact_friction.numpy()[:count, 0].tolist()
        found.append(sorted(zip(a, b, features, friction, strict=True)))
    assert len(found[0]) > 30
    assert len({friction for *_, friction in found[0]}) > 10
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_what_finds_no_room_is_counted(monkeypatch):
    """A ball among eighty small ones, all within reach: there is room for 32 pairs, and a warning about the others."""
    monkeypatch.setattr(collision, "MOST_LISTED", 0)
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_sphere(radius=0.1, mass=1.0)
    directions = Rotation.random(80, rng=0).apply((0.0, 0.0, 0.16))
    for number, position in enumerate(directions):
        builder.add_sphere(radius=0.05, mass=0.1, position=position, name=f"small{number}")
        for other in range(number):
            builder.exclude_collision(f"small{number}", f"small{other}")
    model = builder.finalize("float64")
    few = sim.Simulator(model, DT, 2, "cpu", sim.HardContact(max_contacts=80))
    with pytest.warns(sim.ContactOverflowWarning, match="48 contacts"):
        few.rollout(few.state(few.model.q0), steps=1)
    np.testing.assert_array_equal(few.contact_overflow, [48, 48])
    enough = sim.Simulator(model, DT, 2, "cpu", sim.HardContact(max_contacts=2000))
    enough.rollout(enough.state(enough.model.q0), steps=1)
    np.testing.assert_array_equal(enough.contact_overflow, [0, 0])


def test_a_warm_start_knows_contacts_by_their_geometries(monkeypatch):
    """Balls that roll past each other: places in the grid's lists change as neighbours come and go."""
    model = crowd.loose("ball", 60, spacing=0.11, height=0.05).model
    speed = np.random.default_rng(0).normal(0.0, 1.0, (60, 6)) * (1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    monkeypatch.setattr(collision, "MOST_LISTED", 0)
    simulator = sim.Simulator(model, DT, 1, "cpu", sim.HardContact(warm_start=True))
    state = simulator.state(model.q0, speed.ravel())
    indices: dict[tuple[int, int], set[int]] = {}
    for _ in range(20):
        state = simulator.step(state)
        step = simulator.engine.shards[0].step
        slots = slice(0, int(step.contact_stage.contact_count.numpy()[0]))
        pairs = step.contact_stage.slot_pair.numpy()[slots, 0]
        between = list(zip(step.collision.pair_a.numpy()[pairs], step.collision.pair_b.numpy()[pairs], strict=True))
        keys = state.impulses.key.numpy()[0]
        assert sorted(between) == sorted(map(tuple, keys[keys[:, 0] == CONTACT, 1:3].tolist()))
        for pair, index in zip(between, pairs, strict=True):
            indices.setdefault(pair, set()).add(int(index))
    assert sum(len(each) > 1 for each in indices.values()) > 20


def test_other_solvers_list_all_pairs():
    """The other solver's Delassus matrix is dense, and MuJoCo's law has parameters for each pair."""
    model = crowd.loose("ball", 130, spacing=0.2).model
    assert sim.Simulator(model, DT, 1, "cpu").engine.shards[0].step.collision.by_grid
    for options in (sim.PgsContact(), sim.MujocoContact()):
        assert not sim.Simulator(model, DT, 1, "cpu", options).engine.shards[0].step.collision.by_grid
