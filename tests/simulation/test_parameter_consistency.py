"""Parameters that a builder would refuse are refused later too: given to a simulator, set, or given to a rollout."""

import contextlib

import numpy as np
import pytest
import torch

import sim
import sim.torch
from sim.model.shapes.inertia import is_semidefinite
from sim.simulation.engine.settings import Settings
from warp_kernels.parameters import INDEFINITE

WORLDS = 3


def model() -> sim.Model:
    """A free box, an arm of two hinges with a motor and a filter, and a tip without mass that has an armature."""
    scene = sim.ModelBuilder()
    scene.add_ground()
    scene.add_box(half_extents=(0.1, 0.2, 0.3), mass=1.0, position=(0.0, 0.0, 1.0), name="box")
    for name, parent in (("upper", "world"), ("lower", "upper")):
        scene.add_link(name, mass=1.0, inertia=(0.1, 0.2, 0.25), com=(0.0, 0.0, -0.2))
        scene.add_joint(
            f"{name}_hinge", "revolute", child=name, parent=parent, axis=(0.0, 1.0, 0.0), position=(0.0, 0.0, -0.4),
            limits=sim.Limits(-1.0, 1.0, margin=0.1),
        )  # fmt: skip
    scene.add_link("tip", mass=0.0, inertia=(0.0, 0.0, 0.0))
    scene.add_joint("tip_hinge", "revolute", child="tip", parent="lower", axis=(0.0, 1.0, 0.0), armature=0.01)
    scene.add_actuator(
        "upper_hinge", "position", gains=sim.Gains(kp=10.0, kd=1.0), control_range=(-1.0, 1.0), name="motor"
    )
    scene.add_actuator(
        "lower_hinge", activation=sim.Activation("filter", time_constant=0.1, range=(-2.0, 2.0)), name="filter"
    )
    return scene.finalize("float64")


MODEL = model()


def changed(name: str, index: int, value: object) -> np.ndarray:
    parameter = MODEL.parameters[name].copy()
    parameter[index] = value
    return parameter


def turned(moments: tuple[float, float, float]) -> np.ndarray:
    q, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))
    return q @ np.diag(moments) @ q.T


BOX, UPPER, LOWER, TIP = (MODEL.link(name) for name in ("box", "upper", "lower", "tip"))
HINGE = MODEL.nv - 3
REFUSED = [
    ("mass", changed("mass", BOX, 0.0), "mass matrix is singular; give link 'box' a mass"),
    ("mass", changed("mass", BOX, -0.005), "mass matrix is singular; give link 'box' a mass"),
    ("inertia", changed("inertia", BOX, np.zeros((3, 3))), "mass matrix is singular; give link 'box' a mass"),
    ("inertia", changed("inertia", UPPER, turned((0.1, 0.2, -0.05))), "'inertia' of link 'upper' "),
    ("inertia", changed("inertia", LOWER, -turned((0.1, 0.2, 0.25))), "'inertia' of link 'lower' "),
    ("inertia", changed("inertia", BOX, [[1, 2, 0], [2, 1, 0], [0, 0, 1]]), "'inertia' of link 'box' "),
    ("armature", changed("armature", MODEL.nv - 1, 0.0), "'tip_hinge' has a direction without inertia"),
    ("restitution", np.full(MODEL.num_geometries, 1.2), "'restitution' is 1.2 .* at most 1"),
    ("lower_limit", changed("lower_limit", HINGE, 1.5), "of joint 'upper_hinge' are crossed"),
    ("upper_limit", changed("upper_limit", HINGE + 1, -1.2), "of joint 'lower_hinge' are crossed"),
    ("limit_margin", changed("limit_margin", HINGE, 1.1), "'upper_hinge': limit_margin 1.1 "),
    ("actuator_control_lower", changed("actuator_control_lower", 0, 3.0), "of actuator 'motor' are crossed"),
    ("actuator_act_upper", changed("actuator_act_upper", 1, -2.5), "of actuator 'filter' are crossed"),
    ("actuator_time_constant", changed("actuator_time_constant", 1, 0.0), "of actuator 'filter' must be positive"),
]


@pytest.mark.parametrize("per_world", [False, True])
@pytest.mark.parametrize(("name", "value", "said"), REFUSED)
def test_what_the_builder_refuses_is_refused(name, value, said, per_world):
    if per_world:
        value = np.stack([MODEL.parameters[name], MODEL.parameters[name], value])
    with pytest.raises(sim.ModelError, match=said):
        sim.Simulator(MODEL, 0.01, WORLDS, "cpu", parameters={name: value})
    simulator = sim.Simulator(MODEL, 0.01, WORLDS, "cpu")
    before = simulator.parameters[name]
    with pytest.raises(sim.ModelError, match=said):
        simulator.parameters[name] = value
    q, qd = torch.tensor(MODEL.q0).repeat(WORLDS, 1), torch.zeros(WORLDS, MODEL.nv, dtype=torch.float64)
    given = {name: torch.tensor(value, requires_grad=True)}
    with pytest.raises(sim.ModelError, match=said):
        sim.torch.rollout(simulator, q, qd, steps=2, **given)
    np.testing.assert_array_equal(simulator.parameters[name], before)
    assert np.isfinite(simulator.rollout(simulator.initial_state(), steps=2).q.numpy()).all()


