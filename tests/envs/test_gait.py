"""Legged robots that follow velocities with a given gait."""

import math
from dataclasses import replace
from types import MappingProxyType

import mujoco
import numpy as np
import pytest
import torch

import sim
from sim.envs import GaitTask, TaskState, VectorEnv, legged_robot
from sim.terrain import Terrain
from tests.errors import raises_naming

BIPED = """
<mujoco><worldbody><body name="hips" pos="0 0 1"><freejoint name="root"/><geom type="box" size="0.1 0.2 0.05"/>
  <body name="left" pos="0 0.15 0"><joint name="left" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/>
    <body name="left_sole" pos="0 0 -0.3"><joint name="left_ankle" axis="0 1 0"/>
      <geom name="left_sole" type="box" size="0.1 0.05 0.04"/></body></body>
  <body name="right" pos="0 -0.15 0"><joint name="right" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03"/>
    <body name="right_sole" pos="0 0 -0.3"><joint name="right_ankle" axis="0 1 0"/>
      <geom name="right_sole" type="box" size="0.1 0.05 0.04"/></body></body>
</body></worldbody>
<actuator><position joint="left" kp="60" kv="1"/><position joint="left_ankle" kp="20" kv="1"/>
  <position joint="right" kp="60" kv="1"/><position joint="right_ankle" kp="20" kv="1"/></actuator></mujoco>
"""


class Walker(GaitTask):
    """A biped without anything random but its commands and starts."""

    push, idle = 0.0, 0.0
    noise, spread = MappingProxyType({}), MappingProxyType({})
    period, stance, swing = 0.4, 0.6, 0.1
    stiff = MappingProxyType({".*ankle": 0.5, ".*": 2.0})
    fold = MappingProxyType({".*ankle": -0.3, ".*": 0.6})
    action_scale = MappingProxyType({"right.*": 0.2, ".*": 0.4})


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("robots") / "biped.xml"
    path.write_text(BIPED)
    return path


@pytest.fixture(scope="module")
def task(file) -> Walker:
    return Walker(legged_robot(file, {}, dtype="float64"))


@pytest.fixture(scope="module")
def bent(task) -> TaskState:
    """States after different times, of robots that hang in the air with bent legs, and touch with one foot."""
    env = VectorEnv(task, 5, device="cpu", seed=0)
    env.reset()
    env.step(torch.zeros(5, 4, dtype=torch.float64))
    q = torch.tensor(np.random.default_rng(0).normal(size=(5, 11)))
    q[:, 3:7] /= q[:, 3:7].norm(dim=1, keepdim=True)
    readings = {"left_sole": torch.tensor([0.0, 0.0, 5.0]).double().repeat(5, 1)}
    readings["right_sole"] = torch.zeros(5, 3).double()
    data = {**env.state.data, "command": torch.tensor([[1.0, 0.0, 0.0]] * 4 + [[0.0, 0.0, 0.0]]).double()}
    return replace(env.state, q=q, steps=torch.tensor([3, 8, 13, 25, 13]), readings=readings, data=data)


def test_feet_stand_and_swing_by_the_clock(task, bent):
    """20 actions a period of 0.4 s; the second foot is half a period ahead."""
    first = [0.15, 0.4, 0.65, 0.25, 0.65]
    expected = np.column_stack([first, [0.65, 0.9, 0.15, 0.75, 0.15]])
    np.testing.assert_allclose(task.phase(bent), expected, atol=1e-12)
    clock = task.measurements(bent)["clock"]
    angle = 2.0 * np.pi * np.array(first)
    np.testing.assert_allclose(clock, np.column_stack([np.sin(angle), np.cos(angle)]), atol=1e-12)


def heights_in_mujoco(file, task, q: np.ndarray) -> np.ndarray:
    """Heights of the soles' frames [n, 2]."""
    model = mujoco.MjModel.from_xml_path(str(file))
    data, found = mujoco.MjData(model), []
    for row in q:
        data.qpos[:] = sim.to_mujoco(task.model(), row, np.zeros(10))[0]
        mujoco.mj_kinematics(model, data)
        found.append([data.body(name).xpos[2] for name in ("left_sole", "right_sole")])
    return np.array(found)


