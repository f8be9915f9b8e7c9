"""sim.check_gradients: right gradients pass, wrong ones are found where they are, kinks are told from errors."""

import numpy as np
import pytest

import sim
from scenes.physics import standing
from sim.diagnostics.finite_differences import Differences, Direction
from sim.diagnostics.gradient_check import judge
from sim.diagnostics.gradient_entries import Entry, entries
from sim.simulation.gradients import Gradients
from tests.contact.test_gradients import arm_and_ball
from tests.errors import refuses
from tests.simulation.worlds import DT, WORLDS, hopper, inputs

STEPS = 6
EVERYTHING = ("q", "qd", "tau", *hopper().parameters)


def hopping(dtype: str = "float64", device: str = "cpu", **options: object):
    """Simulator, state and control of three worlds, all different."""
    simulator = sim.Simulator(hopper(dtype), DT, WORLDS, device, **options)
    q, qd, tau = inputs(simulator.model, STEPS)
    return simulator, simulator.state(q, qd), tau


def sliding(
    speed: float, height: float = 0.1, contact: sim.ContactMethod | None = None, **options: float
) -> tuple[sim.Simulator, sim.State]:
    """A ball in the air or on the ground."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    builder.add_sphere(radius=0.1, mass=0.3, position=(0.0, 0.0, height), **options)
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu", contact=contact)
    return simulator, simulator.state(model.q0, [speed, 0.0, 0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_right_gradient(device, dtype):
    """A hopper with limit, dry friction and contacts: everything agrees, in float64 whatever the simulator's dtype."""
    simulator, state, tau = hopping(dtype, device)
    report = sim.check_gradients(simulator, state, tau, EVERYTHING, worlds=(0, 2), most=12)
    assert {entry.verdict for entry in report.entries} == {"right"}, str(report)
    assert {entry.world for entry in report.entries} == {0, 2}
    assert set(report.totals) == set(EVERYTHING)
    assert report.totals["tau"] == 2 * STEPS * simulator.model.nv
    assert max(entry.error for entry in report.entries) < 1e-6
    assert ("float32" in str(report)) == (dtype == "float32")
    report.raise_if_wrong()
    # The derivatives of the first state are those whose norms are shown.
    assert report.norms.q.shape == (STEPS + 1, 2)
    assert report.norms.worlds == (0, 2)


def test_spherical_joints_and_all_parameters():
    c = arm_and_ball()
    simulator = c.simulator()
    report = sim.check_gradients(simulator, simulator.state(c.q, c.qd), c.tau, EVERYTHING, most=15)
    assert not report.wrong, str(report)
    assert not report.of("unclear"), str(report)


def test_loss_of_the_user():
    """Only what was asked for, in every state or in the last one."""
    simulator, state = sliding(2.0, contact=sim.PgsContact())  # exactly hard
    steps = 20
    last = np.zeros((1, 7))
    last[:, 0] = 1.0
    every = np.zeros((steps + 1, 1, 7))
    every[:, :, 0] = 1.0
    stopped = [
        entry.analytic
        for seed in (last, every)
        for entry in sim.check_gradients(simulator, state, wrt=["friction"], steps=steps, q_grad=seed).entries
        if entry.entry.owner == "geometry 'ground'"
    ]
    # Sliding, x is v dt n - mu g dt^2 n (n + 1) / 2 after n steps; the sphere's own friction is 1.
    n = np.arange(steps + 1)
    slope = -9.81 * DT**2 * n * (n + 1) / 2
    np.testing.assert_allclose(stopped, [slope[-1], slope.sum()], rtol=1e-9)


def corrupted(monkeypatch, change) -> None:
    """Spoil what a backward pass returns."""
    right = sim.Trajectory.backward

    def wrong(self, *args, **kwargs) -> Gradients:
        gradients = right(self, *args, **kwargs)
        change(gradients)
        return gradients

    monkeypatch.setattr(sim.Trajectory, "backward", wrong)


