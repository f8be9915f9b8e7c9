"""MJCF read and written again, with merged links: MuJoCo moves the written file as the given one."""

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import sim
from sim.exporters import write_mjcf
from tests.errors import quietly
from tests.importers.reference import GYMNASIUM, installed


def numbers(values):
    return " ".join(f"{value:.6f}" for value in np.ravel(values))


def softness(rng):
    solref = [rng.uniform(0.01, 0.05), rng.uniform(0.5, 1.5)] if rng.random() < 0.6 else [-rng.uniform(300, 3000), -30]
    solimp = [*rng.uniform((0.3, 0.85, 0.001, 0.2), (0.8, 0.98, 0.05, 0.8)), rng.choice([1, 2, 3])]
    return f'solref="{numbers(solref)}" solimp="{numbers(solimp)}"'


def part(rng, name, inside=""):
    """A welded body with a geom, off its parent's centre of mass."""
    shape = rng.choice(
        ['type="sphere" size="0.05"', 'type="capsule" size="0.03 0.06"', 'type="box" size="0.05 .03 .04"']
    )
    attributes = f'pos="{numbers(rng.uniform(-0.15, 0.15, 3))}" euler="{numbers(rng.uniform(-90, 90, 3))}"'
    return f"""<body name="{name}" {attributes}><geom name="{name}" {shape} mass="{rng.uniform(0.05, 0.6):.4f}"
      friction="{rng.uniform(0.2, 1.0):.3f}" {softness(rng)}/>{inside}</body>"""


def scene(rng):
    """An arm led by a mocap body at a merged hand and tied to the world at its pad, and a thing that falls."""
    rod = '<geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" mass="0.5"/>'
    hand = part(rng, "hand", part(rng, "pad"))
    thing = part(rng, "foot0") + part(rng, "foot1", part(rng, "toe")) + part(rng, "foot2")
    excluded = "".join(f'<exclude body1="{a}" body2="{b}"/>' for a, b in (("hand", "toe"), ("foot0", "upper")))
    target = rng.choice(["pad", "hand"])
    return f"""<mujoco><option timestep="0.002" cone="{rng.choice(["elliptic", "pyramidal"])}"/><worldbody>
    <geom type="plane" size="3 3 1"/><body name="lead" mocap="true" pos="0.35 0.1 0.4"/>
    <body name="lower" pos="0 0 0.4"><joint axis="0 0 1" damping="0.1"/><joint axis="0 1 0" damping="0.1"/>{rod}
      <body name="upper" pos="0.2 0 0"><joint axis="0 1 0" damping="0.1"/>{rod}
        <body name="wrist" pos="0.2 0 0"><joint type="ball" damping="0.05"/>{rod}{hand}</body></body></body>
    <body name="thing" pos="{numbers(rng.uniform((0.4, -0.2, 0.3), (0.6, 0.2, 0.5)))}"><freejoint/>
      <geom type="box" size="0.1 0.1 0.03" mass="1"/>{thing}</body></worldbody><contact>{excluded}</contact>
    <equality><weld body1="hand" body2="lead" torquescale="{rng.uniform(0.2, 2):.3f}" {softness(rng)}
      relpose="{numbers(rng.uniform(-0.1, 0.1, 3))} 1 {numbers(rng.uniform(-0.4, 0.4, 3))}"/>
    <connect body1="{target}" body2="upper" anchor="{numbers(rng.uniform(-0.1, 0.1, 3))}" {softness(rng)}/></equality>
    <sensor><contact geom1="pad" data="found force" reduce="netforce"/></sensor></mujoco>"""


def states(path, steps, leads=True):
    """MuJoCo's positions and velocities while mocap bodies go round; the number of contacts that there were."""
    peer = mujoco.MjModel.from_xml_path(str(path))
    # To the end: a solver that stops before is at another place for other rounding.
    peer.opt.solver, peer.opt.iterations, peer.opt.tolerance = mujoco.mjtSolver.mjSOL_NEWTON, 200, 0.0
    data, found, contacts = mujoco.MjData(peer), [], 0
    start = data.mocap_pos.copy()
    for step in range(steps):
        if leads:
            data.mocap_pos[:] = start + 0.05 * np.array([np.sin(step / 40), np.sin(step / 25), np.cos(step / 60) - 1.0])
        else:
            data.ctrl[:] = 0.4 * np.sin(step / 20 + np.arange(peer.nu))
        mujoco.mj_step(peer, data)
        contacts += data.ncon
        found.append(np.concatenate([data.qpos, data.qvel]))
    return np.array(found), contacts


