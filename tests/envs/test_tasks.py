"""What the tasks of the catalogue are, against closed forms and gymnasium's own."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import sim
import sim.envs
import sim.torch
from sim.envs.tasks import panda_reach
from tests.errors import raises_naming

ROBOTS = ("Ant", "Hopper", "HalfCheetah", "Humanoid")


def test_returns_of_a_pendulum_depend_on_its_last_tip_alone():
    """n² / 2 - 2 d², with the tip from the simulator's own kinematics."""
    for links in (1, 3):
        env = sim.envs.make(f"Pendulum-{links}", 4, device="cpu", seed=0, dtype="float64")
        env.reset()
        generator = torch.Generator().manual_seed(0)
        for _ in range(100):
            action = 2.0 * torch.rand(4, links, generator=generator) - 1.0
            _, _, _, truncated, info = env.step(action)
        assert truncated.all()
        final = info["final_obs"].numpy()
        tip = final[:, links + 3 * links + 1 : links + 3 * links + 3]
        squares = tip[:, 0] ** 2 + (tip[:, 1] - 0.5 * links) ** 2
        np.testing.assert_allclose(info["episode_return"].numpy(), links**2 / 2 - 2.0 * squares, atol=1e-9)


def test_points_of_a_pendulum_are_those_of_its_links():
    env = sim.envs.make("Pendulum-3", 5, device="cpu", seed=0, dtype="float64", noise=1.0)
    env.reset()
    model = env.simulator.model
    poses = sim.forward_kinematics(model, env.state.q.numpy()).numpy()
    points = env.task.points(env.state).numpy()
    np.testing.assert_allclose(points[:, :3], poses[:, :, 1:3], atol=1e-12)
    # The mass lies at the far end of a link, so that its centre is where the next one begins.
    centre = sim.centre_of_mass(model, env.state.q.numpy()).numpy()
    mass = model.parameters["mass"]
    np.testing.assert_allclose(mass, [1.0, 2.16, 2.17])
    np.testing.assert_allclose(centre[:, 1:], (mass[:, None] * points[:, 1:]).sum(axis=1) / mass.sum(), atol=1e-12)


def test_cartpole_in_mujoco():
    """One step of the environment beside MuJoCo's cart and pole."""
    mujoco = pytest.importorskip("mujoco")
    env = sim.envs.make("CartpoleSwingup", 1, device="cpu", seed=2, dtype="float64")
    env.reset()
    pole = env.simulator.model.parameters["inertia"][1]
    text = f"""<mujoco><option timestep="{1 / 240}" integrator="Euler"/><worldbody><body>
        <inertial pos="0 0 0" mass="1" diaginertia=".01 .01 .01"/><joint type="slide" axis="1 0 0"/>
        <body><inertial pos="0 0 .5" mass=".1" diaginertia="{pole[0, 0]} {pole[1, 1]} {pole[2, 2]}"/>
        <joint type="hinge" axis="0 1 0"/></body></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = env.state.q[0].numpy(), env.state.qd[0].numpy()
    data.qfrc_applied[0] = 20.0 * 0.7
    mujoco.mj_step(model, data, 4)
    observation, reward, *_ = env.step(torch.tensor([[0.7]]))
    x, angle = data.qpos
    xd, rate = data.qvel
    np.testing.assert_allclose(observation[0].numpy(), [x, xd, math.sin(angle), math.cos(angle), rate], atol=1e-9)
    upright = math.remainder(angle, 2.0 * math.pi)
    assert reward.item() == pytest.approx(-(upright**2) - 0.1 * rate**2 - 0.05 * x**2 - 0.1 * xd**2, abs=1e-9)


@pytest.mark.parametrize("name", ROBOTS)
def test_robots_observe_what_gymnasium_does(name):
    gymnasium = pytest.importorskip("gymnasium")
    env = sim.envs.make(name, 8, device="cpu", seed=0, dtype="float64")
    env.reset()
    options = {"include_cfrc_ext_in_observation": False} if name == "Ant" else {}
    theirs = gymnasium.make(f"{name}-v5", **options).unwrapped
    assert theirs.dt == pytest.approx(env.step_dt)
    assert theirs.frame_skip == env.frame_skip
    low, high = theirs.action_space.low, theirs.action_space.high
    np.testing.assert_allclose(env.action_low.numpy(), low, atol=1e-7)
    np.testing.assert_allclose(env.action_high.numpy(), high, atol=1e-7)
    qpos, qvel = (x.numpy() for x in sim.to_mujoco(env.simulator.model, env.state.q, env.state.qd))
    seen = env.task.observe(env.state).numpy()
    for row in range(8):
        theirs.set_state(qpos[row], qvel[row])
        np.testing.assert_allclose(seen[row], theirs._get_obs()[: seen.shape[1]], atol=1e-12)
    spread = np.abs(qpos - theirs.init_qpos).max()
    assert (
        0.5 * env.task.position_noise
        < spread
        <= env.task.position_noise * (1.1 if name in ("Ant", "Humanoid") else 1.0)
    )


@pytest.mark.parametrize("name", ROBOTS)
def test_robots_are_rewarded_as_in_gymnasium(name):
    """Their formula, on this simulator's motion."""
    gymnasium = pytest.importorskip("gymnasium")
    mass_center = pytest.importorskip("gymnasium.envs.mujoco.humanoid_v5").mass_center
    env = sim.envs.make(name, 4, device="cpu", seed=1, dtype="float64", autoreset_mode="disabled")
    env.reset()
    theirs = gymnasium.make(
        f"{name}-v5", **({"contact_cost_weight": 0.0} if name in ("Ant", "Humanoid") else {})
    ).unwrapped
    generator = torch.Generator().manual_seed(0)
    action = env.action_low + (env.action_high - env.action_low) * torch.rand(4, env.num_actions, generator=generator)
    before = env.state
    _, reward, terminated, _, _ = env.step(action)
    model = env.simulator.model
    for row in range(4):
        positions = []
        for state in (before, env.state):
            qpos, qvel = (x[row].numpy() for x in sim.to_mujoco(model, state.q, state.qd))
            theirs.set_state(qpos, qvel)
            positions.append(float(mass_center(theirs.model, theirs.data)[0] if name == "Humanoid" else qpos[0]))
        velocity = (positions[1] - positions[0]) / env.step_dt
        theirs.data.ctrl[:] = action[row].numpy()
        expected, _ = theirs._get_rew(velocity, action[row].numpy())
        assert reward[row].item() == pytest.approx(float(expected), abs=1e-6)
        assert bool(terminated[row]) == (name != "HalfCheetah" and not theirs.is_healthy)


