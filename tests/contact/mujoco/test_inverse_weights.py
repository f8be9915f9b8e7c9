"""Inverse weights, which scale MuJoCo's contacts and limits; bodies that only slide are weighed by their mass."""

import mujoco
import numpy as np
import pytest

import sim
from sim.cli.main import main
from sim.dynamics.kinematics import tendon_lengths
from sim.simulation.stepping.mujoco_law import InverseWeights
from tests.importers.mjcf_zoo import load_quietly

BOX = '<geom type="box" size="0.1 0.2 0.3" mass="2" pos="{}"/>'
SLIDES = '<joint type="slide" axis="1 0 0" armature="0.5"/><joint type="slide" axis="0 1 0"/>'
BODIES = {
    "slides": f'<body euler="10 20 30">{SLIDES}{BOX}</body>',
    "one slide": f'<body><joint type="slide" axis="0 0 1" armature="0.5"/>{BOX}</body>',
    "askew": f'<body><joint type="slide" axis="1 0.2 0"/>{BOX}</body>',
    "slide and hinge": f'<body><joint type="slide" axis="1 0 0"/><joint axis="0 1 0"/>{BOX}</body>',
    "one on another": f'<body><joint type="slide" axis="1 0 0"/>{BOX}<body>{SLIDES}{BOX}</body></body>',
    "on a still body": f'<body pos="1 2 3" euler="90 0 0"><body>{SLIDES}{BOX}</body></body>',
    "hinge": f'<body pos="1 2 3"><joint axis="0 1 0" pos="0 0 1"/>{BOX}</body>',
    "free": f"<body><freejoint/>{BOX}</body>",
}


@pytest.mark.parametrize("position", ["0 0 0", "0.1 0 0"])
@pytest.mark.parametrize("body", BODIES)
def test_weights_are_those_of_mujoco(tmp_path, body, position):
    path = tmp_path / "body.xml"
    path.write_text(f"<mujoco><worldbody>{BODIES[body].replace('{}', position)}</worldbody></mujoco>")
    peer, model = mujoco.MjModel.from_xml_path(str(path)), sim.load(path, dtype="float64")
    weights = InverseWeights(model)
    found = [weights.translation(each.link, each.weighed_at) for each in model.geometries]
    np.testing.assert_allclose(found, peer.body_invweight0[peer.geom_bodyid, 0], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(weights.dofs(), peer.dof_invweight0, rtol=1e-12)


def test_a_sliding_ball_is_pushed_out_of_a_wall_as_in_mujoco(tmp_path):
    """Contacts, a limit and dry friction; weighed as other bodies the change of velocity would be off by a third."""
    path = tmp_path / "ball.xml"
    path.write_text("""<mujoco><option tolerance="0"/><worldbody>
      <geom type="plane" size="1 1 1" zaxis="-1 0 0" pos="0.095 0 0"/>
      <body><joint type="slide" axis="1 0 0" armature="0.3"/>
        <joint type="slide" axis="0 1 0" range="-1 -0.01" limited="true" frictionloss="0.2"/>
        <geom size="0.1" mass="0.7"/></body></worldbody></mujoco>""")
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    data = mujoco.MjData(peer)
    data.qvel = 0.3, 0.2
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    trajectory = simulator.rollout(simulator.state(*sim.from_mujoco(model, data.qpos, data.qvel)), steps=20)
    mujoco.mj_step(peer, data, nstep=20)
    np.testing.assert_allclose(trajectory.qd.numpy()[-1, 0], data.qvel, atol=1e-11)


def test_what_works_on_the_cpu_asks_for_no_gpu(tmp_path, monkeypatch):
    """Without a device functions of a model take Warp's current one: on a machine with a GPU they would start that."""
    path = tmp_path / "arm.xml"
    path.write_text("""<mujoco><worldbody><site name="hook"/>
      <body pos="0 0 1"><joint axis="0 1 0"/><geom size="0.1" pos="0 0 -0.5"/><site name="end" pos="0 0 -0.5"/></body>
      </worldbody><tendon><spatial><site site="hook"/><site site="end"/></spatial></tendon></mujoco>""")
    model = sim.load(path)

    def refused(device):
        assert device is not None, "Warp's current device"
        return device

    monkeypatch.setattr("sim.dynamics.differentiable_op.find_device", refused)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    simulator.step(simulator.initial_state())
    np.testing.assert_allclose(tendon_lengths(model, model.q0), [0.5])
    assert main(["convert", str(path), str(tmp_path / "arm.usda")]) == 0