def add(array: object, index: tuple[int, ...], amount: float) -> None:
    values = array.numpy().copy()
    values[index] += amount * np.abs(values).max()
    array.assign(values)


@pytest.mark.parametrize("amount", [1e-3, np.nan])
def test_a_wrong_gradient_is_found(monkeypatch, amount):
    simulator, state, tau = hopping()
    leg = simulator.model.joint("hip")
    dof = int(simulator.model.joint_qd_start[leg])
    corrupted(monkeypatch, lambda gradients: add(gradients.tau, (3, 1, dof), amount))
    report = sim.check_gradients(simulator, state, tau, worlds=(0, 1, 2), most=1000)
    (entry,) = report.wrong
    assert (entry.world, entry.entry.argument, entry.entry.index) == (1, "tau", (3, dof))
    assert "tau of joint 'hip' at step 3 in world 1" in str(report)
    (row,) = (line.split() for line in str(report).splitlines() if line.startswith("tau "))
    # Of the largest derivative of that world, which is at most the largest of all.
    assert float(row[-1]) == np.inf if np.isnan(amount) else amount <= float(row[-1]) < 10.0 * amount
    with pytest.raises(sim.GradientError, match="joint 'hip' at step 3 in world 1"):
        report.raise_if_wrong()


def test_a_wrong_rotation_is_found(monkeypatch):
    """A quaternion's derivative along one axis."""
    simulator, state, tau = hopping()
    q = state.q.numpy().copy()
    q[:, 3:7] = x, y, z, w = 0.3, -0.2, 0.4, 1.1
    state = simulator.state(q, state.qd.numpy())

    def change(gradients: Gradients) -> None:
        # Along the tangent of a rotation about x: the others stay right.
        for k, part in enumerate((w, -z, y, -x)):
            values = gradients.q.numpy().copy()
            values[0, 3 + k] += 0.01 * np.abs(values).max() * part
            gradients.q.assign(values)

    corrupted(monkeypatch, change)
    (entry,) = sim.check_gradients(simulator, state, tau).wrong
    assert str(entry.entry) == "q of joint 'free', rotation about x"


def test_a_wrong_parameter_is_found(monkeypatch):
    simulator, state, tau = hopping()

    def change(gradients: Gradients) -> None:
        gradients.parameters["inertia"][0, 1, 0, 2] *= 1.1

    corrupted(monkeypatch, change)
    report = sim.check_gradients(simulator, state, tau, ["inertia", "mass", "friction"], most=100)
    (entry,) = report.wrong
    assert (entry.entry.owner, entry.entry.component) == ("link 'leg'", "xz")
    lines = str(report).splitlines()
    (row,) = [line for line in lines if line.startswith("inertia")]
    assert row.split()[:8] == ["inertia", "18", "of", "18", "17", "0", "0", "1"]


def test_a_missing_adjoint_is_found(monkeypatch):
    """A part of the way back left out: the rows' dependence on the state."""
    from sim.simulation.stepping.stages.constraints.constraints import ConstraintStage

    simulator, state, tau = hopping()
    monkeypatch.setattr(ConstraintStage, "adjoint", lambda self: None)
    report = sim.check_gradients(simulator, state, tau, ["q", "qd", "friction"])
    assert {entry.entry.argument for entry in report.wrong} == {"q", "qd", "friction"}


def kinks(report: sim.GradientReport) -> set[str]:
    assert not report.wrong, str(report)
    assert not report.of("unclear"), str(report)
    return {str(entry.entry) for entry in report.kinks}


def test_an_opening_contact_is_a_kink():
    """Thrown up just so that the contact's normal impulse is zero: higher it flies, lower the ground stops it."""
    simulator, state = sliding(0.0)
    qd = [0.5, 0.0, 9.81 * DT, 0.0, 0.0, 0.0]
    state = simulator.state(state.q.numpy(), qd)
    report = sim.check_gradients(simulator, state, wrt=["q", "qd"], steps=1)
    assert "qd of joint 'sphere_0_free', z" in kinks(report)
    assert "qd of joint 'sphere_0_free', y" not in kinks(report)
    (entry,) = [entry for entry in report.kinks if entry.entry.index == (2,) and entry.entry.argument == "qd"]
    assert min(abs(entry.analytic - entry.left), abs(entry.analytic - entry.right)) < 1e-6
    assert "kink: qd of joint 'sphere_0_free', z in world 0" in str(report)


