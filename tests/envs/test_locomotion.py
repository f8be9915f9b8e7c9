"""Legged robots from files, and the task that follows velocities with them."""

import copy
import math
from dataclasses import replace
from types import MappingProxyType

import mujoco
import numpy as np
import pytest
import torch
import trimesh
from scipy.spatial.transform import Rotation

import sim
from scenes import quadruped
from sim.dynamics.lowest_points import lowest_points
from sim.envs import NewEpisodes, TaskState, VectorEnv, VelocityTask, legged_robot
from sim.envs.tasks.locomotion.legged_robot import fitted_sphere
from sim.envs.tasks.locomotion.robots import QuadrupedGetUp, QuadrupedVelocity
from sim.exporters import write_mjcf
from sim.learn import make_learner
from tests.errors import raises_naming

STAND = {".*thigh.*": 0.8, ".*calf.*": -1.6}
BIPED = """
<mujoco><worldbody><body name="hips" pos="0 0 1"><freejoint name="root"/><geom type="box" size="0.1 0.2 0.05"/>
  <body name="left" pos="0 0.15 0"><joint name="left" axis="0 1 0"/>
    <geom name="left/shin" type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/>
    <geom name="left/toe" type="sphere" pos="0.1 0 -0.31" size="0.02"/></body>
  <body name="right" pos="0 -0.15 0"><joint name="right" axis="0 1 0"/>
    <geom name="right/shin" type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/></body>
</body></worldbody>
<actuator>{}</actuator></mujoco>
"""


class Quiet(QuadrupedVelocity):
    """The quadruped without anything random but its commands and starts."""

    push = 0.0
    noise = MappingProxyType({})
    spread = MappingProxyType({})


def stepped(env: VectorEnv, steps: int, seed: int = 0) -> list[torch.Tensor]:
    """Actions of some steps, which an environment takes."""
    generator = torch.Generator().manual_seed(seed)
    shape = (env.num_envs, env.num_actions)
    actions = [torch.rand(shape, generator=generator, dtype=env.dtype) - 0.5 for _ in range(steps)]
    for action in actions:
        env.step(action)
    return actions


# ---- robots ----------------------------------------------------------------------------------------------------------


def test_the_quadruped_stands_as_its_scene_does():
    robot = QuadrupedVelocity().robot
    scene = quadruped.build(servo=True)
    np.testing.assert_allclose(robot.q, scene.q0, atol=1e-6)
    assert robot.feet == tuple((f"{leg}_foot/collision_0",) for leg in quadruped.LEGS)
    assert robot.joints == quadruped.joint_names()
    for name in ("actuator_kp", "actuator_kd"):
        np.testing.assert_array_equal(robot.model.parameters[name], scene.model.parameters[name])


def test_servos_of_a_file_stay_in_their_order(tmp_path):
    """The actuators are listed the other way round; the toe is 1 cm above the ground and belongs to a foot."""
    file = tmp_path / "biped.xml"
    file.write_text(BIPED.format('<position joint="right" kp="20" kv="1"/><position joint="left" kp="30" kv="1"/>'))
    robot = legged_robot(file, {"left": 0.0, ".*": 0.1})
    assert robot.base == "hips"
    assert robot.joints == ["left", "right"]
    assert robot.servos.tolist() == [1, 0]
    assert robot.q[7:].tolist() == pytest.approx([0.0, 0.1])
    assert robot.height == pytest.approx(0.33)
    assert robot.feet == (("left/shin", "left/toe"), ("right/shin",))
    task = VelocityTask(robot)
    env = VectorEnv(task, 2, device="cpu", seed=0)
    env.reset()
    inputs = task.inputs(env.state, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))["control"]
    torch.testing.assert_close(inputs, torch.tensor([[0.6, 0.0], [0.1, 0.5]]))


def test_gains_by_joint_and_colliders_by_name():
    gains = {".*calf.*": 50.0, ".*": 30.0}
    robot = legged_robot(quadruped.QUADRUPED_URDF, STAND, kp=gains, kd=1.0, colliders=".*foot.*|trunk/.*")
    collide = [geometry.name for geometry in robot.model.geometries if geometry.collides]
    assert collide == ["trunk/collision_0", *(f"{leg}_foot/collision_0" for leg in quadruped.LEGS), "ground"]
    expected = [50.0 if "calf" in name else 30.0 for name in robot.joints]
    assert robot.model.parameters["actuator_kp"].tolist() == expected


def test_rotor_inertias_by_joint():
    robot = legged_robot(quadruped.QUADRUPED_URDF, STAND, kp=60.0, armature={".*calf.*": 0.02, ".*hip.*": 0.01})
    expected = [0.02 if "calf" in name else 0.01 if "hip" in name else 0.0 for name in robot.joints]
    np.testing.assert_allclose(robot.model.parameters["armature"], [0.0] * 6 + expected)


