"""Many bodies in one world: blocks act on each other over shared trees only, and room that runs out is counted."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from scenes import crowd
from sim.simulation.stepping.stages.constraints import constraints
from tests.contact.worlds import DT, G
from tests.simulation.differences import Case, check, regimes
from warp_kernels.types import BOX


def loose_boxes(count: int, dtype: str = "float64") -> sim.Model:
    """Boxes on the ground, in one place and yet blind to each other."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    for number in range(count):
        builder.add_box(half_extents=(0.2, 0.15, 0.1), mass=1.0 + number, position=(0.0, 0.0, 0.1), name=f"box{number}")
        for other in range(number):
            builder.exclude_collision(f"box{number}", f"box{other}")
    return builder.finalize(dtype)


@pytest.mark.cpu_shapes
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bodies_that_do_not_touch_are_separate_simulations(dtype, device):
    """Bit for bit, states and gradients: what stands elsewhere in a world plays no part in the sweeps."""
    contact = sim.PgsContact()
    count, steps = 4, 30
    model = loose_boxes(count, dtype)
    rng = np.random.default_rng(2)
    qd = rng.normal(size=(count, 6))
    tau = rng.normal(size=(steps, count, 6))
    names = ("mass", "friction")
    together = sim.Simulator(model, DT, 1, device, contact)
    trajectory = together.rollout(together.state(model.q0, qd.reshape(-1)), tau.reshape(steps, -1))
    seed = rng.normal(size=(steps + 1, 1, count, 7))
    gradients = trajectory.backward(seed.reshape(steps + 1, 1, -1), parameters=names)
    for number in range(count):
        alone = loose_boxes(1, dtype)
        alone.parameters.update({n: model.parameters[n][[number]] for n in ("mass", "inertia")})
        single = sim.Simulator(alone, DT, 1, device, contact)
        own = single.rollout(single.state(alone.q0, qd[number]), tau[:, number])
        columns = slice(7 * number, 7 * number + 7)
        np.testing.assert_array_equal(own.q.numpy()[:, 0], trajectory.q.numpy()[:, 0, columns])
        back = own.backward(seed[:, :, number], parameters=names)
        np.testing.assert_array_equal(back.q.numpy()[0], gradients.q.numpy()[0, columns])
        np.testing.assert_array_equal(back.parameters["mass"], gradients.parameters["mass"][[number]])
        np.testing.assert_array_equal(back.parameters["friction"][1], gradients.parameters["friction"][1 + number])


