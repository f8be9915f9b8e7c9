"""Identification by inverse dynamics: what was drawn comes out, as certain as it says."""

import copy
import functools

import numpy as np
import pytest
import torch

import sim
from sim.identify import (
    Estimate,
    FunctionUnknowns,
    InertialPrior,
    Log,
    LogNormal,
    Normal,
    Unknowns,
    excite,
    fit_torques,
    fit_trajectories,
    linear_parameters,
    read_csv,
    read_rosbag,
    torque_regressor,
)
from tests.errors import raises_naming, refuses
from tests.identify.arms import arm, different, moving_log, numbers_of_a_body

UNKNOWN = {
    "inertial of link7": None, "damping of *": None, "friction_loss of *": Normal(0.1, 1.0),
    "torque_offset of *": None,
}  # fmt: skip


def truth(robot):
    return np.concatenate([
        numbers_of_a_body(robot), robot.damping.numpy(), robot.friction_loss.numpy(), np.full(robot.nv, 0.1)
    ])  # fmt: skip


def test_what_was_drawn_is_found_and_its_intervals_hold_it():
    """31 values in 5 logs with other noise: errors over stated deviations have mean square one."""
    robot = arm()
    true = different(robot)
    fits = [fit_torques(robot, moving_log(true, seed=seed), UNKNOWN) for seed in range(5)]
    errors = np.array([(fit.estimate.values - truth(true)) / fit.estimate.deviations for fit in fits])
    # Of 155 errors, some correlated, the mean square scatters by about 0.12, the share in the intervals by 2 %.
    assert 0.75 < np.mean(errors**2) < 1.3
    assert 0.90 < np.mean(np.abs(errors) < 1.96) < 0.99
    fit = fits[0]
    assert fit.estimate["mass of link7"] == pytest.approx(3.2, abs=0.02)
    assert fit.estimate.deviation("mass of link7") < 0.01
    low, high = fit.estimate.interval("mass of link7")
    assert low < 3.2 < high
    np.testing.assert_allclose(fit.noise, 0.5, rtol=0.1)
    np.testing.assert_array_equal(fit.correlation_samples, 1.0)
    assert (fit.residual < 0.55).all()
    assert (fit.residual_before > fit.residual).all()
    assert fit.estimate.not_told == fit.estimate.at_bound == fit.estimate.undetermined == ()
    assert fit.base.rank == len(fit.base.names)
    with torch.no_grad():
        again = fit.robot.inverse_dynamics(*(torch.as_tensor(getattr(fit.logs[0], x)) for x in ("q", "qd", "qdd")))
    offsets = [fit.estimate[f"torque_offset of joint{k}"] for k in range(1, 8)]
    np.testing.assert_allclose(fit.predicted[0], again.numpy() + offsets, atol=1e-9)
    assert robot.mass[-1] == 1.9, "the robot that was given stays as it is"


def test_it_is_linear_least_squares_where_bodies_may_be_anything():
    """With all joints' noise alike and the solution a body that can exist, by NumPy."""
    robot = arm()
    log = moving_log(different(robot), noise=0.05, offset=0.0)
    fit = fit_torques(robot, log, ["inertial of link7", "damping of *"], noise=np.full(7, 0.05))
    matrix = torque_regressor(robot, log.q, log.qd, log.qdd, joint_columns=["damping"]).numpy()
    unknown = np.r_[70:80, 80:87]
    with torch.no_grad():
        known = robot.inverse_dynamics(*map(torch.as_tensor, (log.q, log.qd, log.qdd))).numpy()
    pi = linear_parameters(robot, ["damping"]).numpy()
    rest = log.tau - known + matrix[..., unknown] @ pi[unknown]
    rows = matrix[..., unknown].reshape(-1, len(unknown))
    expected, *_ = np.linalg.lstsq(rows, rest.ravel(), rcond=None)
    found = linear_parameters(fit.robot, ["damping"]).numpy()[unknown]
    # White noise has no correlation, but the joints' friction, which is not looked for here, has.
    weights = np.sqrt(fit.correlation_samples)
    weighted, *_ = np.linalg.lstsq(
        (matrix[..., unknown] / weights[:, None]).reshape(-1, len(unknown)), (rest / weights).ravel(), rcond=None
    )
    assert np.abs(weighted - expected).max() > 1e-5
    # The lengths over which the body's mass is spread are held to a factor of e^3: a thousandth of a deviation.
    np.testing.assert_allclose(found, weighted, atol=1e-4)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, functools.partial(torch.device, "meta")])