LOCKABLE = """
<mujoco><worldbody><body name="hips" pos="0 0 1"><freejoint name="root"/><geom type="box" size="0.1 0.2 0.05"/>
  <body name="leg" pos="0 0.15 0"><joint name="hip" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/></body>
  <body name="neck" pos="0.1 0 0.1" euler="20 0 30"><joint name="neck" axis="1 2 0"/><geom size="0.05" pos="0.1 0 0.1"/>
    <body name="head" pos="0 0 0.2" euler="0 40 0"><joint name="head" type="slide" axis="0 1 1"/>
      <geom type="box" size="0.05 0.06 0.07" pos="0.02 0 0.1"/>
      <body name="ear" pos="0 0.1 0"><joint name="ear" axis="0 0 1"/><geom size="0.03" pos="0.05 0 0"/></body></body>
  </body>
</body></worldbody>
<actuator><position joint="hip" kp="60"/><position joint="head" kp="20"/><position joint="ear" kp="1"/></actuator>
<keyframe><key qpos="0 0 1 1 0 0 0 0.1 0.2 0.3 0.4"/></keyframe></mujoco>
"""


def test_locked_joints_stay_at_their_standing_angles(tmp_path):
    """The mass matrix is that of the whole robot in this pose, without the rows of the locked joints."""
    file = tmp_path / "lockable.xml"
    file.write_text(LOCKABLE)
    stand = {"hip": -0.3, "neck": 0.7, "head": 0.1, "ear": -0.4}
    whole = legged_robot(file, stand, dtype="float64")
    robot = legged_robot(file, stand, locked="neck|head", dtype="float64")
    assert (whole.joints, robot.joints) == (["hip", "neck", "head", "ear"], ["hip", "ear"])
    assert [robot.joints[servo] for servo in robot.servos] == ["hip", "ear"]
    assert robot.height == pytest.approx(whole.height, abs=1e-12)
    matrices = [
        sim.torch.Robot(each.model, device="cpu").mass_matrix(torch.tensor(each.q)[None])[0].numpy()
        for each in (whole, robot)
    ]
    kept = [0, 1, 2, 3, 4, 5, 6, 9]
    np.testing.assert_allclose(matrices[1], matrices[0][np.ix_(kept, kept)], atol=1e-12)
    loaded = mujoco.MjModel.from_xml_path(str(write_mjcf(tmp_path / "locked.xml", robot.model)))
    assert (loaded.nv, loaded.nu, loaded.nkey) == (8, 2, 0)
    with raises_naming("locked", "'tail'", "lockable.xml"):
        legged_robot(file, stand, locked="tail")


COUPLED = """
<robot name="coupled"><link name="base">{body}<collision><geometry><box size="1 1 1"/></geometry></collision></link>
  <link name="first">{body}</link><link name="second">{body}</link>
  <joint name="leads" type="continuous"><parent link="base"/><child link="first"/></joint>
  <joint name="follows" type="continuous"><parent link="first"/><child link="second"/>
    <mimic joint="leads" multiplier="2" offset="0.1"/></joint>
  <link name="third">{body}</link>
  <joint name="other" type="continuous"><parent link="base"/><child link="third"/></joint></robot>
""".format(body='<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>')


def test_coupled_joints_are_locked_together(tmp_path):
    file = tmp_path / "coupled.urdf"
    file.write_text(COUPLED)
    robot = legged_robot(file, {"leads": 0.3, "follows": 0.7}, kp=1.0, locked="leads|follows")
    assert robot.joints == ["other"]
    for locked, named in (("leads", ["'leads'", "'follows'", "both"]), ("follows", ["'follows'", "'leads'", "both"])):
        with raises_naming("coupled.urdf", "locked", *named):
            legged_robot(file, {"leads": 0.3, "follows": 0.7}, kp=1.0, locked=locked)
    with raises_naming("locked", "'follows' stands at 0,", "0.7", "stand"):
        legged_robot(file, {"leads": 0.3}, kp=1.0, locked="leads|follows")
    with raises_naming("stand", "'leads'", "finite"):
        legged_robot(file, {"leads": math.nan}, kp=1.0, locked="leads|follows")


@pytest.mark.parametrize("locked", [".*", "hip|head|ear"])
def test_a_robot_moves_at_least_one_joint(locked, tmp_path):
    """The neck has no servo."""
    file = tmp_path / "lockable.xml"
    file.write_text(LOCKABLE)
    with raises_naming("lockable.xml", "locked", repr(locked), "servo"):
        legged_robot(file, {}, locked=locked)


@pytest.mark.parametrize("kp", [{}, {".*calf.*": 1.0}])
def test_a_robot_with_few_servos_or_none_moves_at_least_one_joint(kp):
    with raises_naming("quadruped.urdf", "locked", "'.*'", "all joints"):
        legged_robot(quadruped.QUADRUPED_URDF, STAND, kp=kp, locked=".*")
    robot = legged_robot(quadruped.QUADRUPED_URDF, STAND, kp=kp, locked=".*hip.*")
    assert (len(robot.joints), robot.model.nu) == (8, 4 * len(kp))


def test_joints_of_tendons_are_not_locked(tmp_path):
    file = tmp_path / "tendon.xml"
    tendon = '<tendon><fixed name="string"><joint joint="neck" coef="1"/></fixed></tendon>'
    file.write_text(LOCKABLE.replace("<actuator>", f"{tendon}<actuator>"))
    with raises_naming("locked", "'string'", "'neck'"):
        legged_robot(file, {}, locked="neck")
    assert legged_robot(file, {}, locked="ear").joints == ["hip", "neck", "head"]


