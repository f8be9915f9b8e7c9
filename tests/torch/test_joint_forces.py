"""The forces on joints along a rollout: beside MuJoCo's, in balance, and their gradients."""

import mujoco
import numpy as np
import pytest
import torch

import sim
import sim.torch
from tests.contact.mujoco.test_tendons import CONTROL, start, written
from tests.errors import refuses
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import METHODS
from tests.torch.test_sensors import DT, driven, rolled

STEPS = 20


@pytest.fixture(scope="module")
def pulled(tmp_path_factory):
    """Fixed and spatial tendons with springs, dampers and actuators; two links are borne by a share of their weight."""
    path = written(tmp_path_factory.mktemp("tendons"))
    path.write_text(path.read_text().replace('<body name="lower"', '<body name="lower" gravcomp="0.7"'))
    path.write_text(path.read_text().replace('<body name="loose"', '<body name="loose" gravcomp="1.2"'))
    return path, load_quietly(path)


def tensors(model, states):
    """Coordinates and velocities [steps, 1, ...] of MuJoCo's."""
    ours = [sim.from_mujoco(model, q, qd) for q, qd in states]
    return [torch.tensor(np.array(each))[:, None] for each in zip(*ours, strict=True)]


def test_beside_mujoco(pulled):
    """Along MuJoCo's own motion, through limits, dry friction, ties and contacts."""
    path, model = pulled
    theirs = mujoco.MjModel.from_xml_path(str(path))
    data = data_at(theirs, model, *start(model))
    states, forces, turned = [(data.qpos.copy(), data.qvel.copy())], [], []
    (loose,) = (theirs.jnt_dofadr[j] for j in range(theirs.njnt) if theirs.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE)
    for _ in range(STEPS):
        data.ctrl[:] = CONTROL
        before = data.qvel.copy()
        mujoco.mj_step(theirs, data)
        turned.append(data.body("loose").xmat.reshape(3, 3).copy())  # before the step
        # Dampers of joints act with the velocity at the end of the step.
        passive = data.qfrc_passive - theirs.dof_damping * (data.qvel - before)
        forces.append([data.qfrc_actuator.copy(), passive, data.qfrc_constraint.copy()])
        states.append((data.qpos.copy(), data.qvel.copy()))
    assert data.ncon, "in the end something touches"
    expected = np.array(forces)
    # Moments on a free body, along the body's axes there and the world's here.
    about = slice(loose + 3, loose + 6)
    expected[..., about] = np.einsum("sij,spj->spi", np.array(turned), expected[..., about])
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), num_worlds=1, device="cpu")
    q, qd = tensors(model, states)
    parts = sim.torch.JointForces(simulator)(
        q, qd, control=torch.tensor(CONTROL, dtype=torch.float64).expand(STEPS, 1, -1)
    )
    assert np.abs(expected).max(axis=(0, 2)).min() > 1.0, "all three act"
    for number, found in enumerate((parts.actuators, parts.passive, parts.constraints)):
        np.testing.assert_allclose(found[:, 0], expected[:, number], atol=2e-8 * np.abs(expected).max())
    np.testing.assert_allclose(parts.applied, 0.0)


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_without_constraints_nothing_is_left(law):
    """Actuators at and within limits, springs, dampers and forces of one's own, in worlds that differ."""
    model, worlds = driven(), 3
    simulator = sim.Simulator(model, DT, worlds, "cpu", METHODS[law]())
    rng = np.random.default_rng(3)
    for name, low, high in (("damping", 0.1, 0.6), ("stiffness", 1.0, 9.0), ("rest_position", -0.3, 0.3)):
        simulator.parameters[name] = rng.uniform(low, high, (worlds, model.nv))
    simulator.parameters["mass"] = rng.uniform(0.5, 1.5, (worlds, model.num_links))
    control, tau = (torch.tensor(rng.normal(size=(STEPS, worlds, 4)) * size) for size in (2.0, 0.5))
    first, rate = (torch.tensor(rng.normal(size=(worlds, 4))) for _ in range(2))
    q, qd = sim.torch.rollout(simulator, first, rate, tau, control=control)
    parts = sim.torch.JointForces(simulator)(q, qd, tau, control)
    np.testing.assert_allclose(parts.constraints, 0.0, atol=1e-8)
    np.testing.assert_allclose(parts.applied, tau)
    assert min(float(part.abs().max()) for part in (parts.actuators, parts.passive)) > 1.0
    moved = sim.torch.Robot(model)
    moved.mass = torch.tensor(simulator.parameters["mass"][1])
    needed = moved.inverse_dynamics(q[:-1, 1], qd[:-1, 1], torch.diff(qd[:, 1], dim=0) / DT, passive=False)
    np.testing.assert_allclose(parts.total[:, 1], needed, atol=1e-9)


