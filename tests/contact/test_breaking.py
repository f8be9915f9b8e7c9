"""Points, welds and couplings that break: when they do, what the state keeps, and gradients of what still holds."""

import dataclasses
import pickle

import numpy as np
import pytest
import torch
import warp as wp
from pxr import Usd, UsdPhysics

import sim
from sim.simulation.engine import first_state
from tests.contact.test_switches import DT, G, geared
from tests.errors import raises_naming
from tests.importers.mjcf_zoo import load_quietly

RISE, MASS, STEPS = 20.0, 0.5, 144
LIMIT = np.array([10.0, 15.0, 100.0])


def hanging(**loads: float) -> sim.Model:
    """A ball that hangs on a weld."""
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=MASS, position=(0, 0, 1), name="load")
    builder.add_weld_constraint("hook", "world", "load", **loads)
    return builder.finalize("float64")


def pull(model: sim.Model) -> np.ndarray:
    """A force on the load that grows by 20 N each second [steps, nv]."""
    tau = np.zeros((STEPS, model.nv))
    tau[:, 2] = -RISE * DT * np.arange(STEPS)
    return tau


@pytest.mark.parametrize(
    ("contact", "integrator"),
    [
        (sim.HardContact(), "euler"), (sim.HardContact(), "midpoint"), (sim.PgsContact(), "euler"),
        (sim.MujocoContact(), "rk4"),
    ],
)  # fmt: skip
def test_breaks_when_its_force_crosses_the_limit(contact, integrator):
    """In each world at its own limit; then the load falls. It is the rollout with ``active`` switched by hand."""
    model = hanging(break_force=1.0)
    simulator = sim.Simulator(
        model, DT, 3, "cpu", contact, {"anchor_break_force": LIMIT[:, None]}, integrator=integrator
    )
    tau = pull(model)
    trajectory = simulator.rollout(simulator.initial_state(), tau)
    broken = trajectory.broken.numpy()[:, :, 0]
    crossed = np.floor((LIMIT - MASS * G) / RISE / DT) + 1  # the first step with a larger force
    soft = 3 * isinstance(contact, sim.MujocoContact)  # which follows the load with a delay
    assert (np.abs((broken == 0.0).sum(axis=0) - 1 - np.minimum(crossed, STEPS)) <= soft).all()
    assert (np.diff(broken, axis=0) >= 0.0).all()
    simulator.parameters["anchor_break_force"] = np.inf
    same = simulator.rollout(simulator.initial_state(), tau, active=1.0 - trajectory.broken.numpy()[:-1])
    assert not same.broken.numpy().any()
    np.testing.assert_array_equal(same.q.numpy(), trajectory.q.numpy())
    falling = broken[-1] == 1.0
    fallen = np.array([DT * (-G + tau[broken[:-1, world] == 1.0, 2] / MASS).sum() for world in range(3)])
    np.testing.assert_allclose(trajectory.qd.numpy()[-1, falling, 2], fallen[falling], atol=0.05 if soft else 1e-4)


def test_the_state_keeps_it():
    """From step to step, between stored states, in a copy, and at the start of another rollout."""
    model = hanging(break_force=1.0)
    simulator = sim.Simulator(model, DT, 3, "cpu", parameters={"anchor_break_force": LIMIT[:, None]})
    tau = pull(model)
    whole = simulator.rollout(simulator.initial_state(), tau)
    state = simulator.rollout(simulator.initial_state(), tau[:90]).final_state
    state = pickle.loads(pickle.dumps(state))
    np.testing.assert_array_equal(state.broken.numpy()[:, 0], [1, 0, 0])
    for force in tau[90:]:
        state = simulator.step(state, force)
    np.testing.assert_array_equal(state.q.numpy(), whole.final_state.q.numpy())
    bars = np.ones((3, model.nq)), np.ones((3, model.nv))
    sparse = simulator.rollout(simulator.initial_state(), tau, checkpoint_interval=7)
    np.testing.assert_array_equal(sparse.broken.numpy(), whole.broken.numpy()[sparse.stored_steps])
    found = [pickle.loads(pickle.dumps(each)).backward(*bars, ["mass"]) for each in (whole, sparse)]
    np.testing.assert_array_equal(found[0].tau.numpy(), found[1].tau.numpy())
    np.testing.assert_array_equal(found[0].parameters["mass"], found[1].parameters["mass"])
    given = simulator.state(model.q0)
    mended = sim.State(given.q, given.qd, broken=np.array([[1.0], [0.0], [0.0]]))
    ahead = simulator.step(mended)
    np.testing.assert_allclose(ahead.qd.numpy()[:, 2], [-G * DT, 0.0, 0.0], atol=1e-4)  # a loaded weld creeps
    slopes = simulator.linearise(mended).A[:, model.nv + 2, model.nv + 2]
    np.testing.assert_allclose(slopes, [1.0, 0.0, 0.0], atol=2e-3)


