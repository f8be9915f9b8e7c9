"""Muscles: MuJoCo, gradients, files, messages."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import sim
import sim.torch
from sim.model.tendons.muscles import MUSCLE_PARAMETERS
from tests.actuators.files import require_same_actuators, with_forces_read, written_and_read
from tests.errors import raises_naming, refuses
from tests.simulation.differences import Case, check

# Muscles on joints and tendons, one with a smooth change of its time constant, one without passive force, and one
# whose peak force follows from the inertia; a filter and no state in place of their activation; an ordinary motor.
MJCF = """<mujoco><option timestep="0.005" integrator="{integrator}"/>
<worldbody><site name="s0" pos="0.02 0 0.1"/><body><joint name="a" axis="0 1 0" damping="0.3" armature="0.05"/>
  <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/>
  <site name="s1" pos="0.1 0 0.02"/>
  <body pos="0.3 0 0"><joint name="b" axis="0 1 0" damping="0.2" armature="0.05"/><site name="s2" pos="0.1 0 0.03"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/></body></body>
</worldbody>
<tendon><spatial name="flexor"><site site="s0"/><site site="s1"/><site site="s2"/></spatial>
  <spatial name="short"><site site="s1"/><site site="s2"/></spatial></tendon>
<actuator>
  <muscle name="flexor" tendon="flexor" lengthrange="0.1 0.5" force="20" timeconst="0.02 0.06" range="0.6 1.2"/>
  <muscle name="scaled" joint="a" lengthrange="-1 1.5" scale="30" tausmooth="0.3" gear="-1.3" fpmax="2" lmax="1.4"/>
  <motor name="motor" joint="b" ctrlrange="-1 1"/>
  <muscle name="short" tendon="short" lengthrange="0.05 0.3" force="12" forcerange="-9 9" vmax="0.8"/>
  <general name="filtered" joint="b" lengthrange="-1 1" dyntype="filter" dynprm="0.05" gaintype="muscle"
    gainprm="0.75 1.05 5 1 0.4 1.8 2 1 1.5" biastype="none" actearly="true"/>
  <general name="direct" tendon="flexor" lengthrange="0.1 0.5" gaintype="muscle" biastype="muscle"
    gainprm="0.75 1.05 4 1 0.4 1.8 2 1.1 1.3" biasprm="0.6 1.3 3 1 0.4 1.8 2 1.2 1.3" ctrlrange="0 1"/>
