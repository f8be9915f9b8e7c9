"""Bodies that roll, slide and rest on heightfields, and the gradient of their motion in the terrain."""

import coal
import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

import sim
from sim.render.tessellation import tessellate
from tests.collision.field_oracle import BOTH_SIDES, coal_convex
from tests.collision.harness import hull_mesh, pebble
from tests.contact.worlds import DT, G, run
from tests.simulation.differences import blocks, case, check, regimes

TILT = (0.05, -0.08, 0.1, 1.0)


def on_terrain(flat: bool, body: str, **options: object) -> sim.Model:
    """A body over a tilted plane, or over a heightfield that lies in it."""
    builder = sim.ModelBuilder()
    turn = Rotation.from_quat(TILT)
    if flat:
        builder.add_geometry("world", "plane", orientation=TILT, surface=sim.Surface(friction=0.5, restitution=1.0))
    else:
        # The field's own origin is elsewhere in the plane, and below it.
        heights = np.full((21, 31), 0.3)
        builder.add_heightfield(
            heights,
            spacing=0.1,
            position=turn.apply((0.21, 0.13, -0.3)),
            orientation=TILT,
            surface=sim.Surface(friction=0.5),
        )
    add_body(builder, body, mass=0.7, orientation=TILT, **options)
    return builder.finalize("float64")


def add_body(builder: sim.ModelBuilder, kind: str, mass: float, orientation: object, **options: object) -> None:
    """A free body; a "convex" one is the hull of ``points``."""
    if kind != "convex":
        getattr(builder, f"add_{kind}")(mass=mass, orientation=orientation, **options)
        return
    mesh = hull_mesh(np.array(options.pop("points")))
    placement = {"position": options.pop("position", (0.0, 0.0, 0.0)), "orientation": orientation}
    second_moments = mass * np.square(mesh.vertices).mean(axis=0)
    builder.add_link("hull", mass=mass, inertia=second_moments.sum() - second_moments)
    builder.add_joint("hull_free", "free", child="hull", **placement)
    builder.add_geometry("hull", "convex", size=(1.0, 1.0, 1.0), mesh=mesh, **options)


# A pyramid with its top cut off.
FRUSTUM = [(x * s, y * s, z) for z, s in ((-0.05, 1.0), (0.05, 0.7)) for x in (-0.15, 0.15) for y in (-0.12, 0.12)]
PEBBLE = (0.12, 0.1, 0.08) * pebble().vertices


@pytest.mark.parametrize(
    ("body", "size", "height"),
    [
        ("sphere", {"radius": 0.1}, 0.1),
        ("capsule", {"radius": 0.05, "half_length": 0.12}, 0.05),
        ("box", {"half_extents": (0.15, 0.12, 0.05)}, 0.05),
        ("ellipsoid", {"semi_axes": (0.15, 0.12, 0.05)}, 0.05),
        ("convex", {"points": FRUSTUM}, 0.05),
        ("standing cylinder", {"radius": 0.1, "half_length": 0.05}, 0.05),
        ("lying cylinder", {"radius": 0.05, "half_length": 0.12}, 0.05),
    ],
)
def test_on_a_flat_field_bodies_move_as_on_a_plane(body, size, height):
    """Rolling and sliding over its creases, which no one feels."""
    turn = Rotation.from_quat(TILT)
    tilt = turn * Rotation.from_euler("y", np.pi / 2.0) if body in ("capsule", "lying cylinder") else turn
    position = turn.apply((0.0, 0.0, height))
    start = np.concatenate([position, tilt.as_quat()])
    # Four points share the weight in more ways than one, and so the friction against spinning.
    spin = 0.0 if body in ("convex", "standing cylinder") else 0.5
    velocity = np.concatenate([turn.apply((1.6, 0.5, 0.0)), turn.apply((0.0, 0.0, spin))])
    motions = [run(on_terrain(flat, body.split()[-1], **size), 0.6, velocity, q=start)[0] for flat in (True, False)]
    assert np.linalg.norm(motions[0][-1, :3] - motions[0][0, :3]) > 0.2
    np.testing.assert_allclose(motions[1], motions[0], atol=1e-9)


