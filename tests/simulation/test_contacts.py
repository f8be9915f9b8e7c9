"""Simulator.contacts: forces against the balance of momentum, points and normals against the geometry."""

import mujoco
import numpy as np
import pytest

import sim
from scenes import quadruped
from scenes.mjcf import to_mjcf

DT = 1 / 240
G = np.array([0.0, 0.0, -9.81])
RADIUS, MASS = 0.1, 0.4


def balls(dtype: str, far: float = 0.0, surface: sim.Surface | None = None) -> sim.Model:
    """Two balls that touch each other and the ground, a third in the air."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.4))
    for position in ((far, 0.0, RADIUS), (far + 2 * RADIUS, 0.0, RADIUS), (far, 1.0, 1.0)):
        builder.add_sphere(radius=RADIUS, mass=MASS, position=position, surface=surface or sim.Surface())
    return builder.finalize(dtype)


@pytest.mark.parametrize("surface", [sim.Surface(), sim.Surface(torsional_friction=0.02, rolling_friction=0.01)])
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-10), ("float32", 2e-4)])
def test_forces_and_torques_change_the_momentum(device, dtype, bound, surface):
    """m dv = (sum of forces + m g) dt and I dw = (sum of lever x force) dt for every ball, in 70 worlds."""
    worlds = 70  # more than one shard
    model = balls(dtype, surface=surface)
    simulator = sim.Simulator(model, DT, worlds, device)
    qd = np.random.default_rng(3).normal(size=(worlds, 3, 6)) * [1.0, 1.0, 0.2, 3.0, 3.0, 3.0]
    state = simulator.state(np.tile(model.q0, (worlds, 1)), qd.reshape(worlds, -1))
    tau = 0.1 * np.random.default_rng(4).normal(size=(worlds, model.nv))
    contacts = simulator.contacts(state, tau)
    after = simulator.step(state, tau).qd.numpy().reshape(worlds, 3, 6).astype(np.float64)
    change = (after - state.qd.numpy().reshape(worlds, 3, 6)) / DT
    applied = tau.reshape(worlds, 3, 6)
    centres = model.q0.reshape(3, 7)[:, :3]
    for ball in range(3):
        geometry = 1 + ball
        force = contacts.force_on(geometry, worlds)
        np.testing.assert_allclose(MASS * (change[:, ball, :3] - G) - applied[:, ball, :3], force, atol=bound * 100)
        torque = np.zeros((worlds, 3))
        for side, sign in ((contacts.geometry_b, 1.0), (contacts.geometry_a, -1.0)):
            touching = side == geometry
            moment = np.cross(contacts.point[touching] - centres[ball], contacts.force[touching])
            np.add.at(torque, contacts.world[touching], sign * (moment + contacts.torque[touching]))
        inertia = 0.4 * MASS * RADIUS**2
        np.testing.assert_allclose(
            inertia * change[:, ball, 3:] - applied[:, ball, 3:], torque, atol=bound * 10, err_msg=f"ball {ball}"
        )
    assert np.abs(contacts.force_on(1, worlds)).max() > 1.0
    assert np.abs(contacts.torque).any() == (surface.torsional_friction > 0.0)
    np.testing.assert_array_equal(contacts.force_on(3, worlds), 0.0)


def test_where_and_which(device):
    """World frame, normals from a to b, worlds in order; far from the origin too."""
    model = balls("float64", far=1000.0)
    simulator = sim.Simulator(model, DT, 2, device, sim.PgsContact())  # forces are exact in its first step
    contacts = simulator.contacts(simulator.initial_state())
    assert len(contacts) == 6
    np.testing.assert_array_equal(contacts.world, [0, 0, 0, 1, 1, 1])
    own = contacts.of_world(1)
    assert [(a, b) for a, b in zip(own.geometry_a, own.geometry_b, strict=True)] == [(0, 1), (0, 2), (1, 2)]
    np.testing.assert_allclose(own.point, [[1000, 0, 0], [1000.2, 0, 0], [1000.1, 0, 0.1]], atol=1e-10)
    np.testing.assert_allclose(own.normal, [[0, 0, 1], [0, 0, 1], [1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(own.distance, 0.0, atol=1e-10)
    np.testing.assert_allclose(own.force, [[0, 0, 0.4 * 9.81]] * 2 + [[0, 0, 0]], atol=1e-9)


def test_state_and_tape_are_left_alone():
    import warp as wp

    simulator = sim.Simulator(balls("float64"), DT, 1, "cpu")
    state = simulator.initial_state()
    state.q.requires_grad = True
    before = state.q.numpy().copy()
    with wp.Tape() as tape:
        simulator.contacts(state)
    assert not tape.launches
    np.testing.assert_array_equal(state.q.numpy(), before)


def test_no_contacts():
    """None near, contact turned off, or nothing that could touch."""
    model = balls("float64")
    q = model.q0.copy()
    q[[2, 9]] += 1.0
    q[7] += 1.0
    high = sim.Simulator(model, DT, 2, "cpu")
    off = sim.Simulator(model, DT, 2, "cpu", sim.HardContact(max_contacts=0))
    builder = sim.ModelBuilder()
    builder.add_link("rod", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("hinge", "revolute", child="rod", limits=sim.Limits(upper=0.0))
    alone = sim.Simulator(builder.finalize("float64"), DT, 2, "cpu")
    for contacts in (
        high.contacts(high.state(q)),
        off.contacts(off.initial_state()),
        alone.contacts(alone.initial_state()),
    ):
        assert len(contacts) == 0
        assert all(
            array.shape == (0, 3) for array in (contacts.point, contacts.normal, contacts.force, contacts.torque)
        )
        assert contacts.distance.shape == (0,)


def test_quadruped_beside_mujoco():
    """The same robot just landed on its feet: MuJoCo's contacts have the same places, normals and pairs."""
    scene = quadruped.build("float64")
    model = scene.model
    simulator = sim.Simulator(model, 1e-3, device="cpu")
    # A little into the ground: MuJoCo has no contact where the distance is zero to rounding, but positive.
    q0 = scene.q0.copy()
    q0[2] -= 1e-9
    contacts = simulator.contacts(simulator.state(q0))
    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=1e-3, sweeps=50))
    data = mujoco.MjData(peer)
    data.qpos[:] = sim.to_mujoco(model, q0, scene.qd0)[0]
    mujoco.mj_forward(peer, data)
    assert data.ncon == 4
    theirs = {peer.geom(contact.geom[1]).name: contact for contact in data.contact}
    bearing = [i for i in range(len(contacts)) if abs(contacts.distance[i]) < 1e-6]
    assert len(bearing) == 4
    for i in bearing:
        contact = theirs[model.geometries[contacts.geometry_b[i]].name]
        assert model.geometries[contacts.geometry_a[i]].name == peer.geom(contact.geom[0]).name == "ground"
        np.testing.assert_allclose(contacts.point[i], contact.pos, atol=1e-7)
        np.testing.assert_allclose(contacts.normal[i], contact.frame[:3], atol=1e-12)
        np.testing.assert_allclose(contacts.distance[i], contact.dist, atol=1e-12)