def test_a_sphere_through_points_is_found():
    points = np.random.default_rng(0).normal(size=(50, 3))
    points = np.array([0.1, -0.2, 0.3]) + 0.4 * points / np.linalg.norm(points, axis=1, keepdims=True)
    centre, radius = fitted_sphere(points[points[:, 2] < 0.4])
    np.testing.assert_allclose([*centre, radius], [0.1, -0.2, 0.3, 0.4], atol=1e-12)


def test_round_meshes_collide_as_spheres(tmp_path):
    """A ball of triangles on a link that is turned and moved, scaled from centimetres."""
    ball = trimesh.creation.icosphere(subdivisions=2, radius=3.0)
    ball.apply_translation((1.0, 0.0, -2.0))
    ball.export(tmp_path / "ball.stl")
    mesh = '<geometry><mesh filename="ball.stl" scale="0.01 0.01 0.01"/></geometry>'
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    origin = '<origin xyz="0 0 0.5" rpy="1.5707963267948966 0 0"/>'
    shape = f'<link name="hips">{inertial}<collision>{origin}{mesh}</collision></link>'
    file = tmp_path / "ball.urdf"
    file.write_text(f'<robot name="ball">{shape}</robot>')
    robot = legged_robot(file, {}, kp=1.0, balls="hips/.*")
    (found,) = (each for each in robot.model.geometries if each.link == 0 and each.collides)
    assert found.mesh is None
    np.testing.assert_allclose(found.size[0], 0.03, rtol=1e-6)
    np.testing.assert_allclose(found.placement[:3], [0.01, 0.02, 0.5], atol=1e-6)
    assert robot.height == pytest.approx(0.03 - 0.5, abs=1e-6)
    with raises_naming("balls", "'sole'", "ball.urdf"):
        legged_robot(file, {}, kp=1.0, balls="sole")


@pytest.mark.parametrize(
    ("actuators", "options", "named"),
    [
        ("", {}, ["no servos", "kp"]),
        ('<motor name="m" joint="left"/>', {"kp": 1.0}, ["'m'", "servo"]),
        ('<position joint="left" kp="1"/>', {"colliders": "sole"}, ["colliders"]),
        ('<general name="m" joint="left" gainprm="1" biastype="affine" biasprm="2 -1"/>', {}, ["'m'", "servo"]),
        ('<general name="m" joint="left" gainprm="1" biastype="affine" biasprm="0 -2"/>', {}, ["'m'", "servo"]),
        ('<intvelocity name="m" joint="left" kp="1" actrange="-1 1"/>', {}, ["'m'", "servo"]),
        ('<position joint="left" kp="1"/>', {"colliders": "("}, ["colliders", "'('"]),
        ('<position joint="left" kp="1"/>', {"balls": "("}, ["balls", "'('"]),
        ('<position joint="left" kp="1"/>', {"balls": ".*"}, ["balls", "'.*'"]),
        ('<position joint="left" kp="1"/>', {"stand": {"(": 0.1}}, ["stand", "'('"]),
        ('<position joint="left" kp="1"/>', {"stand": {".*": "low"}}, ["stand", "'low'"]),
        ('<position joint="left" kp="1"/>', {"stand": [0.1, 0.2]}, ["stand", "dictionary"]),
        ('<position joint="left" kp="1"/>', {"feet": ["left/toe"]}, ["feet", "'left/toe'"]),
        ('<position joint="left" kp="1"/>', {"feet": [["left/toe"], []]}, ["feet", "[]"]),
        ('<position joint="left" kp="1"/>', {"feet": []}, ["feet"]),
        ("", {"kp": {".*": None}}, ["kp", "None"]),
        ('<position joint="left" kp="1"/>', {"delay": sim.Delay(0.01, samples=2)}, ["delay", "servos", "biped.xml"]),
        ('<position joint="left" kp="1"/>', {"stand": {"knee": 0.1}}, ["stand", "'knee'", "left, right"]),
    ],
)
def test_files_that_are_no_legged_robots(actuators, options, named, tmp_path):
    file = tmp_path / "biped.xml"
    file.write_text(BIPED.format(actuators))
    with raises_naming(*named):
        legged_robot(file, **{"stand": {}, **options})


def test_targets_are_in_units_of_the_actuators(tmp_path):
    file = tmp_path / "biped.xml"
    file.write_text(BIPED.format('<position joint="left" kp="20" gear="3"/><position joint="right" kp="30"/>'))
    task = VelocityTask(legged_robot(file, {".*": 0.1}))
    env = VectorEnv(task, 1, device="cpu", seed=0)
    env.reset()
    inputs = task.inputs(env.state, torch.tensor([[0.2, 0.2]]))["control"]
    torch.testing.assert_close(inputs, torch.tensor([[0.6, 0.2]]))