def rough_terrain(seed: int, points: int, spacing: float, rise: float) -> sim.ModelBuilder:
    """A square field of random heights with walls of a metre around it."""
    heights = rise * np.random.default_rng(seed).uniform(-1.0, 1.0, (points, points))
    heights[[0, -1]] = heights[:, [0, -1]] = 1.0
    builder = sim.ModelBuilder()
    builder.add_heightfield(heights, spacing=spacing, surface=sim.Surface(friction=0.6))
    return builder


def test_balls_never_pass_through_the_surface():
    """Forty balls thrown on rough terrain within walls, for a second: none sinks in by a twentieth of its radius."""
    builder = rough_terrain(2, 13, 0.25, 0.1)
    radius, worlds, dt = 0.08, 40, 1 / 500
    builder.add_sphere(radius=radius, mass=0.5)
    model = builder.finalize("float64")
    rng = np.random.default_rng(0)
    q, qd = np.tile(model.q0, (worlds, 1)), np.zeros((worlds, 6))
    q[:, :3] = rng.uniform((-0.8, -0.8, 0.25), (0.8, 0.8, 0.4), (worlds, 3))
    qd[:, :3] = rng.uniform((-1.5, -1.5, -2.0), (1.5, 1.5, 0.0), (worlds, 3))
    simulator = sim.Simulator(model, dt, num_worlds=worlds, device="cpu", contact=sim.PgsContact(sweeps=100))
    motion = simulator.rollout(simulator.state(q, qd), steps=500).q.numpy()
    assert simulator.contact_overflow.sum() == 0
    centres = motion[::5, :, :3].reshape(-1, 3)
    assert (np.abs(centres[:, :2]) < 1.5).all()
    shape = tessellate(model.geometries[0])
    corners = shape.vertices[shape.faces]
    least = np.full(len(centres), np.inf)
    for triangle in corners:
        offset = trimesh.triangles.closest_point(np.broadcast_to(triangle, (len(centres), 3, 3)), centres) - centres
        least = np.minimum(least, np.linalg.norm(offset, axis=1))
    # Where it is beside a wall, motion along the old tangent enters a little at a change of slope.
    assert least.min() > 0.95 * radius
    assert (least < 1.001 * radius).mean() > 0.3


def test_ball_at_rest_in_a_groove_bears_its_weight_on_both_sides():
    heights = np.full((5, 5), 0.1)
    heights[:, 2] = 0.0
    builder = sim.ModelBuilder()
    builder.add_heightfield(heights, spacing=0.2)
    radius = 0.05
    builder.add_sphere(radius=radius, mass=0.7, position=(0.0, 0.03, radius + 0.05), surface=sim.Surface(friction=0.0))
    q, qd, simulator = run(builder.finalize("float64"), 0.5)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-6)
    np.testing.assert_allclose(q[-1, :3], (0.0, 0.03, radius * np.sqrt(1.25)), atol=1e-6)
    up = 2.0 / np.sqrt(5.0)
    forces = np.array([block.impulse for block in blocks(simulator)]) / DT
    assert len(forces) == 2
    np.testing.assert_allclose(forces[:, 0], 0.7 * G / (2.0 * up), rtol=1e-6)


def test_box_dropped_across_two_ridges_rests_on_them():
    """Its corners are in the air."""
    heights = np.zeros((5, 7))
    heights[:, [2, 4]] = 0.1
    builder = sim.ModelBuilder()
    builder.add_heightfield(heights, spacing=0.1)
    builder.add_box(half_extents=(0.15, 0.08, 0.04), mass=2.0, position=(0.01, 0.02, 0.15))
    q, qd, simulator = run(builder.finalize("float64"), 0.5)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-9)
    np.testing.assert_allclose(q[-1], (0.01, 0.02, 0.14, 0.0, 0.0, 0.0, 1.0), atol=1e-9)
    forces = [block.impulse[0] / DT for block in blocks(simulator)]
    assert len(forces) == 4
    np.testing.assert_allclose(sum(forces), 2.0 * G, rtol=1e-9)