def test_what_is_at_the_bounds_is_accepted():
    """A link without mass that others carry, an inertia of a rod, restitution 1, a joint that limits hold still."""
    simulator = sim.Simulator(MODEL, 0.01, WORLDS, "cpu")
    simulator.parameters["inertia"] = changed("inertia", UPPER, turned((0.1, 0.1, 0.0)))
    simulator.parameters["restitution"] = np.ones(MODEL.num_geometries)
    simulator.parameters["mass"] = changed("mass", LOWER, 0.0)
    simulator.parameters.update({"limit_margin": np.zeros(MODEL.nv), "lower_limit": changed("lower_limit", HINGE, 1.0)})
    assert np.isfinite(simulator.rollout(simulator.initial_state(), steps=20).q.numpy()).all()


def test_limits_that_move_past_the_old_ones_are_given_together():
    simulator = sim.Simulator(MODEL, 0.01, WORLDS, "cpu")
    both = {"lower_limit": changed("lower_limit", HINGE, 2.0), "upper_limit": changed("upper_limit", HINGE, 3.0)}
    with pytest.raises(sim.ModelError, match=r"parameters\.update"):
        simulator.parameters["lower_limit"] = both["lower_limit"]
    simulator.parameters.update(both)
    np.testing.assert_array_equal(simulator.parameters["lower_limit"], both["lower_limit"])
    wrong = {"lower_limit": MODEL.parameters["lower_limit"], "upper_limit": changed("upper_limit", HINGE, -3.0)}
    with pytest.raises(sim.ModelError, match="crossed"):
        simulator.parameters.update(wrong)
    np.testing.assert_array_equal(simulator.parameters["lower_limit"], both["lower_limit"])


def test_a_link_whose_own_inertia_is_indefinite_may_keep_such_a_one():
    """As files have them, of links that are welded to others which make up for it."""
    builder = sim.ModelBuilder()
    builder.add_link("base", mass=1.0, inertia=(0.1, 0.1, 0.1), com=(0.3, 0.0, 0.0))
    builder.add_joint("hinge", "revolute", child="base", axis=(0.0, 0.0, 1.0))
    builder.add_link("cover", mass=1.0, inertia=(0.1, 0.1, -0.02), allow_unphysical=True)
    builder.add_joint("weld", "fixed", parent="base", child="cover")
    given = builder.finalize("float64", collapse_fixed=False)
    simulator = sim.Simulator(given, 0.01, device="cpu")
    simulator.parameters["inertia"] = 1.5 * given.parameters["inertia"]
    with pytest.raises(sim.ModelError, match="'inertia' of link 'base' "):
        simulator.parameters["inertia"] = -given.parameters["inertia"]


@pytest.mark.parametrize("seed", range(20))
def test_semidefinite_is_what_the_eigenvalues_say(seed):
    rng = np.random.default_rng(seed)
    moments = rng.uniform(-1.0, 1.0, (50, 3)) * 10.0 ** rng.uniform(-8.0, 4.0, (50, 1))
    turns, _ = np.linalg.qr(rng.normal(size=(50, 3, 3)))
    inertia = turns @ (moments[:, :, None] * np.swapaxes(turns, 1, 2))
    share = np.linalg.eigvalsh(inertia)[:, 0] / np.abs(inertia).max(axis=(1, 2))
    clear = np.abs(share + INDEFINITE) > 1e-6
    np.testing.assert_array_equal(is_semidefinite(inertia, np.zeros(50))[clear], (share > -INDEFINITE)[clear])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_indefinite_inertia_given_on_a_device_makes_its_world_bad(dtype, device, monkeypatch):
    """The CPU's memory is taken for that of a GPU where there is none. Nothing is read on the host."""
    monkeypatch.setattr(Settings, "keeps_on_device", True)
    scene = sim.ModelBuilder()
    scene.add_box(half_extents=(0.1, 0.2, 0.3), mass=1.0, position=(0.0, 0.0, 1.0))
    given = scene.finalize(dtype)
    simulator = sim.Simulator(given, 0.01, 4, device)
    values = torch.tensor(np.stack([given.parameters["inertia"]] * 4), dtype=getattr(torch, dtype), device=device)
    values[1, 0] = torch.tensor(turned((0.01, 0.02, -0.004)))
    values[3, 0] = torch.tensor(turned((0.01, 0.01, 0.0)))
    simulator.parameters["inertia"] = values
    assert simulator.parameters.out_of_range == {"inertia": 1}
    with contextlib.suppress(sim.ModelError):  # without waiting for a GPU there is none
        simulator.rollout(simulator.initial_state(), steps=2)
    assert simulator.bad_worlds == {1: 0}