def test_fits_in_any_mode_of_pytorch(mode):
    robot = arm()
    log = moving_log(different(robot), seconds=4.0, offset=0.0)
    unknown = {
        "mass of link7": LogNormal(1.0, 1.0), "inertial of link6": InertialPrior(), "damping of *": None,
        "torque_offset of *": None,
    }  # fmt: skip
    expected = fit_torques(robot, log, unknown).estimate
    with mode():
        found = fit_torques(robot, log, unknown).estimate
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.deviations, expected.deviations)


def test_a_robot_in_float32_is_identified_in_float64():
    robot = arm()
    log = moving_log(different(robot), seconds=4.0, offset=0.0)
    unknown = {"inertial of *": InertialPrior(), "damping of *": None}
    double, single = (fit_torques(each, log, unknown) for each in (robot, copy.deepcopy(robot).float()))
    assert single.base.rank == double.base.rank
    np.testing.assert_allclose(single.estimate.values, double.estimate.values, atol=1e-4)
    assert single.robot.mass.dtype == torch.float32


def test_what_is_found_takes_the_place_of_what_is_learnt():
    robot = arm()
    log = moving_log(different(robot), seconds=4.0, offset=0.0)
    robot.learn_quantity("link7", "inertial")
    fit = fit_torques(robot, log, ["mass of link7", "damping of *"])
    assert float(fit.robot.value("mass")[-1]) == fit.estimate["mass of link7"]
    torch.testing.assert_close(fit.robot.value("com"), robot.value("com"))
    assert robot.learnable("link7", "inertial") is not None, "the robot that was given stays as it is"


def test_errors_that_last_count_less():
    """Noise that a filter made alike over ten samples: deviations are those of as many fewer samples."""
    robot = arm()
    true = different(robot)
    errors, spans = [], []
    for seed in range(4):
        log = moving_log(true, noise=0.0, seed=seed)
        white = np.random.default_rng(seed).standard_normal((len(log) + 9, robot.nv))
        alike = np.stack([np.convolve(column, np.full(10, 0.1), "valid") for column in white.T], axis=1)
        fit = fit_torques(robot, log.with_offset("tau", -2.0 * alike), UNKNOWN)
        errors.append((fit.estimate.values - truth(true)) / fit.estimate.deviations)
        spans.append(fit.correlation_samples.mean())
    assert 6.0 < np.mean(spans) < 11.0
    # Without the allowance the mean square is that of the span. What is fast on its own is hurt less by slow errors.
    assert 0.3 < np.mean(np.square(errors)) < 1.5


def test_priors_decide_what_the_data_does_not_tell():
    """A drawing's masses to 10 %: those of the first links stay as uncertain, that of the last gets better."""
    robot = arm()
    log = moving_log(different(robot), offset=0.0)
    fit = fit_torques(robot, log, {"inertial of link*": InertialPrior(0.1, 0.003, 0.1), "damping of *": None,
                                   "friction_loss of *": Normal(0.1, 0.5)})  # fmt: skip
    told = fit.estimate.not_told
    assert "mass of link1" in told
    # Its moment about the vertical is a part of what the data tells, and the prior is of its moments per mass.
    assert fit.estimate["mass of link1"] == pytest.approx(float(robot.mass[1]), rel=0.02)
    assert fit.estimate.deviation("mass of link1") == pytest.approx(0.1 * float(robot.mass[1]), rel=0.05)
    assert "mass of link7" not in told
    assert np.isfinite(fit.estimate.deviations).all()
    assert fit.estimate.undetermined == ()
    assert fit.base.rank < len(fit.base.names)
    assert "the data doesn't tell" in str(fit.estimate)


