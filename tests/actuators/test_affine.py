"""Affine force laws and ranges of forces that are not symmetric: closed forms, MuJoCo, gradients."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from scipy.optimize import brentq

import sim
import sim.exporters
import sim.torch
from scenes.mjcf import to_mjcf
from tests.errors import raises_naming, refuses
from tests.simulation.differences import Case, case, check, regimes

INERTIA = 0.7
LAW = {"gain": 3.0, "offset": -0.8, "kp": 40.0, "kd": 2.0, "kp_per_input": 6.0, "kd_per_input": -0.5}
GAINS = tuple(f"actuator_{name}" for name in LAW)
RANGE = ("actuator_force_centre", "actuator_force_limit")
NO_LIMIT = (-np.inf, np.inf)
RANGES = ((-3.0, 5.0), (0.4, 2.0), (-6.0, -1.5))
CONTACTS = (sim.PgsContact(sweeps=4), sim.PgsContact(sweeps=300, adjoint="implicit"), sim.HardContact())

# One joint for each law: gains and biases with constants, of length and of velocity, and ranges that lean.
MJCF = """<mujoco><option gravity="0 0 -9.81" timestep="0.002"/><worldbody>{}</worldbody>
<actuator>
  <general joint="j0" gainprm="3" biastype="affine" biasprm="0.4 -20 -1.5"/>
  <general joint="j1" gear="-2" gainprm="0.5" biastype="affine" biasprm="0 -30 0" forcerange="-0.2 1.1"/>
  <damper joint="j2" kv="1.7" ctrlrange="0 5"/>
  <general joint="j3" gaintype="affine" gainprm="2 -3 -0.4" biastype="affine" biasprm="-1 -4 -0.6"/>
  <motor jointinparent="j4" gear="1.5" forcerange="-0.3 0.7"/>
  <position joint="j5" kp="25" kv="0.8" forcerange="-2 0.5"/>
</actuator></mujoco>"""


def chain(joint: int = 0) -> str:
    if joint == 6:
        return ""
    return (
        f'<body pos="0.1 0 0.3"><joint name="j{joint}" axis="{joint % 2} 1 0.{joint}" armature="0.02"'
        f"{' actuatorfrcrange=' + chr(34) + '-0.6 9' + chr(34) if joint == 0 else ''}/>"
        f'<geom size="0.05" pos="0.02 0 0.1" mass="0.5"/>{chain(joint + 1)}</body>'
    )


def load(folder: Path, text: str) -> sim.Model:
    (folder / "model.xml").write_text(text)
    return sim.load(folder / "model.xml", dtype="float64")


def hinge(kind: str, **options: object) -> sim.Model:
    """One body on one actuated joint, without gravity."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("body", mass=INERTIA, inertia=(INERTIA, INERTIA, INERTIA))
    builder.add_joint("joint", "revolute", child="body", axis=(0.0, 0.0, 1.0))
    builder.add_actuator("joint", kind, **options)
    return builder.finalize("float64")


