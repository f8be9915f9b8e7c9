"""An ellipsoid's closest point in every place, its gradient, and how it rolls, rocks and comes to rest."""

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

import sim
from scenes.mjcf import to_mjcf
from tests.collision.harness import Bench, assert_same_gradients, random_quaternions
from tests.collision.test_gradients import differences
from tests.contact.worlds import G, run
from tests.simulation.differences import blocks
from warp_kernels.types import ELLIPSOID, SPHERE

RADIUS = 0.05


def bench_at(local: np.ndarray, semi_axes: np.ndarray, dtype: str = "float64") -> Bench:
    """A ball with its centre at places [worlds, 3] of an ellipsoid's axes, the two at a random pose."""
    count = len(local)
    rng = np.random.default_rng(3)
    bench = Bench((SPHERE, ELLIPSOID), count, dtype=dtype)
    turn = random_quaternions(rng, count)
    offset = rng.normal(size=(count, 3))
    bench.values["geometry_size"] = np.stack([np.full((count, 3), RADIUS), semi_axes], axis=1)
    bench.values["pose"][1] = np.concatenate([offset, turn], axis=1)
    bench.values["pose"][0, :, :3] = offset + Rotation.from_quat(turn).apply(local)
    return bench


def closest_by_bisection(y: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The closest point of the surface: its equation, sum (r y / (r^2 + t))^2 = 1, by bisection in extended precision.

    The unknown is t and the least r^2 together, which is small where the closest point hangs on it.
    """
    y, r = y.astype(np.longdouble), r.astype(np.longdouble)
    scaled, least = r * np.abs(y), r.min(axis=1)[:, None]
    rest = (r - least) * (r + least)
    low = np.zeros(len(y), dtype=np.longdouble)
    high = np.linalg.norm(scaled, axis=1)
    for _ in range(160):
        p = 0.5 * (low + high)
        above = ((scaled / (rest + p[:, None])) ** 2).sum(axis=1) > 1.0
        low, high = np.where(above, p, low), np.where(above, high, p)
    return r**2 * y / (rest + high[:, None])


def random_points(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Places outside, on and inside ellipsoids from balls to plates and needles [count, 3], semi-axes [count, 3]."""
    rng = np.random.default_rng(8)
    semi_axes = 0.3 * 10.0 ** rng.uniform(-2.0, 0.0, (count, 3))
    semi_axes[: count // 4] = 0.3 * (1.0 + 1e-6 * rng.normal(size=(count // 4, 3)))
    direction = rng.normal(size=(count, 3))
    share = rng.uniform(0.05, 3.0, (count, 1))
    share[::7] = 1.0
    y = share * semi_axes * direction / np.linalg.norm(direction, axis=1)[:, None]
    y[::5, 0] *= 1e-9
    return y, semi_axes


def test_closest_point_to_a_millionth_of_a_micrometre_everywhere():
    y, r = random_points(10_000)
    bench = bench_at(y, r)
    out = bench.evaluate(bench.detect(100.0))
    x = closest_by_bisection(y, r)
    inside = ((y / r) ** 2).sum(axis=1) < 1.0
    signed = np.where(inside, -1.0, 1.0) * np.linalg.norm(y - x, axis=1).astype(float)
    np.testing.assert_allclose(out["distance"][0], signed - RADIUS, rtol=0.0, atol=1e-12)
    outward = x / r**2
    turn = Rotation.from_quat(bench.values["pose"][1, :, 3:])
    normal = -turn.apply((outward / np.linalg.norm(outward, axis=1)[:, None]).astype(float))
    # The thinnest plates have an edge 30 um round, where rounding turns the normal most.
    np.testing.assert_allclose(out["frame"][0, :, 0], normal, rtol=0.0, atol=1e-11)
    surface = turn.apply(x.astype(float)) + bench.values["pose"][1, :, :3]
    ball = bench.values["pose"][0, :, :3] + RADIUS * normal
    np.testing.assert_allclose(out["point"][0], 0.5 * (surface + ball), atol=1e-11)


def test_single_precision_keeps_its_digits():
    y, r = random_points(10_000)
    exact, single = (bench_at(y, r, dtype) for dtype in ("float64", "float32"))
    expected, found = (bench.evaluate(bench.detect(100.0))["distance"][0] for bench in (exact, single))
    # Rounding of the poses, a metre from the world's origin, is a few 1e-7.
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=3e-6)


def test_ball_inside_the_medial_disc_leaves_by_the_short_way():
    """On the disc across the least axis both sides are as near: the positive one is taken, at the centre too."""
    r = np.tile((0.3, 0.1, 0.2), (4, 1))
    y = np.array([(0.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.1, 0.0, 0.05), (-0.1, 1e-300, 0.05)])
    bench = bench_at(y, r)
    out = bench.evaluate(bench.detect(0.0))
    scale = 1.0 - r[:, 1:2] ** 2 / r**2
    x = np.where([True, False, True], y / np.where(scale > 0.0, scale, 1.0), 0.0)
    x[:, 1] = 0.1 * np.sqrt(1.0 - ((x / r) ** 2).sum(axis=1))
    np.testing.assert_allclose(out["distance"][0], -np.linalg.norm(x - y, axis=1) - RADIUS, rtol=1e-14)


def test_gradients_near_the_medial_disc_and_at_the_surface():
    """Where the least axis' coordinate is nearly zero inside, and where the centre passes the surface."""
    rng = np.random.default_rng(2)
    r = rng.uniform(0.25, 0.4, (200, 3))
    r[:, 1] = 0.1
    direction = rng.normal(size=(200, 3))
    y = r * direction / np.linalg.norm(direction, axis=1)[:, None]
    y[:100] = rng.uniform(-0.05, 0.05, (100, 3))
    y[:100, 1] = rng.choice([-1.0, 1.0], 100) * 2e-3
    bench = bench_at(y, r)
    slots = bench.detect(100.0)
    out = bench.evaluate(slots)
    normal = out["frame"][0, :, 0]
    good = np.linalg.norm(normal - (-0.2817, -0.3672, -0.8864), axis=1) > 0.3
    cotangents = {name: rng.normal(size=out[name].shape) for name in ("point", "distance", "frame")}
    expected = differences(bench, slots, cotangents)
    assert_same_gradients(bench, slots, cotangents, expected, ("pose", "geometry_size"), good)


def test_mujoco_gets_the_same_bodies():
    """Size, mass and inertia of an ellipsoid and a cylinder, which MuJoCo computes from the shapes by itself."""
    builder = sim.ModelBuilder()
    builder.add_ellipsoid(semi_axes=(0.3, 0.2, 0.1), density=800.0)
    builder.add_cylinder(radius=0.1, half_length=0.4, density=500.0, surface=sim.Surface(group=2, mask=2))
    model = builder.finalize("float64")
    text = to_mjcf(model, dt=0.01, sweeps=10)
    given = mujoco.MjModel.from_xml_string(text)
    own = text.replace('inertiafromgeom="false"', 'inertiafromgeom="true"').replace(
        'type="ellipsoid"', 'density="800" type="ellipsoid"'
    )
    own = mujoco.MjModel.from_xml_string(own.replace('type="cylinder"', 'density="500" type="cylinder"'))
    for peer in (given, own):
        np.testing.assert_allclose(peer.geom_size, [(0.3, 0.2, 0.1), (0.1, 0.4, 0.0)])
        np.testing.assert_allclose(peer.body_mass[1:], model.parameters["mass"], rtol=1e-12)
        moments = [np.sort(np.diag(inertia)) for inertia in model.parameters["inertia"]]
        np.testing.assert_allclose(np.sort(peer.body_inertia[1:], axis=1), moments, rtol=1e-9)


def ellipsoid_model(semi_axes: tuple[float, ...], *, damping: float = 0.0, **options: object) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.9))
    builder.add_ellipsoid(semi_axes=semi_axes, mass=2.0, name="egg", **options)
    builder.joints["egg_free"].damping = damping
    return builder.finalize("float64")


