"""Properties that the builder takes together: what they refuse, where they go, and what a method doesn't take."""

import numpy as np
import pytest

import sim

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (sim.Surface, {"friction": -0.1}, "friction is -0.1; it must be finite and not negative"),
        (sim.Surface, {"friction": (1.0, 0.005)}, r"friction is \(1.0, 0.005\); it must be one number"),
        (sim.Surface, {"torsional_friction": -0.1}, "torsional_friction is -0.1"),
        (sim.Surface, {"rolling_friction": NAN}, "rolling_friction is nan"),
        (sim.Surface, {"restitution": 1.1}, "restitution is 1.1; it must lie between 0 and 1"),
        (sim.Surface, {"restitution": NAN}, "restitution is nan"),
        (sim.Surface, {"stiffness": 0.0}, "stiffness is 0.0; it must be positive, infinite for hard contact"),
        (sim.Surface, {"stiffness": NAN}, "stiffness is nan"),
        (sim.Surface, {"stiffness": 1.0, "damping": -1.0}, "damping is -1.0"),
        (sim.Surface, {"damping": 1.0}, "damping .*stiffness"),
        (sim.Surface, {"friction_rule": "minimum"}, "friction_rule is 'minimum'; it must be one of product, maximum"),
        (sim.Surface, {"priority": 0.5}, "priority is 0.5; it must be a whole number"),
        (sim.Surface, {"group": 1.5}, "group is 1.5; it must be a whole number"),
        (sim.Surface, {"mask": 1.9}, "mask is 1.9; it must be a whole number"),
        (sim.Surface, {"softness": 0.9}, "softness is a float; it must be a sim.Softness"),
        (sim.Surface, {"softness_mix": -1.0}, "softness_mix is -1.0"),
        (sim.Surface, {"margin": -1.0}, "margin is -1.0"),
        (sim.Surface, {"gap": INF}, "gap is inf"),
        (sim.Surface, {"velocity": (1.0, NAN, 0.0)}, "velocity: .*nan.* is not finite"),
        (sim.Surface, {"spin": 2.0}, r"spin: shape \(\), expected \(3,\)"),
        (sim.Limits, {"lower": 1.0, "upper": -1.0}, "the lower limit 1.0 is above the upper limit -1.0"),
        (sim.Limits, {"lower": NAN}, "lower is nan; it must be a number, or infinite for no limit"),
        (sim.Limits, {"upper": NAN}, "upper is nan"),
        (sim.Limits, {"lower": "low"}, "lower is 'low'; it must be one number"),
        (sim.Limits, {"swing": 0.0}, "swing is 0.0; it must be positive and at most pi"),
        (sim.Limits, {"twist": 4.0}, "twist is 4.0; it must be positive and at most pi"),
        (sim.Limits, {"rotation": NAN}, "rotation is nan"),
        (sim.Limits, {"effort": -1.0}, "effort is -1.0; it must not be negative"),
        (sim.Limits, {"velocity": NAN}, "velocity is nan; it must not be negative"),
        (sim.Limits, {"margin": -0.1}, "margin is -0.1"),
        (sim.Limits, {"stiffness": 0.0}, "stiffness is 0.0; it must be positive, infinite for hard limits"),
        (sim.Limits, {"damping": 1.0}, "damping .*stiffness"),
        (sim.Limits, {"softness": None}, "softness is a NoneType; it must be a sim.Softness"),
        (sim.Spring, {"stiffness": INF}, "stiffness is inf"),
        (sim.Spring, {"stiffness": -1.0}, "stiffness is -1.0; it must be finite and not negative"),
        (sim.Spring, {"stiffness": (1.0, 2.0, 3.0, 4.0)}, "stiffness is .*up to three"),
        (sim.Spring, {"damping": (-1.0, 2.0)}, "damping is -1.0"),
        (sim.Spring, {"rest": INF}, "rest is inf; it must be a finite number"),
        (sim.Spring, {"rest": (2, 1)}, r"rest is \(2, 1\); it must be a finite number, or two in ascending order"),
        (sim.Gains, {"kp": INF}, "kp is inf; it must be finite and not negative"),
        (sim.Gains, {"kd": -1.0}, "kd is -1.0; it must be finite and not negative"),
        (sim.Gains, {"gain": NAN}, "gain is nan; it must be finite"),
        (sim.Gains, {"offset": "3"}, "offset is '3'; it must be one number"),
        (sim.Gains, {"kp_per_input": INF}, "kp_per_input is inf"),
        (sim.Gains, {"kd_per_input": NAN}, "kd_per_input is nan"),
        (sim.Activation, {"kind": "lag"}, "unknown kind 'lag'; known are none, integrator, filter, filterexact"),
        (sim.Activation, {"kind": ["filter"]}, r"kind is \['filter'\]; it must be a name"),
        (sim.Activation, {"kind": "filter"}, "kind 'filter' needs a time_constant"),
        (sim.Activation, {"kind": "filter", "time_constant": -1.0}, "time_constant is -1.0"),
        (sim.Activation, {"kind": "integrator", "time_constant": 0.1}, "kind 'integrator' has no time_constant"),
        (sim.Activation, {"kind": "integrator", "range": (1.0, 1.0)}, r"range is \(1.0, 1.0\); the first must be less"),
        (sim.Activation, {"kind": "integrator", "range": 1.0}, "range is 1.0; it must be two numbers"),
        (sim.Activation, {"kind": "integrator", "early": "no"}, "early is 'no'; it must be True or False"),
        (sim.Activation, {"early": True}, "kind 'none' has no state; remove range and early"),
        (sim.Activation, {"range": (0.0, INF)}, "kind 'none' has no state; remove range and early"),
    ],
)
def test_refused_values(kind, values, message):
    with pytest.raises(sim.ModelError, match=f"^{kind.__name__}: {message}"):
        kind(**values)