</actuator>
<keyframe><key name="bent" qpos="0.1 0.3" act="0.1 0.2 0.3 0.4" ctrl="0 0.2 0.4 0.6 0.8 1"/></keyframe></mujoco>"""
NAMES = ("flexor", "scaled", "motor", "short", "filtered", "direct")


def load(folder: Path, integrator: str = "Euler") -> sim.Model:
    (folder / "muscles.xml").write_text(with_forces_read(MJCF.format(integrator=integrator), NAMES))
    return sim.load(folder / "muscles.xml", dtype="float64")


def start(seed: int = 3) -> tuple[np.ndarray, ...]:
    """Coordinates, velocities and activations of a state, and inputs beyond their range."""
    rng = np.random.default_rng(seed)
    return 0.4 * rng.normal(size=2), rng.normal(size=2), rng.uniform(0.0, 1.0, 4), rng.uniform(-0.2, 1.2, (60, 6))


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_motions_and_forces_are_those_of_mujoco(tmp_path, integrator):
    model = load(tmp_path, integrator)
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "muscles.xml"))
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    data = mujoco.MjData(peer)
    data.qpos, data.qvel, data.act, control = start()
    q, qd, act = (torch.tensor(each[None].copy()) for each in (data.qpos, data.qvel, data.act))
    motion = sim.torch.rollout(
        simulator, q, qd, control=torch.tensor(control[:, None]), act=act, sensors=sim.torch.Sensors(simulator)
    )
    forces = []
    for given in control:
        data.ctrl = given
        mujoco.mj_step(peer, data)
        forces.append(data.sensordata.copy())
    largest = np.abs(forces).max(axis=0)
    assert (largest > 0.5).all()
    np.testing.assert_allclose(motion.readings[:, 0].numpy() / largest, forces / largest, atol=1e-11)
    for name, expected in (("q", data.qpos), ("qd", data.qvel), ("act", data.act)):
        np.testing.assert_allclose(getattr(motion, name)[-1, 0].numpy(), expected, atol=1e-11)


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_gradients(tmp_path, law):
    model = load(tmp_path)
    contact = sim.HardContact() if law == "hard" else sim.MujocoContact()
    q, qd, act, control = start(1)
    control = np.clip(control[:6], 0.05, 0.95)
    tau = 0.1 * np.random.default_rng(1).normal(size=(6, 2))
    names = [name for name in MUSCLE_PARAMETERS.values() if "passive" not in name]
    times = ("actuator_time_constant", "actuator_fall_time", "actuator_smoothing", "actuator_gear")
    check(Case(model, q, qd, tau, contact, 0.005, control, act=act), (*names, *times))


def test_gradients_of_stretched_fibres(tmp_path):
    model = load(tmp_path)
    _, qd, act, control = start(2)
    q, tau = np.array([-0.9, 0.6]), np.zeros((4, 2))
    names = [f"actuator_muscle_{name}" for name in ("passive_force", "passive_scale", "passive_shift", "longest")]
    check(Case(model, q, qd, tau, sim.HardContact(), 0.005, np.clip(control[:4], 0.05, 0.95), act=act), names)


def test_linearisation_and_worlds_with_their_own_muscles(tmp_path):
    model = load(tmp_path)
    name, (q, qd, act, control) = "actuator_muscle_peak_force", start()
    forces = model.parameters[name] * np.linspace(0.5, 2.0, 3)[:, None]
    simulator = sim.Simulator(model, 0.005, num_worlds=3, device="cpu", parameters={name: forces})
    together = simulator.rollout(simulator.state(q, qd, act), control=control[:10]).final_state.q.numpy()
    for world, own in enumerate(forces):
        alone = sim.Simulator(model, 0.005, device="cpu", parameters={name: own})
        end = alone.rollout(alone.state(q, qd, act), control=control[:10]).final_state.q.numpy()
        np.testing.assert_allclose(together[world], end[0], atol=1e-13)
    x = np.concatenate([q, qd, act])

    def after(x: np.ndarray) -> np.ndarray:
        state = alone.step(alone.state(x[:2], x[2:4], x[4:]), control=control[:1])
        return np.concatenate([array.numpy()[0] for array in (state.q, state.qd, state.act)])

    found = alone.linearise(alone.state(q, qd, act), control=control[:1]).A[0]
    expected = np.transpose([(after(x + row) - after(x - row)) / 2e-6 for row in 1e-6 * np.eye(8)])
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("suffix", ["usda", "xml"])
def test_files_keep_muscles(tmp_path, suffix):
    model = load(tmp_path)
    require_same_actuators(model, written_and_read(model, tmp_path / f"again.{suffix}"))


@pytest.mark.parametrize(
    ("law", "word"),
    [
        ('biastype="affine"', "passive force"),
        ('biastype="muscle" biasprm="0.75 1.05 2 1 0.5 1.9 1.5 1 1.2"', "lmax"),
        ("fvmax", "lengthening_force"),
    ],
)
def test_muscles_of_other_laws_are_left_out_by_name(tmp_path, law, word):
    numbers = 'gaintype="muscle" gainprm="0.75 1.05 1 1 0.5 1.6 1.5 1 1.2" lengthrange="0.1 1"'
    own = f'<general name="m" joint="a" {numbers} {law}/>'
    if law == "fvmax":
        own = '<muscle name="m" joint="a" lengthrange="0.1 1" force="1" fvmax="0.9"/>'
    (tmp_path / "muscle.xml").write_text(
        '<mujoco><worldbody><body><joint name="a"/><geom size=".1"/></body></worldbody>'
        f"<actuator>{own}</actuator></mujoco>"
    )
    with pytest.warns(sim.MJCFWarning, match=rf"actuator 'm' .line 1.*{word}"):
        model = sim.load(tmp_path / "muscle.xml")
    assert model.nu == 0


def test_messages_name_the_muscle(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("hinge", "revolute", child="body")
    muscle = sim.Muscle(peak_force=1.0, fibre_length=1.0, slack_length=0.0)
    refuses(lambda: builder.add_actuator("hinge", "muscle"), "hinge", "muscle")
    refuses(lambda: builder.add_actuator("hinge", "torque", muscle=muscle), "hinge", "torque")
    refuses(lambda: builder.add_actuator(frame="body", force_axis=(1, 0, 0), kind="muscle", muscle=muscle), "tendon")
    refuses(lambda: sim.Muscle(peak_force=1.0, fibre_length=0.0, slack_length=0.0), "fibre_length", 0.0)
    refuses(lambda: sim.Muscle(peak_force=1.0, fibre_length=1.0, slack_length=0.0, shortest=1.5), "shortest", 1.5)
    refuses(lambda: sim.Activation("muscle", time_constant=0.1), "fall_time")
    refuses(lambda: sim.Activation("filter", time_constant=0.1, smoothing=0.1), "smoothing", "filter")
    model = load(tmp_path)
    with raises_naming("motor", "actuator_muscle_speed"):
        sim.Simulator(model, 0.005, parameters={"actuator_muscle_speed": np.ones(6)}, device="cpu")
    with raises_naming("flexor", "actuator_fall_time"):
        sim.Simulator(model, 0.005, parameters={"actuator_fall_time": np.zeros(6)}, device="cpu")
    for name, value in (("longest", 0.8), ("shortest", 1.2), ("lengthening_force", 0.5)):
        simulator = sim.Simulator(model, 0.005, device="cpu")
        changed = model.parameters[f"actuator_muscle_{name}"].copy()
        changed[3] = value
        with raises_naming("short", f"actuator_muscle_{name}", 1):
            simulator.parameters[f"actuator_muscle_{name}"] = changed
    with raises_naming("implicitfast", "flexor"):
        sim.Simulator(model, 0.005, contact=sim.MujocoContact(), integrator="implicitfast", device="cpu")
