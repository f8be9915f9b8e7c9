"""What sensors measure along a rollout, against closed forms and inverse dynamics."""

import numpy as np
import pytest
import torch

import sim
import sim.torch
from tests.errors import raises_naming
from tests.simulation.differences import METHODS

DT = 1 / 240


def rotor(axis: tuple[float, float, float] = (0.0, 0.0, 1.0)) -> sim.Model:
    """A rod on a hinge, with a frame 0.3 m from it whose x axis points upwards."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    builder.add_link("rod", mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
    builder.add_joint("hinge", "revolute", child="rod", axis=axis)
    turned = (0.0, -np.sqrt(0.5), 0.0, np.sqrt(0.5))
    builder.add_frame("unit", "rod", (0.3, 0.0, 0.0), turned)
    return builder.finalize("float64")


def rolled(
    model: sim.Model,
    qd: list[float],
    steps: int,
    dt: float = DT,
    q: np.ndarray | None = None,
    law: str = "hard",
    **inputs: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, sim.Simulator]:
    simulator = sim.Simulator(model, dt, 1, "cpu", METHODS[law]())
    first = torch.tensor(model.q0 if q is None else q)[None]
    q_all, qd_all = sim.torch.rollout(simulator, first, torch.tensor([qd], dtype=torch.float64), steps=steps, **inputs)
    return q_all, qd_all, simulator


class TestImu:
    def test_at_a_constant_rate_it_feels_the_way_to_the_axis_and_the_weight(self):
        model, rate = rotor(), 3.0
        q, qd, _ = rolled(model, [rate], 20)
        force, turning = sim.torch.imu(sim.torch.Robot(model), q, qd, DT, "unit")
        assert force.shape == turning.shape == (20, 1, 3)
        # Its x axis is up, its z axis points to the hinge.
        np.testing.assert_allclose(turning[:, 0], np.tile((rate, 0.0, 0.0), (20, 1)), atol=1e-12)
        np.testing.assert_allclose(force[:, 0], np.tile((9.81, 0.0, 0.3 * rate**2), (20, 1)), atol=1e-9)

    def test_a_falling_body_feels_nothing(self):
        builder = sim.ModelBuilder()
        builder.add_box(name="box", half_extents=(0.1, 0.2, 0.3), mass=1.0, position=(0.0, 0.0, 5.0))
        model = builder.finalize("float64")
        q, qd, _ = rolled(model, [0.0] * 6, 10)
        force, rate = sim.torch.imu(sim.torch.Robot(model), q, qd, DT, model.link_names[0])
        np.testing.assert_allclose(force, 0.0, atol=1e-10)
        np.testing.assert_allclose(rate, 0.0, atol=1e-12)

    def test_a_body_on_the_ground_feels_its_weight_upwards(self):
        builder = sim.ModelBuilder()
        builder.add_ground()
        builder.add_box(name="box", half_extents=(0.1, 0.2, 0.3), mass=1.0, position=(0.0, 0.0, 0.3))
        model = builder.finalize("float64")
        q, qd, _ = rolled(model, [0.0] * 6, 200)
        force, _ = sim.torch.imu(sim.torch.Robot(model), q, qd, DT, model.link_names[0])
        np.testing.assert_allclose(force[-1, 0], (0.0, 0.0, 9.81), atol=1e-3)

    def test_gradients_are_those_of_differences(self):
        model = rotor((0.3, 1.0, 0.1))
        robot = sim.torch.Robot(model)

        def measured(first: torch.Tensor) -> torch.Tensor:
            simulator = sim.Simulator(model, DT, 1, "cpu")
            q, qd = sim.torch.rollout(simulator, first[:1][None], first[1:][None], steps=5)
            return torch.cat(sim.torch.imu(robot, q, qd, DT, "unit"), dim=-1)

        torch.autograd.gradcheck(measured, torch.tensor([0.4, 2.0], dtype=torch.float64, requires_grad=True), atol=1e-6)

    def test_too_few_states(self):
        model = rotor()
        with raises_naming("at least two"):
            sim.torch.imu(sim.torch.Robot(model), torch.zeros(1, 1, 1), torch.zeros(1, 1, 1), DT, "unit")


def driven() -> sim.Model:
    """Two joints each on their own, one servo that saturates, a drive, a motor beyond its limit, and one within."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    kinds = {
        "servo": {"kind": "position", "gains": sim.Gains(kp=300.0, kd=4.0), "gear": 1.5, "force_limit": 20.0},
        "drive": {"kind": "velocity", "gains": sim.Gains(kd=6.0), "gear": 0.7, "control_range": (-1.0, 1.5)},
        "weak": {"kind": "torque", "force_limit": 2.0, "gear": 3.0},
        "motor": {"kind": "torque"},
    }
    parent = "world"
    for name, options in kinds.items():
        builder.add_link(name, mass=0.7, com=(0.02, 0.0, -0.15), inertia=(0.01, 0.012, 0.005))
        builder.add_joint(f"{name} joint", "revolute", parent=parent, child=name, axis=(0.1, 1.0, 0.2))
        builder.add_actuator(f"{name} joint", **options)
        parent = name
    return builder.finalize("float64")


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_actuator_forces_are_those_of_inverse_dynamics(law):
    model, steps = driven(), 40
    control = torch.tensor([1.2, 2.0, -5.0, 0.6], dtype=torch.float64).expand(steps, 1, -1)
    q, qd, simulator = rolled(model, [0.1, -0.4, 0.3, 0.2], steps, law=law, control=control)
    force = sim.torch.actuator_forces(simulator, q, qd, control)
    qdd = torch.diff(qd, dim=0) / DT
    needed = sim.torch.Robot(model).inverse_dynamics(q[:-1], qd[:-1], qdd)
    gear = torch.tensor(simulator.parameters["actuator_gear"])
    np.testing.assert_allclose(gear * force, needed, atol=1e-8)
    limit = torch.tensor(simulator.parameters["actuator_force_limit"])
    at_limit = (force.abs() == limit).any(dim=0)[0].tolist()
    assert at_limit == [True, False, True, False]
    assert (force[-1, 0, 0].abs() < limit[0]).item(), "the servo leaves its limit in the end"


