"""Gravity compensation: MuJoCo's forces and motion, what passive=False leaves out, energy, gradients, files."""

import mujoco
import numpy as np
import pytest
import torch

import sim
import sim.exporters
import sim.torch
import sim.usd
from sim.arrays.device_model import DeviceModel
from tests.dynamics.gradients import check_gradients
from tests.errors import raises_naming
from tests.importers.mjcf_zoo import random_state
from tests.importers.usd_scenes import poses_at
from tests.simulation.differences import case, check

MJCF = """<mujoco><option gravity="0.5 -1 -9.81" timestep="0.002"/><worldbody>
  <body gravcomp="0.7"><joint axis="0 1 0" damping="0.2" stiffness="3"/><geom size="0.1" pos="0.2 0 0.3" mass="1.5"/>
    <body pos="0 0 0.5" gravcomp="1"><joint type="slide" axis="1 0 0.3"/><geom size="0.1" pos="0 0.1 0" mass="0.8"/>
      <body pos="0.1 0 0.4" gravcomp="-0.4"><geom size="0.1" mass="0.3"/></body>
      <body pos="0.3 0 0"><joint type="ball"/><geom type="box" size="0.1 0.05 0.2" pos="0.1 0.1 0.2" mass="0.6"/></body>
    </body></body>
  <body pos="3 0 1" gravcomp="1.3"><freejoint/><geom type="box" size="0.1 0.2 0.05" pos="0.1 0 0" mass="2"/></body>
</worldbody></mujoco>"""
PARAMETERS = ("gravity_compensation", "gravity", "mass", "com", "inertia", "joint_placement")


@pytest.fixture
def model(tmp_path) -> sim.Model:
    (tmp_path / "floating.xml").write_text(MJCF)
    return sim.load(tmp_path / "floating.xml", dtype="float64")


def axes(model: sim.Model, q: np.ndarray) -> np.ndarray:
    """Velocities of MuJoCo from ours [nv, nv]."""
    return np.stack([sim.to_mujoco(model, q, unit)[1] for unit in np.eye(model.nv)], axis=1)


def test_only_what_a_file_states(model):
    """A welded body with another share stays a link, one with the same or none is merged."""
    assert model.num_links == 5
    np.testing.assert_array_equal(np.sort(model.parameters["gravity_compensation"]), [-0.4, 0.0, 0.7, 1.0, 1.3])
    builder = sim.ModelBuilder()
    for name, share in (("a", None), ("b", 0.5), ("c", 0.5), ("d", None)):
        builder.add_link(name, mass=0.0 if name == "a" else 1.0, inertia=(1, 1, 1), gravity_compensation=share)
    builder.add_joint("a", "revolute", child="a")
    for parent, child in (("a", "b"), ("b", "c"), ("b", "d")):
        builder.add_joint(child, "fixed", parent=parent, child=child)
    found = builder.finalize()
    assert found.link_names == ("a", "d")
    np.testing.assert_array_equal(found.parameters["gravity_compensation"], [0.5, 0.0])
    builder.links["b"].gravity_compensation = builder.links["c"].gravity_compensation = None
    assert not builder.finalize().compensated
    with raises_naming("link 'e'", "gravity_compensation", "nan", "finite"):
        builder.add_link("e", gravity_compensation=np.nan)


def test_forces_are_those_of_mujoco(model, tmp_path):
    """The share of passive forces that isn't of springs, and accelerations at rest; of a written file, too."""
    written = sim.exporters.write_mjcf(tmp_path / "again.xml", model)
    for path in (tmp_path / "floating.xml", written):
        peer = mujoco.MjModel.from_xml_path(str(path))
        data, ours = mujoco.MjData(peer), sim.load(path, dtype="float64")
        q, _ = random_state(ours, 3)
        turn, still = axes(ours, q), np.zeros((1, ours.nv))
        data.qpos[:] = sim.to_mujoco(ours, q, still[0])[0]
        mujoco.mj_forward(peer, data)
        all_forces, without = (
            sim.inverse_dynamics(ours, q[None], still, still, passive=passive).numpy()[0] for passive in (True, False)
        )
        found = without - all_forces
        expected = turn.T @ (data.qfrc_gravcomp + data.qfrc_spring)
        assert np.abs(data.qfrc_gravcomp).max() > 1.0
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
        acceleration = sim.forward_dynamics(ours, q[None], still, still).numpy()[0]
        np.testing.assert_allclose(turn @ acceleration, data.qacc, rtol=0, atol=1e-10 * np.abs(data.qacc).max())


def test_a_step_from_rest(model):
    """The simulator applies the same force, step after step."""
    model.parameters["stiffness"][:] = model.parameters["damping"][:] = 0.0
    q, _ = random_state(model, 4)
    still = np.zeros(model.nv)
    simulator = sim.Simulator(model, 1e-3, device="cpu", contact=sim.HardContact())
    expected = 1e-3 * sim.forward_dynamics(model, q[None], still[None], still[None]).numpy()[0]
    for _ in range(2):
        found = simulator.step(simulator.state(q, still)).qd.numpy()[0]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_a_body_without_weight_stays(model):
    model.parameters["gravity_compensation"][:] = 1.0
    model.parameters["stiffness"][:] = 0.0
    simulator = sim.Simulator(model, 0.01, 2, "cpu")
    trajectory = simulator.rollout(simulator.initial_state(), steps=100)
    np.testing.assert_allclose(trajectory.qd.numpy(), 0.0, atol=1e-12)