def test_without_priors_it_says_what_is_undetermined():
    robot = arm()
    fit = fit_torques(robot, moving_log(robot, offset=0.0), ["inertial of *"])
    assert set(fit.estimate.not_told) >= {"mass of base", "mass of link1"}
    assert np.isinf(fit.estimate.deviation("mass of link1"))
    np.testing.assert_allclose(fit.estimate["mass of link1"], float(robot.mass[1]), rtol=0.5)
    (words,) = fit.estimate.undetermined
    assert words.endswith("combinations of mass of base ... inertia_zz of link7")
    assert fit.base.rank == 43, "gravity is along the first axis, which hides two of 45"
    moments = torch.linalg.eigvalsh(fit.robot.inertia)
    assert (moments[:, 0] > 0.0).all()
    assert (moments[:, 2] < moments[:, 0] + moments[:, 1]).all()


def test_a_bound_is_named():
    robot = arm()
    true = different(robot)
    true.damping.zero_()
    robot.friction_loss.fill_(0.5)
    robot.mass[-1], robot.com[-1], robot.inertia[-1] = true.mass[-1], true.com[-1], true.inertia[-1]
    robot.damping.fill_(0.05)
    fit = fit_torques(robot, moving_log(true, noise=0.01, offset=0.0), ["damping of *"])
    assert len(fit.estimate.at_bound) > 0
    assert min(fit.estimate.values) >= 0.0


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ([], "no unknowns: name at least one"),
        (["mass"], "unknown 'mass': .*'mass of forearm'"),
        (["weight of link1"], "no quantity 'weight'; known are mass, com, inertial"),
        (["mass of hand"], "the model has mass of base, link1"),
        (["damping of base"], "the model has damping of joint1, joint2"),
        (["mass of link1", "inertial of link1"], "'mass of link1' and 'inertial of link1'|are the same numbers"),
        (["friction_loss of joint1"], "'friction_loss of joint1': it is zero"),
        ({"mass of link1": InertialPrior()}, "'mass of link1': .*InertialPrior"),
        ({"com of link1": LogNormal(1.0, 0.1)}, "its coordinates may be negative"),
        ({"damping of joint1": Normal(-1.0, 0.1)}, "'damping of joint1': .*-1 .*0 and inf"),
        ({"damping of joint1": 0.5}, "'damping of joint1': its prior is 0.5; give a Normal, a LogNormal"),
        (["damping of *1", "damping of *"], "'damping of joint1' of 'damping of .' and .* are the same numbers"),
        (["stiffness of joint1"], "joint forces don't determine stiffness by inverse dynamics"),
    ],
)
def test_unknowns_that_are_refused(wanted, message):
    robot = arm()
    with pytest.raises(sim.ModelError, match=message):
        fit_torques(robot, moving_log(robot, 1.0), wanted)


