"""Single precision: bodies at rest stand still, and bodies in motion move as in double precision."""

import mujoco
import numpy as np
import pytest

import sim
from scenes import crowd
from sim.exporters import write_mjcf

DT = 1.0 / 240.0


def at_rest(model: sim.Model, contact: sim.ContactMethod, worlds: int = 1) -> None:
    """Check that after two seconds each step solves one system, and that nothing moves."""
    simulator = sim.Simulator(model, DT, worlds, "cpu", contact)
    state = simulator.rollout(simulator.initial_state(), steps=480).final_state
    for _ in range(20):
        state = simulator.step(state)
        np.testing.assert_array_equal(simulator.solver_iterations, 1)
        assert np.abs(state.qd.numpy()).max() < 1e-5


def heap(layers: int) -> sim.Model:
    return crowd.loose("box", 10, spacing=2.5 * crowd.SIZE, layers=layers).model


@pytest.mark.parametrize("worlds", [1, 9])
@pytest.mark.parametrize(("contact", "layers"), [(sim.HardContact(), 2), (sim.MujocoContact(), 1)])
def test_a_heap_of_boxes_stands_still(contact, layers, worlds):
    """The rounding of a step, divided by R, is not what the next one has to solve."""
    at_rest(heap(layers), contact, worlds)


def test_boxes_on_boxes_tremble_as_in_mujoco(tmp_path):
    """There two boxes that tilt by 1e-4 rad touch in four points in some steps, and in one in others."""
    model = heap(2)
    simulator = sim.Simulator(model, DT, 1, "cpu", sim.MujocoContact())
    state = simulator.rollout(simulator.initial_state(), steps=480).final_state
    ours = np.abs(simulator.rollout(state, steps=200).qd.numpy()).max(axis=2)
    with pytest.warns(sim.MJCFWarning, match="parts"):
        path = write_mjcf(tmp_path / "heap.xml", model, lossy=True)
    compiled = mujoco.MjModel.from_xml_path(str(path))
    compiled.opt.timestep = DT
    data = mujoco.MjData(compiled)
    mujoco.mj_step(compiled, data, 480)
    theirs = []
    for _ in range(200):
        mujoco.mj_step(compiled, data)
        theirs.append(np.abs(data.qvel).max())
    assert 1e-4 < np.median(ours) < 3.0 * np.median(theirs)


def test_a_load_on_tendons_hangs_still():
    """Three masses on vertical sliders, one below the other, held by the limits of tendons."""
    builder = sim.ModelBuilder()
    for number in range(3):
        builder.add_link(f"mass{number}", mass=1.0 + number, inertia=(0.01, 0.01, 0.01))
        builder.add_joint(f"slide{number}", "prismatic", child=f"mass{number}", axis=(0.0, 0.0, 1.0))
        above = {f"slide{number - 1}": -1.0} if number else {}
        builder.add_fixed_tendon(f"tendon{number}", {f"slide{number}": 1.0} | above, limits=(-0.1, 1.0))
    at_rest(builder.finalize("float32"), sim.HardContact())


def test_bodies_slide_as_in_double_precision():
    """Three boxes and a ball, of twelve worlds with different velocities; some tip over, so that the median counts."""
    found = {}
    for dtype in ("float32", "float64"):
        builder = sim.ModelBuilder()
        builder.add_ground(surface=sim.Surface(friction=0.4))
        surface = sim.Surface(friction=0.5)
        for number in range(3):
            position = (0.5 * number, 0.02 * number, 0.05)
            builder.add_box(half_extents=(0.1, 0.12, 0.05), mass=0.5 + 0.3 * number, position=position, surface=surface)
        builder.add_sphere(radius=0.06, mass=0.3, position=(0.0, 0.4, 0.06), surface=surface)
        model = builder.finalize(dtype)
        qd = np.random.default_rng(0).normal(size=(12, 4, 6))
        qd[..., 2:5] = 0.0
        simulator = sim.Simulator(model, DT, 12, "cpu")
        state = simulator.state(np.tile(model.q0, (12, 1)), qd.reshape(12, -1))
        found[dtype] = simulator.rollout(state, steps=300).final_state.q.numpy().reshape(12, 4, 7)[..., :3]
    assert np.median(np.abs(found["float32"] - found["float64"]).max(axis=(1, 2))) < 1.5e-4


def test_a_box_on_a_belt_moves_steadily():
    """A step solves a system even if its initial residual is below the rounding of the fast tangential rows."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.4, velocity=(0.4, 0.0, 0.0)))
    builder.add_box(half_extents=(0.2, 0.2, 0.05), mass=2.0, position=(0.0, 0.0, 0.05))
    simulator = sim.Simulator(builder.finalize("float32"), DT, 1, "cpu")
    qd = simulator.rollout(simulator.initial_state(), steps=240).qd.numpy()[60:, 0]
    np.testing.assert_allclose(qd, np.tile([0.4, 0, 0, 0, 0, 0], (len(qd), 1)), rtol=0, atol=1e-5)