def test_potential_energy_has_these_forces(model):
    """Its slope is what holds the model still."""
    q, _ = random_state(model, 5)
    still, h = np.zeros((1, model.nv)), 1e-5
    slope = []
    for unit in np.eye(model.nv):
        above, below = (
            sim.potential_energy(model, sim.integrate(model, q[None], side * h * unit[None]).numpy()).numpy()[0]
            for side in (1.0, -1.0)
        )
        slope.append((above - below) / (2.0 * h))
    np.testing.assert_allclose(slope, sim.inverse_dynamics(model, q[None], still, still).numpy()[0], atol=1e-8)


@pytest.mark.parametrize("per_world", [False, True], ids=["shared", "per world"])
@pytest.mark.parametrize("function", [sim.inverse_dynamics, sim.forward_dynamics])
@pytest.mark.parametrize("pushed", [False, True])
def test_gradients_of_dynamics(function, model, per_world, pushed, device):
    """More worlds than a lane group has, and not a multiple of it, where each has its own parameters."""
    rng, worlds = np.random.default_rng(0), 2
    q = np.stack([random_state(model, seed)[0] for seed in range(worlds)])
    arguments = [q, *rng.normal(size=(2, worlds, model.nv))]
    if pushed:
        arguments.append(rng.normal(size=(worlds, model.num_links, 6)))
    check_gradients(function, model, arguments, PARAMETERS, per_world, device)


def test_gradient_of_the_potential_energy(model, device):
    q = np.stack([random_state(model, seed)[0] for seed in range(2)])
    names = ("gravity_compensation", "gravity", "mass", "com")
    check_gradients(sim.potential_energy, model, [q], names, False, device)


def test_gradients_of_a_rollout(model):
    q, qd = random_state(model, 6)
    check(case(model, 8, q, qd, sim.HardContact()), PARAMETERS)


def test_worlds_of_a_lane_group_are_as_alone(model):
    """Eleven worlds, each with its own shares."""
    rng = np.random.default_rng(1)
    shares = rng.normal(size=(11, model.num_links))
    q = np.stack([random_state(model, seed)[0] for seed in range(11)])
    qd, qdd = rng.normal(size=(2, 11, model.nv))
    together = sim.inverse_dynamics(DeviceModel(model, "cpu", 11, {"gravity_compensation": shares}), q, qd, qdd).numpy()
    for world in range(11):
        alone = DeviceModel(model, "cpu", 1, {"gravity_compensation": shares[world]})
        one = sim.inverse_dynamics(alone, *(x[world : world + 1] for x in (q, qd, qdd))).numpy()[0]
        np.testing.assert_allclose(together[world], one, rtol=1e-12, atol=1e-12)


def test_of_a_robot(model):
    """A parameter of the module where the model has it, with gradients; otherwise there is none."""
    robot = sim.torch.Robot(model, dtype=torch.float64)
    robot.learn("gravity_compensation")
    q = torch.tensor(random_state(model, 7)[0])
    still = torch.zeros(model.nv, dtype=torch.float64)
    share = robot.gravity_compensation.detach().clone().requires_grad_()

    def force(given: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(robot, {"gravity_compensation": given}, (q, still, still))

    robot.forward = robot.inverse_dynamics  # type: ignore[method-assign]
    torch.autograd.gradcheck(force, (share,))
    without = robot.inverse_dynamics(q, still, still, passive=False)
    torch.testing.assert_close(without, robot.bias_forces(q, still))
    plain = sim.ModelBuilder()
    plain.add_sphere(radius=0.1, mass=1.0)
    with raises_naming("unknown", "parameter 'gravity_compensation'"):
        sim.torch.Robot(plain.finalize()).learn("gravity_compensation")
    with raises_naming("unknown", "parameter 'gravity_compensation'"):
        sim.Simulator(plain.finalize(), 0.01, device="cpu").parameters["gravity_compensation"] = 1.0


def test_files(model, tmp_path):
    sim.usd.write_usd(tmp_path / "floating.usda", model, poses_at(model, model.q0), fps=30)
    again = sim.load(tmp_path / "floating.usda", dtype="float64")
    share = "gravity_compensation"
    np.testing.assert_array_equal(again.parameters[share], model.parameters[share])
    with pytest.raises(sim.ModelError):
        sim.exporters.write_urdf(tmp_path / "floating.urdf", model)
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0, inertia=(1, 1, 1), gravity_compensation=0.5)
    builder.add_joint("j", "revolute", child="a")
    with raises_naming("'a'"):
        sim.exporters.write_urdf(tmp_path / "a.urdf", builder.finalize())
