"""Actuators as networks: gradients through simulations, and training from logs."""

import numpy as np
import pytest
import torch

import sim
import sim.envs
import sim.torch
from tests.errors import raises_naming, refuses

DT = 0.005
DOUBLE = torch.float64


def leg(**options: object) -> sim.ModelBuilder:
    """Return two links that swing, with armature; with options, a servo of these on each joint."""
    builder = sim.ModelBuilder()
    parent = "world"
    for number in range(2):
        link = builder.add_link(f"link{number}", mass=1.0, com=(0.0, 0, -0.1), inertia=(0.01, 0.01, 0.01))
        builder.add_joint(
            f"joint{number}", "revolute", parent=parent, child=link, axis=(0, 1, 0), position=(0, 0, -0.2 * number),
            armature=0.02,
        )  # fmt: skip
        if options:
            builder.add_actuator(f"joint{number}", "position", **options)
        parent = link
    return builder


def network(width: int, ages: int = 3, seed: int = 0) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    layers = torch.nn.Linear(2 * ages, width), torch.nn.Softsign(), torch.nn.Linear(width, 1)
    return torch.nn.Sequential(*layers).to(DOUBLE)


def test_gradients_through_a_simulation():
    model = leg().finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu")
    net = sim.torch.ActuatorNetwork(
        model, ["joint1", "joint0"], network(2), ages=(0, 1, 3), velocity_scale=0.1, force_scale=20.0
    )
    generator = torch.Generator().manual_seed(1)
    q, qd = (0.3 * torch.randn(1, 2, generator=generator, dtype=DOUBLE) for _ in range(2))
    target = 0.5 * torch.randn(4, 1, 2, generator=generator, dtype=DOUBLE)
    memory = 0.1 * torch.randn(1, 3, 2, 2, generator=generator, dtype=DOUBLE)
    weights = torch.randn(5, 1, 2, generator=generator, dtype=DOUBLE)

    class Simulated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.actuators = net

        def forward(self, q, qd, target, memory, mass):
            return self.actuators.rollout(simulator, q, qd, target, memory, mass=mass)

    whole = Simulated()
    own = dict(whole.named_parameters())

    def loss(q, qd, target, memory, mass, *values):
        given = dict(zip(own, values, strict=True))
        motion, forces = torch.func.functional_call(whole, given, (q, qd, target, memory, mass))
        return (weights * motion.q).sum() + 0.1 * (weights * motion.qd).sum() + 1e-3 * forces.square().sum()

    mass = torch.tensor([1.0, 1.2], dtype=DOUBLE)
    inputs = [x.detach().requires_grad_() for x in (q, qd, target, memory, mass, *own.values())]
    torch.autograd.gradcheck(loss, inputs, eps=1e-6, atol=1e-7, rtol=1e-6)


def test_memory_is_the_motion():
    model = leg().finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu")
    net = sim.torch.ActuatorNetwork(model, ["joint0"], network(5), ages=(0, 2, 5), force_scale=10.0, force_limit=2.0)
    still = torch.zeros(1, 2, dtype=DOUBLE)
    target = torch.sin(torch.arange(40, dtype=DOUBLE) / 5.0)[:, None, None]
    with torch.no_grad():
        motion, forces = net.rollout(simulator, still, still, target)
        along = net.forces_along(target, motion.q[:-1], motion.qd[:-1])
    torch.testing.assert_close(along, forces[5:], rtol=1e-12, atol=1e-12)
    assert 0.1 < float(forces.abs().max()) <= 2.0