def test_values_become_numbers_and_stay():
    """Numbers of any kind are floats afterwards, so that records of equal values are equal."""
    assert sim.Surface(friction=np.float32(0.5)) == sim.Surface(friction=0.5)
    assert sim.Limits(np.int64(-1), 1) == sim.Limits(-1.0, 1.0)
    assert sim.Spring(stiffness=[1, 2], rest=np.array(0.5)) == sim.Spring(stiffness=(1.0, 2.0), rest=0.5)
    assert hash(sim.Spring(stiffness=[1, 2])) == hash(sim.Spring(stiffness=(1.0, 2.0)))
    assert sim.Gains(np.float32(2), 1) == sim.Gains(kp=2.0, kd=1.0)
    assert sim.Activation("integrator", range=[0, 1]) == sim.Activation("integrator", range=(0.0, 1.0))
    with pytest.raises(AttributeError):
        sim.Surface().friction = 0.3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("add", "given", "message"),
    [
        ("add_ground", {"surface": 0.5}, "surface is a float; it must be a sim.Surface"),
        ("add_sphere", {"radius": 1, "mass": 1, "surface": None}, "surface is a NoneType; it must be a sim.Surface"),
        ("add_joint", {"limits": 3.0}, "joint 'j': limits is 3.0; it must be two numbers"),
        ("add_joint", {"limits": (1.0, -1.0)}, "the lower limit 1.0 is above the upper limit -1.0"),
        ("add_joint", {"spring": 3.0}, "joint 'j': spring is a float; it must be a sim.Spring"),
        ("add_joint", {"spring": sim.Spring(stiffness=(1, 2))}, "joint 'j': spring.stiffness is .*one number"),
        ("add_joint", {"spring": sim.Spring(rest=(1, 2))}, "joint 'j': spring.rest is .*one number"),
        ("add_joint", {"limits": sim.Limits(swing=1.0)}, "joint 'j': limits.swing .*spherical"),
        ("add_fixed_tendon", {"limits": sim.Limits(effort=1.0)}, "tendon 't': .*limits.effort"),
        ("add_fixed_tendon", {"limits": sim.Limits(stiffness=1.0)}, "tendon 't': .*limits.stiffness"),
    ],
)
def test_what_a_method_does_not_take(add, given, message):
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0)
    first = {"add_joint": ("j", "revolute"), "add_fixed_tendon": ("t", {"j": 1.0})}.get(add, ())
    child = {"child": "a"} if add == "add_joint" else {}
    with pytest.raises(sim.ModelError, match=message):
        getattr(builder, add)(*first, **child, **given)


def test_the_restitution_that_a_method_takes_by_default():
    """What doesn't move leaves it to the other body."""
    builder = sim.ModelBuilder()
    rubber = sim.Surface(friction=0.7)
    builder.add_ground(surface=rubber)
    builder.add_heightfield(np.zeros((2, 2)), spacing=1.0, surface=rubber)
    builder.add_static_mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [(0, 1, 2)], surface=rubber)
    builder.add_geometry("world", "box", size=(1, 1, 1), surface=rubber)
    builder.add_sphere(radius=0.1, mass=1.0, surface=rubber)
    builder.add_sphere(radius=0.1, mass=1.0, surface=sim.Surface(restitution=0.25))
    parameters = builder.finalize("float64").parameters
    np.testing.assert_array_equal(parameters["restitution"], [1.0, 1.0, 1.0, 0.0, 0.0, 0.25])
    np.testing.assert_array_equal(parameters["friction"], [0.7] * 5 + [1.0])


def test_limits_may_be_a_pair():
    builder = sim.ModelBuilder()
    for name, limits in (("a", (-1, 2)), ("b", sim.Limits(-1.0, 2.0))):
        builder.add_link(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint(name, "revolute", child=name, limits=limits)
        builder.add_fixed_tendon(name, {name: 1.0}, limits=limits)
    assert builder.joints["a"].upper == builder.joints["b"].upper == 2.0
    assert builder.tendons["a"].lower == builder.tendons["b"].lower == -1.0