def test_gradients():
    """Exact on both sides of the step in which it breaks, which is fixed."""
    model = hanging(break_force=LIMIT[0])
    simulator = sim.Simulator(model, DT, device="cpu")
    report = sim.check_gradients(simulator, simulator.initial_state(), pull(model)[:80], ["q", "qd", "tau", "mass"])
    assert not report.wrong
    state = simulator.rollout(simulator.initial_state(), pull(model)[:80]).final_state
    assert state.broken.numpy() == 1.0
    report = sim.check_gradients(simulator, state, pull(model)[80:90], ["q", "qd", "tau", "mass"])
    assert not report.wrong  # it begins broken
    slopes = [entry.analytic for entry in report.entries if entry.entry.argument == "mass"]
    assert max(map(abs, slopes)) > 1e-3  # a load that hangs wouldn't notice its mass


def test_a_torque_breaks_a_weld():
    """A lever of 0.3 m; a weld that only a force would break holds."""
    builder = sim.ModelBuilder()
    moment = 2.0 * G * 0.3
    for number, load in enumerate((0.98 * moment, 1.02 * moment, np.inf)):
        builder.add_box(name=f"beam{number}", half_extents=(0.3, 0.02, 0.02), mass=2.0, position=(0.3, number, 1.0))
        builder.add_weld_constraint(
            f"wall{number}", "world", f"beam{number}", position_a=(0, number, 1), break_torque=load, break_force=1e3
        )
    simulator = sim.Simulator(builder.finalize("float64"), DT, device="cpu")
    end = simulator.rollout(simulator.initial_state(), steps=20).final_state
    np.testing.assert_array_equal(end.broken.numpy(), [[1, 0, 0]])


def test_a_coupling_breaks():
    """Gears between two unlike wheels: the force on the tooth is known."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for number, name in enumerate("ab"):
        builder.add_link(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"hinge_{name}", "revolute", child=name, position=(number, 0, 0), axis=(0, 0, 1))
    builder.add_joint_coupling("hinge_b", "hinge_a", ratio=2.0, break_force=3.0)
    model = builder.finalize("float64")
    # A torque t on a, with inertias 0.1: b follows with twice the acceleration, by a torque of 0.4 t.
    tau = np.array([[[0.99 * 7.5, 0.0], [1.01 * 7.5, 0.0]]])
    simulator = sim.Simulator(model, DT, 2, "cpu")
    end = simulator.rollout(simulator.initial_state(), tau.repeat(3, axis=0))
    np.testing.assert_array_equal(end.broken.numpy()[:, :, 0], [[0, 0], [0, 1], [0, 1], [0, 1]])
    np.testing.assert_allclose(end.qd.numpy()[-1, 0], 0.99 * 7.5 / 0.5 * 3 * DT * np.array([1, 2]), rtol=2e-3)


FOREIGN = """#usda 1.0
(metersPerUnit = 0.01
 upAxis = "Z")