def test_a_touched_limit_is_a_kink():
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("slider", mass=2.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("rail", "prismatic", child="slider", axis=(1.0, 0.0, 0.0), limits=sim.Limits(upper=0.25))
    simulator = sim.Simulator(builder.finalize("float64"), 0.125, device="cpu")
    report = sim.check_gradients(simulator, simulator.state([0.0], [2.0]), np.zeros((1, 1)), ["q", "qd", "tau", "mass"])
    assert kinks(report) == {
        f"{name} of joint 'rail'{at}" for name, at in (("q", ""), ("qd", ""), ("tau", " at step 0"))
    }


def test_a_kink_close_by_is_none():
    """With the ground 1e-6 m/s away the finer differences still see one side only."""
    simulator, state = sliding(0.0)
    state = simulator.state(state.q.numpy(), [0.5, 0.0, 9.81 * DT + 1e-6, 0.0, 0.0, 0.0])
    report = sim.check_gradients(simulator, state, wrt=["qd"], steps=1)
    assert kinks(report) == set()


def test_a_wrong_gradient_at_a_kink_is_wrong(monkeypatch):
    simulator, state = sliding(0.0)
    state = simulator.state(state.q.numpy(), [0.5, 0.0, 9.81 * DT, 0.0, 0.0, 0.0])
    corrupted(monkeypatch, lambda gradients: add(gradients.qd, (0, 2), 5.0))
    report = sim.check_gradients(simulator, state, wrt=["qd"], steps=1)
    assert [str(entry.entry) for entry in report.wrong] == ["qd of joint 'sphere_0_free', z"]


def test_entries_without_a_derivative_on_both_sides_are_left_out():
    model = hopper()
    found = {name: entries(model, model.parameters[name], name) for name in model.parameters}
    assert [entry.owner for entry in found["lower_limit"]] == ["joint 'hip'"]
    assert [entry.owner for entry in found["friction_loss"]] == ["joint 'hip'"]
    assert [entry.owner for entry in found["stiffness"]] == ["joint 'hip'"]
    assert "geometry 'ground'" not in {entry.owner for entry in found["geometry_size"]}
    assert len(found["geometry_placement"]) == 6 * model.num_geometries
    assert len(found["inertia"]) == 6 * model.num_links
    assert [entry.index for entry in found["gravity"]] == [(0,), (1,), (2,)]


def test_warm_start_begins_with_the_impulses_of_the_state():
    """Too few sweeps to forget them: the gradients of the user's own rollout, world by world."""
    model = standing.robot(0.0).model
    simulator = sim.Simulator(model, DT, WORLDS, "cpu", sim.PgsContact(sweeps=2, warm_start=True))
    state = simulator.state(model.q0, 0.05 * np.random.default_rng(3).normal(size=model.nv))
    tau = np.zeros((STEPS, model.nv))
    before = simulator.rollout(state, steps=30).final_state
    report = sim.check_gradients(simulator, before, tau, ["q", "qd", "tau", "mass"], worlds=(2,), most=20)
    assert {entry.verdict for entry in report.entries} == {"right"}, str(report)
    rng = np.random.default_rng(0)
    seeds = [rng.normal(size=(WORLDS, size)) for size in (model.nq, model.nv)]
    found = [entry.analytic for entry in report.entries if entry.entry.argument == "qd"]
    expected = simulator.rollout(before, tau).backward(*seeds).qd.numpy()[2]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    cold = simulator.rollout(simulator.state(before.q, before.qd), tau).backward(*seeds).qd.numpy()[2]
    assert np.abs(cold - expected).max() > 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize(("sweeps", "converged"), [(2, False), (100, True)])
def test_implicit_adjoint_of_sweeps_that_have_converged_or_not(sweeps, converged):
    scene = standing.robot(0.0)
    contact = sim.PgsContact(sweeps=sweeps, adjoint="implicit")
    simulator = sim.Simulator(scene.model, scene.dt, device="cpu", contact=contact)
    qd = 0.1 * np.random.default_rng(0).normal(size=scene.model.nv)
    qd[2] = -0.3
    report = sim.check_gradients(simulator, simulator.state(scene.model.q0, qd), wrt=["qd", "mass"], steps=5)
    assert bool(report.wrong) != converged, str(report)
    assert "The adjoint is implicit" in str(report)


@pytest.mark.filterwarnings("ignore::sim.errors.OpenConstraintWarning")
def test_constraints_have_names():
    builder = sim.ModelBuilder()
    for name, x in (("left", 0.0), ("right", 0.3)):
        builder.add_link(name, mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.02, 0.02, 0.01))
        builder.add_joint(f"{name}_hinge", "revolute", child=name, position=(x, 0.0, 0.0), axis=(0.0, 1.0, 0.0))
    builder.add_joint_coupling("right_hinge", "left_hinge", ratio=0.7, offset=0.1)
    builder.add_link("rod", mass=0.5, inertia=(0.01, 0.01, 0.01))
    builder.add_joint("rod_free", "free", child="rod", position=(0.0, 0.0, -0.4))
    builder.add_weld_constraint("glue", "left", "rod", position_a=(0.0, 0.0, -0.4))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu")
    state = simulator.state(model.q0, 0.1 * np.random.default_rng(1).normal(size=model.nv))
    names = ["anchor_a", "anchor_b", "coupling_ratio", "coupling_offset"]
    report = sim.check_gradients(simulator, state, wrt=names, steps=STEPS)
    assert {entry.verdict for entry in report.entries} == {"right"}, str(report)
    assert {entry.entry.owner for entry in report.entries} == {"constraint 'glue'", "joint 'right_hinge'"}