def plank_with_balls(count: int, torsion: float, standing: int) -> sim.Model:
    """A plank on a vertical slider with a limit below it, and balls on it, blind to each other.

    The first ``standing`` of them collide with the plank, the others fall through.
    """
    builder = sim.ModelBuilder()
    builder.add_link("plank", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("slide", "prismatic", child="plank", axis=(0, 0, 1), limits=sim.Limits(lower=0.0))
    builder.add_geometry("plank", BOX, size=(0.1 * count, 0.1, 0.05), position=(0.0, 0.0, -0.05))
    for number in range(count):
        x = 0.2 * number - 0.1 * (count - 1)
        builder.add_sphere(
            radius=0.05,
            mass=0.2,
            position=(x, 0.0, 0.05),
            name=f"ball{number}",
            surface=sim.Surface(friction=0.5, torsional_friction=torsion),
        )
        for other in range(number):
            builder.exclude_collision(f"ball{number}", f"ball{other}")
        if number >= standing:
            builder.exclude_collision(f"ball{number}", "plank")
    return builder.finalize("float64")


@pytest.mark.cpu_shapes
@pytest.mark.parametrize(("torsion", "kept"), [(0.0, 3), (0.01, 2)])
def test_contacts_whose_couplings_find_no_room_are_counted(monkeypatch, torsion, kept, device):
    """Six balls on a plank and its limit all act on each other: there is room for 16 couplings, or for 28 with torsion.

    The last contacts are left out, aloud, with their torsion; the limit of the slider stays, which comes after them.
    What stays is solved as if the other balls didn't collide; forwards and backwards.
    """
    monkeypatch.setattr(constraints, "COUPLINGS_PER_CONSTRAINT", 2)
    model = plank_with_balls(6, torsion, standing=6)
    # Told to look, a simulator on CUDA waits for what it has found, and warns as on a CPU.
    crowded = sim.Simulator(model, DT, 2, device, sim.PgsContact(), check_finite=True)
    missing = 5 * (6 - kept)
    with pytest.warns(sim.ContactOverflowWarning, match=rf"{missing} contacts .* in world 0 .*max_contacts"):
        trajectory = crowded.rollout(crowded.initial_state(), steps=5)
    np.testing.assert_array_equal(crowded.contact_overflow, [missing, missing])
    monkeypatch.undo()
    few = sim.Simulator(plank_with_balls(6, torsion, standing=kept), DT, 2, device, sim.PgsContact())
    expected = few.rollout(few.initial_state(), steps=5)
    np.testing.assert_array_equal(trajectory.q.numpy(), expected.q.numpy())
    # The plank rests on its limit.
    np.testing.assert_allclose(trajectory.q.numpy()[-1, :, 0], 0.0, atol=1e-9)
    seed = np.random.default_rng(0).normal(size=trajectory.q.shape)
    found, known = (each.backward(seed, parameters=["mass"]) for each in (trajectory, expected))
    assert np.abs(found.q.numpy()).max() > 0.1
    np.testing.assert_array_equal(found.q.numpy(), known.q.numpy())
    np.testing.assert_array_equal(found.parameters["mass"], known.parameters["mass"])


def touching_trees(simulator: sim.Simulator) -> set[frozenset[int]]:
    """The pairs of trees between which there is a contact in world 0."""
    (shard,) = simulator.engine.shards
    step = shard.step
    model = simulator.model
    pairs = step.contact_stage.slot_pair.numpy()[: step.contact_stage.contact_count.numpy()[0], 0]
    links = [[model.geometries[g.numpy()[pair]].link for g in (step.collision.pair_a, step.collision.pair_b)]
             for pair in pairs]  # fmt: skip
    trees = [frozenset(int(model.link_tree[link]) for link in pair if link >= 0) for pair in links]
    return {pair for pair in trees if len(pair) == 2}


def test_gradients_of_quadrupeds_that_bump_into_each_other():
    """Three robots shoulder to shoulder, on their feet and against each other: a step's derivatives in everything."""
    scene = crowd.quadrupeds(3, "float64", spacing=(0.55, 0.178))
    model = scene.model
    model.parameters.update(crowd.springs(scene, 60.0, 2.0))
    rng = np.random.default_rng(6)
    q = scene.q0.copy()
    qd = 0.3 * rng.normal(size=model.nv)
    for number in range(3):
        columns = model.q_slice(f"robot{number}/trunk_free")
        q[columns] += 0.01 * rng.normal(size=7)
    c = Case(model, q, qd, rng.normal(size=(6, model.nv)), sim.PgsContact(sweeps=20), 1 / 500)
    simulator = c.simulator()
    c.rollout(simulator)
    assert not simulator.contact_overflow.any()
    assert len(touching_trees(simulator)) >= 2
    assert {"open", "slide"} <= regimes(c)
    check(c, ["mass", "friction", "geometry_size", "geometry_placement", "damping", "gravity"], most=12)


@pytest.mark.slow
def test_ten_quadrupeds_push_each_other(device):
    """Ten robots packed into a square stay finite, find room for their contacts by default, and come to rest.

    The ground then carries their weight, whatever they exchange among each other.
    """
    scene = crowd.quadrupeds(10, "float64", spacing=(0.58, 0.17))
    model = scene.model
    simulator = sim.Simulator(model, 2e-3, 1, device, parameters=crowd.springs(scene))
    state = simulator.step(simulator.state(scene.q0))
    assert len(touching_trees(simulator)) >= 9
    trajectory = simulator.rollout(state, steps=1500)
    assert not simulator.contact_overflow.any()
    qd = trajectory.qd.numpy()
    assert np.isfinite(qd).all()
    assert np.abs(qd[-1]).max() < 1e-3
    step = simulator.engine.shards[0].step
    pairs = step.contact_stage.slot_pair.numpy()[: step.contact_stage.contact_count.numpy()[0], 0]
    on_ground = [model.geometries[step.collision.pair_a.numpy()[pair]].link < 0 for pair in pairs]
    forces = step.constraint_stage.impulse.numpy()[: len(pairs), 0, 0][on_ground] / simulator.dt
    np.testing.assert_allclose(forces.sum(), G * model.parameters["mass"].sum(), rtol=1e-3)
    gradients = trajectory.backward(np.ones((1, model.nq)), parameters=["friction", "mass"])
    assert np.isfinite(gradients.q.numpy()).all()
    assert all(np.isfinite(value).all() for value in gradients.parameters.values())


@pytest.mark.parametrize("friction", ["cone", "pyramid"])
def test_gradients_of_a_heap_of_balls(friction):
    """Five balls, three below and two on them, thrown together: one problem of contacts that share bodies in pairs."""
    scene = crowd.loose("ball", 5, "float64", spacing=0.0995, layers=2)
    model = scene.model
    rng = np.random.default_rng(1)
    q = scene.q0.reshape(-1, 7).copy()
    q[:, :3] += 0.003 * rng.normal(size=(5, 3))
    qd = 0.2 * rng.normal(size=model.nv)
    contact = sim.PgsContact(sweeps=15, friction=friction)
    c = Case(model, q.reshape(-1), qd, 0.1 * rng.normal(size=(5, model.nv)), contact or sim.HardContact(), 1 / 240)
    check(c, ["mass", "inertia", "friction", "geometry_size", "gravity"], most=15)


@pytest.mark.parametrize("friction", ["cone", "pyramid"])
def test_gradients_of_a_heap_of_boxes(friction):
    """Four boxes, askew, three on one another: contacts of faces and edges between bodies."""
    c = falling_boxes(4, 0.102, 4, contact=sim.PgsContact(friction=friction, sweeps=15))
    simulator = c.simulator()
    c.rollout(simulator)
    assert len(touching_trees(simulator)) >= 2
    check(c, ["mass", "friction", "geometry_size", "gravity"], most=15)


def falling_boxes(
    count: int, spacing: float, layers: int, turn: float = 0.05, contact: sim.ContactMethod | None = None
) -> Case:
    """Boxes in layers, each turned by random angles of about so much, about to fall on one another [m, rad]."""
    scene = crowd.loose("box", count, "float64", spacing=spacing, height=0.001, layers=layers)
    rng = np.random.default_rng(0)
    q = scene.q0.reshape(-1, 7).copy()
    q[:, 3:] = Rotation.from_rotvec(turn * rng.normal(size=(count, 3))).as_quat()
    nv = scene.model.nv
    return Case(
        scene.model,
        q.reshape(-1),
        0.1 * rng.normal(size=nv),
        0.05 * rng.normal(size=(6, nv)),
        contact or sim.HardContact(),
        1 / 240,
    )


def test_fifty_boxes_begin_to_fall(device):
    """Room by default, and a finite gradient, while fifty boxes of all orientations come down on each other."""
    c = falling_boxes(50, 0.16, 5, turn=2.0)
    simulator = c.simulator(1, device)
    trajectory = simulator.rollout(simulator.state(c.q, c.qd), steps=12)
    assert not simulator.contact_overflow.any()
    assert simulator.engine.shards[0].step.contact_stage.contact_count.numpy()[0] > 50
    gradients = trajectory.backward(np.ones((1, c.model.nq)), parameters=["friction"])
    assert np.isfinite(gradients.q.numpy()).all()
    assert np.isfinite(gradients.parameters["friction"]).all()


def test_every_step_of_fifty_boxes_that_fall_is_solved(device):
    """The first second, in which most collide. Eighteen such heaps took 31 at most; a step that fails takes 100."""
    c = falling_boxes(50, 0.16, 5, turn=2.0)
    simulator = c.simulator(1, device)
    state, systems = simulator.state(c.q, c.qd), []
    for _ in range(240):
        state = simulator.step(state)
        systems.append(int(simulator.solver_iterations[0]))
    assert max(systems) < 48
    assert np.mean(systems) < 16


@pytest.mark.slow
def test_a_pile_of_fifty_boxes_settles(device):
    """Two seconds later they lie in a pile: nothing has sunk in, nothing is thrown about, all had room."""
    c = falling_boxes(50, 0.16, 5, turn=2.0)
    simulator = c.simulator(1, device)
    trajectory = simulator.rollout(simulator.state(c.q, c.qd), steps=480)
    assert not simulator.contact_overflow.any()
    last = trajectory.q.numpy()[-1, 0].reshape(-1, 7)
    # No centre is nearer to the ground than half an edge, less what max_correction gives back per step.
    assert last[:, 2].min() > crowd.SIZE - 2e-3
    assert last[:, 2].max() > 3.5 * crowd.SIZE  # and some lie on others
    # Every step is solved, so that nothing trembles: what moves slides by the regularisation, or rolls still.
    assert simulator.residual[0] < 1e-9
    assert np.abs(trajectory.qd.numpy()[-1].reshape(-1, 6)[:, :3]).max() < 0.01


@pytest.mark.parametrize("room", [0, 3, 20])
def test_a_heap_without_room_for_its_contacts(room, device):
    """What finds no room is counted, and neither pass writes where it shouldn't: worlds beside stay what they are."""
    scene = crowd.loose("ball", 12, "float64", spacing=0.099, layers=3)
    rng = np.random.default_rng(4)
    q = np.tile(scene.q0, (3, 1)).reshape(3, -1, 7)
    q[1, :, 2] += 0.001
    q[2, :, :3] = 3.0 * q[2, :, :3] + (0.0, 0.0, 5.0)
    start = q.reshape(3, -1), 0.1 * rng.normal(size=(3, scene.model.nv))
    options = sim.HardContact(max_contacts=room)
    together = sim.Simulator(scene.model, DT, 3, device, options, check_finite=True)
    if room:
        with pytest.warns(sim.ContactOverflowWarning, match="max_contacts"):
            trajectory = together.rollout(together.state(*start), steps=4)
        assert (together.contact_overflow > 0).tolist() == [True, True, False]
    else:
        trajectory = together.rollout(together.state(*start), steps=4)
    back = trajectory.backward(np.ones((3, scene.model.nq)), parameters=["mass"])
    # The highest world has no contacts at all, with room or without.
    alone = sim.Simulator(scene.model, DT, 1, device)
    expected = alone.rollout(alone.state(start[0][2], start[1][2]), steps=4)
    known = expected.backward(np.ones((1, scene.model.nq)))
    np.testing.assert_array_equal(trajectory.q.numpy()[:, 2], expected.q.numpy()[:, 0])
    np.testing.assert_array_equal(back.q.numpy()[2], known.q.numpy()[0])
    assert np.isfinite(back.q.numpy()).all()
    assert np.isfinite(back.parameters["mass"]).all()
