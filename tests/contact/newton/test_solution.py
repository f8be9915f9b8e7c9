"""What Newton's method finds: the solution that sweeps converge to, Coulomb's law, bodies that stay where they are."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from scenes import quadruped
from tests.contact.worlds import DT, G, loose_box
from tests.errors import raises_naming
from tests.importers.mjcf_zoo import load_quietly
from tests.importers.reference import GYMNASIUM
from tests.simulation.differences import Case, blocks, check
from warp_kernels.constraints.kinds import CONTACT

H = 1 / 240
NEWTON = sim.HardContact()


def roll(
    model: sim.Model, steps: int, contact: sim.ContactMethod = NEWTON, dt: float = H, qd: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, sim.Simulator]:
    simulator = sim.Simulator(model, dt, device="cpu", contact=contact, threads=1)
    trajectory = simulator.rollout(simulator.state(model.q0, qd), steps=steps)
    return trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0], simulator


def boxes(masses: list[float], dtype: str = "float64", size: float = 0.1) -> sim.Model:
    """Cubes on top of each other."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0))
    for number, mass in enumerate(masses):
        height = size * (2 * number + 1)
        builder.add_box(
            half_extents=(size,) * 3, mass=mass, position=(0.0, 0.0, height), surface=sim.Surface(friction=1.0)
        )
    return builder.finalize(dtype)


def drift(model: sim.Model, seconds: float, dt: float = H) -> float:
    """How far anything moves [m]."""
    q, _, simulator = roll(model, round(seconds / dt), dt=dt)
    assert simulator.residual[0] < (1e-9 if model.scalar.__name__ == "float64" else 1e-3)
    return float(np.abs(q[-1] - q[0]).max())


@pytest.mark.parametrize("friction", ["cone", "pyramid"])
@pytest.mark.parametrize("qd", [(0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (2.0, 0.7, 0.0, 0.0, 0.0, 0.4), (2, 1.5, -1, 1, 2, 3)])
def test_is_what_the_sweeps_converge_to(friction, qd):
    """A box's corners have one inverse mass W, so that cfm = eps W gives Gauss-Seidel the same problem.

    Friction slides or has nothing to hold: the sweeps know no softness of its own for what it holds.
    """
    model = loose_box(friction=0.5)
    eps, size, mass = 1e-2, np.array([0.2, 0.2, 0.05]), 2.0
    inertia = mass / 3 * (np.sum(size**2) - size**2)
    # The mean over three directions of 1/m + (r x n)' I^-1 (r x n), for r a corner.
    lever = [np.cross(size, axis) for axis in np.eye(3)]
    w = 1 / mass + np.mean([np.sum(arm**2 / inertia) for arm in lever])
    newton = sim.HardContact(friction=friction, regularisation=eps, recovery_time=0.0)
    sweeps = sim.PgsContact(friction=friction, cfm=eps * w, sweeps=4000)
    found, expected = (roll(model, 3, contact, qd=np.array(qd)) for contact in (newton, sweeps))
    assert expected[2].residual[0] < 1e-13
    # W is that of the box as it lies; turned by a few degrees its corners' differ in the fourth digit, times eps.
    steps = 1 if qd[3] else 3
    np.testing.assert_allclose(found[1][: steps + 1], expected[1][: steps + 1], atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("count", "most"), [(5, 5e-5), (10, 2e-4), (20, 8e-4)])
def test_stacks_stand(count, most, dtype):
    """They sink in by the regularisation: twice what was measured in ten seconds (0.02, 0.10, 0.39 mm)."""
    assert drift(boxes([1.0] * count, dtype), 2.0) < most


@pytest.mark.parametrize(("ratio", "most"), [(10, 5e-5), (100, 4e-4), (1000, 4e-3)])
def test_a_heavy_box_on_a_light_one(ratio, most):
    """Twice the sag of 0.02, 0.20 and 2.0 mm: eps times the velocity that the weight would give the light box."""
    assert drift(boxes([1.0, float(ratio)]), 2.0) < most


@pytest.mark.parametrize("mass", [1e-3, 1.0, 1e6])
def test_grams_and_a_thousand_tons_alike(mass):
    np.testing.assert_allclose(drift(boxes([mass] * 3), 1.0), drift(boxes([1.0] * 3), 1.0), rtol=1e-6)


def test_a_slab_on_four_light_legs():
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0))
    for x in (-0.3, 0.3):
        for y in (-0.3, 0.3):
            builder.add_box(
                half_extents=(0.02, 0.02, 0.1), mass=0.1, position=(x, y, 0.1), surface=sim.Surface(friction=1.0)
            )
    builder.add_box(
        half_extents=(0.4, 0.4, 0.05), mass=100.0, position=(0.0, 0.0, 0.25), surface=sim.Surface(friction=1.0)
    )
    assert drift(builder.finalize("float64"), 5.0) < 1e-3


