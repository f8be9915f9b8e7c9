"""MuJoCo's Euler method without the flag eulerdamp here and there, its gradients, and how files name it."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

import sim
from sim.exporters import write_mjcf
from tests.contact.mujoco.scenes import CONTROL, DT, SOLREF, Pair
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import assert_same_state
from tests.simulation.differences import case, check

NAMES = ("mass", "inertia", "armature", "damping", "friction", "actuator_kp", "actuator_kd")
WIDE = (0.7, 0.95, 0.02, 0.4, 3.0)
FILE = """
<mujoco>
  <option timestep="0.01"><flag eulerdamp="disable"/></option>
  <worldbody><body><joint name="hinge" axis="0 1 0"{joint}/><geom size=".1" pos=".3 0 0"/></body></worldbody>
</mujoco>
"""


@pytest.mark.parametrize(("cone", "steps"), [("elliptic", 1), ("elliptic", 50), ("pyramidal", 1)])
def test_against_mujoco(tmp_path, cone, steps):
    """Bodies that slide and roll, turn and lie, and an arm beyond its limits."""
    pair = Pair(tmp_path, cone)
    implicit, explicit = pair.theirs(), pair.theirs()
    for data, flags in ((implicit, 0), (explicit, mujoco.mjtDisableBit.mjDSBL_EULERDAMP)):
        pair.peer.opt.disableflags |= flags
        for _ in range(steps):
            mujoco.mj_step(pair.peer, data)
    ours = sim.Simulator(pair.model, DT, 1, "cpu", pair.contact, integrator="explicit")
    end = ours.rollout(ours.state(pair.q, pair.qd), control=np.tile(CONTROL, (steps, 1, 1))).final_state
    assert np.abs(explicit.qvel - implicit.qvel).max() > 1e-4
    assert_same_state(pair.model, end, explicit, 1e-13 if steps == 1 else 1e-9, 1e-11 if steps == 1 else 1e-8)


def test_gradients(tmp_path):
    pair = Pair(tmp_path, solimp=WIDE)
    contact = replace(pair.contact, solref=SOLREF, solimp=WIDE)
    c = case(pair.model, 5, pair.q, pair.qd, contact=contact, dt=DT)
    check(replace(c, control=np.tile(CONTROL, (5, 1)), integrator="explicit"), NAMES)


def test_files(tmp_path):
    """Only what something damps is otherwise than by Euler's method; the file that is written says the same."""
    names = {}
    for joint in ("", ' damping="2"'):
        (tmp_path / "model.xml").write_text(FILE.format(joint=joint))
        names[joint] = load_quietly(tmp_path / "model.xml").mujoco.integrator
    assert list(names.values()) == ["euler", "explicit"]
    model = load_quietly(tmp_path / "model.xml")
    back = load_quietly(write_mjcf(tmp_path / "back.xml", model))
    assert back.mujoco == model.mujoco
