"""What MuJoCo's law weighs constraints by, in written files: joints that follow others, and what was welded."""

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import sim
from sim.exporters import write_mjcf
from sim.usd import write_usd
from tests.errors import quietly, strictly

ROD = '<geom type="capsule" fromto="0 0 0 0.4 0 0.1" size="0.03" contype="0" conaffinity="0"/>'
FOLLOWER = f"""<mujoco><worldbody><body><joint name="a" axis="0 1 0" ref="0.2"/>{ROD}
  <body pos="0.4 0 0.1"><joint name="b" axis="0 1 0" damping="0.1"/>{ROD}
    <body pos="0.4 0 0.1"><joint name="c" axis="0 0.6 0.8"/>{ROD}</body></body></body></worldbody>
<tendon><fixed name="t"><joint joint="b" coef="1"/></fixed><fixed name="u"><joint joint="c" coef="2"/></fixed></tendon>
<equality><joint joint1="b" joint2="a" polycoef="0.7 1 0 0 0"/><tendon tendon1="t" tendon2="u" polycoef="0.1 1 0 0 0"/>
</equality></mujoco>"""
TABLE = """<mujoco><worldbody><geom type="plane" size="2 2 1"/><body name="top" pos="0 0 0.6"><freejoint/>
<geom type="box" size="0.4 0.3 0.02"/>{}</body></worldbody></mujoco>"""
LEG = '<body name="leg{}" pos="{} {} -0.3"><geom name="leg{}" type="capsule" size="0.03 0.25"/></body>'
LEGS = "".join(LEG.format(k, x, y, k) for k, (x, y) in enumerate([(0.3, 0.2), (0.3, -0.2), (-0.3, 0.2), (-0.3, -0.2)]))


def load(tmp_path, text, **options):
    (tmp_path / "given.xml").write_text(text)
    return quietly(sim.load, tmp_path / "given.xml", dtype="float64", **options)


def stepped(model):
    """Coordinates and velocities after one step of MuJoCo's law from a state in motion."""
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    state = simulator.step(simulator.state(model.q0, np.linspace(0.5, 1.5, model.nv)))
    return np.concatenate([state.q.numpy()[0], state.qd.numpy()[0]])


@pytest.mark.parametrize("form", ["mjcf", "usd"])
def test_joints_that_follow_others_are_weighed_as_before(tmp_path, form):
    """The follower starts at 0.7 rad, and is weighed where its file has it, at 0."""
    model = load(tmp_path, FOLLOWER)
    assert_allclose(model.q0[1], 0.7)
    if form == "usd":
        poses = sim.forward_kinematics(model, model.q0[None])
        again = strictly(sim.load, write_usd(tmp_path / "again.usda", model, poses, fps=30), dtype="float64")
    else:
        again = quietly(sim.load, strictly(write_mjcf, tmp_path / "again.xml", model), dtype="float64")
    assert_allclose(again.q0, model.q0, atol=1e-14)
    assert_allclose(again.equalities.coupling_q0, model.equalities.coupling_q0, atol=1e-15)
    assert_allclose(stepped(again), stepped(model), rtol=1e-10)


def test_weights_of_a_scene_with_other_parts(tmp_path):
    """A box that is not from the file: the written file has the file's options, and weighs its joints as the law."""
    options = '<option timestep="0.004" integrator="implicitfast" impratio="3"/>'
    (tmp_path / "robot.xml").write_text(FOLLOWER.replace("<mujoco>", f"<mujoco>{options}"))
    builder = sim.ModelBuilder()
    quietly(builder.add_mjcf, tmp_path / "robot.xml")
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(3, 0, 0), name="box")
    model = quietly(builder.finalize, "float64")
    assert model.mujoco is None
    again = quietly(sim.load, quietly(write_mjcf, tmp_path / "again.xml", model), dtype="float64")
    given = quietly(sim.load, tmp_path / "robot.xml").mujoco
    assert again.mujoco == given
    assert_allclose(again.q0, model.q0, atol=1e-14)
    assert_allclose(again.equalities.coupling_q0, model.equalities.coupling_q0, atol=1e-15)
    assert_allclose(stepped(again), stepped(model), rtol=1e-9)


def test_mujoco_weighs_joints_that_follow_others_as_before(tmp_path):
    model = load(tmp_path, FOLLOWER)
    strictly(write_mjcf, tmp_path / "again.xml", model)
    given, again = (mujoco.MjModel.from_xml_path(str(tmp_path / f"{name}.xml")) for name in ("given", "again"))
    assert_allclose(again.dof_invweight0, given.dof_invweight0, rtol=1e-8)
    assert_allclose(again.qpos0, given.qpos0, atol=1e-14)
    assert_allclose(again.key_qpos[0], model.q0, atol=1e-14)
    ends = []
    for peer in (given, again):
        data = mujoco.MjData(peer)
        data.qpos, data.qvel = model.q0, np.linspace(0.5, 1.5, 3)
        mujoco.mj_step(peer, data)
        ends.append(data.qvel.copy())
    assert_allclose(ends[1], ends[0], rtol=1e-6)


def test_links_that_stay_keep_the_weights_of_what_is_on_them(tmp_path):
    """MuJoCo weighs geoms at the centre of mass of their body, which a file doesn't have once bodies are merged."""
    text = TABLE.format(LEGS)
    whole = load(tmp_path, text, collapse_fixed=False)
    quietly(write_mjcf, tmp_path / "whole.xml", whole)
    given, kept = (mujoco.MjModel.from_xml_path(str(tmp_path / f"{name}.xml")) for name in ("given", "whole"))
    assert_allclose(kept.body_invweight0, given.body_invweight0, rtol=1e-8)
    again = quietly(sim.load, tmp_path / "whole.xml", dtype="float64")
    assert_allclose(stepped(again), stepped(load(tmp_path, text)), rtol=1e-10)
    poses = sim.forward_kinematics(whole, whole.q0[None])
    read = quietly(sim.load, write_usd(tmp_path / "whole.usda", whole, poses, fps=30), dtype="float64")
    assert_allclose(stepped(read), stepped(load(tmp_path, text)), rtol=1e-10)