def test_a_heavy_box_hardly_creeps_down_a_slope():
    """Friction holds but for eps times the velocity that gravity adds in a step, below 0.1 mm/s."""
    angle = np.deg2rad(10.0)
    builder = sim.ModelBuilder(gravity=(G * np.sin(angle), 0.0, -G * np.cos(angle)))
    builder.add_ground(surface=sim.Surface(friction=1.0))
    builder.add_box(
        half_extents=(0.2, 0.2, 0.1), mass=100.0, position=(0.0, 0.0, 0.1), surface=sim.Surface(friction=1.0)
    )
    _, qd, _ = roll(builder.finalize("float64"), 480)
    assert 0.0 < qd[-1, 0] < 1e-4
    # The corners' mean inverse mass is more than 1/m by their levers.
    assert qd[-1, 0] < 5 * 1e-3 * H * G * np.sin(angle)


@pytest.mark.parametrize("friction", ["cone", "pyramid"])
def test_a_point_on_a_slope_creeps_as_friction_is_soft(friction):
    """It sinks in by R = eps / m times its impulse, and slides by half of that R, which is friction's."""
    angle, mass, eps, recovery = np.deg2rad(10.0), 3.0, 1e-3, 0.02
    builder = sim.ModelBuilder(gravity=(G * np.sin(angle), 0.0, -G * np.cos(angle)))
    builder.add_ground(surface=sim.Surface(friction=1.0))
    parent = "world"
    for name, axis in (("x", (1.0, 0.0, 0.0)), ("y", (0.0, 1.0, 0.0)), ("z", (0.0, 0.0, 1.0))):
        builder.add_link(name, mass=mass if name == "z" else 0.0, inertia=(1e-3 if name == "z" else 0.0,) * 3)
        builder.add_joint(name, "prismatic", parent=parent, child=name, axis=axis, position=(0, 0, 0.1 * (name == "z")))
        parent = name
    builder.add_geometry("z", "sphere", size=(0.1, 0.0, 0.0), surface=sim.Surface(friction=1.0))
    contact = sim.HardContact(friction=friction, regularisation=eps, recovery_time=recovery)
    q, qd, _ = roll(builder.finalize("float64"), 480, contact)
    np.testing.assert_allclose(qd[-1], [0.5 * eps * H * G * np.sin(angle), 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(q[-1, 2], -eps * H * G * np.cos(angle) * (H + recovery), rtol=1e-9)


def test_stopping_distance():
    """v^2 / (2 mu g), no lift, no glide: the answer lags by at most a step and eps."""
    model = loose_box(friction=0.3)
    q, qd, _ = roll(model, 1000, dt=DT, qd=np.array([2.0, 0, 0, 0, 0, 0]))
    mu = float(np.prod(model.parameters["friction"]))
    np.testing.assert_allclose(q[-1, 0], 4.0 / (2 * mu * G), rtol=2e-3)
    assert q[:, 2].max() < 0.05 + 1e-6
    assert np.abs(qd[-1]).max() < 1e-4


def test_friction_lies_in_its_cone_against_the_slip():
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.7))
    builder.add_box(
        half_extents=(0.1, 0.2, 0.05), mass=0.7, position=(0.0, 0.0, 0.05), surface=sim.Surface(friction=0.6)
    )
    model = builder.finalize("float64")
    _, _, simulator = roll(model, 1, qd=np.array([2.0, 0.7, 0.0, 0.0, 0.0, 0.4]))
    contacts = [block for block in blocks(simulator) if block.kind == CONTACT]
    assert len(contacts) == 4
    value = simulator.engine.shards[0].step.solver.iterate.value.numpy()[:4, 0]
    for block, row in zip(contacts, value, strict=True):
        np.testing.assert_allclose(np.linalg.norm(block.impulse[1:]), 0.42 * block.impulse[0], rtol=1e-12)
        slip = row[1:] / np.linalg.norm(row[1:])
        np.testing.assert_allclose(block.impulse[1:], -0.42 * block.impulse[0] * slip, rtol=1e-12)


def heap(dtype: str = "float64") -> sim.Model:
    """Twelve boxes of all sizes that fall on each other in a tangle."""
    rng = np.random.default_rng(2)
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.8))
    for number in range(12):
        orientation = rng.normal(size=4)
        builder.add_box(
            half_extents=tuple(rng.uniform(0.04, 0.12, 3)), density=1000.0, surface=sim.Surface(friction=1.0),
            position=(*(0.12 * rng.normal(size=2)), 0.2 + 0.22 * number),
            orientation=tuple(orientation / np.linalg.norm(orientation)),
        )  # fmt: skip
    return builder.finalize(dtype)


