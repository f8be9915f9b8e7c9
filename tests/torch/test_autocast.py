"""Mechanics inside of ``torch.autocast``, which is for networks: numbers stay those of the model's precision."""

import numpy as np
import pytest
import torch
import warp as wp

import sim
import sim.envs
import sim.optimise as so
from scenes import pendulum
from scenes.manipulator import MANIPULATOR_URDF
from sim.identify import torque_regressor


def learned_mass_matrix() -> torch.Tensor:
    robot = sim.torch.Robot(MANIPULATOR_URDF)
    robot.learn_quantity("link7", "inertia")
    return robot.mass_matrix(torch.full((2, 7), 0.3))


def angles() -> torch.Tensor:
    robot = sim.torch.Robot(MANIPULATOR_URDF)
    return robot.inverse_kinematics("link7", torch.tensor([[0.3, 0.4, 0.9]])).q


def readings() -> torch.Tensor:
    scene = sim.ModelBuilder()
    scene.add_box(half_extents=(0.1, 0.2, 0.3), mass=1.0, position=(0, 0, 1), name="box")
    scene.add_sensor("rate", "gyro", "box")
    scene.add_sensor("acceleration", "accelerometer", "box")
    simulator = sim.Simulator(scene.finalize(), dt=1 / 240, num_worlds=2, device="cpu")
    state = simulator.state(np.tile([0, 0, 1, 0.6, 0, 0, 0.8], (2, 1)), np.tile([0.1, 0, 0, 1, 2, 3], (2, 1)))
    sensors = sim.torch.Sensors(simulator)
    q, qd, seen = sim.torch.rollout(simulator, *map(wp.to_torch, (state.q, state.qd)), steps=5, sensors=sensors)
    measured = sim.torch.imu(sim.torch.Robot(simulator.model), q, qd, simulator.dt, frame="box")
    forces = sim.torch.JointForces(simulator)(q, qd)
    return torch.cat([part.flatten() for part in (seen, *measured, *forces)])


def observations() -> torch.Tensor:
    env = sim.envs.make("PandaReach", 2, device="cpu", seed=0)
    env.reset()
    return env.step(torch.full((2, 6), 0.1))[0]


def optimised() -> torch.Tensor:
    simulator = sim.Simulator(pendulum.build(1, "float64").model, 0.02, device="cpu")
    costs = [so.Posture([1.0], 10.0, at=-1), so.Effort(1e-2)]
    return torch.tensor(so.lbfgs(so.Problem(simulator, 10, costs, controls=so.Knots(4)), iterations=5).controls)


def regressor() -> torch.Tensor:
    robot = sim.torch.Robot(MANIPULATOR_URDF)
    return torque_regressor(robot, *torch.linspace(-1.0, 1.0, 42).reshape(3, 2, 7))


@pytest.mark.parametrize("function", [learned_mass_matrix, angles, readings, observations, optimised, regressor])
def test_numbers_are_those_without_it(function):
    expected = function()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = function()
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    assert torch.equal(found, expected)