def test_more_worlds_than_fit_at_once(monkeypatch):
    """In several batches the same as in one."""
    simulator, state, tau = hopping()
    whole = sim.check_gradients(simulator, state, tau, ["qd", "tau", "friction"], most=5)
    monkeypatch.setattr("sim.diagnostics.finite_differences.WORLDS_AT_ONCE", 16)
    parts = sim.check_gradients(simulator, state, tau, ["qd", "tau", "friction"], most=5)
    assert whole.entries == parts.entries


def test_parameters_of_the_simulator_are_used():
    """Given per world, and set after it was made."""
    friction = np.linspace(0.2, 0.6, WORLDS)[:, None] * np.ones((WORLDS, hopper().num_geometries))
    simulator, state, tau = hopping(parameters={"friction": friction})
    simulator.parameters["mass"] = 1.3 * hopper().parameters["mass"]
    report = sim.check_gradients(simulator, state, tau, ["friction", "mass"], worlds=(1,))
    assert not report.wrong
    trajectory = simulator.rollout(state, tau)
    rng = np.random.default_rng(0)
    seeds = [rng.normal(size=(WORLDS, size)) for size in (simulator.model.nq, simulator.model.nv)]
    expected = trajectory.backward(*seeds, ["friction"]).parameters["friction"][1]
    found = [entry.analytic for entry in report.entries if entry.entry.argument == "friction"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::sim.errors.NotFiniteWarning")
def test_what_is_refused():
    simulator, state, tau = hopping()
    for message, arguments in (
        ("'slip'", {"wrt": ["slip"]}),
        ("world 3", {"worlds": [3]}),
        ("world 0.5.* 0 to 2", {"worlds": [0.5]}),
        ("worlds is empty", {"worlds": []}),
        (r"worlds is 0.*\[0\]", {"worlds": 0}),
        ("wrt is empty", {"wrt": []}),
        ("most is 0", {"most": 0}),
        ("q_grad has shape", {"q_grad": np.zeros((1, 2))}),
    ):
        with pytest.raises(sim.ModelError, match=message):
            sim.check_gradients(simulator, state, tau, **arguments)
    refuses(lambda: sim.check_gradients(simulator, state, wrt=["tau"], steps=2), "'tau'")
    refuses(lambda: sim.check_gradients(simulator, state), "steps")
    wild = np.full((2, simulator.model.nv), 1e300)
    with pytest.raises(FloatingPointError, match="rollout itself"):
        sim.check_gradients(simulator, state, wild)


def test_no_steps():
    simulator, state, _ = hopping()
    report = sim.check_gradients(simulator, state, np.zeros((0, simulator.model.nv)))
    assert {entry.verdict for entry in report.entries} == {"right"}
    assert report.totals["tau"] == 0


def test_a_stiff_motion_is_told_from_its_rounding():
    """A quadruped lands: a millionth of a millimetre under a foot is a large force, and rounding shows in the loss."""
    scene = standing.robot(0.003)
    simulator = sim.Simulator(scene.model, scene.dt, device="cpu")
    qd = 0.1 * np.random.default_rng(0).normal(size=scene.model.nv)
    state = simulator.state(scene.model.q0, qd)
    report = sim.check_gradients(simulator, state, np.zeros((100, scene.model.nv)), ["q", "qd", "tau", "mass"], most=18)
    assert {entry.verdict for entry in report.entries} == {"right"}, str(report)


@pytest.mark.parametrize(
    ("analytic", "left", "right", "doubt", "verdict"),
    [
        (1.0, 1.0, 1.0, 0.0, "right"),
        (1.0 + 1e-3, 1.0, 1.0, 0.0, "wrong"),
        (1.0, 1.0, 3.0, 0.0, "kink"),
        (3.0, 1.0, 3.0, 0.01, "kink"),
        (2.5, 1.0, 3.0, 0.01, "kink"),
        (0.9, 1.0, 3.0, 0.01, "wrong"),
        (3.1, 1.0, 3.0, 0.01, "wrong"),
        (1.0, 1.0, 3.0, 5.0, "unclear"),
        (1.0, np.nan, 3.0, np.nan, "unclear"),
        (np.nan, 1.0, 1.0, 0.0, "wrong"),
        (np.inf, 1.0, 3.0, 5.0, "wrong"),
    ],
)
def test_verdicts(analytic, left, right, doubt, verdict):
    """doubt: by how much the one-sided differences change with their width."""
    entry = Entry("mass", (0,), "link 'leg'", "", Direction((0,), (1.0,), 1.0))
    central = 0.5 * (left + right)
    numbers = (left, right, central, doubt / 2, doubt / 2, 1e-3, 1e-12)
    (found,) = judge([entry], 0, np.array([analytic]), Differences(*(np.array([number]) for number in numbers)), 1e-6)
    assert found.verdict == verdict


def rebound(height: float, seconds: float) -> float:
    """The height of a ball dropped from rest that has bounced once with restitution 0.8, in continuous time."""
    fall = np.sqrt(2.0 * height / 9.81)
    rise = seconds - fall
    return 0.8 * 9.81 * fall * rise - 9.81 * rise**2 / 2.0


def test_jumps_are_reported():
    """A ball that bounces if it falls from 0.5 m or more: its height later jumps, and all gradients are right."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.0))
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.6), surface=sim.Surface(restitution=0.8))
    threshold = 0.8 * np.sqrt(2.0 * 9.81 * 0.5)
    contact = sim.HardContact(restitution_threshold=threshold)
    simulator = sim.Simulator(builder.finalize("float64"), 1e-3, device="cpu", contact=contact)
    height = np.eye(7)[2:3]
    report = sim.check_gradients(simulator, simulator.initial_state(), wrt=["q"], steps=500, q_grad=height)
    assert not report.wrong
    (jump,) = report.jumps
    # From 0.55 m it bounces, from 0.45 m it lands and stays.
    sign = np.sign(jump.change)
    assert jump.change == pytest.approx(sign * rebound(0.55, 0.5), abs=5e-3)
    assert jump.integral == pytest.approx(sign * (rebound(0.55, 0.5) - rebound(0.5, 0.5)), abs=2e-2)
    assert "jump: q of world 0: from -0.05 to 0.05" in str(report)


def test_jumps_in_parameters_are_reported():
    """The same ball, whose restitution decides whether it bounces; a solid one of another mass jumps nowhere."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.0))
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.6), surface=sim.Surface(restitution=0.8))
    threshold = 0.8 * np.sqrt(2.0 * 9.81 * 0.5)
    contact = sim.HardContact(restitution_threshold=threshold)
    simulator = sim.Simulator(builder.finalize("float64"), 1e-3, device="cpu", contact=contact)
    names = ["mass", "inertia", "restitution"]
    report = sim.check_gradients(
        simulator, simulator.initial_state(), wrt=names, steps=500, q_grad=np.eye(7)[2:3], seed=1
    )
    (jump,) = report.jumps
    assert jump.argument == "restitution"
    assert abs(jump.change) > 0.3 > abs(jump.integral)
    assert "jump: restitution of world 0: from -5% to 5% along" in str(report)


