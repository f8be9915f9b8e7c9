"""Tendons by the law "hard": closed forms, gradients, messages."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sim
import sim.torch
from tests.simulation.differences import METHODS, blocks, case, check
from warp_kernels.constraints.kinds import TENDON, TENDON_LIMIT

DT = 1 / 240


def sliders(count: int = 2) -> sim.ModelBuilder:
    """Bodies of 1, 2, ... kg that slide along x, one behind the other."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for k in range(count):
        builder.add_link(f"body{k}", mass=1.0 + k, inertia=(1, 1, 1))
        builder.add_joint(f"x{k}", "prismatic", parent="world", child=f"body{k}", axis=(1, 0, 0), position=(k, 0, 0))
    return builder


def simulated(model: sim.Model, steps: int, q=None, qd=None, contact=None) -> sim.Trajectory:
    simulator = sim.Simulator(model, DT, 1, "cpu", contact)
    state = simulator.state(model.q0 if q is None else q, np.zeros(model.nv) if qd is None else qd)
    return simulator.rollout(state, steps=steps)


def test_a_limit_stops_both_bodies_together():
    """Perfectly inelastic: the momentum stays, the rate of the length becomes zero."""
    builder = sliders()
    builder.add_spatial_tendon("rope", [("body0", (0, 0, 0)), ("body1", (0, 0, 0))], limits=(0.0, 1.1))
    end = simulated(builder.finalize("float64"), 80, qd=(-1.0, 2.0), contact=sim.PgsContact())
    q, qd = end.q.numpy()[-1, 0], end.qd.numpy()[-1, 0]
    np.testing.assert_allclose(qd, (-1.0 + 2.0 * 2.0) / 3.0, rtol=1e-9)
    np.testing.assert_allclose(1.0 + q[1] - q[0], 1.1, atol=1e-9)


def test_dry_friction_brakes_evenly():
    builder = sliders(1)
    builder.add_fixed_tendon("brake", {"x0": 2.0}, friction_loss=0.3)
    qd = simulated(builder.finalize("float64"), 100, qd=(1.0,), contact=sim.PgsContact()).qd.numpy()[:, 0, 0]
    np.testing.assert_allclose(qd[-1], 1.0 - 100 * DT * 2.0 * 0.3, rtol=1e-9)


def test_a_tied_length_follows_the_polynomial():
    builder = sliders()
    builder.add_fixed_tendon("a", {"x0": 1.0})
    builder.add_fixed_tendon("b", {"x1": 0.5})
    builder.add_tendon_coupling("tie", "a", "b", polynomial=(0.0, 1.0, 2.0, 0.0, 0.0))
    q = simulated(builder.finalize("float64"), 60, qd=(0.0, 1.0)).q.numpy()[-1, 0]
    assert abs(q[1]) > 0.05
    # A step along the tangent leaves its square, and five of them pass before that has faded.
    np.testing.assert_allclose(q[0], 0.5 * q[1] + 2.0 * (0.5 * q[1]) ** 2, atol=1e-4)