def test_other_errors():
    robot = arm()
    log = moving_log(robot, 1.0)
    with raises_naming("seed 0", "tau"):
        fit_torques(robot, sim.identify.Log(robot.model, log.time, log.q, log.qd, log.qdd, source="seed 0"), UNKNOWN)
    for noise in ([1.0, 2.0], [1.0] * 6 + [np.inf]):
        with raises_naming("7 positive numbers", "joint", "finite"):
            fit_torques(robot, log, UNKNOWN, noise=noise)
    refuses(lambda: fit_torques(robot, [], UNKNOWN), "log")
    refuses(lambda: fit_torques(robot, None, UNKNOWN), "logs", "NoneType", "sim.identify.Log")
    refuses(lambda: fit_torques(robot, log, UNKNOWN, noise="some"), "noise", "'some'")
    rows = copy.deepcopy(robot)
    rows.mass = rows.mass.repeat(2, 1)
    refuses(lambda: fit_torques(rows, log, UNKNOWN), "parameter 'mass'", "shape", "identification")
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("cart", mass=1.0, inertia=np.eye(3))
    builder.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
    cart, time = builder.finalize("float64"), np.arange(10.0)
    still = sim.identify.Log(cart, time, *np.zeros((4, 10, 1)))
    refuses(lambda: fit_torques(cart, still, "damping of rail"), "rail", "noise")
    refuses(lambda: fit_torques(robot, log, UNKNOWN, max_evaluations=0), "max_evaluations", 0, "whole", 1)
    refuses(lambda: Normal(1.0, 0), "Normal", "deviation", 0, "positive")
    other = sim.load("scenes/robots/golfer.urdf", dtype="float64", visual=False, collision=False)
    refuses(lambda: fit_torques(other, log, ["damping of *"]), "7 degrees of freedom")