def test_a_bounce_is_no_jump():
    """The path of a ball that bounces in one step or another is continuous, and so is its derivative but for kinks."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.0))
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.6), surface=sim.Surface(restitution=0.8))
    simulator = sim.Simulator(builder.finalize("float64"), 1e-3, device="cpu")
    report = sim.check_gradients(simulator, simulator.initial_state(), wrt=["q"], steps=500, q_grad=np.eye(7)[2:3])
    assert not report.wrong
    assert not report.jumps


def test_kinks_are_no_jumps():
    """A ball thrown up just so that it doesn't weigh on the ground in the first step."""
    simulator, state = sliding(1.0)
    state = simulator.state(state.q, [1.0, 0.0, 9.81 * DT, 0.0, 0.0, 0.0])
    report = sim.check_gradients(simulator, state, wrt=["qd"], steps=20)
    assert report.kinks
    assert not report.jumps


def tossed(dt: float) -> tuple[sim.Simulator, sim.State]:
    """A pendulum whose steps are longer than its period, a kicked rotor: each multiplies the derivatives."""
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=1.0, com=(0.0, 0.0, -0.001), inertia=(1e-6, 1e-6, 1e-6))
    builder.add_joint("pivot", "continuous", child="bob", axis=(0.0, 1.0, 0.0))
    simulator = sim.Simulator(builder.finalize("float64"), dt, device="cpu")
    return simulator, simulator.state([1.0], [0.5])