def test_what_bears_a_weight():
    """A rod rests on its limit; another is held by dry friction; a box stands on the ground."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    for name, options in {"stopped": {"limits": sim.Limits(-1.0, 0.0)}, "rubbed": {"friction_loss": 5.0}}.items():
        builder.add_link(name, mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
        builder.add_joint(name, "revolute", child=name, axis=(0.0, 1.0, 0.0), position=(0, 0, 2), **options)
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(1.0, 0.0, 0.1), name="box")
    model = builder.finalize("float64")
    q, qd, simulator = rolled(model, [0.0] * model.nv, 120)
    parts = sim.torch.JointForces(simulator)(q, qd)
    held, lifted = -1.0 * 9.81 * 0.2, 2.0 * 9.81
    np.testing.assert_allclose(parts.constraints[-1, 0], [held, held, 0, 0, lifted, 0, 0, 0], atol=2e-3)
    np.testing.assert_allclose(parts.actuators, 0.0)
    np.testing.assert_allclose(parts.passive, 0.0)


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_gradients_are_those_of_differences(pulled, law):
    """Through the simulator: of all parts, and of the forces of actuators on tendons, in states, forces and inputs."""
    _, model = pulled
    simulator = sim.Simulator(model, DT, 1, "cpu", METHODS[law]())
    forces = sim.torch.JointForces(simulator)
    q0, qd0 = (torch.tensor(each)[None] for each in start(model))
    tau = 0.1 * torch.ones(3, 1, model.nv, dtype=torch.float64)
    control = torch.tensor(CONTROL, dtype=torch.float64).expand(3, 1, -1)

    def parts(first, rate, tau, control):
        q, qd = sim.torch.rollout(simulator, first, rate, tau, control=control)
        found = forces(q, qd, tau, control)
        return torch.cat([*found, sim.torch.actuator_forces(simulator, q, qd, control)], dim=-1)

    given = [each.clone().requires_grad_() for each in (q0, qd0, tau, control)]
    rng = np.random.default_rng(0)
    weight = torch.tensor(rng.normal(size=parts(*given).shape))
    (weight * parts(*given)).sum().backward()
    for number, each in enumerate(given):
        direction = torch.tensor(rng.normal(size=each.shape))
        # Forces are changes of velocity over DT: with smaller steps rounding shows. They hardly curve in the inputs.
        step, ends = 3e-4 if number < 2 else 3e-3, []
        with torch.no_grad():
            for sign in (1.0, -1.0):
                moved = [value + sign * step * direction if k == number else value for k, value in enumerate(given)]
                ends.append(float((weight * parts(*moved)).sum()))
        expected = (ends[0] - ends[1]) / (2.0 * step)
        assert float((each.grad * direction).sum()) == pytest.approx(expected, abs=1e-6 * float(each.grad.norm()))


SENSORS = """<sensor>
  <actuatorpos actuator="winch"/><actuatorpos actuator="servo"/><actuatorvel actuator="odd"/>
  <actuatorvel actuator="drive"/><actuatorfrc actuator="winch"/><actuatorfrc actuator="odd"/>
  <jointactuatorfrc joint="a"/><jointactuatorfrc joint="b"/><jointactuatorfrc joint="d"/>
</sensor></mujoco>"""


def test_actuators_on_tendons_are_those_of_mujoco(pulled, tmp_path):
    """Their forces, and what sensors read of them and of the joints that they move."""
    path = tmp_path / "sensors.xml"
    path.write_text(pulled[0].read_text().replace("</mujoco>", SENSORS))
    model, theirs = load_quietly(path), mujoco.MjModel.from_xml_path(str(path))
    data = data_at(theirs, model, *start(model))
    before = (data.qpos.copy(), data.qvel.copy())
    data.ctrl[:] = CONTROL
    mujoco.mj_step(theirs, data)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), num_worlds=1, device="cpu")
    q, qd = tensors(model, [before, (data.qpos, data.qvel)])
    control = torch.tensor(CONTROL, dtype=torch.float64)[None, None]
    force = sim.torch.actuator_forces(simulator, q, qd, control)
    np.testing.assert_allclose(force[0, 0], data.actuator_force, rtol=1e-9)
    readings = sim.torch.Sensors(simulator)(q, qd, control)
    np.testing.assert_allclose(readings[0, 0], data.sensordata, rtol=1e-9)


def test_what_is_refused(pulled):
    _, model = pulled
    simulator = sim.Simulator(model, DT, 1, "cpu", sim.MujocoContact(), integrator="rk4")
    refuses(lambda: sim.torch.JointForces(simulator), "integrator='rk4'")
    simulator = sim.Simulator(driven(), DT, 1, "cpu")
    states = torch.zeros(3, 1, 4)
    refuses(lambda: sim.torch.JointForces(simulator)(states, states, control=torch.zeros(1, 1, 4)), "inputs")


def test_defaults_of_torch_change_nothing(pulled):
    """A simulator on the CPU where tensors lie elsewhere by default, and a parameter from NumPy."""
    _, model = pulled
    simulator = sim.Simulator(model, 0.002, num_worlds=1, device="cpu")
    q, qd = (torch.tensor(x)[None] for x in start(model))
    damping = model.parameters["damping"] + 0.1
    control = torch.tensor(CONTROL, dtype=torch.float64)[None]

    def found():
        states = sim.torch.rollout(simulator, q, qd, control=control.expand(4, 1, -1), damping=damping)
        return sim.torch.JointForces(simulator)(*states[:2], control=control.expand(4, 1, -1))

    expected = found()
    with torch.device("meta"):
        again = found()
    assert torch.equal(again.actuators, expected.actuators)
    assert torch.equal(again.passive, expected.passive)