def test_the_ant_of_the_paper():
    """Heavier by 1 kg a link, without armature; its own reward and scale of velocities."""
    env, file = (sim.envs.make(name, 3, device="cpu", seed=0, dtype="float64") for name in ("AntPaper", "Ant"))
    model, of_file = env.simulator.model, file.simulator.model
    np.testing.assert_allclose(model.parameters["mass"], of_file.parameters["mass"] + 1.0)
    assert not model.parameters["armature"].any()
    assert of_file.parameters["armature"].any()
    env.reset()
    observation, _ = env.reset()
    _, qvel = sim.to_mujoco(model, env.state.q, env.state.qd)
    assert observation.shape == (3, 27)
    torch.testing.assert_close(observation[:, 13:], 0.05 * qvel)
    before = sim.torch.Robot(model).centre_of_mass(env.state.q)[:, 0]
    action = torch.full((3, 8), 0.3, dtype=torch.float64)
    _, reward, *_ = env.step(action)
    velocity = (sim.torch.Robot(model).centre_of_mass(env.state.q)[:, 0] - before) / 0.05
    torch.testing.assert_close(reward, 1.0 + velocity - 0.5 * 8 * 0.09)


def test_without_gymnasium_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with raises_naming("ant.xml", "gymnasium", "pip install 'backswing[rl]'"):
        sim.envs.make("Ant")


def test_robots_fall():
    """With random actions hoppers and humanoids fall within a few hundred steps."""
    for name in ("Hopper", "Humanoid"):
        env = sim.envs.make(name, 4, device="cpu", seed=0, autoreset_mode="disabled")
        env.reset()
        generator = torch.Generator().manual_seed(0)
        fallen = torch.zeros(4, dtype=torch.bool)
        for _ in range(300):
            share = torch.rand(4, env.num_actions, generator=generator)
            _, _, terminated, _, _ = env.step(env.action_low + (env.action_high - env.action_low) * share)
            fallen |= terminated
            if terminated.any():
                env.reset(options={"reset_mask": terminated})
        assert fallen.all()


def test_the_hand_of_a_panda_moves_as_it_is_told():
    """Its twist, from the robot's Jacobian, after a third of a second; the gain leaves it as much behind as it must."""
    env = sim.envs.make("PandaReach", 6, device="cpu", seed=0, dtype="float64")
    env.reset()
    action = torch.tensor(np.concatenate([0.4 * np.eye(3, 6), 0.4 * np.eye(3, 6, 3)]))
    robot = sim.torch.Robot(env.simulator.model)
    for _ in range(20):
        env.step(action)
    twist = robot.frame_velocity(env.state.q, env.state.qd, panda_reach.HAND).numpy()
    wanted = np.concatenate([1.5 * action[:, 3:], 0.5 * action[:, :3]], axis=1)
    np.testing.assert_allclose(twist, wanted, atol=0.02)