def test_terms_of_the_gait(file, task, bent):
    """The left foot alone stands, as it should in the first, second and fourth state; in the last both should."""
    height = heights_in_mujoco(file, task, bent.q.numpy())
    lifted = height - height.min(axis=1, keepdims=True)
    np.testing.assert_allclose(task.lifted(bent), lifted, atol=1e-12)
    terms = task.terms(bent, torch.zeros(5, 4).double(), bent)
    np.testing.assert_array_equal(terms["gait"], [1.0, 1.0, -1.0, 1.0, 0.0])
    up = 0.1 * math.sin(math.pi * 0.05 / 0.4)
    target = np.array([[0.0, up], [0.0, 0.1 * math.sin(math.pi * 0.3 / 0.4)], [up, 0.0], [0.0, 0.0], [0.0, 0.0]])
    target[3, 1] = 0.1 * math.sin(math.pi * 0.15 / 0.4)
    np.testing.assert_allclose(terms["lift"], np.exp(-200.0 * ((lifted - target) ** 2).sum(axis=1)), rtol=1e-9)
    joints = bent.q[:, 7:].numpy() ** 2
    np.testing.assert_allclose(terms["pose"], joints @ [2.0, 0.5, 2.0, 0.5], rtol=1e-12)
    np.testing.assert_array_equal(terms["alive"], np.ones(5))


def test_the_reward_for_the_height_of_the_feet_has_a_gradient(task):
    q = torch.tensor(task.robot.q).repeat(2, 1)
    q[:, 7:] += torch.tensor([[0.1, 0.2, -0.3, 0.1], [0.2, 0.0, 0.1, -0.1]])
    q = q.requires_grad_()

    def reward(q: torch.Tensor) -> torch.Tensor:
        state = TaskState(q, torch.zeros(2, 10).double(), torch.tensor([8, 13]), {})
        return torch.exp(-20.0 * (task.lifted(state) - 0.1 * task.phase(state)).square().sum(dim=1))

    assert torch.autograd.gradcheck(lambda joints: reward(torch.cat([q[:, :7].detach(), joints], dim=1)), q[:, 7:])


def test_actions_are_added_to_the_fold_of_the_legs(task, bent):
    """The order of the actuators is that of the joints; scales are 0.4 on the left and 0.2 on the right."""
    control = task.inputs(bent, torch.ones(5, 4).double())["control"] - torch.tensor([[0.4, 0.4, 0.2, 0.2]])
    up = math.sin(math.pi * 0.05 / 0.4), math.sin(math.pi * 0.3 / 0.4), math.sin(math.pi * 0.15 / 0.4)
    expected = torch.zeros(5, 4).double()
    for state, (leg, height) in enumerate([(1, up[0]), (1, up[1]), (0, up[0]), (1, up[2])]):
        expected[state, 2 * leg : 2 * leg + 2] = height * torch.tensor([0.6, -0.3])
    torch.testing.assert_close(control, expected, atol=1e-7, rtol=0.0)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"period": 0.0}, ["Wrong.period", "positive"]),
        ({"swing": "high"}, ["swing", "'high'"]),
        ({"stance": 1.0}, ["Wrong.stance", "less than 1"]),
        ({"period": math.inf}, ["period", "finite"]),
        ({"period": 0.03}, ["Wrong.period", "0.04 s", "two actions"]),
        ({"swing": math.inf}, ["swing", "finite"]),
        ({"offsets": (0.0, 0.3, 0.5)}, ["Wrong.offsets", "2 finite numbers"]),
        ({"offsets": (0.0, math.nan)}, ["Wrong.offsets", "2 finite numbers"]),
        ({"stiff": math.inf}, ["Wrong: stiff", "finite"]),
        ({"fold": {".*": math.nan}}, ["Wrong.fold", "finite"]),
        ({"stiff": {"left": 1.0}}, ["Wrong.stiff", "'left_ankle'"]),
        ({"stiff": {"knee": 1.0}}, ["Wrong.stiff", "'knee'"]),
        ({"fold": {"left": 1.0}}, ["Wrong.fold", "'left_ankle'"]),
        ({"action_scale": {"left.*": 1.0}}, ["Wrong.action_scale", "'right'"]),
    ],
)
def test_gaits_that_are_none(file, changes, named):
    robot = legged_robot(file, {})
    with raises_naming(*named):
        type("Wrong", (Walker,), changes)(robot)


