"""Robots whose own links overlap where they start, by the approximate shapes of their files."""

from pathlib import Path

import numpy as np
import pytest

import sim
from sim.exporters import write_mjcf
from tests.importers.reference import EXAMPLE, ROBOTS
from tests.mujoco_states import data_at
from tests.simulation.differences import case, check

H = 1 / 240
REDUCED_ICUB = EXAMPLE / "icub_description/robots/icub_reduced.urdf"


def falling(path: Path, dtype: str = "float64") -> sim.Model:
    """A robot that falls from 1.2 m, whose links collide with each other."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_urdf(path, floating_base=True, position=(0.0, 0.0, 1.2), self_collision=True)
    return builder.finalize(dtype)


def speeds(model: sim.Model) -> np.ndarray:
    """The largest velocity after each step of a second [m/s or rad/s]."""
    simulator = sim.Simulator(model, H, contact=sim.HardContact(max_contacts=300))
    contacts = simulator.contacts(simulator.state(simulator.model.q0))
    assert contacts.distance.min() < -0.003
    found = np.abs(simulator.rollout(simulator.state(simulator.model.q0), steps=240).qd.numpy()[1:, 0]).max(axis=1)
    assert not simulator.contact_overflow.any()
    return np.asarray(found)


def speeds_in_mujoco(model: sim.Model, path: Path) -> np.ndarray:
    import mujoco

    with pytest.warns(sim.MJCFWarning):
        peer = mujoco.MjModel.from_xml_path(str(write_mjcf(path, model, lossy=True)))
    peer.opt.timestep = H
    peer.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data = data_at(peer, model, model.q0, np.zeros(model.nv))
    found = []
    for _ in range(240):
        mujoco.mj_step(peer, data)
        found.append(np.abs(data.qvel).max())
    return np.array(found)


@pytest.mark.filterwarnings("ignore::sim.URDFWarning")
@pytest.mark.parametrize("name", ["go2", "solo12", "talos"])
def test_they_are_no_more_than_twice_as_fast_as_in_mujoco(name, tmp_path):
    if not ROBOTS[name].is_file():
        pytest.skip(f"{ROBOTS[name]} is not installed")
    pytest.importorskip("mujoco")
    model = falling(ROBOTS[name])
    own, peer = speeds(model), speeds_in_mujoco(model, tmp_path / "robot.xml")
    assert own.max() < 2.0 * peer.max()
    # Before they reach the ground, and in the first step.
    assert own[:90].max() < 2.0 * peer[:90].max()
    assert own[0] < 2.0 * peer[0]


@pytest.mark.filterwarnings("ignore::sim.URDFWarning")
def test_a_robot_that_mujoco_refuses():
    """Its hips have no mass. The ground sets it moving, its overlaps don't."""
    if not REDUCED_ICUB.is_file():
        pytest.skip(f"{REDUCED_ICUB} is not installed")
    found = speeds(falling(REDUCED_ICUB))
    assert found[:75].max() < 10.0
    assert found.max() < 100.0


def folded(depth: float) -> sim.Model:
    """Three links on slides without weight; the balls of the first and the last overlap."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("base", mass=2.0, inertia=(0.02, 0.02, 0.02))
    builder.add_joint("to_base", "free", child="base")
    positions = {"arm": (0.0, 0.0, 0.3), "hand": (0.2 - depth, 0.0, -0.3)}
    for parent, (child, position) in zip(("base", "arm"), positions.items(), strict=True):
        builder.add_link(child, mass=1.0, inertia=(0.01, 0.01, 0.01))
        builder.add_joint(
            f"to_{child}", "prismatic", parent=parent, child=child, position=position, axis=(1.0, 0.0, 0.0)
        )
    for name in ("base", "hand"):
        builder.add_geometry(name, "sphere", size=(0.1, 0.0, 0.0), surface=sim.Surface(friction=0.5))
    return builder.finalize("float64")


@pytest.mark.parametrize(("limit", "speed"), [(None, 0.01), (0.05, 0.05)])
def test_links_of_a_robot_part_slowly(limit, speed):
    """At a twentieth of the speed of bodies that nothing holds together, unless a speed is stated."""
    model = folded(0.005)
    simulator = sim.Simulator(model, H, contact=sim.HardContact(max_correction=limit))
    after = simulator.step(simulator.state(simulator.model.q0)).qd.numpy()[0]
    np.testing.assert_allclose(after[6] + after[7], speed, rtol=5e-3)


@pytest.mark.parametrize("depth", [1e-4, 5e-3])
def test_gradients_of_links_that_overlap(depth):
    """Where they part at a speed that follows the depth, and at the largest, whatever their size."""
    c = case(folded(depth), 4, qd=[0.1, 0.2, -0.1, 0.2, 0.1, 0.3, 0.001, -0.002], contact=sim.HardContact())
    zero = ["geometry_size"] if depth > 1e-3 else []
    check(c, ["mass", "com", "geometry_size"], zero=zero)