@pytest.mark.parametrize(("dt", "steps"), [(0.07, 10), (0.05, 14), (0.1, 10), (0.2, 14)])
def test_a_chaotic_motion_decides_nothing(dt, steps):
    """Where the derivatives are from 2e9 to 1e29 no width of differences is small enough."""
    report = sim.check_gradients(*tossed(dt), steps=steps)
    assert report.norms.q.max() > 1e9
    assert {entry.verdict for entry in report.entries} == {"unclear"}, str(report)
    assert "widths disagree" in str(report)
    report.raise_if_wrong()


@pytest.mark.parametrize(("dt", "steps"), [(0.045, 10), (0.03, 18), (0.04, 14)])
def test_derivatives_that_grow_fast_are_told_right_from_wrong(monkeypatch, dt, steps):
    """From 2e6 to 9e8; wide differences agree with each other, but not with these."""
    report = sim.check_gradients(*tossed(dt), steps=steps, wrt=["q"])
    assert 1e6 < report.norms.q.max() < 1e9
    assert {entry.verdict for entry in report.entries} == {"right"}, str(report)
    corrupted(monkeypatch, lambda gradients: add(gradients.q, (0, 0), 0.3))
    assert sim.check_gradients(*tossed(dt), steps=steps, wrt=["q"]).wrong