def test_what_is_left_to_the_pose_of_a_panda():
    """A target that is the present pose, turned by a known angle about a world axis and moved."""
    env = sim.envs.make("PandaReach", 3, device="cpu", seed=1, dtype="float64")
    env.reset()
    robot = sim.torch.Robot(env.simulator.model)
    position, quaternion = robot.forward_kinematics(env.state.q, panda_reach.HAND)
    moved, turn = torch.tensor([[0.1, -0.2, 0.3]] * 3), torch.tensor([0.0, 0.6, 0.0])
    turned = Rotation.from_rotvec(turn.numpy()) * Rotation.from_quat(quaternion.numpy())
    for sign in (1.0, -1.0):
        data = {"position": position + moved, "quaternion": sign * torch.tensor(turned.as_quat())}
        seen = env.task.observe(replace(env.state, data=data)).numpy()
        np.testing.assert_allclose(seen[:, 14:17], moved, atol=1e-12)
        np.testing.assert_allclose(seen[:, 17:], [[0.0, math.sin(0.3), 0.0]] * 3, atol=1e-12)


@pytest.mark.parametrize("name", ["Ant", "Humanoid", "Hopper"])
def test_rewards_beside_gymnasiums_own_steps(name):
    """They differ by where gymnasium sees bodies, which is within MuJoCo's last step; coordinates are at its end."""
    mujoco = pytest.importorskip("mujoco")
    gymnasium = pytest.importorskip("gymnasium")
    mass_center = pytest.importorskip("gymnasium.envs.mujoco.humanoid_v5").mass_center
    env = sim.envs.make(name, 1, device="cpu", seed=0, dtype="float64", law="mujoco", integrator="rk4")
    env.reset()
    options = {} if name == "Hopper" else {"contact_cost_weight": 0.0}
    theirs = gymnasium.make(f"{name}-v5", **options).unwrapped
    theirs.model.opt.tolerance = 0.0
    theirs.set_state(*(x[0].numpy() for x in sim.to_mujoco(env.simulator.model, env.state.q, env.state.qd)))

    def behind():
        at_end = mujoco.MjData(theirs.model)
        at_end.qpos[:], at_end.qvel[:] = theirs.data.qpos, theirs.data.qvel
        mujoco.mj_forward(theirs.model, at_end)
        seen = mass_center if name == "Humanoid" else lambda model, data: data.body("torso").xpos
        return float((seen(theirs.model, at_end) - seen(theirs.model, theirs.data))[0])

    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        share = torch.rand(1, env.num_actions, generator=generator)
        action = env.action_low + (env.action_high - env.action_low) * share
        before = behind()
        _, reward, *_ = env.step(action)
        expected = theirs.step(action[0].numpy())[1]
        late = 0.0 if name == "Hopper" else env.task.forward_weight * (behind() - before) / env.step_dt
        assert reward.item() == pytest.approx(expected + late, abs=1e-6)
        assert abs(late) < 0.06


@pytest.mark.parametrize(("name", "integrator"), [("Ant", "rk4"), ("Ant", "euler"), ("HalfCheetah", "euler")])
def test_robots_step_as_in_mujoco_under_its_law(name, integrator):
    """An environment step beside MuJoCo's: the observation after it."""
    mujoco = pytest.importorskip("mujoco")
    gymnasium = pytest.importorskip("gymnasium")
    env = sim.envs.make(name, 6, device="cpu", seed=0, dtype="float64", law="mujoco", integrator=integrator)
    env.reset()
    options = {"include_cfrc_ext_in_observation": False} if name == "Ant" else {}
    theirs = gymnasium.make(f"{name}-v5", **options).unwrapped
    integrators = {"euler": mujoco.mjtIntegrator.mjINT_EULER, "rk4": mujoco.mjtIntegrator.mjINT_RK4}
    theirs.model.opt.integrator, theirs.model.opt.tolerance = integrators[integrator], 0.0
    generator, touching = torch.Generator().manual_seed(0), 0
    for _ in range(12):
        qpos, qvel = (x.numpy() for x in sim.to_mujoco(env.simulator.model, env.state.q, env.state.qd))
        share = torch.rand(env.num_envs, env.num_actions, generator=generator)
        action = env.action_low + (env.action_high - env.action_low) * share
        seen, _, terminated, *_ = env.step(action)
        for row in np.flatnonzero(~terminated):  # the others have begun again
            theirs.set_state(qpos[row], qvel[row])
            theirs.do_simulation(action[row].numpy(), theirs.frame_skip)
            np.testing.assert_allclose(seen[row], theirs._get_obs()[: seen.shape[1]], atol=1e-8)
            touching += theirs.data.ncon
    assert touching