def upright_action(task: sim.envs.GetUpTask, state: TaskState) -> torch.Tensor:
    """Return the action whose targets are the joints of the standing robot."""
    return -task.bent(state) / task.of_joints("action_scale", task.action_scale)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "feet", "options", "steps"),
    [
        ("Go2Velocity", 4, {"idle": 1.0}, 25),
        ("Go2GetUp", 4, {"tilt": 0.0, "start_bend": 0.1}, 50),
        ("G1Velocity", 2, {"idle": 1.0}, 25),
    ],
)
def test_robots_of_example_robot_data_stand(name, feet, options, steps):
    """With the standing targets and no command, for half a second; one that falls upright, after a second."""
    env = sim.envs.make(name, 2, device="cpu", seed=0, delay=0.01, **options)
    task = env.task
    assert (len(task.robot.feet), len(task.robot.joints), env.num_actions) == (feet, 12, 12)
    env.reset()
    for _ in range(steps):
        action = upright_action(task, env.state) if isinstance(task, sim.envs.GetUpTask) else torch.zeros(2, 12)
        _, reward, terminated, _, _ = env.step(action)
        assert not terminated.any()
    assert bool(reward.isfinite().all())
    assert bool((task.height(env.state) > 0.8 * task.robot.height).all())
    assert task.stands(env.state).float().mean() > 0.9


def test_a_robot_needs_a_free_base():
    with raises_naming("first joint must be free"):
        legged_robot(quadruped.QUADRUPED_URDF, STAND, kp=1.0, floating_base=False)


# ---- task ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walked() -> tuple[VectorEnv, TaskState, torch.Tensor, TaskState]:
    """An environment, and one of its steps: state before, action, state after."""
    env = VectorEnv(Quiet(dtype="float64"), 3, device="cpu", seed=0)
    env.reset()
    stepped(env, 7)
    before = env.state
    (action,) = stepped(env, 1, seed=1)
    return env, before, action, env.state


def test_measurements_are_along_the_axes_of_the_base(walked):
    env, _, _, state = walked
    turn = Rotation.from_quat(state.q[:, 3:7].numpy()).inv()
    parts = [
        state.data["command"],
        *(turn.apply(state.qd[:, columns].numpy()) for columns in (slice(0, 3), slice(3, 6))),
        turn.apply(np.tile([0.0, 0.0, -1.0], (3, 1))),
        state.q[:, 7:] - torch.tensor(quadruped.standing_legs()),
        state.qd[:, 6:],
        state.data["action"],
    ]
    seen = env.observe()
    np.testing.assert_allclose(seen["policy"], np.concatenate(parts, axis=1), atol=1e-6)
    weight = 9.81 * env.simulator.model.parameters["mass"].sum()
    forces = [state.readings[foot] / weight for (foot,) in env.task.robot.feet]
    np.testing.assert_allclose(seen["critic"], np.concatenate([*parts, *forces], axis=1), atol=1e-6)


def test_terms_of_the_reward(walked):
    env, before, action, after = walked
    task = env.task
    velocity, rate, down = (value.numpy() for value in task.motion(after))
    command, step = before.data["command"].numpy(), 0.02
    stands = np.stack([after.readings[foot][:, 2] > 1.0 for (foot,) in task.robot.feet], axis=1)
    air = before.data["air"].numpy()
    bent = after.q[:, 7:].numpy() - quadruped.standing_legs()
    expected = {
        "velocity": 1.5 * np.exp(-4.0 * ((velocity - command)[:, :2] ** 2).sum(axis=1)),
        "turn": 0.75 * np.exp(-4.0 * (rate - command)[:, 2] ** 2),
        "vertical": -2.0 * velocity[:, 2] ** 2,
        "tilt_rate": -0.05 * (rate[:, :2] ** 2).sum(axis=1),
        "level": -2.5 * (down[:, :2] ** 2).sum(axis=1),
        "smooth": -0.01 * ((action - before.data["action"]) ** 2).sum(dim=1).numpy(),
        "acceleration": -2.5e-7 * (((after.qd - before.qd)[:, 6:] / step) ** 2).sum(dim=1).numpy(),
        "air": 0.5 * ((air - 0.3) * (stands & (air > 0.0))).sum(axis=1),
        "pose": -0.1 * (bent**2).sum(axis=1),
        "still": np.zeros(3),
    }
    found = task.reward(before, action, after)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], step * value, rtol=1e-6, atol=1e-12, err_msg=name)
    idle = replace(before, data={**before.data, "command": torch.zeros(3, 3, dtype=torch.float64)})
    found = task.reward(idle, action, after)
    np.testing.assert_allclose(found["still"], -0.5 * step * abs(bent).sum(axis=1), rtol=1e-6)
    assert not found["air"].any()


def test_feet_count_their_time_in_the_air():
    class Endless(Quiet):
        least_height, tilt = -10.0, 3.2

    env = VectorEnv(Endless(), 1, device="cpu", seed=0)
    env.reset()
    expected = torch.zeros(1, 4)
    seen = set()
    for k in range(40):
        env.step(torch.full((1, 12), 1.0 if k % 10 < 5 else -1.0))
        expected = torch.where(env.task.stands(env.state), 0.0, expected + 0.02)
        torch.testing.assert_close(env.state.data["air"], expected)
        seen |= set((expected > 0.0).flatten().tolist())
    assert seen == {True, False}