def test_a_spring_through_a_pulley_oscillates():
    """Half of the length moves with the body, which so has a quarter of the stiffness."""
    builder = sliders(1)
    path = [("world", (0, 0, 1.0)), ("world", (0, 0, 2.0)), 2.0, ("world", (-1.0, 0, 0)), ("body0", (0, 0, 0))]
    builder.add_spatial_tendon("spring", path, spring=sim.Spring(stiffness=40.0))
    steps = round(2.0 * np.pi / np.sqrt(10.0) / DT)
    q = simulated(builder.finalize("float64"), steps, q=(0.1,)).q.numpy()[:, 0, 0]
    np.testing.assert_allclose((q[-1], q[steps // 2]), (0.1, -0.1), atol=2e-3)


# Just beyond the limit, and beside what is tied.
Q_ARM, LIMIT = (0.1, -0.2, 0.21), 0.665


def arm() -> sim.Model:
    builder = sim.ModelBuilder()
    for k, parent in enumerate(("world", "link0", "link0")):
        builder.add_link(f"link{k}", mass=1.0, com=(0.2, 0.02, 0.1), inertia=(0.02, 0.03, 0.04))
        axis = ((0, 1, 0), (0, 1, 0.3), (1, 0, 0))[k]
        builder.add_joint(
            f"j{k}", "prismatic" if k == 2 else "revolute", parent=parent, child=f"link{k}", axis=axis,
            position=(0.4 * (k > 0), 0, 1.0 * (k == 0)),
        )  # fmt: skip
    builder.add_link("loose", mass=0.7, com=(0.01, 0, 0), inertia=(0.01, 0.02, 0.03))
    builder.add_joint("free", "free", parent="world", child="loose", position=(0.5, 0.2, 0.3))
    path = [("link1", (0.3, 0, 0)), ("loose", (0, 0, 0.1))]
    builder.add_spatial_tendon(
        "rope", path, spring=sim.Spring(stiffness=3.0, damping=0.4), limits=sim.Limits(0.0, LIMIT, margin=0.01)
    )
    builder.add_fixed_tendon(
        "sum", {"j0": 0.7, "j1": -1.2}, spring=sim.Spring(stiffness=8.0, damping=0.2), friction_loss=0.05
    )
    builder.add_fixed_tendon("across", {"j1": 0.5, "j2": 2.0}, spring=sim.Spring(stiffness=4.0, rest=(-0.2, -0.1)))
    builder.add_tendon_coupling("tie", "across", "sum", polynomial=(0.05, 0.8, 0.3, -0.2, 0.1))
    builder.add_actuator(tendon="rope", name="winch", gear=-3.0)
    builder.add_actuator("j0", "velocity", gains=sim.Gains(kd=0.4))
    builder.add_actuator(
        tendon="sum", kind="position", name="servo", gains=sim.Gains(kp=6.0, kd=0.4), gear=1.5, force_limit=(-3, 4)
    )
    return builder.finalize("float64")


NAMES = (
    "mass", "com", "inertia", "joint_placement", "tendon_coefficient", "tendon_point", "tendon_stiffness",
    "tendon_damping", "tendon_rest_upper", "tendon_friction_loss", "tendon_upper_limit", "tendon_limit_margin",
    "tendon_polynomial", "actuator_gear", "actuator_kp", "actuator_kd",
)  # fmt: skip
OPTIONS = {
    "newton": sim.HardContact(),
    "unrolled": sim.PgsContact(),
    "implicit": sim.PgsContact(adjoint="implicit", sweeps=400),
}


@pytest.mark.parametrize("contact", OPTIONS.values(), ids=OPTIONS)
def test_gradients(contact):
    model = arm()
    q = model.q0.copy()
    q[:3] = Q_ARM
    qd = -np.cos(1.7 * np.arange(model.nv))
    c = case(model, 2, q, qd, contact=contact, dt=0.002)
    c = replace(c, control=np.tile((0.4, 0.5, 0.2), (2, 1)))
    simulator = c.simulator()
    simulator.step(simulator.state(q, qd), control=c.control[:1])
    kinds = [block.kind for block in blocks(simulator)]
    assert kinds == [TENDON_LIMIT, TENDON, TENDON]
    check(c, NAMES)


def test_worlds_with_parameters_of_their_own():
    model = arm()
    points = np.stack([model.parameters["tendon_point"], model.parameters["tendon_point"] + 0.05])
    both = sim.Simulator(model, DT, 2, "cpu", parameters={"tendon_point": points})
    end = both.rollout(both.initial_state(), steps=3)
    found = end.backward(None, np.ones((2, model.nv)), ["tendon_point"]).parameters["tendon_point"]
    for world in range(2):
        alone = sim.Simulator(model, DT, 1, "cpu", parameters={"tendon_point": points[world]})
        trajectory = alone.rollout(alone.initial_state(), steps=3)
        np.testing.assert_array_equal(trajectory.q.numpy()[-1, 0], end.q.numpy()[-1, world])
        expected = trajectory.backward(None, np.ones((1, model.nv)), ["tendon_point"]).parameters["tendon_point"]
        # Threads add to it in any order.
        np.testing.assert_allclose(found[world], expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_check_gradients_names_tendons():
    simulator = sim.Simulator(arm(), 0.002, 1, "cpu")
    wanted = ["tendon_coefficient", "tendon_point", "tendon_polynomial"]
    report = sim.check_gradients(simulator, simulator.initial_state(), steps=2, wrt=wanted)
    assert not report.wrong, str(report)
    owners = {each.entry.owner for each in report.entries}
    assert owners == {"tendon 'sum'", "tendon 'across'", "tendon 'rope'", "constraint 'tie'"}


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda b: b.add_fixed_tendon("t", {}), "tendon 't': .*one joint"),
        (lambda b: b.add_fixed_tendon("t", {"x0": np.nan}), "the coefficient of joint 'x0' is nan; it must be finite"),
        (lambda b: b.add_fixed_tendon("t", {"x0": 1}, spring=sim.Spring(stiffness=-1.0)),
            "^Spring: stiffness is -1.0"),
        (lambda b: b.add_fixed_tendon("t", {"x0": 1}, limits=(2, 1)), "lower limit 2.0 is above"),
        (lambda b: b.add_fixed_tendon("t", {"x0": 1}, spring=sim.Spring(rest=(2, 1))), r"^Spring: rest is \(2, 1\)"),
        (lambda b: b.add_fixed_tendon("t", {"y": 1}), "tendon 't': .*joint named 'y'"),
        (lambda b: b.add_spatial_tendon("t", [("body0", (0, 0, 0))]), "tendon 't': .*two points"),
        (lambda b: b.add_spatial_tendon("t", [("a", (0, 0, 0)), ("body0", (0, 0, 0))]), "unknown link 'a'"),
        (lambda b: b.add_spatial_tendon("t", [("world", (0, 0, 0))] * 2), "tendon 't': none of its points moves"),
        (lambda b: b.add_spatial_tendon("t", [("body0", (0, 0, 0)), -1.0]), "a pulley's divisor is -1.0; it must be"),
        (lambda b: b.add_tendon_coupling("c", "t"), "constraint 'c': unknown tendon 't'; add the tendon first"),
        (lambda b: b.add_actuator(tendon="t"), "actuator 't': unknown tendon 't'; add the tendon first"),
        (lambda b: b.add_actuator("x0", tendon="t"), "actuator 'x0': .*joint, tendon, frame and adhesion"),
    ],
)  # fmt: skip
def test_messages(add, message):
    def build() -> None:
        builder = sliders()
        add(builder)
        builder.finalize()

    with pytest.raises(sim.ModelError, match=message):
        build()


def test_limits_over_three_branches_are_refused():
    builder = sliders(3)
    builder.add_fixed_tendon("t", {"x0": 1, "x1": 1, "x2": 1}, limits=(0.0, 1.0))
    with pytest.raises(sim.ModelError, match="tendon 't': .* 3 branches, which end at 'x0', 'x1', 'x2'"):
        sim.Simulator(builder.finalize(), DT)


def test_linearisation():
    """Its rows are gradients of the next velocities."""
    model = arm()
    simulator = sim.Simulator(model, 0.002, 1, "cpu")
    q, qd, control = np.array([*Q_ARM, *model.q0[3:]]), -np.cos(1.7 * np.arange(model.nv)), np.array([[0.4, 0.5, 0.2]])
    state = simulator.state(q, qd)
    found = simulator.linearise(state, control=control)
    weights = np.random.default_rng(0).normal(size=(1, model.nv))
    gradient = simulator.rollout(state, control=control[None]).backward(None, weights)
    rows = weights[0] @ np.asarray(found.B_control)[0][model.nv :]
    np.testing.assert_allclose(rows, gradient.control.numpy()[0, 0], rtol=1e-9, atol=1e-15)
    rows = weights[0] @ np.asarray(found.A)[0][model.nv :, model.nv :]
    np.testing.assert_allclose(rows, gradient.qd.numpy()[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_gradients_where_a_spring_is_at_rest(law):
    """By default that is the initial configuration; the force has its slope there, too."""
    builder = sliders(1)
    builder.add_fixed_tendon("cord", {"x0": 2.0}, spring=sim.Spring(stiffness=30.0))
    model = builder.finalize("float64")
    given = case(model, 3, qd=[1.0], contact=METHODS[law]())
    check(given, ("tendon_stiffness", "mass"))
    simulator = sim.Simulator(model, DT, contact=given.contact, device="cpu")
    q, qd = (torch.zeros((2, 1, 1), dtype=torch.float64, requires_grad=True) for _ in range(2))
    passive = sim.torch.JointForces(simulator)(q, qd).passive
    (slope,) = torch.autograd.grad(passive.sum(), q)
    np.testing.assert_allclose(slope[0, 0], [-30.0 * 2.0**2], rtol=1e-12)
