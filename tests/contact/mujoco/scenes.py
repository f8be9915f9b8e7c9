"""One scene here and in MuJoCo: bodies that slide, roll and lie, and an arm beyond its limits, with dry friction."""

from pathlib import Path

import mujoco
import numpy as np

import sim
from tests.errors import quietly

DT = 0.004
XML = """
<mujoco>
  <option timestep="{dt}" cone="{cone}" impratio="{impratio}" tolerance="0" iterations="200"/>
  <default><geom solref="{solref}" solimp="{solimp}"/>
    <joint solreflimit="{solref}" solimplimit="{solimp}" solreffriction="{solref}" solimpfriction="{solimp}"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" friction="0.7"/>
    <body pos="0 0 0.098"><freejoint/><geom type="sphere" size="0.1" mass="1.3" friction="0.5"/></body>
    <body pos="1 0 0.0995"><freejoint/>
      <geom type="capsule" size="0.1 0.2" euler="90 0 0" mass="1.3" friction="0.5"/></body>
    <body pos="2 1 0.0998"><freejoint/><geom type="box" size="0.2 0.15 0.1" mass="2" condim="{box}"/></body>
    <body pos="3 0 1">
      <joint name="shoulder" type="hinge" axis="0 1 0" limited="true" range="-20 30" frictionloss="0.2"
        damping="0.4" stiffness="3" springref="10"/>
      <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.05"/>
      <body pos="0.5 0 0">
        <joint name="elbow" type="hinge" axis="0 1 0" limited="true" range="-20 30" armature="0.1" damping="2"/>
        <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.05"/></body>
    </body>
  </worldbody>
  <actuator>
    <position joint="shoulder" kp="30" kv="2" forcerange="-3 4" ctrlrange="-1 1"/>
    <velocity joint="elbow" kv="1.5"/>
    <general joint="elbow" gear="2" gainprm="3" biastype="affine" biasprm="0.4 -5 -0.7" forcerange="-4 20"/>
  </actuator>
</mujoco>
"""
SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
# Of the sphere, the capsule, the box and the arm.
Q_ARM = (0.65, -0.5)
CONTROL = (-1.2, 0.3, 0.2)
QD = (0.3, 0.1, -0.5, 0, 0, 0, 2.0, 1.0, -0.2, 0.5, 1.0, 0.3, 0.4, 1.5, -0.1, 0.1, 0, 1.0, 1.0, -2.0)


class Pair:
    """The scene here and in MuJoCo, with the options of its law."""

    def __init__(
        self, folder: Path, cone="elliptic", impratio=1.0, solref=SOLREF, solimp=SOLIMP, box=3, dtype="float64"
    ):
        path = folder / "scene.xml"
        values = {"solref": " ".join(map(str, solref)), "solimp": " ".join(map(str, solimp))}
        path.write_text(XML.format(dt=DT, cone=cone, impratio=impratio, box=box, **values))
        self.peer = mujoco.MjModel.from_xml_path(str(path))
        self.model = quietly(sim.load, path, dtype=dtype)
        friction = {"elliptic": "cone", "pyramidal": "pyramid"}[cone]
        self.contact = sim.MujocoContact(friction=friction, impratio=impratio)
        self.q = np.concatenate([self.model.q0[:-2], Q_ARM])
        self.qd = np.array(QD)

    def theirs(self) -> mujoco.MjData:
        """MuJoCo's data at the beginning."""
        data = mujoco.MjData(self.peer)
        data.ctrl = CONTROL
        data.qpos, data.qvel = sim.to_mujoco(self.model, self.q, self.qd)
        mujoco.mj_forward(self.peer, data)
        return data

    def simulator(self, num_worlds: int = 1) -> sim.Simulator:
        return sim.Simulator(self.model, DT, num_worlds, "cpu", self.contact)