def test_a_joint_that_moves_both_feet_is_not_folded(tmp_path):
    """A waist between the base and both legs."""
    body = BIPED.replace('<body name="left" ', '<body name="waist"><joint name="waist"/>{}<body name="left" ', 1)
    body = body.format('<geom name="belt" size="0.1"/>').replace("</body></worldbody>", "</body></body></worldbody>")
    file = tmp_path / "waist.xml"
    file.write_text(body.replace("<actuator>", '<actuator><position joint="waist" kp="60"/>'))
    robot = legged_robot(file, {})
    with raises_naming("fold", "'waist'", "2 feet"):
        type("Wrong", (Walker,), {"fold": 0.1, "action_scale": 1.0})(robot)
    assert type("Right", (Walker,), {"fold": {"waist": 0.0, ".*": 0.1}, "action_scale": 1.0})(robot)


def test_feet_that_are_all_in_the_air_should_be_equally_high(file):
    task = type("Jumper", (Walker,), {"offsets": (0.0, 0.0)})(legged_robot(file, {}, dtype="float64"))
    env = VectorEnv(task, 1, device="cpu", seed=0)
    env.reset()
    q = torch.tensor(task.robot.q)[None]
    data = {**env.state.data, "command": torch.tensor([[1.0, 0.0, 0.0]]).double()}
    state = replace(env.state, q=q, steps=torch.tensor([16]), data=data)
    torch.testing.assert_close(task.swings(state, data["command"]), torch.ones(1, 2).double())
    terms = task.terms(state, torch.zeros(1, 4).double(), state)
    torch.testing.assert_close(terms["lift"], torch.ones(1).double())


@pytest.mark.parametrize("foot", [["left_sole", "toe"], ["toe", "left_sole"]])
def test_a_leg_has_the_joints_of_all_links_of_its_foot(tmp_path, foot):
    """In either order of the geometries."""
    toe = '<body pos="0.15 0 0"><joint name="toe" axis="0 1 0"/><geom name="toe" size="0.04"/></body>'
    sole = '<geom name="left_sole" type="box" size="0.1 0.05 0.04"/>'
    file = tmp_path / "toe.xml"
    text = BIPED.replace(sole, sole + toe).replace("<actuator>", '<actuator><position joint="toe" kp="5"/>')
    file.write_text(text)
    robot = legged_robot(file, {}, feet=[foot, ["right_sole"]], dtype="float64")
    task = type("Toes", (Walker,), {"fold": 0.5, "action_scale": 1.0})(robot)
    env = VectorEnv(task, 1, device="cpu", seed=0)
    env.reset()
    data = {"command": torch.tensor([[1.0, 0.0, 0.0]]).double()}
    state = replace(env.state, steps=torch.tensor([16]), data={**env.state.data, **data})
    control = task.inputs(state, torch.zeros(1, 5).double())["control"]
    torch.testing.assert_close(control, torch.tensor([[0.5, 0.5, 0.5, 0.0, 0.0]]).double())


def test_feet_that_are_part_of_the_ground(file):
    with raises_naming("feet", "'ground'"):
        legged_robot(file, {}, feet=[["ground"], ["right_sole"]])