def test_commands_and_pushes_come_at_intervals():
    class Often(Quiet):
        command_seconds, push_seconds, push, idle = 0.1, 0.06, 0.3, 0.5

    task = Often()
    env = VectorEnv(task, 64, device="cpu", seed=0)
    env.reset()
    low, high = torch.tensor(Often.commands).unbind(dim=1)
    state, commands = env.state, []
    for k in range(1, 16):
        now = replace(state, steps=torch.full((64,), k))
        changed = task.events(now)
        due = now.steps + state.data["offset"]
        assert torch.equal(changed["command"][due % 5 != 0], state.data["command"][due % 5 != 0])
        commands.append(changed["command"][due % 5 == 0])
        push = changed["qd"] - state.qd
        assert torch.equal(push.any(dim=1), due % 3 == 0)
        assert bool((push[:, 2:] == 0.0).all())
        assert 0.25 < push.abs().max() < 0.3001
    drawn = torch.cat(commands)
    assert len(drawn) == 3 * 64
    assert bool(((drawn >= low) & (drawn <= high)).all())
    assert 0.4 < (drawn == 0.0).all(dim=1).float().mean() < 0.6
    torch.testing.assert_close(task.measurements(state)["command"], state.data["command"])


def test_parameters_are_drawn_for_the_robot_alone():
    env = VectorEnv(QuadrupedVelocity(), 16, device="cpu", seed=0)
    observation, _ = env.reset()
    given = env.simulator.model.parameters
    names = [geometry.name for geometry in env.simulator.model.geometries]
    drawn = env.state.parameters
    assert (drawn["friction"][:, names.index("ground")] == given["friction"][names.index("ground")]).all()
    factors = drawn["mass"] / torch.tensor(given["mass"]).float()
    torch.testing.assert_close(factors, factors[:, :1].expand_as(factors))
    assert 0.9 <= factors.min() < 0.95 < 1.05 < factors.max() <= 1.1
    torch.testing.assert_close(observation["critic"][:, -3], factors[:, 0])
    inertia = torch.tensor(given["inertia"]).float()
    torch.testing.assert_close(drawn["inertia"], factors[:, :, None, None] * inertia)


def test_factors_of_parameters_that_are_zero_are_one():
    task = VelocityTask(legged_robot(quadruped.QUADRUPED_URDF, STAND, kp=60.0))
    env = VectorEnv(task, 4, device="cpu", seed=0)
    observation, _ = env.reset()
    assert list(task.spread)[-1] == "actuator_kd"
    assert observation["critic"][:, -1].tolist() == [1.0] * 4
    assert bool(observation["critic"].isfinite().all())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"spread": {"masses": (0.9, 1.1)}}, ["spread", "'masses'", "mass"]),
        ({"spread": {"mass": 1.1}}, ["spread", "'mass'", "1.1"]),
        ({"spread": {"actuator_delay": (0.0, 1.0)}}, ["spread", "actuator_delay", "delay"]),
        ({"commands": ((-1.0, 1.0), (-0.5, 0.5))}, ["commands", "3 pairs"]),
        ({"noise": {"joint": 0.1}}, ["noise", "'joint'", "joints"]),
        ({"weights": {**VelocityTask.weights, "posed": 1.0}}, ["weights", "'posed'", "pose"]),
        ({"weights": {"velocity": 1.0}}, ["weights", "'turn'", "velocity"]),
    ],
)
def test_settings_that_do_not_fit(changes, named):
    cls = type("Wrong", (QuadrupedVelocity,), changes)
    with raises_naming("Wrong", *named):
        env = VectorEnv(cls(), 1, device="cpu", seed=0)
        env.reset()
        env.step(torch.zeros(1, 12))


def test_laws_and_robots_that_are_refused():
    robot = QuadrupedVelocity().robot
    with raises_naming("law", "['hard']"):
        VelocityTask(robot, ["hard"])
    with raises_naming("feet"):
        VelocityTask(replace(robot, feet=()))
    with raises_naming("robot", "LeggedRobot"):
        VelocityTask(robot.model)
    with raises_naming("VelocityTask", "robot", "servos", "kp"):
        VelocityTask(legged_robot(quadruped.QUADRUPED_URDF, STAND, kp={}))


def test_episodes_without_an_end():
    class Endless(Quiet):
        max_episode_length = math.inf

    env = VectorEnv(Endless(), 2, device="cpu", seed=0)
    env.reset()
    *_, truncated, _ = env.step(torch.zeros(2, 12))
    assert not truncated.any()


def test_the_log_has_mean_errors_of_episodes():
    class Short(Quiet):
        max_episode_length = 6

    env = VectorEnv(Short(), 4, device="cpu", seed=0, autoreset_mode="disabled")
    env.reset()
    errors = []
    for _ in range(6):
        *_, info = env.step(torch.zeros(4, 12))
        velocity, rate, _ = env.task.motion(env.state)
        miss = velocity - env.state.data["command"]
        errors.append(torch.stack([miss[:, :2].norm(dim=1), (rate - env.state.data["command"])[:, 2].abs()]))
    for k, name in enumerate(("speed_error", "turn_error")):
        assert float(info["log"][f"data/{name}"]) == pytest.approx(float(torch.stack(errors)[:, k].mean()), rel=1e-5)


def test_fallen_and_tipped_robots_are_told_apart():
    task = Quiet()
    env = VectorEnv(task, 3, device="cpu", seed=0)
    env.reset()
    q = env.state.q.clone()
    q[:, 3:7] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    q[0, 2] = 0.15
    q[1, 3:7] = torch.tensor([np.sin(0.55), 0.0, 0.0, np.cos(0.55)])
    found = task.terminated(replace(env.state, q=q))
    assert found["fallen"].tolist() == [True, False, False]
    assert found["tipped"].tolist() == [False, True, False]