@pytest.mark.parametrize("seed", range(8))
def test_merged_links_move_as_before(tmp_path, seed):
    """Welds to a mocap body, points, contacts and excluded pairs of links without joints."""
    given, written, twice = (tmp_path / f"{name}.xml" for name in ("given", "written", "twice"))
    given.write_text(scene(np.random.default_rng(seed)))
    model = quietly(sim.load, given, dtype="float64")
    assert "pad" not in model.link_names
    quietly(write_mjcf, written, model)
    quietly(write_mjcf, twice, quietly(sim.load, written, dtype="float64"))
    (expected, contacts), (found, _), (again, _) = (states(path, 400) for path in (given, written, twice))
    assert contacts > 0
    assert np.abs(expected[-1] - expected[0]).max() > 0.01
    # Rounding of the written poses, as contacts make it grow.
    assert_allclose(found[:100], expected[:100], rtol=0, atol=1e-8)
    assert_allclose(again[:100], expected[:100], rtol=0, atol=1e-8)
    assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["ant", "humanoid", "hopper", "half_cheetah", "pusher_v5"])
def test_robots_move_as_before(tmp_path, name):
    given = installed(GYMNASIUM / f"{name}.xml")
    quietly(write_mjcf, tmp_path / "a.xml", quietly(sim.load, given, dtype="float64"))
    (expected, _), (found, _) = states(given, 100, leads=False), states(tmp_path / "a.xml", 100, leads=False)
    assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("joint", ["free", "prismatic", "revolute"])
def test_prescribed_joints_keep_their_velocity(tmp_path, joint):
    """A led body pushes a box in MuJoCo as here, and in what is read from the file again."""
    b = sim.ModelBuilder()
    b.add_ground(surface=sim.Surface(friction=0.3))
    b.add_link("led", mass=1.0, inertia=(0.1, 0.1, 0.1))
    axis = {} if joint == "free" else {"axis": (1.0, 0.0, 0.0) if joint == "prismatic" else (0.0, 0.0, 1.0)}
    b.add_joint("lead", joint, child="led", position=(-0.3, -0.3, 0.15), kinematic=True, **axis)
    b.add_geometry("led", "box", size=(0.1, 0.5, 0.1), surface=sim.Surface(friction=0.3))
    b.add_box(
        half_extents=(0.1, 0.1, 0.1), mass=0.7, position=(0.0, 0.0, 0.1), surface=sim.Surface(friction=0.3), name="body"
    )
    model, path = b.finalize("float64"), tmp_path / "led.xml"
    rate = np.zeros(model.nv)
    rate[model.qd_slice("lead").start] = -0.7 if joint == "revolute" else 0.5
    quietly(write_mjcf, path, model)
    again = quietly(sim.load, path, dtype="float64")
    found = {}
    for name, each in (("written", model), ("read", again)):
        simulator = sim.Simulator(each, 0.002, device="cpu", contact=sim.MujocoContact())
        trajectory = simulator.rollout(simulator.state(each.q0, rate), steps=300)
        found[name] = trajectory.qd.numpy()[-1, 0], trajectory.q.numpy()[-1, 0]
    peer = mujoco.MjModel.from_xml_path(str(path))
    peer.opt.timestep = 0.002
    data = mujoco.MjData(peer)
    _, data.qvel[:] = sim.to_mujoco(again, again.q0, rate)
    for _ in range(300):
        mujoco.mj_step(peer, data)
    lead, body = model.qd_slice("lead"), model.qd_slice("body")
    for name, (qd, q) in found.items():
        assert_allclose(qd[lead], rate[lead], rtol=1e-9, atol=1e-9, err_msg=name)
        assert np.abs(qd[body][:2]).max() > 0.1, name
        theirs = sim.from_mujoco(again, data.qpos, data.qvel)
        assert_allclose(q, theirs[0], atol=2e-3, err_msg=name)
        assert_allclose(qd[lead], theirs[1][lead], rtol=1e-6, atol=1e-6, err_msg=name)
