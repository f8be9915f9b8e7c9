"""Motions that tell much: within limits, at rest at the start, better than random ones."""

import copy
import functools

import numpy as np
import pytest
import torch

import sim
from scenes import box
from sim.identify import base_parameters, column_names, excite, torque_regressor
from tests.errors import raises_naming, refuses
from tests.identify.arms import arm


def condition(robot, motion, joint_columns=()):
    """From a finer grid than the search's, over the base parameters."""
    log = motion.log(40.0)
    matrix = torque_regressor(robot, log.q, log.qd, log.qdd, joint_columns=joint_columns).numpy()
    names = column_names(robot, joint_columns)
    return base_parameters(matrix.reshape(-1, len(names)), names).condition


def test_condition_and_limits():
    robot = arm()
    random = excite(robot, iterations=0, starts=8, acceleration=6.0)
    found = excite(robot, iterations=25, starts=8, acceleration=6.0, joint_columns=["damping"])
    plain = excite(robot, iterations=25, starts=8, acceleration=6.0)
    assert random.condition == random.condition_before == plain.condition_before
    assert plain.condition < 0.7 * random.condition
    # What is chosen as independent differs between the two, and the samples.
    assert condition(robot, plain) == pytest.approx(plain.condition, rel=0.5)
    assert condition(robot, plain) < 0.8 * condition(robot, random)
    for motion in (random, plain, found):
        q, qd, qdd = motion(np.linspace(0.0, motion.period, 3001))
        assert (q < robot.upper_limit.numpy()).all()
        assert (q > robot.lower_limit.numpy()).all()
        assert (np.abs(qd) < robot.velocity_limit.numpy()).all()
        assert (np.abs(qdd) < 6.0).all()
        np.testing.assert_allclose([qd[0], qdd[0], qd[-1]], 0.0, atol=1e-12)
        np.testing.assert_allclose(np.gradient(q, motion.period / 3000, axis=0)[1:-1], qd[1:-1], atol=1e-4)
        np.testing.assert_allclose(np.gradient(qd, motion.period / 3000, axis=0)[1:-1], qdd[1:-1], atol=1e-4)
        shares = [
            (q - motion.middle) / (0.5 * (robot.upper_limit - robot.lower_limit).numpy()),
            qd / robot.velocity_limit.numpy(), qdd / 6.0,
        ]  # fmt: skip
        largest = np.max([np.abs(share).max(axis=0) for share in shares], axis=0)
        np.testing.assert_allclose(largest, 0.98, atol=1e-3, err_msg="each joint uses one of its limits")


def test_limits_that_are_given():
    robot = arm()
    motion = excite(robot, iterations=0, starts=1, lower=np.full(7, -0.2), upper=np.full(7, 0.1), period=4.0)
    q, *_ = motion(np.linspace(0.0, 4.0, 1000))
    assert -0.2 < q.min() < q.max() < 0.1
    np.testing.assert_allclose(motion.middle, -0.05)


def test_limits_on_one_side():
    """Of a joint that may go anywhere beyond one."""
    lower, upper = np.full(7, -np.inf), np.full(7, np.inf)
    lower[0], upper[1] = 1.0, -2.0
    motion = excite(arm(), iterations=0, starts=1, lower=lower, upper=upper)
    q, *_ = motion(np.linspace(0.0, motion.period, 3001))
    np.testing.assert_allclose(motion.middle[:3], [1.0 + np.pi, -2.0 - np.pi, 0.0])
    assert q[:, 0].min() > 1.0
    assert q[:, 1].max() < -2.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(harmonics=2), "excite: harmonics is 2; it must be a whole number of at least 3"),
        (dict(seed="x"), "excite: seed is 'x'; it must be a whole number of at least 0"),
        (dict(period=-1.0), "excite: period is -1.0 s; it must be a positive number"),
        (dict(starts=1.5), "excite: starts is 1.5; it must be a whole number of at least 1"),
        (dict(seed=-1), "excite: seed is -1; it must be a whole number of at least 0"),
        (dict(acceleration=[1.0, 2.0]), "acceleration is .* expected positive numbers, one or 7"),
        (dict(noise=0.0), "noise is 0.0; expected positive numbers"),
        (dict(noise=np.inf), "noise is inf; it must be below"),
        (dict(noise="loud"), "noise: 'loud' is not an array of numbers"),
        (dict(lower=np.zeros(7), upper=np.zeros(7)), "joint 'joint1'"),
    ],
)
def test_errors(given, message):
    with pytest.raises(sim.ModelError, match=message):
        excite(arm(), **given)


def test_a_motion_at_any_times():
    motion = excite(arm(), iterations=0, starts=1)
    times = np.linspace(0.0, 3.0, 6)
    for found, expected in zip(motion(times.reshape(2, 3)), motion(times), strict=True):
        np.testing.assert_allclose(found.reshape(6, 7), expected, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(motion(times[1])[0], motion(times)[0][1], rtol=1e-14)
    refuses(lambda: motion("now"), "time", "'now'")
    refuses(lambda: motion.log(0), "rate", 0, "positive")


def test_quaternions_are_refused():
    with raises_naming("quaternions", "Fourier"):
        excite(box.build().model)


def test_a_robot_in_float32_moves_as_one_in_float64():
    robot = arm()
    single, double = (excite(each, iterations=0, starts=1) for each in (copy.deepcopy(robot).float(), robot))
    np.testing.assert_allclose(single.sine, double.sine, rtol=1e-5)
    better = excite(copy.deepcopy(robot).float(), iterations=5, starts=1)
    assert better.condition < 0.95 * better.condition_before


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, functools.partial(torch.device, "meta")])
def test_searches_in_any_mode_of_pytorch(mode):
    robot = arm()
    expected = excite(robot, iterations=3, starts=2)
    with mode():
        assert excite(robot, iterations=3, starts=2).condition == expected.condition