@pytest.mark.parametrize(
    ("turn", "height", "expected"),
    [
        (Rotation.identity(), 0.05, [(x, y, 0.0) for x, y in ((0.1, 0.0), (0.0, 0.1), (-0.1, 0.0), (0.0, -0.1))]),
        (Rotation.from_euler("y", np.pi / 2.0), 0.1, [(-0.05, 0.0, 0.0), (0.05, 0.0, 0.0)]),
    ],
)
def test_cylinder_at_rest_on_a_flat_field_bears_its_weight_where_it_does_on_a_plane(turn, height, expected):
    """Standing on four points of its rim, lying on both ends of its lowest line."""
    builder = sim.ModelBuilder()
    builder.add_heightfield(np.zeros((5, 7)), spacing=0.1)
    position = np.array((0.02, 0.03, height))
    builder.add_cylinder(radius=0.1, half_length=0.05, mass=2.0, position=position, orientation=turn.as_quat())
    model = builder.finalize("float64")
    q, qd, simulator = run(model, 0.2)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-9)
    np.testing.assert_allclose(q[-1, :3], position, atol=1e-9)
    contacts = simulator.contacts(simulator.state(q[-1], qd[-1]))
    found = np.array(contacts.point).reshape(-1, 3)
    expected = np.array(expected) + position * (1.0, 1.0, 0.0)
    order = np.lexsort(np.round(found, 6).T), np.lexsort(np.round(expected, 6).T)
    np.testing.assert_allclose(found[order[0]], expected[order[1]], atol=1e-9)
    np.testing.assert_allclose(np.array(contacts.force)[:, 2].sum(), -2.0 * G, rtol=1e-6)


def deepest_overlap(shape: coal.ShapeBase, q: np.ndarray, triangles: np.ndarray, radius: float) -> float:
    """Least signed distance, by coal, of a body at q and any triangle near it."""
    pose, here = coal.Transform3s(Rotation.from_quat(q[3:]).as_matrix(), q[:3]), coal.Transform3s.Identity()
    near = (triangles.min(axis=1) < q[:3] + radius) & (triangles.max(axis=1) > q[:3] - radius)
    least = np.inf
    for triangle in triangles[near.all(axis=1)]:
        flat = coal_convex(triangle, BOTH_SIDES)
        least = min(least, coal.distance(shape, pose, flat, here, coal.DistanceRequest(), coal.DistanceResult()))
    return least


@pytest.mark.parametrize("body", ["cylinder", "box"])
@pytest.mark.parametrize("tilt", [0.0, 1e-7, 1e-4, 5e-3])
def test_face_wider_than_a_plateau_stands_on_all_its_corners_however_it_tilts(body, tilt):
    """Sixteen directions: no corner is left for those that a tilt brings nearer; gaps are those of the face's plane."""
    heights = np.zeros((6, 6))
    heights[2:4, 2:4] = 0.2
    builder = sim.ModelBuilder()
    builder.add_heightfield(heights, spacing=0.1)
    size = {"cylinder": {"radius": 0.1, "half_length": 0.05}, "box": {"half_extents": (0.1, 0.1, 0.05)}}[body]
    add_body(builder, body, mass=1.0, orientation=(0.0, 0.0, 0.0, 1.0), **size)
    model = builder.finalize("float64")
    corners = np.array([(x, y, 0.2) for x in (-0.05, 0.05) for y in (-0.05, 0.05)])
    directions = np.arange(16) * np.pi / 8.0 + 0.05
    q = np.tile(model.q0, (16, 1))
    turn = Rotation.from_rotvec(tilt * np.stack([np.cos(directions), np.sin(directions), np.zeros(16)], axis=1))
    q[:, :3], q[:, 3:] = (0.01, 0.02, 0.2503), turn.as_quat()
    simulator = sim.Simulator(model, DT, num_worlds=16, device="cpu")
    contacts = simulator.contacts(simulator.state(q))
    for world in range(16):
        own = contacts.of_world(world)
        up = turn[world].as_matrix()[:, 2]
        gaps = (q[world, :3] - corners) @ up - 0.05
        position = own.point - 0.5 * own.distance[:, None] * up
        order = np.lexsort(np.round(position[:, :2], 3).T[::-1])
        np.testing.assert_allclose(own.distance[order], gaps, atol=1e-12)
        np.testing.assert_allclose(position[order], corners, atol=1e-12)