@pytest.mark.parametrize("force_limit", [NO_LIMIT, (-1.0, 3.0), (0.5, 2.0), (-4.0, -0.25)])
@pytest.mark.parametrize("gear", [1.0, -2.5])
@pytest.mark.parametrize(
    ("kind", "law", "u"),
    [
        ("affine", LAW, 1.2),
        ("affine", {"gain": 2.0}, 0.7),
        ("affine", {"offset": 1.5, "kd": 3.0}, 0.0),
        ("affine", {"kd_per_input": 4.0}, 1.5),
        ("torque", {}, 1.3),
        ("position", {"kp": 60.0, "kd": 3.0}, 0.4),
        ("velocity", {"kd": 5.0}, 0.9),
    ],
)
def test_step_response_is_backward_euler(kind, law, u, gear, force_limit):
    """The velocity at the end of each step solves its one equation."""
    model, dt = hinge(kind, gear=gear, force_limit=force_limit, gains=sim.Gains(**law)), 0.02
    simulator = sim.Simulator(model, dt, device="cpu")
    trajectory = simulator.rollout(simulator.state([-0.2], [0.4]), control=np.full((80, 1), u))
    found = np.stack([trajectory.q.numpy()[:, 0, 0], trajectory.qd.numpy()[:, 0, 0]], axis=1)
    gains = dict.fromkeys(LAW, 0.0) | law
    if kind != "affine":
        gains |= {"gain": {"torque": 1.0, "position": gains["kp"], "velocity": gains["kd"]}[kind]}
    kp, kd = gains["kp"] + gains["kp_per_input"] * u, gains["kd"] + gains["kd_per_input"] * u
    expected = [(-0.2, 0.4)]
    for _ in range(80):
        q, v = expected[-1]

        def surplus(x: float, q: float = q, v: float = v) -> float:
            force = gains["gain"] * u + gains["offset"] - kp * gear * (q + dt * x) - kd * gear * x
            return INERTIA * (x - v) - dt * gear * np.clip(force, *force_limit)

        x = brentq(surplus, -1e3, 1e3, xtol=1e-15, rtol=1e-15)
        expected.append((q + dt * x, x))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_forces_are_those_of_mujoco(tmp_path):
    """Every law within its range and at both ends, in random states: the forces at that state, and back from MJCF."""
    text = MJCF.format(chain())
    model = load(tmp_path, text)
    sim.exporters.write_mjcf(tmp_path / "written.xml", model)
    again = sim.load(tmp_path / "written.xml", dtype="float64")
    rng = np.random.default_rng(0)
    peer = mujoco.MjModel.from_xml_string(text)
    written = mujoco.MjModel.from_xml_path(str(tmp_path / "written.xml"))
    data, copied = mujoco.MjData(peer), mujoco.MjData(written)
    # So small a step that its end is its start.
    hard = sim.HardContact()
    simulators = [sim.Simulator(m, 1e-30, device="cpu", contact=hard) for m in (model, again)]
    at_limit = set()
    for _ in range(50):
        data.qpos[:], data.qvel[:] = rng.normal(size=(2, 6))
        data.ctrl[:] = 2.0 * rng.normal(size=6)
        copied.qpos[:], copied.qvel[:], copied.ctrl[:] = data.qpos, data.qvel, data.ctrl
        mujoco.mj_forward(peer, data)
        mujoco.mj_forward(written, copied)
        np.testing.assert_allclose(copied.qfrc_actuator, data.qfrc_actuator, rtol=1e-12)
        q, qd = (torch.tensor(np.array([[x, x]]).reshape(2, 1, 6)) for x in (data.qpos, data.qvel))
        for simulator in simulators:
            force = sim.torch.actuator_forces(simulator, q, qd, torch.tensor(data.ctrl.reshape(1, 1, 6)))
            gear = simulator.parameters["actuator_gear"]
            np.testing.assert_allclose(force.numpy()[0, 0] * gear, data.qfrc_actuator, rtol=1e-10)
        at_limit |= {(i, f) for i, f in enumerate(data.actuator_force.tolist()) if f in (-0.2, 1.1, -0.3, 0.7, -2, 0.5)}
    assert len(at_limit) == 6


def test_motion_is_that_of_mujoco(tmp_path):
    """implicitfast, with the stiffness times the step in its damping, while no range is left."""
    text = MJCF.format(chain()).replace(' forcerange="', ' user="').replace(' actuatorfrcrange="', ' user="')
    model = load(tmp_path, text)
    control = 0.2 + 0.1 * np.random.default_rng(1).normal(size=(100, 6))
    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=0.002, sweeps=50))
    data = mujoco.MjData(peer)
    simulator = sim.Simulator(model, 0.002, device="cpu", contact=sim.HardContact())
    ours = simulator.rollout(simulator.initial_state(), control=control).qd.numpy()[1:, 0]
    theirs = []
    for u in control:
        data.ctrl[:] = u
        mujoco.mj_step(peer, data)
        theirs.append(data.qvel.copy())
    assert np.abs(theirs).max() > 0.5
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10 * np.abs(theirs).max())


def affine_arm(servo: tuple[float, float], affine: tuple[float, float] = NO_LIMIT) -> sim.Model:
    """Two joints: a servo and an affine actuator, with these ranges of forces."""
    builder = sim.ModelBuilder()
    parent = "world"
    for number, axis in enumerate(((0.0, 1.0, 0.0), (1.0, 0.2, 0.0))):
        link = builder.add_link(f"l{number}", mass=1.0, com=(0.05, 0.02, 0.2), inertia=(0.02, 0.03, 0.02))
        builder.add_joint(f"j{number}", "revolute", parent=parent, child=link, position=(0, 0, 0.3), axis=axis)
        parent = link
    builder.add_actuator("j0", "position", gains=sim.Gains(kp=80.0, kd=2.0), gear=-1.5, force_limit=servo)
    builder.add_actuator("j1", "affine", gains=sim.Gains(**LAW), gear=1.2, force_limit=affine)
    return builder.finalize("float64")