def test_unknowns_reach_all_kinds_of_parameters():
    """By the names of geometries, of links for all their geometries, of joints and actuators."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.7))
    builder.add_link("cart", mass=1.0, inertia=np.eye(3))
    for k in range(2):
        builder.add_geometry(
            "cart", "sphere", name=f"wheel{k}", size=(0.1, 0, 0), position=(k, 0, 0), surface=sim.Surface(friction=0.5)
        )
    builder.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0), friction_loss=0.2)
    builder.add_actuator("rail", "position", name="drive", gains=sim.Gains(kp=3.0))
    model = builder.finalize("float64")
    ground = model.geometries[0].name
    wanted = [f"friction of {ground}", "friction of cart", "friction of rail", "kp of drive"]
    unknowns = Unknowns(model, [*wanted, "com of cart"])
    assert unknowns.names == (*wanted, "com_x of cart", "com_y of cart", "com_z of cart")
    x = torch.arange(1.0, 15.0, dtype=torch.float64).reshape(2, 7)
    values = unknowns.parameters(x)
    np.testing.assert_array_equal(values["friction"], [[1.0, 2.0, 2.0], [8.0, 9.0, 9.0]])
    np.testing.assert_array_equal(values["friction_loss"], [[3.0], [10.0]])
    np.testing.assert_array_equal(values["actuator_kp"], [[4.0], [11.0]])
    np.testing.assert_array_equal(values["com"], [[[5.0, 6.0, 7.0]], [[12.0, 13.0, 14.0]]])
    model.parameters["friction"][1] = 0.9
    with raises_naming("prior"):
        Unknowns(model, ["friction of cart"])


def test_friction_that_no_pair_uses_is_no_unknown():
    """A sphere with its own friction on the ground and on a box, of which the box uses its own on the ground."""
    builder = sim.ModelBuilder()
    ground = builder.add_ground()
    for name in ("ball", "crate"):
        builder.add_sphere(name=name, radius=0.1, mass=1.0)
    ball, crate = (geometry for geometry in builder.geometries if geometry != ground)
    builder.set_pair_friction(ground, ball, friction=0.4)
    assert Unknowns(builder.finalize("float64"), [f"friction of {ball}"]).names == (f"friction of {ball}",)
    builder.set_pair_friction(crate, ball, friction=0.3)
    model = builder.finalize("float64")
    with raises_naming(f"friction of {ball}", "or its pairs have their own"):
        Unknowns(model, [f"friction of {ball}"])
    others = [f"friction of {crate}", f"friction of {ground}", f"friction of {ground} and {ball}"]
    assert Unknowns(model, others).names == tuple(others)


def test_only_a_star_stands_for_other_names():
    """Names of files may hold brackets and question marks."""
    builder = sim.ModelBuilder()
    for name, parent in (("leg[0]", "world"), ("leg[1]", "leg[0]"), ("leg0", "leg[1]")):
        builder.add_link(name, mass=1.0, inertia=np.eye(3))
        builder.add_joint(f"{name}?", "revolute", parent=parent, child=name)
    model = builder.finalize("float64")
    assert Unknowns(model, ["mass of leg[1]"]).names == ("mass of leg[1]",)
    assert Unknowns(model, ["damping of leg[*"]).names == ("damping of leg[0]?", "damping of leg[1]?")
    refuses(lambda: Unknowns(model, ["mass of leg?"]), "'mass of leg?'", "mass of leg[0]")
    refuses(lambda: Unknowns(sim.torch.Robot(model), ["mass of *"]), "model", "Robot", "sim.Model")


def test_springs_by_name():
    """Only springs that joints have; a rest position is one number only for joints with one coordinate."""
    builder = sim.ModelBuilder()
    for name, kind, parent in (
        ("upper", "spherical", "world"),
        ("fore", "revolute", "upper"),
        ("ball", "spherical", "fore"),
    ):
        builder.add_link(name, mass=1.0, inertia=np.eye(3))
        spring = sim.Spring(stiffness=4.0 * (name == "ball"))
        builder.add_joint(f"{name}_joint", kind, parent=parent, child=name, spring=spring)
    model = builder.finalize("float64")
    assert Unknowns(model, ["rest_position of *", "stiffness of *", "damping of *"]).names == (
        "rest_position of fore_joint", "stiffness of fore_joint", "stiffness of ball_joint",
        "damping of upper_joint", "damping of fore_joint", "damping of ball_joint",
    )  # fmt: skip
    for name in ("stiffness of upper_joint", "rest_position of ball_joint"):
        with raises_naming(f"'{name}'"):
            Unknowns(model, [name])


def test_a_name_comes_before_a_star():
    """In either order, without its prior being lost, and where the star alone would be refused."""
    model = arm().model
    prior = Normal(0.5, 0.1)
    for wanted in (
        {"damping of *": None, "damping of joint2": prior},
        {"damping of joint2": prior, "damping of *": None},
    ):
        unknowns = Unknowns(model, wanted)
        assert sorted(unknowns.names) == sorted(f"damping of {name}" for name in model.joint_names[1:])
        assert [block.prior for block in unknowns.blocks].count(prior) == 1
        assert unknowns.start[unknowns.names.index("damping of joint2")] == 0.5
    losses = {f"friction_loss of {name}": prior for name in model.joint_names[1:]}
    assert Unknowns(model, {"friction_loss of *": None} | losses).names == tuple(losses)
    links = Unknowns(model, {"inertial of *": None, "mass of link1": None})
    assert {"mass of link1", "com_x of link2"} <= set(links.names)
    assert "com_x of link1" not in links.names


def test_unknowns_of_a_function_have_one_prior_each():
    given = ("a", "b"), ("", ""), torch.ones(2).double(), np.zeros(2), np.full(2, np.inf), lambda x: {"damping": x}
    far = FunctionUnknowns(*given, priors=(None, Normal(0.0, 0.5))).prior_deviations(torch.ones(3, 2))
    np.testing.assert_array_equal(far, np.full((3, 1), 2.0))
    refuses(lambda: FunctionUnknowns(*given, priors=(None,)), "1 priors", "2 names")
    refuses(lambda: FunctionUnknowns(*given, priors=(None, InertialPrior())), "'b'", "InertialPrior")
    refuses(lambda: FunctionUnknowns(*given, priors=(0.5, None)), "'a'", "prior", "0.5", "Normal")
    start = torch.ones(2, dtype=torch.float64)
    with raises_naming("2 names", "2 units", "start", "(2,)", "lower", "(1,)", "upper"):
        FunctionUnknowns(("a", "b"), ("", ""), start, np.zeros(1), np.ones(2), lambda x: {"damping": x})
    with raises_naming("start", "[1.0, 1.0]", "lower", "[0.0, 0.0]", "upper", "[0.5, 0.0]"):
        FunctionUnknowns(("a", "b"), ("", ""), start, np.zeros(2), [0.5, 0.0], lambda x: {"damping": x})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, log: Log(sim.torch.Robot(m), log.time, log.q), "model is a Robot; .*robot.model"),
        (lambda m, log: Log(m, ["now", "later"], log.q), "log: time: .* is not an array of numbers"),
        (lambda m, log: Log(m, log.time, None), "log: q.*expected"),
        (lambda m, log: log.shifted("torque", 0.1), "log: unknown channel 'torque'; there are q, qd"),
        (lambda m, log: log.filtered(5.0, channels=("pos",)), "log: unknown channel 'pos'; there are q, qd"),
        (lambda m, log: log.resampled("50"), "log: rate is '50' Hz; it must be a positive number"),
        (lambda m, log: log.between(7.0, 9.0), "fewer than two rows lie between 7.0 and 9.0 s; it goes from 0 to"),
        (lambda m, log: log.with_offset("q", "one"), "log: offset: 'one' is not an array of num"),
        (lambda m, log: fit_torques(m, [], ["mass of *"]), "logs is empty"),
        (lambda m, log: fit_torques(m, log.q, ["mass of *"]), "logs is a ndarray; it must be a sim.identify.Log"),
        (lambda m, log: fit_torques(m, log, None), "unknowns is None; it must be a name, or a list of names"),
        (lambda m, log: fit_torques(m, log, ["mass of *"], max_evaluations=0), "max_evaluations is 0; it must be"),
        (lambda m, log: Normal("1", 0.1), "Normal: mean is '1'; it must be one number"),
        (lambda m, log: Normal(np.nan, 0.1), "Normal: mean is nan; it must be finite"),
        (
            lambda m, log: fit_trajectories(sim.torch.Robot(m), log, ["mass of *"], dt=0.01, noise={"q": 1.0}),
            "robot.model",
        ),
        (
            lambda m, log: fit_trajectories(m, log, ["mass of *"], dt="1", noise={"q": 1.0}),
            "dt is '1' s; it must be pos",
        ),
        (lambda m, log: read_csv(m, "log.csv"), "is a Model; it must be the path of a file"),
        (lambda m, log: read_rosbag(m, "bag"), "is a Model; it must be the path of a file"),
        (lambda m, log: read_rosbag("bag", sim.torch.Robot(m)), "model is a Robot; it must be a sim.Model"),
        (lambda m, log: excite(m, period="5"), "excite: period is '5' s; it must be a positive number"),
    ],
)
def test_arguments_of_another_type_are_named(call, message):
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=2.0, com=(0.0, 0.0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0), spring=sim.Spring(damping=0.5))
    model = builder.finalize("float64")
    time = np.linspace(0.0, 1.0, 101)
    q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
    with pytest.raises(sim.ModelError, match=message):
        call(model, Log(model, time, q, qd, qdd, qd))


def test_a_filter_of_one_channel_leaves_the_others():
    """By its name alone, which is part of another one's."""
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=2.0, com=(0.0, 0.0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
    model, noise = builder.finalize("float64"), np.random.default_rng(0).standard_normal((101, 1))
    log = Log(model, np.linspace(0.0, 1.0, 101), noise, noise)
    filtered = log.filtered(5.0, channels="qd")
    assert (filtered.q == noise).all()
    assert not (filtered.qd == noise).any()


def test_an_estimate_that_there_is_not():
    estimate = Estimate(
        ("mass of bob",), ("kg",), *np.ones((4, 1)), *np.ones((1, 1, 1)), np.ones(1), np.ones((1, 1)), (), 1.0, 1, 1
    )
    assert estimate["mass of bob"] == 1.0
    for ask in (estimate.__getitem__, estimate.deviation, estimate.interval):
        with raises_naming("'mass of bop'", "mass of bob"):
            ask("mass of bop")
