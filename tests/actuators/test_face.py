"""Building and driving actuators: names, defaults, errors, what is stored."""

import re

import numpy as np
import pytest

import sim
from tests.actuators.worlds import arm
from tests.errors import raises_naming, refuses

URDF = """<robot name="r"><link name="base"/><link name="arm"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="elbow" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="12" velocity="3"/></joint></robot>"""


def builder() -> sim.ModelBuilder:
    b = sim.ModelBuilder()
    b.add_link("a", mass=1.0, inertia=(1.0, 1.0, 1.0))
    b.add_joint("hinge", "revolute", child="a", limits=sim.Limits(effort=7.0))
    b.add_link("b", mass=1.0, inertia=(1.0, 1.0, 1.0))
    b.add_joint("ball", "spherical", parent="a", child="b")
    b.add_link("c", mass=1.0, inertia=(1.0, 1.0, 1.0))
    b.add_joint("idle", "prismatic", parent="a", child="c", limits=sim.Limits(effort=0.0))
    b.add_link("d")
    b.add_joint("mount", "fixed", parent="c", child="d")
    return b


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("nowhere",), {}, "actuator 'nowhere': unknown joint 'nowhere'; add the joint first"),
        (("hinge", "hydraulic"), {}, "unknown kind 'hydraulic'; known are torque, position, velocity"),
        (("ball",), {}, "joint 'ball' is neither revolute nor prismatic"),
        (("mount",), {}, "joint 'mount' is fixed"),
        ((["hinge", "idle"],), {}, "joint is ['hinge', 'idle']; it must be a name"),
        (("hinge",), {"gear": 0.0}, "gear is 0.0; it must be finite and not zero"),
        (("hinge",), {"gains": sim.Gains(kp=1.0)}, "a torque actuator has no kp"),
        (("hinge", "velocity"), {"gains": sim.Gains(kd=1.0, kp=2.0)}, "a velocity actuator has no kp"),
        (("hinge", "velocity"), {}, "a velocity actuator needs kd"),
        (("hinge", "muscle"), {}, "kind 'muscle' needs muscle=sim.Muscle"),
        (("hinge", "position"), {"gains": sim.Gains(kd=1.0)}, "a position actuator needs kp"),
        (("hinge",), {"gains": 1.0}, "actuator 'hinge': gains is a float; it must be a sim.Gains"),
        (("hinge",), {"activation": "filter"}, "actuator 'hinge': activation is a str; it must be a sim.Activation"),
        (("hinge",), {"force_limit": -1.0}, "force_limit is -1.0; it must not be negative"),
        (("hinge",), {"force_limit": np.nan}, "force_limit is nan; it must not be negative"),
        (("idle",), {}, "joint 'idle' has an effort limit of zero; give force_limit"),
        (("hinge",), {"name": ""}, "an actuator needs a name that is not empty"),
    ],
)
def test_what_the_builder_refuses(arguments, options, message):
    b = builder()
    with pytest.raises(sim.ModelError, match=re.escape(message)):
        b.add_actuator(*arguments, **options)
    assert not b.actuators


def test_names_and_order():
    b = builder()
    assert b.add_actuator("hinge") == "hinge"
    refuses(lambda: b.add_actuator("hinge", "velocity", gains=sim.Gains(kd=1.0)), "actuator 'hinge'", "name")
    b.add_actuator("idle", "velocity", name="slide", gains=sim.Gains(kd=1.0), force_limit=1.0)
    model = b.finalize()
    assert model.nu == 2
    assert model.actuator("slide") == 1
    assert model.actuator_dof.tolist() == [0, model.qd_slice("idle").start]
    refuses(lambda: model.actuator("x"), "actuator", "'x'", "hinge, slide")


def test_force_limit_from_the_effort_of_the_joint():
    b = builder()
    b.add_actuator("hinge", gear=-2.0)
    b.add_actuator("hinge", name="free", force_limit=np.inf)
    np.testing.assert_array_equal(b.finalize().parameters["actuator_force_limit"], [3.5, np.inf])