def moved(
    model: sim.Model,
    control: tuple[float, ...],
    q: list[float],
    qd: list[float],
    contact: sim.ContactMethod | None = None,
) -> Case:
    inputs = np.array(control) + 0.05 * np.random.default_rng(1).normal(size=(10, model.nu))
    return replace(case(model, 10, np.array(q), np.array(qd), contact), control=inputs)


def test_gradients_within_the_range():
    c = moved(affine_arm((-60.0, 90.0), (-70.0, 60.0)), (0.2, 1.1), [0.2, -0.3], [0.5, -1.0])
    assert regimes(c) == set()
    check(c, [*GAINS, "actuator_gear", *RANGE], zero=RANGE)


@pytest.mark.parametrize("contact", CONTACTS)
@pytest.mark.parametrize("force_limit", RANGES)
def test_gradients_beyond_the_range_of_a_servo(contact, force_limit):
    c = moved(affine_arm(force_limit), (0.9, 1.4), [0.2, -0.3], [0.5, -1.0], contact)
    assert "saturated" in regimes(c)
    check(c, [*GAINS, "actuator_gear", *RANGE, "mass", "gravity"])


@pytest.mark.parametrize("contact", CONTACTS)
@pytest.mark.parametrize("force_limit", RANGES)
def test_gradients_in_and_beyond_the_range_of_an_affine_actuator(contact, force_limit):
    """Its input grows, so that its force leaves or enters the range, or both."""
    c = moved(affine_arm(NO_LIMIT, force_limit), (0.2, 0.0), [0.2, 0.0], [0.5, -1.0], contact)
    c.control[:, 1] += np.linspace(-2.5, 2.5, 10)
    assert "saturated" in regimes(c)
    check(c, [*GAINS, "actuator_gear", *RANGE, "mass", "gravity"])


@pytest.mark.parametrize(
    ("kind", "law", "u"),
    [
        ("torque", {}, -2.0),
        ("torque", {}, 2.5),
        ("affine", {"gain": 2.0, "kp_per_input": 3.0, "kd_per_input": 0.4}, -2.0),
        ("affine", {"gain": -2.0, "kp_per_input": 3.0, "kd_per_input": 0.4}, -2.0),
    ],
)
def test_gradients_of_a_force_that_takes_no_row(kind, law, u):
    """Torques, and an affine law whose stiffness and damping are negative, within its range and at one end of it."""
    c = moved(hinge(kind, gear=-1.3, force_limit=(-1.0, 1.7), gains=sim.Gains(**law)), (u,), [0.1], [0.2])
    c.control[::2] = -0.3
    assert regimes(c) == set()
    check(c, ["actuator_gear", *RANGE, *(f"actuator_{name}" for name in law)])


@pytest.mark.parametrize("given", [(1.0, -1.0), (-np.inf, 2.0), (0.0, np.inf), (np.nan, 1.0), (1.0, 2.0, 3.0), "ab"])
def test_ranges_of_forces_that_are_none(given):
    with raises_naming("actuator 'joint'", "force_limit"):
        hinge("torque", force_limit=given)


def test_gains_of_other_kinds():
    refuses(lambda: hinge("position", gains=sim.Gains(kp=1.0, offset=2.0)), "position", "offset")
    simulator = sim.Simulator(hinge("torque"), 0.01, device="cpu")
    with raises_naming("'actuator_gain'", "zero", "actuator 'joint'", "torque"):
        simulator.parameters["actuator_gain"] = 1.0


def test_gradients_checked_on_a_users_scene():
    simulator = sim.Simulator(affine_arm((-3.0, 5.0), (-3.0, 5.0)), 1 / 240, device="cpu")
    report = sim.check_gradients(
        simulator, simulator.initial_state(), wrt=[*GAINS, *RANGE], control=np.full((4, 2), 0.9), most=30
    )
    report.raise_if_wrong()
    # Gains for the affine actuator alone, ranges for both.
    assert sum(entry.entry.argument == "actuator_offset" for entry in report.entries) == 1
    assert sum(entry.entry.argument == "actuator_force_centre" for entry in report.entries) == 2
