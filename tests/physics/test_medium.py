"""Forces of a medium: closed forms, MuJoCo, gradients, files."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

import sim
import sim.exporters
import sim.torch
from sim.usd import write_usd
from tests.errors import quietly
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import METHODS, Case, check

MEDIUM = ("medium_density", "medium_viscosity", "wind")
# A free body with an arm, and a body welded to it, whose box is its own.
XML = """<mujoco><option timestep="0.005" density="900" viscosity="0.4" wind="0.3 -0.2 0.5" integrator="{integrator}"/>
<worldbody><body pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.05 0.02" quat="0.9 0.1 0.3 -0.2" mass="0.8"/>
  <body pos="0.1 0 0.05">{welded}
    <body pos="0.05 0 0"><joint name="j" axis="0 1 0.2" damping="0.01"/>
      <geom type="box" size="0.1 0.02 0.03" pos="0.1 0 0.05" quat="0.9 0.1 0 0.3" mass="0.3"/></body></body>
</body></worldbody></mujoco>"""
WELDED = '<geom type="ellipsoid" size="0.03 0.06 0.02" quat="0.8 0.2 0 0.1" mass="0.2"/>'
HINGED = '<joint name="h" axis="1 0 0"/>' + WELDED


def load(folder: Path, integrator: str = "Euler", inside: str = WELDED) -> sim.Model:
    (folder / "fish.xml").write_text(XML.format(integrator=integrator, welded=inside))
    return load_quietly(folder / "fish.xml")


def swim(model: sim.Model, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = np.concatenate([[0.0, 0.0, 1.0, 0.2, -0.3, 0.1, 0.9], 0.5 * rng.normal(size=model.nq - 7)])
    q[3:7] /= np.linalg.norm(q[3:7])
    return q, rng.normal(size=model.nv)


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_steps_are_those_of_mujoco(tmp_path, integrator):
    model = load(tmp_path, integrator)
    assert len(model.drag_boxes.link) == 3
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "fish.xml"))
    for seed in range(3):
        q, qd = swim(model, seed)
        data = data_at(peer, model, q, qd)
        state = simulator.rollout(simulator.state(q, qd), steps=10).final_state
        for _ in range(10):
            mujoco.mj_step(peer, data)
        found = sim.to_mujoco(model, *(array[0] for array in state.numpy()))
        np.testing.assert_allclose(found[1], data.qvel, atol=1e-11)
        np.testing.assert_allclose(found[0], data.qpos, atol=1e-12)


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_gradients(tmp_path, law):
    model = load(tmp_path)
    q, qd = swim(model)
    contact = METHODS[law]()
    check(Case(model, q, qd, 0.1 * np.ones((4, model.nv)), contact, 0.005), (*MEDIUM, "com", "joint_placement"))


def test_a_ball_falls_at_the_speed_of_stokes():
    """And with density alone at the one at which drag bears its weight."""
    for density, viscosity in ((0.0, 0.5), (50.0, 0.0)):
        builder = sim.ModelBuilder()
        builder.set_medium(density, viscosity)
        builder.add_sphere(radius=0.05, mass=0.1, position=(0, 0, 50), name="ball")
        builder.add_drag_box("ball", size=(0.08, 0.08, 0.08))
        simulator = sim.Simulator(builder.finalize("float64"), 0.01, device="cpu")
        speed = -simulator.rollout(simulator.initial_state(), steps=2000).qd.numpy()[-1, 0, 2]
        weight = 0.1 * 9.81
        area = 0.5 * density * 0.08**2
        expected = np.sqrt(weight / area) if density else weight / (3.0 * np.pi * 0.08 * viscosity)
        assert speed == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("suffix", ["usda", "xml"])
def test_files_keep_it(tmp_path, suffix):
    model = load(tmp_path, inside=HINGED)
    path = tmp_path / f"again.{suffix}"
    if suffix == "xml":
        quietly(sim.exporters.write_mjcf, path, model, lossy=False)
    else:
        write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=1)
    again = load_quietly(path)
    for name in MEDIUM:
        np.testing.assert_array_equal(again.parameters[name], model.parameters[name])
    q, qd = swim(model)
    ends = []
    for each in (model, again):
        simulator = sim.Simulator(each, 0.005, device="cpu", contact=sim.HardContact())
        ends.append(simulator.rollout(simulator.state(q, qd), steps=5).qd.numpy()[-1])
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-10)


def test_boxes_of_bodies_with_equal_moments_are_written(tmp_path):
    """Any axes across that of a capsule are principal ones, but the box goes with one choice of them."""
    path, again = tmp_path / "swimmer.xml", tmp_path / "again.xml"
    path.write_text("""<mujoco><option density="800" viscosity="0.3" gravity="0 0 0"/><worldbody><body><freejoint/>
      <geom type="capsule" fromto="0 0 0 0.3 0.1 0.2" size="0.04"/><body pos="0.3 0.1 0.2">
      <joint axis="0 1 0.3" damping="0.1"/><geom size="0.05" pos="0.02 0.1 0.03" euler="10 20 30"/>
      <geom size="0.05" pos="0.05 -0.06 0.1"/></body></body></worldbody></mujoco>""")
    model = load_quietly(path)
    quietly(sim.exporters.write_mjcf, again, model, lossy=False)
    q, qd = model.q0 + np.arange(model.nq) / 10.0, np.ones(model.nv)
    ends = []
    for each in (model, load_quietly(again)):
        simulator = sim.Simulator(each, 0.005, device="cpu")
        ends.append(simulator.rollout(simulator.state(q, qd), steps=5).qd.numpy()[-1])
    np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=1e-12)


def test_what_mujoco_would_drag_otherwise_is_an_error(tmp_path):
    model = load(tmp_path)  # two boxes on one link
    with pytest.raises(sim.ModelError, match="drag boxes"):
        sim.exporters.write_mjcf(tmp_path / "again.xml", model)


def test_what_is_refused(tmp_path):
    builder = sim.ModelBuilder()
    with pytest.raises(sim.ModelError, match="density"):
        builder.set_medium(density=-1.0)
    with pytest.raises(sim.ModelError, match="unknown link 'a'"):
        builder.add_drag_box("a", size=(1, 1, 1))
    builder.add_sphere(radius=0.05, mass=0.1, name="ball")
    with pytest.raises(sim.ModelError, match="must be positive"):
        builder.add_drag_box("ball", size=(1, 0, 1))
    model = load(tmp_path, "implicitfast")
    with pytest.raises(sim.ModelError, match="implicitfast' .*medium"):
        sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")


def test_another_shape_of_a_body_is_named(tmp_path):
    text = XML.format(integrator="Euler", welded=WELDED.replace("mass", 'fluidshape="ellipsoid" mass'))
    (tmp_path / "fish.xml").write_text(text)
    with pytest.warns(sim.MJCFWarning, match=r"ignored: fluidshape of geoms of body 'body_2|body 2"):
        sim.load(tmp_path / "fish.xml")


def test_forces_of_joints_are_not_told_apart_in_a_medium(tmp_path):
    simulator = sim.Simulator(load(tmp_path), 0.005, device="cpu")
    with pytest.raises(sim.ModelError, match="JointForces: .*set_medium"):
        sim.torch.JointForces(simulator)


def test_what_is_fixed_to_the_world_is_not_dragged():
    """Merged into the world or not: only the arm beside it moves, as it does without the post."""
    found = []
    for collapse_fixed, with_post in ((True, True), (False, True), (True, False)):
        builder = sim.ModelBuilder()
        builder.set_medium(density=1000.0)
        if with_post:
            builder.add_link("post", mass=1.0, inertia=(0.1, 0.1, 0.1))
            builder.add_joint("base", "fixed", child="post")
            builder.add_drag_box("post", size=(0.1, 0.2, 0.15))
        builder.add_link("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint("hinge", "revolute", child="arm", axis=(0, 1, 0))
        builder.add_drag_box("arm", size=(0.1, 0.2, 0.15))
        model = builder.finalize("float64", collapse_fixed=collapse_fixed)
        assert len(model.drag_boxes.link) == 1
        simulator = sim.Simulator(model, 0.01, device="cpu")
        found.append(simulator.rollout(simulator.state([0.1], [5.0]), steps=10).qd.numpy()[:, 0, 0])
    assert found[0][-1] < 4.99
    np.testing.assert_allclose(found[:2], [found[2]] * 2, rtol=1e-13)
