"""A hand-written MJCF file with every kind of joint, geom and frame that is read, and MuJoCo beside it."""

import warnings
from pathlib import Path

import mujoco
import numpy as np

import sim
from sim.model.poses import compose
from tests.errors import quietly
from warp_kernels import types as codes

PART = """<mujocoinclude>
  <body name="panel" pos="0 0.4 0.1" xyaxes="0 1 0 -1 0 0">
    <joint name="panel" axis="0.2 0 1" pos="0.05 0 0.02" type="hinge" ref="-15" range="-60 80" frictionloss="0.3"/>
    <geom name="panel" type="mesh" mesh="wedge" material="red" rgba="0.5 0.5 0.5 1"/>
  </body>
</mujocoinclude>
"""
ZOO = """<mujoco model="zoo">
  <compiler angle="degree" eulerseq="zyx" autolimits="true"/>
  <option timestep="0.004" gravity="0.1 0.2 -9"/>
  <default>
    <joint damping="0.1" armature="0.02"/>
    <geom density="500" rgba="0.1 0.2 0.3 1"/>
    <default class="servo"><position kp="30" kv="2"/></default>
    <default class="drawn"><geom contype="0" conaffinity="0" group="1" mass="0"/></default>
  </default>
  <asset>
    <mesh name="wedge" vertex="0 0 0 .3 0 0 0 .2 0 0 0 .1 .3 0 .1 0 .2 .1"/>
    <hfield name="hills" nrow="3" ncol="4" size="2 1 0.5 0.1" elevation="0 .1 .2 .3 .4 1 .6 .7 .3 .9 .1 .2"/>
    <material name="red" rgba="1 0 0 1"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" pos="0 0 -1" euler="5 10 0"/>
    <geom name="hills" type="hfield" hfield="hills" pos="5 1 -0.5"/>
    <body name="table" pos="1 2 0" euler="30 0 10">
      <geom name="top" type="box" size="0.5 0.4 0.02"/>
      <site name="corner" pos="0.5 0.4 0.02"/>
      <body name="flap" pos="0.1 0 0.3">
        <joint name="flap" axis="1 2 0" pos="0 0.1 0.05" ref="20" springref="40" stiffness="5" range="-90 100"
               margin="0.02"/>
        <geom name="flap" type="capsule" fromto="0 0 0 0.3 0.1 0.2" size="0.03"/>
        <site name="tip" pos="0.3 0.1 0.2" euler="0 20 40"/>
      </body>
      <include file="part.xml"/>
    </body>
    <body name="planar" pos="0 0 1">
      <joint name="x" type="slide" axis="1 0 0" ref="0.3" armature="0"/>
      <joint name="z" type="slide" axis="0 0 1" ref="1.25" stiffness="30" springref="1.0"/>
      <joint name="turn" type="hinge" axis="0 1 0" pos="0.1 0 0.2" ref="10"/>
      <geom name="trunk" type="cylinder" size="0.05 0.2" axisangle="1 0 0 30"/>
      <body name="shoulder" pos="0.2 0.1 0">
        <joint name="s1" axis="1 0 0" pos="0 0 0.05"/>
        <joint name="s2" axis="0 1 0" pos="0 0.02 0.05" ref="-30" range="-70 40"/>
        <joint name="s3" axis="0 0 1" pos="0.01 0.02 0.07"/>
        <geom name="upper" type="ellipsoid" size="0.05 0.08 0.1" pos="0 0 0.1" zaxis="1 1 0"/>
        <body pos="0 0 0.3" quat="0.8 0.1 0.2 0.3">
          <joint name="wrist" type="ball" damping="0.3" pos="0.02 0 -0.05"/>
          <geom type="sphere" size="0.06"/>
          <body name="tool" pos="0.1 0 0" euler="0 0 90"><geom name="tool" type="capsule" size="0.02 0.1"/></body>
        </body>
      </body>
    </body>
    <body name="loose" pos="-1 0 1" euler="10 20 30">
      <freejoint name="loose"/>
      <inertial mass="2" pos="0.1 0 0.05" fullinertia="0.02 0.03 0.04 0.001 0.002 0.003"/>
      <geom name="loose" type="sphere" size="0.1" friction="0.3"/>
      <geom class="drawn" type="box" size="0.2 0.1 0.1"/>
    </body>
  </worldbody>
  <contact><exclude body1="tool" body2="planar"/>
    <pair geom1="loose" geom2="tool" condim="6" friction="0.7 0.7 0.01 0.002 0.002"/></contact>
  <actuator>
    <motor name="push" joint="x" gear="20" ctrlrange="-0.5 0.5"/>
    <position class="servo" joint="flap" gear="-1.5" ctrlrange="-0.2 0.3"/>
    <velocity name="spin" joint="s2" kv="3" gear="2"/>
  </actuator>
  <keyframe>
    <key name="up" qpos="0.5 -0.2 0.4 1.3 0.2 0.1 0.2 0.3 0.5 0.5 -0.5 0.5 1 2 3 0.6 0 0.8 0"
         qvel="0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1 1.1 1.2 1.3 1.4 1.5 1.6 1.7" ctrl="0.1 0.2 0.3"/>
  </keyframe>
</mujoco>
"""


def write_zoo(folder: Path) -> Path:
    """The file, and that which it includes."""
    (folder / "part.xml").write_text(PART)
    (folder / "zoo.xml").write_text(ZOO)
    return folder / "zoo.xml"


def load_quietly(path: Path, **options) -> sim.Model:
    """The model in float64, without the warnings on what it leaves out."""
    return quietly(sim.load, path, dtype="float64", **options)


def compiled(path: Path, margin: float | None = None) -> mujoco.MjModel:
    """MuJoCo's model of the file, with another margin of all geoms and pairs if wanted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        spec = mujoco.MjSpec.from_file(str(path))
        for element in (*spec.geoms, *spec.pairs) if margin is not None else ():
            element.margin = margin
        return spec.compile()


def random_state(model: sim.Model, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates in the middle of the limits where there are any, and small velocities."""
    rng = np.random.default_rng(seed)
    q = model.q0 + rng.uniform(-1.0, 1.0, model.nq)
    for link, kind in enumerate(model.joint_type):
        start = model.joint_q_start[link]
        if kind in (codes.REVOLUTE, codes.PRISMATIC):
            dof = model.joint_qd_start[link]
            lower, upper = (model.parameters[f"{side}_limit"][dof] for side in ("lower", "upper"))
            if np.isfinite([lower, upper]).all():
                q[start] = lower + (upper - lower) * rng.uniform(0.4, 0.6)
        elif kind in (codes.FREE, codes.SPHERICAL):
            start += 3 if kind == codes.FREE else 0
            turn = rng.normal(size=4)
            q[start : start + 4] = turn / np.linalg.norm(turn)
    return q, rng.uniform(-0.5, 0.5, model.nv)


def frame_pose(model: sim.Model, poses: np.ndarray, link: int, placement: np.ndarray) -> np.ndarray:
    """Pose in the world [7] of something fixed to a link."""
    return placement if link < 0 else compose(poses[link], placement)
