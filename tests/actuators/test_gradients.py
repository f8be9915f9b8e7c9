"""Gradients in inputs, gains, gears and force limits: within limits and beyond, with contact, through PyTorch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sim
import sim.torch
from tests.actuators.worlds import arm, leg
from tests.simulation.differences import Case, case, check, regimes, single_steps

GAINS = ("actuator_gear", "actuator_kp", "actuator_kd")
LINK = ("mass", "com", "inertia", "gravity", "joint_placement", "damping", "armature")
Q = np.array([0.2, -0.3, 0.1, 0.4])
QD = np.array([0.5, -1.0, 0.4, 2.0])


def moved(
    model: sim.Model,
    steps: int,
    control: np.ndarray,
    q: np.ndarray,
    qd: np.ndarray,
    contact: sim.ContactMethod | None = None,
) -> Case:
    """The inputs change a little from step to step."""
    control = control + 0.05 * np.random.default_rng(1).normal(size=(steps, model.nu))
    return replace(case(model, steps, q, qd, contact), control=control)


def test_within_the_limits():
    c = moved(arm(limits=(50.0, 200.0, 100.0, np.inf)), 12, np.array([0.7, 0.2, 0.4, -0.3]), Q, QD)
    assert regimes(c) == set()
    # Nobody feels a limit that isn't reached.
    check(c, [*GAINS, *LINK, "actuator_force_limit"], zero=["actuator_force_limit"])


@pytest.mark.parametrize(("sweeps", "adjoint"), [(1, "unrolled"), (5, "unrolled"), (50, "unrolled"), (300, "implicit")])
def test_beyond_the_limits(sweeps, adjoint):
    """The torque is cut off in some steps, one servo is at its limit, the other and the drive cross theirs."""
    contact = sim.PgsContact(sweeps=sweeps, adjoint=adjoint)
    c = moved(arm(limits=(0.33, 4.0, 9.0, 1.2)), 12, np.array([0.3, 0.9, 0.8, 0.5]), Q, QD, contact)
    rows = [{block.item for block in step} for step in single_steps(c)]
    assert (rows[0], rows[1], rows[-1]) == ({1}, {1, 3}, {1, 2, 3})
    check(c, [*GAINS, *LINK, "actuator_force_limit"])


def test_inputs_within_and_beyond_their_range():
    """One is below its range, one above, one beyond it at its force limit too, and one within."""
    model = arm(limits=(50.0, 200.0, 9.0, np.inf))
    model.parameters["actuator_control_lower"][:] = (0.9, -9.0, -9.0, -9.0)
    model.parameters["actuator_control_upper"][:] = (9.0, 0.1, 0.5, 9.0)
    c = moved(model, 12, np.array([0.7, 0.4, 0.8, -0.3]), Q, QD)
    bounds = ["actuator_control_lower", "actuator_control_upper"]
    assert (c.control[:, 0] < 0.9).all()
    assert (c.control[:, 1] > 0.1).all()
    check(c, [*GAINS, *LINK, *bounds])


def test_a_row_within_its_limit():
    """Beyond its limit at the present velocity, within at that of the end: stiff gains, so that the two differ much."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, -3.0))
    builder.add_link("rod", mass=0.8, com=(0.02, 0.0, -0.3), inertia=(0.01, 0.012, 0.005))
    builder.add_joint("hinge", "revolute", child="rod", axis=(0.1, 1.0, 0.0))
    builder.add_actuator("hinge", "position", gains=sim.Gains(kp=4000.0, kd=30.0), gear=1.3, force_limit=60.0)
    model = builder.finalize("float64")
    c = moved(model, 3, np.array([0.25]), np.array([0.15]), np.array([0.3]))
    assert regimes(c) == {"yielding"}
    check(c, [*GAINS, *LINK, "actuator_force_limit"], zero=["actuator_force_limit"])


@pytest.mark.parametrize("friction", ["cone", "pyramid"])
@pytest.mark.parametrize(("limit", "found"), [(np.inf, set()), (6.0, {"saturated"})])
def test_landing_on_a_leg_of_servos(friction, limit, found):
    """The foot lands and slides, the knee runs into its stop."""
    model = leg(limit).finalize("float64")
    q = model.q0.copy()
    q[3:7] = (0.02, 0.01, 0.03, 1.0)
    qd = np.array([0.8, 0.1, -0.4, 0.1, 0.2, 0.1, 0.3, 0.4])
    c = moved(model, 12, np.array([0.5, -0.3]), q, qd, sim.PgsContact(friction=friction, sweeps=20))
    assert {"slide", "upper", *found} <= regimes(c)
    parameters = [*GAINS, "mass", "friction", "geometry_size", "upper_limit"]
    check(c, [*parameters, "actuator_force_limit"] if found else parameters)


@pytest.mark.parametrize("limit", [np.inf, 6.0])
def test_through_torch(limit):
    """In the inputs of a rollout and of steps, with and without joint forces beside them, and in gains."""
    model = leg(limit).finalize("float64")
    simulator = sim.Simulator(model, 1 / 240, 2, "cpu", sim.PgsContact(sweeps=20))
    rng = np.random.default_rng(0)
    q = torch.tensor(np.tile(model.q0, (2, 1)))
    qd = torch.tensor(0.2 * rng.normal(size=(2, model.nv)))
    control = torch.tensor(0.3 + 0.1 * rng.normal(size=(3, 2, model.nu)), requires_grad=True)
    tau = torch.tensor(0.1 * rng.normal(size=(3, 2, model.nv)), requires_grad=True)
    values = [[[150.0, 100.0], [120.0, 90.0]], [3.0, 2.0], [1.2, 0.8], [limit, limit]]
    gains = [torch.tensor(value, dtype=torch.float64, requires_grad=value[0] != np.inf) for value in values]
    names = ("actuator_kp", "actuator_kd", "actuator_gear", "actuator_force_limit")
    torch.autograd.gradcheck(
        lambda u, *given: sim.torch.rollout(simulator, q, qd, control=u, **dict(zip(names, given, strict=True))),
        (control, *gains),
    )
    whole = sim.torch.rollout(simulator, q, qd, tau, control)
    state = q, qd
    for force, u in zip(tau, control, strict=True):
        state = sim.torch.step(simulator, *state, force, u)
    results = [torch.autograd.grad((a**2).sum() + (b**2).sum(), (tau, control)) for a, b in (
        (whole[0][-1], whole[1][-1]), state)]  # fmt: skip
    for one, other in zip(*results, strict=True):
        assert one.abs().max() > 0.0
        assert torch.equal(one, other)


def test_checked_on_a_users_scene():
    """sim.check_gradients takes inputs and gains."""
    model = leg(6.0).finalize("float32")
    simulator = sim.Simulator(model, 1 / 240, device="cpu")
    report = sim.check_gradients(
        simulator, simulator.initial_state(), wrt=["control", "actuator_kp", "actuator_force_limit"],
        control=np.full((4, 2), 0.4), most=10,
    )  # fmt: skip
    report.raise_if_wrong()
    assert len(report.entries) == 8 + 2 + 2
    assert any("actuator 'knee' at step 2" in str(entry.entry) for entry in report.entries)