def test_the_height_of_a_foot_that_is_fixed_to_its_shin(tmp_path):
    """A ball and a mesh far from the origins of their links; compared with MuJoCo's geometries."""
    feet = {"left": '<geom name="left_foot" size="0.04" pos="0.02 0 -0.2"/>'}
    feet["right"] = '<geom name="right_foot" type="mesh" mesh="cube" pos="0.1 0 0" euler="0 90 0"/>'
    legs = [
        f'<body name="{side}" pos="0 {y} 0"><joint name="{side}" axis="0 1 0"/>{feet[side]}</body>'
        for side, y in (("left", 0.15), ("right", -0.15))
    ]
    corners = " ".join(f"{x} {y} {z}" for x in (0.2, 0.3) for y in (0.0, 0.1) for z in (0.0, 0.1))
    file = tmp_path / "stilts.xml"
    file.write_text(
        f'<mujoco><asset><mesh name="cube" vertex="{corners}"/></asset><worldbody><body name="hips" pos="0 0 1">'
        f'<freejoint name="root"/><geom type="box" size="0.1 0.2 0.05"/>{"".join(legs)}</body></worldbody><actuator>'
        '<position joint="left" kp="60"/><position joint="right" kp="60"/></actuator></mujoco>'
    )
    names = ["left_foot", "right_foot"]
    robot = legged_robot(file, {}, feet=[[name] for name in names], dtype="float64")
    task = type("Stilts", (Walker,), {"fold": 0.0, "stiff": 1.0, "action_scale": 1.0})(robot)
    q = torch.tensor(np.random.default_rng(1).normal(size=(4, 9)))
    q[:, 3:7] /= q[:, 3:7].norm(dim=1, keepdim=True)
    model = mujoco.MjModel.from_xml_path(str(file))
    data, heights = mujoco.MjData(model), []
    for row in q.numpy():
        data.qpos[:] = sim.to_mujoco(robot.model, row, np.zeros(8))[0]
        mujoco.mj_kinematics(model, data)
        heights.append([data.geom(name).xpos[2] for name in names])
    expected = np.array(heights) - np.min(heights, axis=1, keepdims=True)
    np.testing.assert_allclose(
        task.lifted(TaskState(q, torch.zeros(4, 8).double(), torch.zeros(4), {})), expected, atol=1e-7
    )


def test_feet_on_terrain_are_measured_from_the_ground_below_each(file):
    """On a slope; beyond its border no foot is higher than the others."""
    x, y = np.meshgrid(0.5 * np.arange(-10, 11), 0.5 * np.arange(-10, 11))
    slope = Terrain(0.3 * x - 0.2 * y, 0.5, np.zeros((0, 6)), np.zeros((1, 1, 3)))
    task = Walker(legged_robot(file, {}, terrain=slope, dtype="float64"))
    q = torch.tensor(task.robot.q).repeat(4, 1)
    q[:, :3] += torch.tensor([[0.1, 0.2, 0.5], [-0.6, 0.4, 0.7], [0.8, -0.7, 0.3], [100.0, 0.0, 0.0]])
    q[:, 7:] += torch.tensor([0.2, -0.2, -0.3, 0.3])
    q[2, 3:7] = torch.tensor([0.0, 0.0, math.sin(0.4), math.cos(0.4)])
    poses = sim.forward_kinematics(task.model(), q.numpy()).numpy()
    soles = poses[:, [task.model().link_names.index(name) for name in ("left_sole", "right_sole")]]
    height = soles[..., 2] - 0.3 * soles[..., 0] + 0.2 * soles[..., 1]
    expected = height - height.min(axis=1, keepdims=True)
    assert expected[:3].max(axis=1).min() > 0.02
    expected[3] = 0.0
    lifted = lambda q: task.lifted(TaskState(q, torch.zeros(len(q), 10).double(), torch.zeros(len(q)), {}))  # noqa: E731
    np.testing.assert_allclose(lifted(q), expected, atol=1e-9)
    assert torch.autograd.gradcheck(lifted, q[:3].requires_grad_(), atol=1e-6)