def test_a_network_learns_a_delayed_motor_from_a_log():
    """The motion of the robot with late motors at their limits, predicted better than by an ideal servo."""
    gains, motor = sim.Gains(kp=30.0, kd=0.8), sim.DCMotor(stall_force=6.0, no_load_speed=6.0)
    true = leg(gains=gains, delay=sim.Delay(3 * DT, samples=3), motor=motor).finalize("float64")
    ideal = leg(gains=gains).finalize("float64")
    rng, worlds, steps = np.random.default_rng(0), 12, 120
    target = np.repeat(0.7 * rng.normal(size=(steps // 20, worlds, 2)), 20, axis=0)
    robot = sim.Simulator(true, DT, num_worlds=worlds, device="cpu")
    asked, still = torch.as_tensor(target), torch.zeros(worlds, 2, dtype=DOUBLE)
    with torch.no_grad():
        log = sim.torch.rollout(robot, still, still, control=asked)
        measured = sim.torch.JointForces(robot)(log.q, log.qd, control=asked, act=log.act).actuators
    net = sim.torch.ActuatorNetwork(
        true, true.joint_names, network(32, ages=5), ages=range(5), velocity_scale=0.1, force_scale=5.0
    )
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(200):
        optimiser.zero_grad()
        found = net.forces_along(asked[:, :8], log.q[:-1, :8], log.qd[:-1, :8])
        (found - measured[net.history :, :8]).square().mean().backward()
        optimiser.step()

    def error(motion: torch.Tensor) -> float:
        return float((motion[:41, 8:] - log.q[:41, 8:]).square().mean().sqrt())

    with torch.no_grad():
        body = sim.Simulator(leg().finalize("float64"), DT, num_worlds=worlds, device="cpu")
        learnt, _ = net.rollout(body, still, still, asked)
        servo = sim.torch.rollout(sim.Simulator(ideal, DT, worlds, "cpu"), still, still, control=asked)
    assert error(learnt.q) < 0.25 * error(servo.q)


def test_a_task_remembers_what_its_network_needs():
    """An environment moves as the rollout, and hands the gradient of its reward to the network."""
    model = leg().finalize("float64")
    net = sim.torch.ActuatorNetwork(model, model.joint_names, network(4), ages=(0, 2), force_scale=10.0)
    net.network[0] = torch.nn.Linear(4, 4, dtype=DOUBLE)

    class Legs(sim.envs.Task):
        dt, frame_skip = DT, 1

        def model(self):
            return model

        def num_actions(self, model):
            return len(net.joints)

        def sample_state(self, n, generator):
            still = torch.zeros(n, 2, dtype=DOUBLE)
            return self.episodes(still, still, {"memory": net.begin(still)})

        def inputs(self, state, action):
            return {"tau": net(action, state.q, state.qd, state.data["memory"])[0]}

        def advance(self, before, action, after):
            return {"memory": net.remember(action, before.q, before.qd, before.data["memory"])}

        def observe(self, state):
            return torch.cat([state.q, state.qd], dim=1)

        def reward(self, before, action, after):
            return -after.q.square().sum(dim=1)

    env = sim.envs.VectorEnv(Legs("float64"), 2, device="cpu", differentiable=True)
    env.reset(seed=0)
    actions = torch.rand(6, 2, 2, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    total = sum(env.step(action)[1].sum() for action in actions)
    total.backward()
    found = net.network[0].weight.grad.clone()
    net.zero_grad()
    simulator = sim.Simulator(model, DT, num_worlds=2, device="cpu")
    motion, _ = net.rollout(simulator, *(torch.zeros(2, 2, dtype=DOUBLE) for _ in range(2)), actions)
    loss = -motion.q[1:].square().sum()
    loss.backward()
    torch.testing.assert_close(total, loss)
    torch.testing.assert_close(net.network[0].weight.grad, found)
    assert found.abs().max() > 1e-3


def test_messages_name_the_joint():
    model = leg().finalize("float64")
    refuses(lambda: sim.torch.ActuatorNetwork(model, ["knee"], network(3)), "knee", "joint0")
    for ages in ((), (2, 1), (0, 0.5)):
        with raises_naming("ages"):
            sim.torch.ActuatorNetwork(model, ["joint0"], network(3), ages=ages)
    refuses(lambda: sim.torch.ActuatorNetwork(model, ["joint0", "joint0"], network(3)), "joint0", "once")
    refuses(lambda: sim.torch.ActuatorNetwork(model, "joint0", network(3), force_limit=-1.0), "force_limit", "-1")
    q = torch.zeros(2, 2, dtype=DOUBLE)
    two = sim.torch.ActuatorNetwork(model, ["joint0", "joint1"], network(3))
    refuses(lambda: two(q[:, :1], q, q, two.begin(q)), "target", "(2, 1)", "(2, 2)")
    refuses(lambda: two(q, q, q, q), "memory", "(2, 2)", "(2, 2, 2, 2)")
    simulator = sim.Simulator(model, DT, num_worlds=2, device="cpu")
    refuses(lambda: two.rollout(simulator, q, q, q[None], tau=q), "rollout", "tau", "sim.torch.step")
    refuses(lambda: two.rollout(simulator, q, q, q[None], contact_forces=True), "rollout", "contact_forces")
    refuses(lambda: two.rollout(simulator, q, q, q[None][:0]), "rollout", "target")
    wide = sim.torch.ActuatorNetwork(model, ["joint0", "joint1"], torch.nn.Linear(6, 3).to(DOUBLE))
    refuses(lambda: wide(q, q, q, wide.begin(q)), "network", "(2, 2, 3)", "(2, 2, 1)")
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, name="box")
    free = builder.finalize()
    with raises_naming(free.joint_names[0], "revolute"):
        sim.torch.ActuatorNetwork(free, free.joint_names, network(3))
    late = leg(gains=sim.Gains(kp=1.0), delay=sim.Delay(DT, 1)).finalize("float64")
    net, still = sim.torch.ActuatorNetwork(late, ["joint0"], network(3)), torch.zeros(1, 2, dtype=DOUBLE)
    with pytest.raises(sim.ModelError, match=r"sim\.torch\.step"):
        net.rollout(sim.Simulator(late, DT, device="cpu"), still, still, torch.zeros(2, 1, 1, dtype=DOUBLE))