def test_the_same_episodes_again():
    """From a seed, and from a saved state in the middle of episodes with commands, pushes and noise."""

    class Busy(QuadrupedVelocity):
        command_seconds, push_seconds, max_episode_length = 0.1, 0.1, 12

    def episodes(env: VectorEnv) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(3)
        found = []
        for _ in range(10):
            observation, reward, *_ = env.step(torch.rand(4, 12, generator=generator) - 0.5)
            found += [observation["policy"], observation["critic"], reward]
        return found

    runs = []
    for _ in range(2):
        env = VectorEnv(Busy(), 4, device="cpu", seed=5)
        env.reset()
        stepped(env, 5)
        kept = copy.deepcopy(env.get_state())
        runs.append(episodes(env))
    env.set_state(kept)
    for run in (runs[1], episodes(env)):
        assert all(torch.equal(a, b) for a, b in zip(runs[0], run, strict=True))


def test_gradient_by_differences():
    """Of the rewards of two steps in the actions of the first, through contact forces and velocities."""
    env = VectorEnv(Quiet(dtype="float64"), 2, device="cpu", seed=0, differentiable=True)
    env.reset()
    stepped(env, 3)
    kept = env.get_state()
    generator = torch.Generator().manual_seed(2)
    first, along = (torch.rand(2, 12, generator=generator, dtype=torch.float64) - 0.5 for _ in range(2))

    def total(action: torch.Tensor) -> torch.Tensor:
        env.set_state(kept)
        return env.step(action)[1].sum() + env.step(0.5 * action)[1].sum()

    action = first.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(total(action), action)
    h = 1e-6
    with torch.no_grad():
        expected = (total(first + h * along) - total(first - h * along)) / (2.0 * h)
    assert float((gradient * along).sum()) == pytest.approx(float(expected), rel=1e-5)
    assert gradient.abs().min() > 0.0


def test_a_task_of_one_s_own_adds_terms_and_leaves_out_observations():
    class Blind(Quiet):
        weights = MappingProxyType({**VelocityTask.weights, "height": -10.0})

        def terms(self, before, action, after):
            return {**super().terms(before, action, after), "height": (self.height(after) - 0.3).square()}

        def measurements(self, state):
            found = super().measurements(state)
            del found["velocity"]
            return found

    env = VectorEnv(Blind(), 2, device="cpu", seed=0)
    env.reset()
    *_, info = env.step(torch.zeros(2, 12))
    assert env.num_observations == 45
    expected = -0.2 * (env.state.q[:, 2] - 0.3).square()
    torch.testing.assert_close(info["reward_terms"]["height"], expected)
    settings = make_learner(Blind(), "ppo", iterations=1, device="cpu", envs=4).settings
    assert settings.horizon == 24


@pytest.mark.parametrize("cls", [QuadrupedVelocity, QuadrupedGetUp])
def test_settings_are_arguments(cls):
    task = cls(push=1.5, spread={"mass": (0.5, 2.0)}, max_episode_length=20)
    assert (task.push, task.max_episode_length, list(task.spread)) == (1.5, 20, ["mass"])
    assert cls().push == cls.push != 1.5
    env = VectorEnv(task, 16, device="cpu", seed=0)
    env.reset()
    factors = env.state.parameters["mass"] / torch.tensor(task.model().parameters["mass"])
    assert factors.min() < 0.8
    assert factors.max() > 1.5
    made = sim.envs.make_task(cls.__name__, push=1.5)
    assert made.push == 1.5
    with raises_naming(cls.__name__, "'pushes'", "push", "terrain"):
        sim.envs.make_task(cls.__name__, pushes=1.5)
    with raises_naming(cls.__name__, "'pushes'", "push"):
        cls(pushes=1.5)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"push": -1.0}, ["push", "-1"]),
        ({"push_seconds": 0.0}, ["push_seconds", "positive"]),
        ({"start_bend": "far"}, ["start_bend", "'far'"]),
        ({"noise": 0.1}, ["noise", "float", "dictionary"]),
        ({"weights": ["air"]}, ["weights", "list", "dictionary"]),
        ({"noise": {"velocity": "much"}}, ["noise", "'velocity'", "'much'"]),
        ({"noise": {"velocity": -0.1}}, ["noise", "'velocity'", "-0.1", "at least 0"]),
        ({"weights": {"air": None}}, ["weights", "'air'", "None"]),
        ({"weights": {"air": math.inf}}, ["weights", "'air'", "finite"]),
        ({"idle": 1.5}, ["idle", "1.5"]),
        ({"tilt": math.inf}, ["tilt", "inf"]),
        ({"least_height": math.nan}, ["least_height", "nan"]),
        ({"delay": -0.01}, ["delay", "-0.01"]),
        ({"delay": "slow"}, ["delay", "'slow'"]),
        ({"delay": 1e9}, ["samples", "200000000000", "10000000"]),
        ({"terrain": "smooth"}, ["terrain", "'smooth'", "'rough'"]),
        ({"spread": 0.1, "delay": 0.01}, ["spread", "float", "dictionary"]),
    ],
)
def test_settings_out_of_range(options, named):
    with raises_naming(*named):
        QuadrupedVelocity(**options)
    for tilt in (-1.0, 3.2):
        with raises_naming("tilt", str(tilt).removesuffix(".0")):
            QuadrupedGetUp(tilt=tilt)