def test_dropped_tilted_it_comes_to_rest_on_its_flat_side_and_bears_its_weight():
    """With damping of the air, since rolling loses nothing."""
    tilt = Rotation.from_euler("xy", (0.3, -0.2)).as_quat()
    model = ellipsoid_model((0.2, 0.15, 0.08), damping=0.2, position=(0.0, 0.0, 0.25), orientation=tilt)
    q, qd, simulator = run(model, 6.0, dt=2e-3, sweeps=20)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-4)
    np.testing.assert_allclose(q[-1, 2], 0.08, atol=1e-7)
    axis = Rotation.from_quat(q[-1, 3:]).as_matrix()[:, 2]
    np.testing.assert_allclose(axis, (0.0, 0.0, 1.0), atol=1e-4)
    (block,) = blocks(simulator)
    np.testing.assert_allclose(block.impulse[0] / 2e-3, 2.0 * G, rtol=1e-5)


def test_rocking_has_the_frequency_of_its_curvature():
    """Rolling about y on the radius of curvature a^2 / c: w^2 = g (a^2 / c - c) / ((a^2 + c^2) / 5 + c^2)."""
    a, c, start = 0.2, 0.1, 1e-3
    frequency = np.sqrt(G * (a * a / c - c) / ((a * a + c * c) / 5.0 + c * c))
    tilt = Rotation.from_euler("y", start)
    height = np.sqrt((a * np.sin(start)) ** 2 + (c * np.cos(start)) ** 2)
    model = ellipsoid_model((a, 0.15, c), position=(0.0, 0.0, height), orientation=tilt.as_quat())
    q, _, _ = run(model, 1.0, dt=5e-4, sweeps=50)
    angle = 2.0 * q[:, 4]
    time = 5e-4 * np.arange(len(angle))
    # The step's first order: half a step of phase.
    np.testing.assert_allclose(angle, start * np.cos(frequency * time), atol=0.02 * start)


def test_with_equal_semi_axes_it_moves_like_a_sphere():
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.4))
    builder.add_sphere(radius=0.1, mass=2.0, position=(0.0, 0.0, 0.1))
    ball = builder.finalize("float64")
    velocity = [1.0, 0.3, 0.0, 2.0, 0.0, -1.0]
    model = ellipsoid_model((0.1, 0.1, 0.1), position=(0.0, 0.0, 0.1))
    model.parameters["friction"][0] = 0.4
    q, qd, _ = run(model, 0.5, velocity)
    q_ball, qd_ball, _ = run(ball, 0.5, velocity)
    np.testing.assert_allclose(q, q_ball, atol=1e-12)
    np.testing.assert_allclose(qd, qd_ball, atol=1e-12)
    assert np.abs(qd[0] - qd[-1]).max() > 0.1
