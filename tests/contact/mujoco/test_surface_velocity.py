"""Moving surfaces of MJCF files: steps beside MuJoCo, and files that are written."""

import re

import mujoco
import numpy as np
import pytest

import sim
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at

XML = """
<mujoco>
  <option timestep="0.004" cone="{cone}" tolerance="0" iterations="200" noslip_iterations="{noslip}"/>
  <default><geom solref="0.03 0.9" solimp="0.7 0.95 0.02 0.4 3" friction="0.6 0.02 0.003"/></default>
  <asset>
    <mesh name="wedge" vertex="0 0 0 1 0 0 0 1 0 0 0 0.2 1 0 0.2 0 1 0.2"/>
    <hfield name="hills" nrow="2" ncol="2" elevation="0 0.3 0.1 0.5" size="1 1 0.02 0.1"/>
  </asset>
  <worldbody>
    <geom type="plane" size="5 5 1" surfacevel="0.5 0.2 0.1 0.3 -0.2 1.5" euler="0 0 20"/>
    <geom type="mesh" mesh="wedge" pos="2 0 0" euler="10 0 40" surfacevel="0.3 -0.4 0.2 1 0.5 -2"/>
    <geom type="hfield" hfield="hills" pos="-3 0 0" surfacevel="-0.6 0.1 0 0.4 0.2 1"/>
    <body pos="0.3 0.1 0.098"><freejoint/><geom type="sphere" size="0.1" mass="1.3" condim="{condim}"/></body>
    <body pos="1 0.2 0.049"><freejoint/>
      <geom type="box" size="0.1 0.08 0.05" mass="0.8" surfacevel="-0.3 0.6 0 0 0 2" condim="{condim}"/></body>
    <body pos="2.037 0.364 0.366"><freejoint/><geom type="sphere" size="0.1" mass="0.7"/></body>
    <body pos="-3.1 0.2 0.104"><freejoint/><geom type="sphere" size="0.1" mass="0.5"/></body>
  </worldbody>
</mujoco>
"""


def scene(folder, cone="elliptic", noslip=0, condim=4):
    path = folder / "scene.xml"
    path.write_text(XML.format(cone=cone, noslip=noslip, condim=condim))
    return path, load_quietly(path)


@pytest.mark.parametrize(("noslip", "condim"), [(0, 3), (0, 4), (0, 6), (5, 3)])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_one_step(tmp_path, cone, noslip, condim):
    path, model = scene(tmp_path, cone, noslip, condim)
    peer = mujoco.MjModel.from_xml_path(str(path))
    qd = 0.3 * np.cos(1.3 * np.arange(model.nv))
    data = data_at(peer, model, model.q0, qd)
    mujoco.mj_step(peer, data)
    assert {0, 1, 2} <= set(data.contact.geom.ravel().tolist())
    assert np.abs(data.contact.surfacevel[:, :2]).min() > 0.0
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    end = simulator.step(simulator.state(model.q0, qd))
    _, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
    # Not of the last ball: contacts with heightfields differ.
    np.testing.assert_allclose(qvel[:-6], data.qvel[:-6], atol=1e-11)


def test_files(tmp_path):
    """Written and read again, every surface moves as before, although frames of meshes and heightfields differ."""
    _, model = scene(tmp_path)
    again = load_quietly(sim.exporters.write_mjcf(tmp_path / "again.xml", model))
    pushes = 0.3 * np.sin(np.arange(model.nv))
    ends = []
    for each in (model, again):
        simulator = sim.Simulator(each, **sim.mujoco_settings(each))
        ends.append(simulator.step(simulator.state(model.q0, pushes)).qd.numpy())
        assert len(simulator.contacts(simulator.state(model.q0))) == 7
    np.testing.assert_allclose(*ends, atol=1e-8)
    written = re.findall(r'surfacevel="([^"]*)"', (tmp_path / "again.xml").read_text())
    assert len(written) == 4