@pytest.mark.parametrize(("dtype", "residual"), [("float64", 1e-8), ("float32", 1.0)])
def test_a_tangle_is_solved_in_every_step(dtype, residual):
    """The hard case: boxes that tumble over each other. At 5 m/s the residual of float32 says little."""
    model = heap(dtype)
    simulator = sim.Simulator(model, H, device="cpu", contact=NEWTON, threads=1)
    state, systems = simulator.state(simulator.model.q0), []
    for _ in range(600):
        state = simulator.step(state)
        systems.append(int(simulator.solver_iterations[0]))
        assert simulator.residual[0] < residual
    # Twice what it takes: 20 in the hardest step to hit many at once, and some 3 to 8 on average.
    assert max(systems) < 60
    assert np.mean(systems) < 16
    assert simulator.contacts(state).distance.min() > -1e-4


def test_overlaps_fade_without_a_hop():
    """A box 20 mm in the ground, and one 1 mm in, come up and stay: neither leaves the ground by 0.1 mm."""
    model = boxes([1.0])
    for overlap, dt in ((0.001, 1e-3), (0.005, H), (0.02, H), (0.02, 1e-3)):
        simulator = sim.Simulator(model, dt, device="cpu", contact=NEWTON, threads=1)
        q = model.q0.copy()
        q[2] -= overlap
        height = simulator.rollout(simulator.state(q), steps=round(1.0 / dt)).q.numpy()[:, 0, 2]
        assert height.max() < 0.1 + 1e-4
        np.testing.assert_allclose(height[-1], 0.1, atol=5e-6)


@pytest.mark.parametrize(("yaw", "offset"), [(0.0, (0.0, 0.0)), (0.3, (0.01, 0.005)), (np.pi / 4, (0.0, 0.0))])
def test_flat_faces_do_not_jump(yaw, offset):
    """A box on another, tilted by a nanoradian either way: which corners touch hardly matters, to 1 µm/s."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.7))
    builder.add_box(
        half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, 0.0999), surface=sim.Surface(friction=0.8)
    )
    turned = Rotation.from_rotvec([0.0, 0.0, yaw])
    builder.add_box(
        half_extents=(0.09, 0.09, 0.09), mass=0.9, position=(*offset, 0.2897), surface=sim.Surface(friction=0.8)
    )
    model = builder.finalize("float64")
    q = np.tile(model.q0, (3, 1))
    for world, tilt in enumerate((-1e-9, 0.0, 1e-9)):
        q[world, 10:] = (Rotation.from_rotvec([tilt, 0.0, 0.0]) * turned).as_quat()
    qd = 0.05 * np.random.default_rng(0).normal(size=model.nv)
    qd[[2, 8]] = 0.0
    simulator = sim.Simulator(model, H, 3)
    after = simulator.step(simulator.state(q, qd)).qd.numpy()
    np.testing.assert_allclose(after[[0, 2]], after[[1, 1]], atol=1e-6)


@pytest.mark.slow
def test_robots_whose_links_overlap_do_not_explode():
    """Forty robots of three links at rest, which overlap where they start. MuJoCo's stay below 100 too."""
    fastest, tried = 0.0, 0
    for seed in range(60):
        rng = np.random.RandomState(seed)
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        for i in range(3):
            size, mass = rng.uniform(0.04, 0.1, 3), 10 ** rng.uniform(-1, 1)
            builder.add_link(f"l{i}", mass=mass, inertia=mass / 3 * (np.sum(size**2) - size**2))
            position, axis = rng.normal(size=3) * 0.06, rng.normal(size=3)
            if i == 0:
                builder.add_joint("j0", "free", child="l0", position=(0, 0, 1))
            else:
                builder.add_joint(f"j{i}", "revolute", child=f"l{i}", parent=f"l{i - 1}", position=position, axis=axis)
            builder.add_geometry(f"l{i}", "box", size=size)
        model = builder.finalize("float64")
        simulator = sim.Simulator(model, H, device="cpu", contact=NEWTON, threads=1)
        contacts = simulator.contacts(simulator.state(simulator.model.q0))
        if len(contacts) and contacts.distance.min() < -0.005:
            qd = simulator.rollout(simulator.state(simulator.model.q0), steps=240).qd.numpy()
            fastest, tried = max(fastest, np.abs(qd).max()), tried + 1
    assert tried == 40
    assert fastest < 100.0


