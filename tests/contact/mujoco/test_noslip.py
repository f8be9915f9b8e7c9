"""MuJoCo's noslip solver: steps beside MuJoCo sweep by sweep, forces, gradients of the sweeps as they ran."""

import mujoco
import numpy as np
import pytest

import sim
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import assert_same_state, data_at
from tests.simulation.differences import case, check

DT = 0.004
# Bodies in five islands, one of them of two spheres, one with dry friction of a joint and of a tendon.
XML = """
<mujoco>
  <option timestep="0.004" cone="{cone}" impratio="{impratio}" integrator="{integrator}" tolerance="0" iterations="200"
    noslip_iterations="{sweeps}" noslip_tolerance="{tolerance}"/>
  <default><geom solref="0.03 0.9" solimp="0.7 0.95 0.02 0.4 3"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" friction="0.7 0.02 0.003"/>
    <body pos="0 0 0.098"><freejoint/>
      <geom type="sphere" size="0.1" mass="1.3" friction="0.5 0.03 0.01" condim="{condim[2]}"/></body>
    <body pos="1 0 0.0985"><freejoint/>
      <geom type="sphere" size="0.1" mass="0.8" friction="0.9 0.05 0" condim="{condim[1]}"/></body>
    <body pos="1.195 0 0.0997"><freejoint/>
      <geom type="sphere" size="0.1" mass="0.8" friction="0.4 0.01 0.02" condim="{condim[2]}"/></body>
    <body pos="2 1 0.0998"><freejoint/><geom type="box" size="0.2 0.15 0.1" mass="2" condim="{condim[0]}"/></body>
    <body pos="4 1 0.0999"><freejoint/><geom type="sphere" size="0.1" mass="2" condim="1"/></body>
    <body pos="3 0 0.5">
      <joint name="turn" type="hinge" axis="0 0 1" frictionloss="0.3" damping="0.1"/>
      <joint name="press" type="slide" axis="0 0 1" limited="true" range="-1 0.001"/>
      <geom type="sphere" pos="0.2 0 -0.402" size="0.1" friction="0.6 0.04 0.001" condim="{condim[1]}"/></body>
  </worldbody>
  <tendon><fixed frictionloss="0.2"><joint joint="turn" coef="0.4"/><joint joint="press" coef="1"/></fixed></tendon>
</mujoco>
"""
PLAIN, RESISTING = (3, 3, 3), (3, 4, 6)


def scene(folder, cone, condim=PLAIN, sweeps=3, tolerance=0.0, impratio=1.0, integrator="Euler", speed=1.0):
    """The file, the model and velocities at which no contact opens."""
    path = folder / "scene.xml"
    path.write_text(
        XML.format(
            cone=cone, condim=condim, sweeps=sweeps, tolerance=tolerance, impratio=impratio, integrator=integrator
        )
    )
    model = load_quietly(path)
    qd = speed * np.cos(1.3 * np.arange(model.nv))
    qd[2:30:6] = -0.2
    qd[-2] = 5.0 * speed
    return path, model, qd


def theirs(path, model, qd):
    """MuJoCo's data before a step."""
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = data_at(peer, model, model.q0, qd)
    mujoco.mj_forward(peer, data)
    return peer, data


@pytest.mark.parametrize("speed", [1.0, 1e-3])
@pytest.mark.parametrize(("sweeps", "tolerance"), [(1, 0.0), (8, 0.0), (8, 1e-6), (8, 1e-2)])
@pytest.mark.parametrize("condim", [PLAIN, RESISTING])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_one_step(tmp_path, cone, condim, sweeps, tolerance, speed):
    """The same sweeps in the same order, until each island ends by itself."""
    path, model, qd = scene(tmp_path, cone, condim, sweeps, tolerance, impratio=3.0, speed=speed)
    peer, data = theirs(path, model, qd)
    assert data.nisland == 5
    mujoco.mj_step(peer, data)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    end = simulator.step(simulator.state(model.q0, qd))
    _, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
    np.testing.assert_allclose(qvel, data.qvel, atol=1e-12)
    without = sim.MujocoContact(friction=simulator.contact.friction, impratio=3.0)
    plain = sim.Simulator(model, DT, contact=without)
    slipped = plain.step(plain.state(model.q0, qd)).qd.numpy()
    assert np.abs(slipped - end.qd.numpy()).max() > 1e-3