def test_force_limit_from_a_urdf_file(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(URDF)
    b = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    b.add_urdf(path)
    b.add_actuator("elbow", "position", gains=sim.Gains(kp=1000.0))
    model = b.finalize("float64")
    assert model.parameters["actuator_force_limit"].tolist() == [12.0]
    simulator = sim.Simulator(model, 1e-3, device="cpu")
    np.testing.assert_allclose(simulator.step(simulator.initial_state(), control=[1.0]).qd.numpy(), 12.0e-3, rtol=1e-12)


def test_shapes_and_lengths():
    simulator = sim.Simulator(arm(), 0.01, 2, "cpu")
    state = simulator.initial_state()
    for control in (np.zeros(3), np.zeros((1, 4)), np.zeros((3, 2, 4))):
        with raises_naming("control", "shape"):
            simulator.step(state, control=control)
    refuses(lambda: simulator.rollout(state, control=np.zeros((5, 2, 3))), "control", "shape")
    refuses(lambda: simulator.rollout(state, np.zeros((5, 4)), control=np.zeros((4, 4))), "steps", 5, "control", 4)
    refuses(lambda: simulator.rollout(state), "rollout", "tau", "control")
    plain = sim.Simulator(builder().finalize(), 0.01, device="cpu")
    refuses(lambda: plain.step(plain.initial_state(), control=[1.0]), "control", "shape")


def test_parameters():
    simulator = sim.Simulator(arm(), 0.01, device="cpu")
    with raises_naming("'actuator_kp'", "zero", "actuator 'joint2'", "velocity"):
        simulator.parameters["actuator_kp"] = [0.0, 1.0, 1.0, 0.0]
    with raises_naming("'actuator_kd'", "zero", "actuator 'joint0'", "torque"):
        simulator.parameters["actuator_kd"] = 1.0
    refuses(lambda: simulator.parameters.update({"actuator_kp": [0.0, -1.0, 0.0, 0.0]}), "'actuator_kp'", "-1.0")
    without = sim.Simulator(builder().finalize(), 0.01, device="cpu")
    refuses(lambda: without.parameters.update({"actuator_kp": 1.0}), "unknown", "parameter 'actuator_kp'")
    with raises_naming("unknown", "parameter 'actuator_kp'"):
        sim.Simulator(builder().finalize(), 0.01, device="cpu", parameters={"actuator_kp": []})


def test_a_limit_set_later():
    """The rows that it needs are made room for."""
    simulator = sim.Simulator(arm(), 0.01, device="cpu")
    fresh = sim.Simulator(arm(limits=(1.0,) * 4), 0.01, device="cpu")
    control = np.full((5, 4), 3.0)
    simulator.rollout(simulator.initial_state(), control=control)
    simulator.parameters["actuator_force_limit"] = 1.0
    one, other = (s.rollout(s.initial_state(), control=control).q.numpy() for s in (simulator, fresh))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_worlds_differ_and_are_stored_as_they_ran(dtype):
    """Only the inputs that were given are kept; each stored state leads to the next one, bit for bit.

    A world alone is worked on by itself, many in lane groups: they round otherwise.
    """
    model = arm(dtype, limits=(0.5, 6.0, 4.0, 3.0))
    gains = np.array([0.0, 80.0, 0.0, 30.0]) * (1.0 + 0.05 * np.arange(40)[:, None])
    simulator = sim.Simulator(model, 1 / 240, 40, "cpu", parameters={"actuator_kp": gains})
    simulator.parameters["actuator_force_limit"] = np.tile(simulator.parameters["actuator_force_limit"], (40, 1))
    control = 0.4 * np.random.default_rng(0).normal(size=(6, 40, 4))
    trajectory = simulator.rollout(simulator.initial_state(), control=control)
    assert trajectory.tau is None
    assert trajectory.control.shape == (6, 40, 4)
    gradients = trajectory.backward(np.ones((40, model.nq)), parameters=["actuator_kp", "actuator_force_limit"])
    assert gradients.tau is None
    assert gradients.control.shape == (6, 40, 4)
    both = np.concatenate([gradients.parameters[name] for name in ("actuator_kp", "actuator_force_limit")], axis=1)
    assert (np.abs(both).max(axis=1) > 0.0).all()
    q, qd = trajectory.q.numpy(), trajectory.qd.numpy()
    for step in reversed(range(6)):
        state = simulator.step(simulator.state(q[step], qd[step]), control=control[step])
        np.testing.assert_array_equal(state.q.numpy(), q[step + 1])
        np.testing.assert_array_equal(state.qd.numpy(), qd[step + 1])
    alone = sim.Simulator(model, 1 / 240, device="cpu", parameters={"actuator_kp": gains[7]})
    found = alone.rollout(alone.initial_state(), control=control[:, 7]).q.numpy()[:, 0]
    np.testing.assert_allclose(found, q[:, 7], rtol=0, atol=20 * np.finfo(dtype).eps)


def test_without_input_the_targets_are_zero():
    simulator = sim.Simulator(arm(), 0.01, device="cpu")
    state = simulator.state([0.1, 0.2, 0.3, 0.4])
    free, zero = simulator.rollout(state, steps=5), simulator.rollout(state, control=np.zeros((5, 4)))
    np.testing.assert_array_equal(free.q.numpy(), zero.q.numpy())