RESTING = {
    "convex": {"points": PEBBLE},
    "box": {"half_extents": (0.09, 0.08, 0.06)},
    "flat box": {"half_extents": (0.12, 0.12, 0.03)},
    "capsule": {"radius": 0.06, "half_length": 0.1},
    "cylinder": {"radius": 0.09, "half_length": 0.07},
    "squat cylinder": {"radius": 0.12, "half_length": 0.03},
    "long cylinder": {"radius": 0.05, "half_length": 0.15},
}


@pytest.mark.parametrize("body", RESTING)
def test_bodies_dropped_on_rough_terrain_come_to_rest_on_it(body):
    """Twenty, in all orientations, for three seconds: in the end they lie still, and none has sunk in."""
    builder = rough_terrain(4, 13, 0.2, 0.06)
    size = RESTING[body]
    identity = (0.0, 0.0, 0.0, 1.0)
    add_body(
        builder,
        body.split()[-1],
        mass=0.7,
        orientation=identity,
        surface=sim.Surface(friction=1.0, torsional_friction=0.01, rolling_friction=0.02),
        **size,
    )
    model = builder.finalize("float64")
    worlds, rng = 20, np.random.default_rng(3)
    q = np.tile(model.q0, (worlds, 1))
    q[:, :3] = rng.uniform((-0.7, -0.7, 0.2), (0.7, 0.7, 0.3), (worlds, 3))
    q[:, 3:] = Rotation.random(worlds, rng=rng).as_quat()
    options = sim.PgsContact(sweeps=100, warm_start=True)
    simulator = sim.Simulator(model, 1 / 240, num_worlds=worlds, device="cpu", contact=options)
    trajectory = simulator.rollout(simulator.state(q), steps=720)
    end = trajectory.q.numpy()[-1]
    assert simulator.contact_overflow.sum() == 0
    # Of more than four places on which a box stands others are kept from step to step: it moves by less than 1e-6 m.
    assert np.abs(trajectory.qd.numpy()[-60:]).max() < (2e-3 if body == "box" else 1e-3)
    ground = tessellate(model.geometries[0])
    triangles = ground.vertices[ground.faces]
    if body == "convex":
        mesh = hull_mesh(PEBBLE)
        shape, radius = coal_convex(mesh.vertices, mesh.faces), 0.12
    elif "half_extents" in size:
        half = np.array(size["half_extents"])
        shape, radius = coal.Box(*(2.0 * half)), np.linalg.norm(half)
    else:
        shape = (coal.Capsule if body == "capsule" else coal.Cylinder)(size["radius"], 2.0 * size["half_length"])
        radius = size["radius"] + size["half_length"]
    least = np.array([deepest_overlap(shape, each, triangles, radius + 0.02) for each in end])
    assert (np.abs(least) < 1e-3).all(), least


@pytest.mark.parametrize("body", ["sphere", "capsule", "box", "ellipsoid", "convex", "cylinder"])
def test_gradients_of_the_motion_in_everything_and_the_heights(body):
    builder = rough_terrain(5, 6, 0.2, 0.04)
    size = {
        "sphere": {"radius": 0.12},
        "capsule": {"radius": 0.06, "half_length": 0.1},
        "box": {"half_extents": (0.13, 0.1, 0.06)},
        "ellipsoid": {"semi_axes": (0.16, 0.12, 0.1)},
        "convex": {"points": PEBBLE},
        "cylinder": {"radius": 0.1, "half_length": 0.06},
    }[body]
    turn = Rotation.from_euler("xyz", (1.4, 0.2, 0.3) if body == "capsule" else (0.05, 0.1, 0.3)).as_quat()
    height = {"sphere": 0.14, "capsule": 0.09, "box": 0.1, "ellipsoid": 0.12, "convex": 0.11, "cylinder": 0.1}[body]
    add_body(
        builder,
        body,
        mass=0.7,
        position=(0.03, 0.04, height),
        orientation=turn,
        surface=sim.Surface(friction=0.8),
        **size,
    )
    model = builder.finalize("float64")
    c = case(model, 30, model.q0, [2.0, 0.7, -0.6, 0.2, 0.1, 0.3], sim.PgsContact(sweeps=30))
    assert regimes(c) & {"slide", "stick"}
    check(c, ["mass", "inertia", "gravity", "friction", "geometry_size", "geometry_placement", "height"], most=30)