def PhysicsScene "scene" {}
def Xform "load" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
    float physics:mass = 2
    float3 physics:diagonalInertia = (1, 1, 1)
    double3 xformOp:translate = (0, 0, 100)
    uniform token[] xformOpOrder = ["xformOp:translate"]
}
def PhysicsFixedJoint "hook" {
    rel physics:body1 = </load>
    float3 physics:localPos0 = (0, 0, 100)
    float physics:breakForce = 1500
    float physics:breakTorque = 70000
}
def Xform "door" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
    float physics:mass = 2
    float3 physics:diagonalInertia = (1, 1, 1)
}
def PhysicsRevoluteJoint "hinge" {
    rel physics:body1 = </door>
    float physics:breakForce = 1500
}
"""


def test_usd_of_another_program(tmp_path):
    """A fixed joint that breaks becomes a weld, with its force in kg cm / s^2; a hinge remains in the tree."""
    path = tmp_path / "scene.usda"
    path.write_text(FOREIGN)
    with pytest.warns(sim.USDWarning, match="hinge.*break force"):
        model = sim.load(path, dtype="float64")
    assert model.equalities.anchor_names == ("hook",)
    np.testing.assert_allclose(model.parameters["anchor_break_force"], [15.0], rtol=1e-6)
    np.testing.assert_allclose(model.parameters["anchor_break_torque"], [7.0], rtol=1e-6)
    simulator = sim.Simulator(model, DT, device="cpu")
    end = simulator.rollout(simulator.initial_state(), steps=12).final_state
    np.testing.assert_allclose(
        end.qd.numpy()[0, model.dofs_of(model.link("load"))][2], -11 * DT * G, rtol=1e-4
    )  # 19.6 N break it in the first step


def test_files(tmp_path):
    """USD has the standard attributes, and couplings as an annotation; other formats refuse."""
    builder = sim.ModelBuilder()
    for number, name in enumerate("ab"):
        builder.add_link(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"hinge_{name}", "revolute", child=name, position=(number, 0, 0), axis=(0, 0, 1))
    builder.add_joint_coupling("hinge_b", "hinge_a", ratio=2.0, break_force=0.1)
    builder.add_point_constraint("pin", "a", "world", position_a=(0, 0, 1))
    builder.add_weld_constraint("bond", "a", "b", break_force=1 / 3, break_torque=0.7)
    model, path = builder.finalize("float64"), tmp_path / "scene.usda"
    sim.usd.write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy()[None], fps=30)
    again = load_quietly(path)
    for name in ("anchor_break_force", "anchor_break_torque", "coupling_break_force", "anchor_active"):
        np.testing.assert_array_equal(again.parameters[name], model.parameters[name])
    stage = Usd.Stage.Open(str(path))
    joint = UsdPhysics.Joint(stage.GetPrimAtPath("/World/Constraints/bond"))
    np.testing.assert_allclose([joint.GetBreakForceAttr().Get(), joint.GetBreakTorqueAttr().Get()], [1 / 3, 0.7])
    for write, end in ((sim.exporters.write_mjcf, "xml"), (sim.exporters.write_urdf, "urdf")):
        with raises_naming("break", "hinge_b", "lossy"):
            write(tmp_path / f"scene.{end}", model)
    with pytest.warns(sim.MJCFWarning, match="break"):
        sim.exporters.write_mjcf(tmp_path / "scene.xml", model, lossy=True)


def test_marks_of_a_simulator_are_not_read_again(monkeypatch):
    """Reading them would wait for a GPU in every call."""
    simulator = sim.Simulator(hanging(break_force=5.0), DT, device="cpu")
    state = simulator.step(simulator.initial_state())
    trajectory = simulator.rollout(state, steps=2)

    def read(name, values):
        raise AssertionError(f"{name} is read")

    monkeypatch.setattr(first_state, "require_zero_or_one", read)
    simulator.step(state)
    simulator.linearise(state)
    simulator.rollout(trajectory.state(1), steps=2)
    simulator.rollout(trajectory.final_state, steps=2)
    given = wp.clone(state.broken)
    with pytest.raises(AssertionError, match="is read"):
        simulator.step(dataclasses.replace(state, broken=given))
    with pytest.raises(AssertionError, match="is read"):
        simulator.step(pickle.loads(pickle.dumps(state)))


def test_errors():
    with raises_naming("constraint 'hook'", "break_torque is 0", "positive"):
        hanging(break_torque=0.0)
    with raises_naming("coupling of joint 'hinge_b'", "break_force is nan"):
        sim.ModelBuilder().add_joint_coupling("hinge_b", "hinge_a", break_force=np.nan)
    simulator = sim.Simulator(geared(None), DT, device="cpu")
    state = simulator.initial_state()
    with raises_naming("state.broken", "break_force", "remove it"):
        simulator.step(sim.State(state.q, state.qd, broken=np.ones((1, 1))))
    simulator = sim.Simulator(hanging(break_force=5.0), DT, device="cpu")
    with raises_naming("state.broken", "(2, 1)"):
        state = simulator.initial_state()
        simulator.step(sim.State(state.q, state.qd, broken=np.ones((2, 1))))
    one = simulator.initial_state()
    for value in (0.5, -1.0, np.nan):
        with raises_naming("state.broken", f"{value:g}", "give 1"):
            simulator.step(dataclasses.replace(one, broken=np.array([[value]])))
        with raises_naming("state.broken", f"{value:g}", "give 1"):
            simulator.linearise(dataclasses.replace(one, broken=wp.array([[value]], dtype=wp.float64, device="cpu")))
        with raises_naming("broken", f"{value:g}", "give 1"):
            q, qd = (torch.from_numpy(array) for array in one.numpy())
            sim.torch.step(simulator, q, qd, broken=torch.tensor([[value]], dtype=torch.float64))
    with raises_naming("'anchor_break_force'", "positive"):
        simulator.parameters["anchor_break_force"] = 0.0