@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicitfast", "implicit"])
def test_many_steps(tmp_path, integrator):
    """Where bodies come to rest and contacts close."""
    path, model, qd = scene(tmp_path, "elliptic", RESISTING, integrator=integrator, tolerance=1e-6, speed=0.3)
    peer, data = theirs(path, model, qd)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    end = simulator.rollout(simulator.state(model.q0, qd), steps=50).final_state
    for _ in range(50):
        mujoco.mj_step(peer, data)
    assert_same_state(model, end, data, 1e-10, 1e-9)


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_forces(tmp_path, cone):
    path, model, qd = scene(tmp_path, cone, RESISTING)
    peer, data = theirs(path, model, qd)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    found = simulator.contacts(simulator.state(model.q0, qd))
    for number in range(data.ncon):
        wrench, frame = np.zeros(6), data.contact.frame[number].reshape(3, 3)
        mujoco.mj_contactForce(peer, data, number, wrench)
        nearest = np.linalg.norm(found.point - data.contact.pos[number], axis=1).argmin()
        force = frame.T @ wrench[:3]
        sign = np.sign(found.force[nearest] @ force)
        np.testing.assert_allclose(sign * found.force[nearest], force, atol=1e-9)
        np.testing.assert_allclose(sign * found.torque[nearest], frame.T @ wrench[3:], atol=1e-9)


def test_nothing_creeps():
    """A box on a slope of ten degrees: without sweeps the soft friction of MuJoCo lets it down."""
    gravity = 9.81 * np.array([np.sin(np.radians(10)), 0.0, -np.cos(np.radians(10))])
    builder = sim.ModelBuilder(gravity=gravity)
    builder.add_ground(surface=sim.Surface(friction=0.8))
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.1))
    model = builder.finalize("float64")
    direction = {}
    for sweeps in (0, 20):
        contact = sim.MujocoContact(noslip_iterations=sweeps, noslip_tolerance=0.0)
        simulator = sim.Simulator(model, DT, contact=contact)
        trajectory = simulator.rollout(simulator.initial_state(), steps=300)
        q = trajectory.q.numpy()[:, 0, 0]
        direction[sweeps] = q[-1] - q[100]
    assert direction[0] > 3e-4
    assert abs(direction[20]) < 1e-5 * direction[0]


@pytest.mark.parametrize(("speed", "sweeps"), [(1.0, 4), (1e-3, 1)])
@pytest.mark.parametrize("condim", [PLAIN, RESISTING])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_gradients(tmp_path, cone, condim, speed, sweeps):
    """Of sweeps that haven't come to an end too."""
    _, model, qd = scene(tmp_path, cone, condim, speed=speed)
    contact = sim.MujocoContact(
        friction={"elliptic": "cone", "pyramidal": "pyramid"}[cone],
        impratio=2.0,
        solref=(0.03, 0.9),
        solimp=(0.7, 0.95, 0.02, 0.4, 3.0),
        noslip_iterations=sweeps,
        noslip_tolerance=0.0,
    )
    names = ["mass", "inertia", "geometry_size", "solref", "solimp"]
    if speed == 1.0:  # what holds doesn't depend on its bound
        names += ["friction", "friction_loss", "tendon_friction_loss"]
    if condim == RESISTING:
        names += ["torsional_friction", "rolling_friction"]
    check(case(model, 2, model.q0, qd, contact=contact, dt=DT), names, most=16)


@pytest.mark.parametrize("speed", [0.02, 0.05])
def test_gradients_where_newton_ends_early(speed):
    """Beside weak friction of a heavy ball MuJoCo's bound of the multiplier's changes is wide."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.6))
    builder.add_sphere(
        radius=0.2, mass=300.0, position=(0.0, 0.0, 0.1983),
        surface=sim.Surface(friction=0.6, torsional_friction=0.001, rolling_friction=0.001),
    )  # fmt: skip
    contact = sim.MujocoContact(noslip_iterations=2, noslip_tolerance=0.0)
    qd = [speed, speed, -0.1, 2.0 * speed, speed, 5.0 * speed]
    names = ["mass", "friction", "torsional_friction", "rolling_friction"]
    check(case(builder.finalize("float64"), 2, qd=qd, contact=contact, dt=DT), names)


def test_gradient_of_forces_and_of_one_step(tmp_path):
    """Sensors measure what the sweeps leave, and a step's matrices are those of its gradient."""
    _, model, qd = scene(tmp_path, "pyramidal", RESISTING)
    settings = sim.mujoco_settings(model)
    simulator = sim.Simulator(model, **settings, contact_sensors=[1, 4])
    weights = np.random.default_rng(0).normal(size=(1, 1, 2, 3))

    def loss(velocity):
        trajectory = simulator.rollout(simulator.state(model.q0, velocity), steps=1)
        return trajectory, float((weights * trajectory.contact_force.numpy()).sum())

    trajectory, _ = loss(qd)
    found = trajectory.backward(None, None, contact_force_grad=weights).qd.numpy()[0]
    step = 1e-6
    expected = [(loss(qd + step * e)[1] - loss(qd - step * e)[1]) / (2 * step) for e in np.eye(model.nv)]
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    plain = sim.Simulator(model, **settings)
    matrices = plain.linearise(plain.state(model.q0, qd))
    push = np.random.default_rng(1).normal(size=model.nv)
    gradient = plain.rollout(plain.state(model.q0, qd), steps=1).backward(None, push[None]).qd.numpy()[0]
    np.testing.assert_allclose(push @ matrices.A[0, model.nv :, model.nv :], gradient, atol=1e-10)
