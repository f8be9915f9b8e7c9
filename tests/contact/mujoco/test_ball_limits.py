"""Limits of ball joints under MuJoCo's law: steps beside MuJoCo, gradients, files."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

import sim
import sim.exporters
from sim.usd import write_usd
from tests.importers.mjcf_zoo import load_quietly
from tests.simulation.differences import Case, blocks, check
from warp_kernels.constraints.kinds import CONE_LIMIT

# A shoulder with a limit of its own softness, and an elbow that has a margin.
XML = """<mujoco><compiler angle="radian"/><option timestep="0.004"/><worldbody>
  <body pos="0 0 1" quat="0.9 0.1 -0.3 0.2"><joint name="shoulder" type="ball" range="0 0.8" damping="0.05"
      solreflimit="0.03 0.8" solimplimit="0.8 0.93 0.02 0.4 3"/>
    <geom type="capsule" size="0.04" fromto="0 0 0 0.3 0 0" mass="0.6"/>
    <body pos="0.3 0 0"><joint name="elbow" type="ball" range="0 1.1" margin="0.1"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0 0.2 0.1" mass="0.4"/></body>
  </body>
</worldbody></mujoco>"""
NAMES = ("rotation_limit", "limit_margin", "mass", "com")


def turn(angle: float, axis: tuple[float, ...]) -> np.ndarray:
    """A quaternion xyzw."""
    axis = np.array(axis) / np.linalg.norm(axis)
    return np.append(np.sin(angle / 2) * axis, np.cos(angle / 2))


Q = np.concatenate([turn(0.83, (1, 2, -0.5)), -turn(1.05, (0.2, -1, 1))])
QD = np.array([0.7, 1.2, -0.1, 0.3, -1.4, 1.1])


@pytest.fixture
def path(tmp_path) -> Path:
    (tmp_path / "arm.xml").write_text(XML)
    return tmp_path / "arm.xml"


def wxyz(q: np.ndarray) -> np.ndarray:
    return np.concatenate([q[[3, 0, 1, 2]], q[[7, 4, 5, 6]]])


def test_steps_are_those_of_mujoco(path):
    model = load_quietly(path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    peer = mujoco.MjModel.from_xml_path(str(path))
    peer.opt.tolerance = 0.0
    data = mujoco.MjData(peer)
    rng = np.random.default_rng(0)
    for angles in ((0.83, 1.05), (0.95, 1.3), (0.5, 1.5), (0.9, 0.2)):
        q = np.concatenate([turn(angle, rng.normal(size=3)) * rng.choice([-1, 1]) for angle in angles])
        data.qpos[:], data.qvel[:] = wxyz(q), rng.normal(size=6)
        found = simulator.step(simulator.state(q, data.qvel))
        mujoco.mj_step(peer, data)
        limits = [block for block in blocks(simulator) if block.kind == CONE_LIMIT]
        assert len(limits) == data.nefc == (angles[0] > 0.8) + (angles[1] > 1.0)
        np.testing.assert_allclose(found.qd.numpy()[0], data.qvel, atol=1e-11)


def test_gradients(path):
    model = load_quietly(path)
    settings = sim.mujoco_settings(model)
    case = Case(model, Q, QD, 0.1 * np.ones((3, 6)), settings["contact"], settings["dt"])
    check(case, NAMES)
    soft = sim.MujocoContact(solref=(0.02, 1.0), solimp=(0.8, 0.95, 0.5, 0.5, 2.0))
    check(Case(model, Q, QD, 0.1 * np.ones((3, 6)), soft, settings["dt"]), ("solref", "solimp"))


def test_swing_and_twist_have_gradients_under_this_law_too():
    builder = sim.ModelBuilder()
    builder.add_link("ball", mass=1.0, com=(0.1, 0.2, 0.0), inertia=(0.01, 0.02, 0.03))
    builder.add_joint("j", "spherical", child="ball", axis=(0, 0.6, 0.8), limits=sim.Limits(swing=0.4, twist=0.5))
    contact = sim.MujocoContact()
    q = turn(1.3, (1.0, 0.4, 0.6))
    check(
        Case(builder.finalize("float64"), q, QD[:3], np.zeros((2, 3)), contact, 0.002), ("swing_limit", "twist_limit")
    )


@pytest.mark.parametrize("angle", [0.7, -0.7])
def test_the_hard_law_stops_a_rotation_as_it_stops_a_hinge(angle):
    """About a principal axis through the centre of mass, without gravity."""
    ends = []
    for kind, limits in (("spherical", sim.Limits(rotation=0.75)), ("revolute", sim.Limits(-0.75, 0.75))):
        builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
        builder.add_link("ball", mass=1.0, inertia=(0.01, 0.02, 0.03))
        builder.add_joint("j", kind, child="ball", axis=(0, 0, 1), limits=limits)
        simulator = sim.Simulator(builder.finalize("float64"), 0.01, device="cpu")
        spins = kind == "spherical"
        q = turn(angle, (0, 0, 1)) if spins else [angle]
        state = simulator.state(q, [0.0, 0.0, 9.0 * angle] if spins else [9.0 * angle])
        ends.append(simulator.rollout(state, steps=5).qd.numpy()[:, 0, -1])
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-8)
    assert abs(ends[0][-1]) < 0.1


@pytest.mark.parametrize("suffix", ["usda", "xml"])
def test_files_keep_them(tmp_path, path, suffix):
    model = load_quietly(path)
    again = tmp_path / f"again.{suffix}"
    if suffix == "xml":
        sim.exporters.write_mjcf(again, model)
    else:
        write_usd(again, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=1)
    kept = load_quietly(again)
    for name in ("rotation_limit", "limit_margin"):
        np.testing.assert_allclose(kept.parameters[name], model.parameters[name])
    assert kept.limit_softness == model.limit_softness


def test_what_is_refused():
    builder = sim.ModelBuilder()
    builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    with pytest.raises(sim.ModelError, match="limits.rotation .*spherical.* revolute"):
        builder.add_joint("j", "revolute", child="body", limits=sim.Limits(rotation=1.0))
