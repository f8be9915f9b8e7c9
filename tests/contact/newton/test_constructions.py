"""What stands, hangs or is held by many contacts and constraints at once, and parts of every shape that fall."""

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

import sim
from sim.model.geometries import Mesh

H = 1 / 240


def arch(stones: int, dtype: str) -> sim.Model:
    """Wedges of a half ring from 0.5 to 0.7 m that stand on the ground, dry, of 41 kg each."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0))
    angles = np.linspace(0.0, np.pi, stones + 1)
    for number in range(stones):
        corners = [
            (r * np.cos(a), y, r * np.sin(a))
            for r in (0.5, 0.7)
            for a in angles[number : number + 2]
            for y in (-0.2, 0.2)
        ]
        hull = trimesh.convex.convex_hull(np.array(corners))
        hull.density = 1000.0
        centre = hull.center_mass
        builder.add_link(f"stone{number}", mass=hull.mass, inertia=hull.moment_inertia)
        builder.add_joint(f"free{number}", "free", child=f"stone{number}", position=centre)
        mesh = Mesh(hull.vertices - centre, hull.faces)
        builder.add_geometry(
            f"stone{number}", "convex", size=(1.0, 1.0, 1.0), mesh=mesh, surface=sim.Surface(friction=1.0)
        )
    return builder.finalize(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_arch_stands(dtype):
    """For ten seconds. Its stones lean on each other under 45 degrees, and slide by the regularisation of friction.

    That is 0.6 mm, in float32 0.7; in MuJoCo it is 52 mm.
    """
    model = arch(9, dtype)
    simulator = sim.Simulator(model, H)
    q = simulator.rollout(simulator.initial_state(), steps=2400).q.numpy()[:, 0].reshape(-1, 9, 7)
    assert np.linalg.norm(q[-1, :, :3] - q[0, :, :3], axis=1).max() < 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mass", [0.05, 0.2, 0.5, 1.0])
def test_a_gripper_holds_what_it_lifts(mass, dtype):
    """Two fingers of 0.2 kg press a box with ten times the force that friction needs: 0.1 mm of slip in six seconds.

    It is 0.04 to 0.07 mm. A heavy box slips more: light fingers make contact softer. MuJoCo: 22 mm.
    """
    builder = sim.ModelBuilder()
    for side, name in ((-1.0, "left"), (1.0, "right")):
        builder.add_link(name, mass=0.2, inertia=(1e-4, 1e-4, 1e-4))
        builder.add_joint(name, "prismatic", child=name, axis=(side, 0.0, 0.0), position=(0.06 * side, 0.0, 1.0))
        builder.add_geometry(name, "box", size=(0.01, 0.02, 0.03), surface=sim.Surface(friction=1.0))
    builder.add_box(
        half_extents=(0.05, 0.05, 0.05), mass=mass, position=(0.0, 0.0, 1.0), surface=sim.Surface(friction=0.8)
    )
    model = builder.finalize(dtype)
    simulator = sim.Simulator(model, H)
    press = np.zeros((1440, model.nv))
    press[:, :2] = -10.0 * 0.5 * mass * 9.81 / 0.8
    q = simulator.rollout(simulator.initial_state(), press).q.numpy()[:, 0]
    assert np.abs(q[:, 4] - 1.0).max() < 1e-4
    # The fingers don't sink in either.
    assert np.abs(q[:, :2]).max() < 1e-4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_straight_chain_that_is_pinned_short(dtype):
    """Ten hinges in a line, whose end is to be 5 cm nearer: at first no hinge moves it there. MuJoCo leaves 0.7 mm."""
    count, length = 10, 0.1
    builder = sim.ModelBuilder()
    for number in range(count):
        builder.add_link(f"l{number}", mass=0.1, com=(0.05, 0.0, 0.0), inertia=(1e-4, 1e-4, 1e-4))
        builder.add_joint(
            f"j{number}", "revolute", child=f"l{number}", parent=f"l{number - 1}" if number else "world",
            position=(length, 0.0, 0.0) if number else (0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0),
            spring=sim.Spring(damping=0.01),
        )  # fmt: skip
    span = 0.95 * count * length
    builder.add_point_constraint(
        "pin", f"l{count - 1}", "world", position_a=(length, 0.0, 0.0), position_b=(span, 0.0, 0.0)
    )
    simulator = sim.Simulator(builder.finalize(dtype), H)
    q = simulator.rollout(simulator.initial_state(), steps=1200).q.numpy()[:, 0].astype(float)
    assert not simulator.bad_worlds
    angle = np.cumsum(q, axis=1)
    error = np.hypot(length * np.cos(angle).sum(axis=1) - span, length * np.sin(angle).sum(axis=1))
    assert error[240:].max() < 1e-4


PARTS = {
    "box": lambda b, **k: b.add_box(half_extents=(0.01, 0.02, 0.03), **k),
    "ellipsoid": lambda b, **k: b.add_ellipsoid(semi_axes=(0.01, 0.02, 0.03), **k),
    "capsule": lambda b, **k: b.add_capsule(radius=0.005, half_length=0.03, **k),
    "rod": lambda b, **k: b.add_cylinder(radius=0.005, half_length=0.03, **k),
    "coin": lambda b, **k: b.add_cylinder(radius=0.03, half_length=0.004, **k),
    "needle": lambda b, **k: b.add_box(half_extents=(0.004, 0.004, 0.06), **k),
    "brick": lambda b, **k: b.add_box(half_extents=(0.1, 0.2, 0.3), **k),
}


@pytest.mark.parametrize("dt", [1e-3, H, 1e-2])
@pytest.mark.parametrize("part", PARTS)
def test_parts_that_fall_stay_finite_and_gain_no_energy(part, dt):
    """Sixty-four orientations, from half a metre: each lands on a corner or edge, and spins off."""
    worlds, height, g = 64, 0.5, 9.81
    builder = sim.ModelBuilder()
    builder.add_ground()
    PARTS[part](builder, density=1000.0, position=(0.0, 0.0, height))
    model = builder.finalize("float32")
    simulator = sim.Simulator(model, dt, worlds)
    q = np.tile(model.q0, (worlds, 1))
    q[:, 3:] = Rotation.random(worlds, random_state=0).as_quat()
    trajectory = simulator.rollout(simulator.state(q), steps=round(1.0 / dt))
    assert not simulator.bad_worlds
    found, velocity = trajectory.q.numpy().astype(float), trajectory.qd.numpy().astype(float)
    mass, inertia = model.parameters["mass"][0], model.parameters["inertia"][0]
    turned = Rotation.from_quat(found[..., 3:].reshape(-1, 4)).inv().apply(velocity[..., 3:].reshape(-1, 3))
    spin = 0.5 * np.einsum("ni,ij,nj->n", turned, inertia, turned).reshape(found.shape[:2])
    energy = spin + mass * (0.5 * (velocity[..., :3] ** 2).sum(axis=-1) + g * found[..., 2])
    assert energy.max() < 1.001 * mass * g * height


def test_a_symmetric_break_stays_symmetric():
    """A ball hits a triangle of fifteen that touch, along its axis: mirror images stay so, to a micrometre."""
    radius, rows = 0.03, 5
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.0))
    positions = [(i * radius * np.sqrt(3.0), (j - i / 2) * 2 * radius) for i in range(rows) for j in range(i + 1)]
    for x, y in [*positions, (-0.3, 0.0)]:
        builder.add_sphere(
            radius=radius, mass=0.17, position=(x, y, radius), surface=sim.Surface(friction=0.2, restitution=0.95)
        )
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 1e-3)
    qd = np.zeros((len(positions) + 1, 6))
    qd[-1, 0] = 5.0
    final = simulator.rollout(simulator.state(model.q0, qd.reshape(-1)), steps=1000).final_state
    q = final.q.numpy()[0].reshape(-1, 7)[:-1, :2]
    mirrored = [i * (i + 1) // 2 + i - j for i in range(rows) for j in range(i + 1)]
    assert np.abs(q[:, 1]).max() > 0.3, "they come apart"
    np.testing.assert_allclose(q[mirrored] * [1.0, -1.0], q, atol=1e-6)
    np.testing.assert_allclose(final.qd.numpy()[0].reshape(-1, 6)[:, 0].sum(), 5.0, rtol=1e-9)


@pytest.mark.parametrize("size", [0.0005, 0.05, 50.0])
def test_a_heap_of_any_size_has_room(size):
    """Twelve boxes of 1 mm, 10 cm or 100 m fall on each other: room for all contacts, and nothing sinks in."""
    rng = np.random.default_rng(0)
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0))
    for number in range(12):
        builder.add_box(
            half_extents=(size,) * 3, density=1000.0, position=(*(size * rng.normal(size=2)), 3 * size * (number + 1)),
            orientation=Rotation.random(random_state=number).as_quat(),
        )  # fmt: skip
    simulator = sim.Simulator(builder.finalize("float64"), H)
    trajectory = simulator.rollout(simulator.initial_state(), steps=240)
    assert not simulator.contact_overflow.any()
    assert simulator.residual[0] < 1e-8 * max(1.0, size)
    assert trajectory.q.numpy()[-1, 0].reshape(-1, 7)[:, 2].min() > 0.9 * size