def test_worlds_do_not_depend_on_each_other():
    """Bit for bit the same alone, and in a batch with worlds that need other numbers of iterations."""
    scene = quadruped.build("float64", friction=0.4, height=0.004)
    model, rng = scene.model, np.random.default_rng(4)
    q = np.tile(scene.q0, (5, 1)) + 0.01 * rng.normal(size=(5, model.nq)) * (np.arange(model.nq) < 3)
    qd = 0.5 * rng.normal(size=(5, model.nv))
    together = sim.Simulator(model, H, 5, "cpu", NEWTON, threads=2)
    expected = together.rollout(together.state(q, qd), steps=40).qd.numpy()
    for world in range(5):
        alone = sim.Simulator(model, H, 1, "cpu", NEWTON, threads=1)
        found = alone.rollout(alone.state(q[world], qd[world]), steps=40).qd.numpy()
        np.testing.assert_array_equal(found[:, 0], expected[:, world])


def test_iterations_are_bounded_and_the_residual_says_so():
    """With too few of them what the sweeps found is taken: nothing flies off."""
    model = heap()
    few = sim.HardContact(iterations=2)
    _, qd, simulator = roll(model, 400, few)
    assert simulator.residual[0] > 1e-6
    assert np.abs(qd).max() < 50.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regularisation": 0.0}, "regularisation is 0.0; it must lie above 0"),
        ({"iterations": 0}, "iterations is 0; it must be a whole number of at least 1"),
        ({"recovery_time": -1.0}, "recovery_time is -1.0; it must not be negative"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(sim.ModelError, match=message):
        sim.HardContact(**options)


def test_regularisation_below_rounding_is_refused():
    with raises_naming("1e-06", "float32", "6e-05"):
        sim.Simulator(boxes([1.0], "float32"), H, contact=sim.HardContact(regularisation=1e-6))


def test_there_are_no_sweeps_to_study():
    simulator = sim.Simulator(boxes([1.0]), H, contact=NEWTON)
    with raises_naming("sim.HardContact", "sweeps"):
        sim.study_sweeps(simulator, simulator.state(simulator.model.q0), steps=2)


def test_gradients_of_a_scene_are_checked():
    """The public check, on a box that slides; it begins inside of the ground, off the kink at zero."""
    simulator = sim.Simulator(loose_box(friction=0.5), H, contact=NEWTON)
    q = simulator.model.q0.copy()
    q[2] -= 1e-4
    report = sim.check_gradients(simulator, simulator.state(q, [1.0, 0.3, 0, 0, 0, 0.5]), steps=5)
    assert not report.wrong, str(report)
    assert not report.kinks, str(report)


# Motors of HalfCheetah press legs against the ground, whose friction presses them further: q, qd, tau, control.
PRESSED = {
    0.01: (
        [0.72, -0.41, 0.31, 0.18, -0.15, 0.18, -0.15, -0.01, 0.04],
        [0.87, -1.0, 0.5, -0.75, 1.83, -1.85, 1.37, -1.95, -1.22],
        [1.32, -0.96, -0.75, 1.58, 0.32, -1.06, -0.13, -1.17, -1.4],
        [0.22, -0.25, -0.21, -0.04, 0.3, 0.25],
    ),
    0.002: (
        [0.18, -0.32, -0.83, 0.24, 0.09, 0.11, -0.09, 0.0, -0.04],
        [-1.81, -0.26, -0.68, 0.69, 0.17, 0.1, 1.8, -0.65, 0.97],
        [0.44, 0.96, 0.61, -0.91, 0.79, -0.19, 0.29, 1.47, 1.13],
        [-0.23, -0.25, -0.23, 0.21, -0.03, 0.21],
    ),
}


def pressed_legs(dt: float, **options) -> Case:
    q, qd, tau, control = (np.array(part) for part in PRESSED[dt])
    contact = sim.HardContact(**options)
    model = load_quietly(GYMNASIUM / "half_cheetah.xml")
    return Case(model, q, qd, tau[None], contact, dt, control[None])


@pytest.mark.parametrize("friction", ["cone", "pyramid"])
@pytest.mark.parametrize("dt", PRESSED)
def test_friction_that_presses_legs_onto_the_ground(dt, friction):
    case = pressed_legs(dt, friction=friction)
    simulator = case.simulator()
    case.rollout(simulator)
    assert simulator.residual[0] < 1e-11
    check(case, ["com", "geometry_size", "gravity"])


def test_a_softer_problem_leaves_the_softness_as_it_was():
    """Whichever of some 50 systems is the last; how many there are depends on rounding."""
    found = {}
    for iterations in (1, *range(20, 52)):
        case = pressed_legs(0.002, iterations=iterations)
        simulator = case.simulator()
        case.rollout(simulator)
        found[iterations] = simulator.engine.shards[0].step.solver.problem.row_stiffness.numpy()
        assert iterations > 45 or simulator.solver_iterations[0] == iterations
        assert iterations < 45 or simulator.residual[0] < 1e-11
    for iterations, stiffness in found.items():
        np.testing.assert_array_equal(stiffness, found[1], err_msg=str(iterations))
