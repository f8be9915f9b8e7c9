"""What the drives of USD files aim at: an input of the model, or the rest of a spring."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import UsdPhysics

import sim
from tests.importers.usd_scenes import add_body, add_joint, read, stage_of


def driven(tmp_path, kind="Revolute", **drive):
    """A body on one joint whose drive has these attributes, without gravity."""
    stage = stage_of(tmp_path)
    UsdPhysics.Scene.Define(stage, "/scene").CreateGravityMagnitudeAttr(0.0)
    add_body(stage, "body", mass=1000.0)
    joint = add_joint(stage, getattr(UsdPhysics, f"{kind}Joint"), "j", None, "body")
    api = UsdPhysics.DriveAPI.Apply(joint.GetPrim(), "angular" if kind == "Revolute" else "linear")
    for name, value in drive.items():
        getattr(api, f"Create{name}Attr")(value)
    return stage


def settled(model, control=None):
    """Coordinate and velocity after two seconds."""
    simulator = sim.Simulator(model, dt=0.01, device="cpu")
    control = None if control is None else np.full((200, 1), control)
    trajectory = simulator.rollout(simulator.initial_state(), steps=200, control=control)
    return trajectory.q.numpy()[-1, 0, 0], trajectory.qd.numpy()[-1, 0, 0]


@pytest.mark.parametrize(("kind", "unit", "name"), [("Revolute", np.pi / 180.0, "rad"), ("Prismatic", 1.0, "m")])
def test_the_target_of_a_servo_is_named(tmp_path, kind, unit, name):
    stage = driven(tmp_path, kind, Stiffness=1e5, Damping=1e4, TargetPosition=0.5)
    target = 0.5 * unit
    expected = rf"'/j': its drive .*{target:.9g} {name};"
    with pytest.warns(sim.USDWarning, match=expected):
        model = read(stage)
    assert_allclose(settled(model)[0], 0.0, atol=1e-3 * target)
    assert_allclose(settled(model, target)[0], target, rtol=1e-3)
    assert_allclose(settled(read(stage, drives="springs"))[0], target, rtol=1e-3)


def test_a_target_velocity_moves_the_target_of_a_servo(tmp_path):
    """Stiffness (target - q) + damping (velocity - qd) rests where the spring balances the damper."""
    stage = driven(tmp_path, "Prismatic", Stiffness=1e5, Damping=1e4, TargetPosition=0.5, TargetVelocity=2.0)
    with pytest.warns(sim.USDWarning, match=r"'/j': its drive .* 0\.7 m;"):
        model = read(stage)
    assert_allclose(settled(model, 0.7)[0], 0.7, rtol=1e-3)
    assert_allclose(read(stage, drives="springs").parameters["rest_position"], 0.7, rtol=1e-6)


def test_the_target_velocity_of_a_damper_is_named(tmp_path):
    stage = driven(tmp_path, "Prismatic", Damping=1e4, TargetVelocity=2.0)
    with pytest.warns(sim.USDWarning, match=r"'/j': its drive .* 2 m/s;"):
        model = read(stage)
    assert_allclose(settled(model, 2.0)[1], 2.0, rtol=1e-3)
    with pytest.warns(sim.USDWarning, match="'/j': the damper that replaces its drive has no target velocity"):
        assert read(stage, drives="springs").nu == 0


def test_drives_that_aim_at_zero_are_not_named(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(driven(tmp_path, Stiffness=1e5, Damping=1e4))
        read(driven(tmp_path, Damping=1e4))