def test_actuator_forces_take_every_state():
    model = driven()
    simulator = sim.Simulator(model, DT, 1, "cpu")
    states, control = torch.zeros(3, 1, 4), torch.zeros(4, 1, 4)
    with raises_naming("inputs"):
        sim.torch.actuator_forces(simulator, states, states, control)


def test_forces_on_joints_without_actuators_are_zero():
    """As MuJoCo's: without actuators there are no inputs to give."""
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child="arm")
    builder.add_fixed_tendon("rope", {"hinge": 1.0})
    builder.add_sensor("on joint", "joint_actuator_force", "hinge")
    builder.add_sensor("on tendon", "tendon_actuator_force", "rope")
    sensors = sim.torch.Sensors(sim.Simulator(builder.finalize("float64"), dt=0.01, device="cpu"))
    start = torch.zeros(1, 1, dtype=torch.float64)
    assert not sim.torch.rollout(sensors.simulator, start, start, steps=3, sensors=sensors).readings.any()


def filtered() -> tuple[sim.Simulator, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two servos of which one has a state, with q, qd, act and inputs of three steps in two worlds."""
    builder = sim.ModelBuilder()
    for name, activation in (("a", sim.Activation()), ("b", sim.Activation("filter", time_constant=0.05))):
        builder.add_link(name, mass=1.0, com=(0.1, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"{name} joint", "revolute", child=name, axis=(0.0, 1.0, 0.0))
        builder.add_actuator(f"{name} joint", "position", name=name, gains=sim.Gains(kp=30.0), activation=activation)
        builder.add_sensor(f"{name} force", "actuator_force", name)
    simulator = sim.Simulator(builder.finalize(), DT, 2, "cpu")
    start, control = torch.zeros(2, 2), torch.tensor([0.3, -0.2]).expand(3, 2, 2)
    q, qd, act = sim.torch.rollout(simulator, start, start, control=control)
    return simulator, q, qd, act, control


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda control, act: (control[..., :1], act), r"control has shape \(3, 2, 1\); expected \(3, 2, 2\)"),
        (lambda control, act: (control[:, :1], act), r"control has shape \(3, 1, 2\); expected \(3, 2, 2\)"),
        (lambda control, act: (control, act[:, :1]), r"act has shape \(4, 1, 1\); expected \(4, 2, 1\)"),
        (lambda control, act: (control.numpy(), act), "control is a ndarray"),
        (lambda control, act: (control, act.numpy()), "act is a ndarray; expected a torch.Tensor"),
    ],
)
def test_inputs_and_states_of_another_shape_are_refused(change, message):
    """Numbers of one actuator or of one world would have counted for all."""
    simulator, q, qd, act, control = filtered()
    control, act = change(control, act)
    for read in (
        lambda: sim.torch.Sensors(simulator)(q, qd, control, act=act),
        lambda: sim.torch.JointForces(simulator)(q, qd, control=control, act=act),
        lambda: sim.torch.actuator_forces(simulator, q, qd, control, act),
    ):
        with pytest.raises(sim.ModelError, match=message):
            read()


def test_forces_and_states_of_another_kind_are_refused():
    simulator, q, qd, act, control = filtered()
    with raises_naming("JointForces", "tau", "shape", "(3, 2, 1)", "(3, 2, 2)"):
        sim.torch.JointForces(simulator)(q, qd, torch.zeros(3, 2, 1), control, act)
    with raises_naming("imu", "qd", "ndarray", "torch.Tensor"):
        sim.torch.imu(sim.torch.Robot(simulator.model), q, qd.numpy(), DT, "a")


def test_readings_work_around_a_compiler():
    """``torch.compile`` leaves them out, as it does a robot and a rollout."""
    simulator, q, qd, act, control = filtered()
    sensors, forces = sim.torch.Sensors(simulator), sim.torch.JointForces(simulator)
    for read in (
        lambda x: 2.0 * sensors(q, qd, x, act=act),
        lambda x: 2.0 * forces(q, qd, control=x, act=act).actuators,
        lambda x: 2.0 * sim.torch.actuator_forces(simulator, q, qd, x, act),
    ):
        assert torch.equal(torch.compile(read, backend="eager")(control), read(control))