def test_each_episode_draws_a_delay_of_the_servos():
    """The servos of an environment have one delay, of up to four steps; a step of the targets arrives after it."""
    task = Quiet(delay=0.02, spread={})
    assert dict(task.spread) == {"actuator_delay": (0.0, 1.0)}
    env = VectorEnv(task, 32, device="cpu", seed=0)
    observation, _ = env.reset()
    delays = env.state.parameters["actuator_delay"]
    torch.testing.assert_close(delays, delays[:, :1].expand(32, 12))
    assert 0.0 <= delays.min() < 0.005 < 0.015 < delays.max() <= 0.02
    torch.testing.assert_close(observation["critic"][:, -1], delays[:, 0] / 0.02)
    before = env.state.q[:, 7:].clone()
    env.step(torch.zeros(32, 12))
    env.reset(seed=0)
    held = env.state.q[:, 7:].clone()
    torch.testing.assert_close(held, before)
    env.step(torch.ones(32, 12))
    moved = (env.state.q[:, 7:] - held).abs().mean(dim=1)
    order = delays[:, 0].argsort()
    assert moved[order[:8]].mean() > 2.0 * moved[order[-8:]].mean()


def test_the_rough_ground_goes_from_easy_to_hard():
    """Robots begin on tiles of the easier levels, and observe heights."""
    task = QuadrupedVelocity("rough")
    terrain = task.robot.terrain
    assert terrain.origins.shape == (5, 3, 3)
    env = VectorEnv(task, 6, device="cpu", seed=0)
    env.reset()
    assert env.state.data["level"].max() < 2
    assert env.num_observations == 48 + 36


