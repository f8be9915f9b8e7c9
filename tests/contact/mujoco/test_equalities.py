"""Points, welds and coupled joints under MuJoCo's law: one step beside MuJoCo, and gradients."""

import warnings
from dataclasses import replace

import mujoco
import numpy as np
import pytest

import sim
from tests.errors import raises_naming
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import case, check

DT = 0.003
XML = """
<mujoco>
  <option timestep="0.003" cone="elliptic" integrator="{integrator}" tolerance="0" iterations="200"/>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body name="upper" pos="0 0 1"><joint name="a" type="hinge" axis="0 1 0" damping="0.1" armature="0.02"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04"/>
      <body name="lower" pos="0.4 0 0"><joint name="b" type="hinge" axis="0 1 0.2"/>
        <geom type="capsule" fromto="0 0 0 0 0.1 -0.4" size="0.04"/>
        <body name="tip" pos="0 0.1 -0.4"><geom type="box" size="0.05 0.06 0.07"/></body></body></body>
    <body name="other" pos="0.5 0.3 1.2"><joint name="c" type="ball"/>
      <geom type="box" size="0.1 0.2 0.05"/></body>
    <body name="loose" pos="0.5 0.9 1"><freejoint/><geom type="box" size="0.1 0.06 0.05" pos="0.03 0 0.01"/></body>
    <body name="resting" pos="2 0 0.0999"><freejoint/><geom type="sphere" size="0.1"/></body>
    <body name="carried" pos="2.3 0 0.1"><freejoint/><geom type="sphere" size="0.1"/></body>
  </worldbody>
  <equality>
    <connect name="pin" body1="tip" body2="other" anchor="0.02 0.01 -0.03" {softness}/>
    <connect name="hook" body1="loose" anchor="0.1 0.06 0.05"/>
    <weld name="bond" body1="other" body2="loose" torquescale="{scale}" {softness}/>
    <weld name="glue" body1="resting" body2="carried" relpose="0.28 0.01 0 1 0 0.1 0"/>
    <joint name="follow" joint1="b" joint2="a" polycoef="0.1 -1.5 0 0 0" {softness}/>
  </equality>
</mujoco>
"""
SOFTNESS = {
    "default": "",
    "wide": 'solref="0.05 0.7" solimp="0.5 0.95 0.3 0.4 3"',
    "stiffness": 'solref="-300 -20" solimp="0.8 0.9 0.2 0.5 2"',
}


def written(folder, softness: str = "", scale: float = 1.0, integrator: str = "Euler"):
    path = folder / "scene.xml"
    path.write_text(XML.format(softness=softness, scale=scale, integrator=integrator))
    return path


def start(model: sim.Model) -> tuple[np.ndarray, np.ndarray]:
    """Off the constraints, and moving."""
    q = sim.integrate(model, model.q0[None], 0.03 * np.sin(np.arange(model.nv))[None], 1.0).numpy()[0]
    return q, np.cos(1.7 * np.arange(model.nv))


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("softness", SOFTNESS.values(), ids=SOFTNESS)
def test_one_step(tmp_path, softness, scale, integrator):
    path = written(tmp_path, softness, scale, integrator)
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    q, qd = start(model)
    data = data_at(peer, model, q, qd)
    mujoco.mj_forward(peer, data)
    assert data.ne == 3 + 3 + 6 + 6 + 1
    before = data.qvel.copy()
    mujoco.mj_step(peer, data)
    end = simulator.step(simulator.state(q, qd))
    _, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
    assert np.abs(data.qvel - before).max() > 0.1
    np.testing.assert_allclose(qvel, data.qvel, atol=1e-11 * np.abs(data.qvel - before).max())


@pytest.mark.parametrize("steps", [1, 6])
def test_gradients(tmp_path, steps):
    model = load_quietly(written(tmp_path, SOFTNESS["wide"], 0.3))
    contact = sim.MujocoContact(solref=(0.05, 0.7), solimp=(0.5, 0.95, 0.3, 0.4, 3.0))
    c = case(model, steps, *start(model), contact=contact, dt=DT)
    names = ("mass", "com", "inertia", "anchor_a", "anchor_b", "coupling_ratio", "coupling_offset", "solref", "solimp")
    check(c, names)
    check(replace(c, integrator="rk4"), ["mass", "anchor_a", "coupling_ratio", "solimp"])


def test_softness_comes_back_from_other_formats(tmp_path):
    from sim.exporters import write_mjcf
    from sim.usd import write_usd

    model = load_quietly(written(tmp_path, SOFTNESS["wide"], 0.3))
    expected = model.equalities
    assert {each.solref for each in expected.anchor_softness} == {(0.05, 0.7), (0.02, 1.0)}
    assert sorted(expected.anchor_torque_scale) == [0.3, 1.0, 1.0, 1.0]
    write_mjcf(tmp_path / "again.xml", model)
    poses = sim.forward_kinematics(model, model.q0[None])
    usd = write_usd(tmp_path / "again.usdc", model, poses, fps=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sim.USDWarning)  # the frames of the constraints are apart
        of_usd = sim.load(usd, dtype="float64")
    for again in (load_quietly(tmp_path / "again.xml"), of_usd):
        order = [again.equalities.anchor_names.index(name) for name in expected.anchor_names]
        assert tuple(again.equalities.anchor_softness[row] for row in order) == expected.anchor_softness
        np.testing.assert_array_equal(again.equalities.anchor_torque_scale[order], expected.anchor_torque_scale)
        assert again.equalities.coupling_softness == expected.coupling_softness


def test_a_scale_that_is_not_positive():
    builder = sim.ModelBuilder()
    with raises_naming("constraint 'bond'", "torque_scale", "0.0", "positive"):
        builder.add_weld_constraint("bond", "a", "b", torque_scale=0.0)