def test_robots_get_up_from_any_orientation():
    """Starts are above the ground; the terms of a robot that stands and of one that lies on its back."""
    task = QuadrupedGetUp(dtype="float64")
    env = VectorEnv(task, 64, device="cpu", seed=0)
    env.reset()
    starts, _ = task.starts(400, torch.Generator().manual_seed(0))
    lowest = [min(lowest_points(task.model(), q).values()) for q in starts.numpy()]
    assert min(lowest) > 0.0
    raised = starts[:, 2] > 1.5 * task.robot.height
    assert 0 < raised.sum() < 40  # no others than those with a leg near the ground
    assert np.array(lowest)[raised.numpy()].max() < 0.05
    for _ in range(25):
        _, _, terminated, _, _ = env.step(torch.zeros(64, 12))
        assert not terminated.any()
    standing = task._start.repeat(2, 1)
    standing[1, 3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    state = replace(env.state, q=standing, qd=torch.zeros(2, 18), data={"action": torch.zeros(2, 12)})
    assert task.standing(state).tolist() == [True, False]
    found = task.reward(state, torch.zeros(2, 12), state)
    assert {name: value.tolist() for name, value in found.items()} == {
        "upright": pytest.approx([0.03, 0.02 * math.exp(-8.0)]),
        "high": pytest.approx([0.02, 0.02 * math.exp(-8.0)]),
        **dict.fromkeys(("pose", "still"), pytest.approx([0.02, 0.0])),
        **dict.fromkeys(("smooth", "acceleration", "speeds"), pytest.approx([0.0, 0.0])),
    }


def test_robots_fall_from_any_tilt_up_to_the_largest():
    """Tilts are evenly distributed, about any horizontal axis, with any heading; none of the robots stands yet."""
    task = QuadrupedGetUp(dtype="float64", tilt=2.0)
    first = task.begin(NewEpisodes(torch.arange(600), torch.Generator().manual_seed(0), None))
    assert not first.data["stands"].any()
    turn = Rotation.from_quat(first.q[:, 3:7].numpy()).as_matrix()
    tilts = np.arccos(turn[:, 2, 2].clip(-1.0, 1.0)) / 2.0
    assert tilts.max() < 1.0 + 1e-6
    np.testing.assert_allclose(np.quantile(tilts, (0.1, 0.5, 0.9)), (0.1, 0.5, 0.9), atol=0.06)
    tilted = turn[tilts > 0.3]
    assert abs(tilted[:, :2, 2]).mean() > 0.2
    np.testing.assert_allclose(tilted[:, :2, 2].mean(axis=0), 0.0, atol=0.08)
    np.testing.assert_allclose(np.stack([turn[:, 0, 0], turn[:, 1, 0]]).mean(axis=1), 0.0, atol=0.1)


def test_actions_of_robots_that_get_up_change_the_angles_of_their_joints():
    task = QuadrupedGetUp(dtype="float64", action_scale=0.3)
    env = VectorEnv(task, 4, device="cpu", seed=0)
    env.reset()
    targets = task.inputs(env.state, torch.full((4, 12), 0.5, dtype=torch.float64))["control"]
    torch.testing.assert_close(targets, env.state.q[:, 7:] + 0.15)


def test_the_reward_of_getting_up_falls_with_tilt_bent_joints_and_motion():
    """Of robots at the standing height: upright, at 33 degrees, with bent joints, and moving."""
    task = QuadrupedGetUp(dtype="float64")
    env = VectorEnv(task, 4, device="cpu", seed=0)
    env.reset()
    q, qd = task._start.repeat(4, 1), torch.zeros(4, 18, dtype=torch.float64)
    half = math.radians(0.5 * 33.0)
    q[1, 3:7] = torch.tensor([math.sin(half), 0.0, 0.0, math.cos(half)])
    q[2, 7:] += 0.5
    qd[3, 0], qd[3, 5] = 0.5, 1.0
    state = replace(env.state, q=q, qd=qd)
    found = task.terms(state, torch.zeros(4, 12), state)
    upright = math.cos(half) ** 2
    turned = math.exp(-8.0 * math.sin(half) ** 2)
    expected = {
        "upright": [1.0, (2.0 * turned + upright) / 3.0, 1.0, 1.0],
        "high": [1.0, turned, 1.0, 1.0],
        "pose": [1.0, upright**8, math.exp(-0.5), 1.0],
        "still": [1.0, upright**8, math.exp(-0.5), math.exp(-1.0)],
    }
    for name, values in expected.items():
        assert found[name].tolist() == pytest.approx(values, rel=1e-6), name
    assert (upright**8, turned) == pytest.approx((0.5, 0.5), abs=0.03)
    assert task.advance(state, torch.zeros(4, 12), state)["stands"].tolist() == [1.0, 0.0, 1.0, 1.0]


# ---- terrain ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rough() -> VectorEnv:
    kinds = [sim.terrain.Slope(grade=(0.1, 0.3)), sim.terrain.Rough()]
    ground = sim.terrain.generate(kinds, levels=3, size=4.0, seed=1)
    env = VectorEnv(QuadrupedVelocity(ground), 4, device="cpu", seed=0, differentiable=True)
    env.reset()
    return env


def test_heights_are_those_of_the_terrain(rough):
    task, state = rough.task, rough.state
    turn = Rotation.from_quat(state.q[:, 3:7].numpy()).as_matrix()
    heading = np.arctan2(turn[:, 1, 0], turn[:, 0, 0])
    x, y = np.meshgrid(np.linspace(-0.6, 0.6, 7), np.linspace(-0.4, 0.4, 5))
    for world in range(4):
        c, s = np.cos(heading[world]), np.sin(heading[world])
        points = state.q[world, :2].numpy() + np.stack([c * x - s * y, s * x + c * y], axis=-1)
        ground = task.robot.terrain.height(points).ravel() - float(state.q[world, 2])
        found = state.data["heights"][world].numpy()
        np.testing.assert_allclose(np.sort(found[:-1]), np.sort(ground), atol=1e-4)
        np.testing.assert_allclose(task.height(state)[world], -found[-1])
    assert bool((task.height(state) >= task.robot.height - 1e-4).all())


def test_robots_beyond_the_border_do_not_stand(rough):
    task = QuadrupedGetUp(rough.task.robot.terrain)
    env = VectorEnv(task, 2, device="cpu", seed=0)
    env.reset()
    q = task._start.repeat(2, 1)
    heights = torch.full_like(env.state.data["heights"], -task.robot.height)
    heights[1] = -math.inf
    state = replace(env.state, q=q, qd=torch.zeros(2, 18), data={**env.state.data, "heights": heights})
    assert task.standing(state).tolist() == [True, False]
    assert task.terminated(state)["left"].tolist() == [False, True]
    assert task.terms(state, torch.zeros(2, 12), state)["high"].tolist() == pytest.approx([1.0, 0.0])


def test_levels_follow_the_way_walked(rough):
    task, state = rough.task, rough.state
    q, level = state.q.clone(), torch.tensor([1, 1, 1, 2])
    origin = torch.as_tensor(task.robot.terrain.origins).float()[level, torch.arange(4) % 2]
    q[:, :2] = origin[:, :2] + torch.tensor([[2.1, 0.0], [0.0, 0.1], [0.0, 1.5], [0.0, -2.1]])
    command = torch.tensor([0.5, 0.0, 0.0]).expand(4, 3)
    steps = torch.full((4,), 250)
    last = replace(state, q=q, steps=steps, data={**state.data, "level": level, "origin": origin, "command": command})
    new = NewEpisodes(torch.arange(4), torch.Generator().manual_seed(0), last.detach())
    first = task.begin(new)
    found = first.data["level"].tolist()
    assert found[:3] == [2, 0, 1]
    assert 0 <= found[3] <= 2
    expected = torch.as_tensor(task.robot.terrain.origins).float()[first.data["level"], torch.arange(4) % 2]
    torch.testing.assert_close(first.q[:, :2], expected[:, :2])


def test_gradients_on_rough_ground(rough):
    action = torch.zeros(4, 12, requires_grad=True)
    total = sum(rough.step(action)[1].sum() for _ in range(3))
    observation = rough.observe()
    (gradient,) = torch.autograd.grad(total + observation["policy"].square().sum(), action)
    assert bool(gradient.isfinite().all())
    assert bool((gradient.norm(dim=1) > 0.0).all())


@pytest.mark.parametrize("algorithm", ["ppo", "shac"])
def test_trainings_on_rough_ground(rough, algorithm):
    learner = make_learner(rough.task, algorithm, iterations=2, device="cpu", envs=4, horizon=4)
    for _ in range(2):
        assert all(np.isfinite(value) for name, value in learner.iterate().items() if name not in ("return", "length"))
    assert all(bool(value.isfinite().all()) for value in learner.policy.parameters())
