"""Springs of spherical and free joints in a step: MuJoCo's motion, closed forms, energy, gradients, files."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch
from pxr import Sdf, Usd, UsdPhysics
from scipy.spatial.transform import Rotation

import sim
import sim.torch
from sim.exporters import write_mjcf
from sim.usd import write_usd
from tests.dynamics.test_pose_springs import MJCF, forces, model, turned_by
from tests.errors import raises_naming, strictly
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import assert_same_state, data_at
from tests.simulation.differences import METHODS, case, check
from tests.simulation.test_linearisation import check_linearisation
from tests.simulation.test_step_lanes import BETWEEN, run
from warp_kernels.types import LANES

H = 1 / 240
FREE_MOTION = sim.HardContact(max_contacts=0)


def total_energy(found: sim.Model, trajectory: sim.Trajectory) -> np.ndarray:
    q, qd = trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]
    return sim.kinetic_energy(found, q, qd).numpy() + sim.potential_energy(found, q).numpy()


def pendulum(stiffness: float, damping: float = 0.0, rest: tuple[float, ...] | None = None) -> sim.Model:
    """A rod of 1 kg on a ball joint, with 0.1 kg m^2 about horizontal axes through it and its centre at 0.3 m."""
    builder = sim.ModelBuilder()
    builder.add_link("rod", mass=1.0, com=(0, 0, -0.3), inertia=(0.01, 0.01, 0.002))
    spring = sim.Spring(stiffness=stiffness, damping=damping, rest=rest)
    builder.add_joint("ball", "spherical", child="rod", spring=spring)
    return builder.finalize("float64")


@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicit", "implicitfast"])
def test_motion_is_that_of_mujoco(integrator, tmp_path):
    """One step and one second."""
    text = MJCF.replace('timestep="0.002"', f'timestep="0.002" integrator="{integrator}"')
    (tmp_path / "sprung.xml").write_text(text)
    found, peer = load_quietly(tmp_path / "sprung.xml"), mujoco.MjModel.from_xml_string(text)
    q, qd = turned_by(found, 1.2), np.random.default_rng(1).normal(size=found.nv)
    simulator = sim.Simulator(found, **sim.mujoco_settings(found), num_worlds=1, device="cpu")
    assert simulator.integrator == integrator.lower()
    for steps, bound in ((1, 1e-13), (500, 1e-9)):
        data = data_at(peer, found, q, qd)
        mujoco.mj_step(peer, data, steps)
        state = simulator.rollout(simulator.state(q, qd), steps=steps).final_state
        assert_same_state(found, state, data, qpos_atol=bound, qvel_atol=100.0 * bound)
    still = data_at(peer, found, q, qd)
    peer.jnt_stiffness[:] = 0.0
    mujoco.mj_step(peer, still, 500)
    assert np.abs(still.qpos - data.qpos).max() > 0.1


@pytest.mark.parametrize("integrator", ["euler", "midpoint"])
@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 0, 1)])
def test_small_oscillations(axis, integrator):
    """Those of a hinge: gravity adds its stiffness about a horizontal axis, but not about the vertical one."""
    stiffness, amplitude, dt, steps = 5.0, 1e-3, 1e-3, 300
    found, level = pendulum(stiffness), axis[2] == 0
    weight, inertia = (9.81 * 0.3, 0.1) if level else (0.0, 0.002)
    simulator = sim.Simulator(found, dt, 1, "cpu", FREE_MOTION, integrator=integrator)
    q = Rotation.from_rotvec(amplitude * np.array(axis)).as_quat()
    trajectory = simulator.rollout(simulator.state(q, np.zeros(3)), steps=steps)
    angle = Rotation.from_quat(trajectory.q.numpy()[:, 0]).as_rotvec() @ axis
    # The same steps of the coordinate of a hinge: its spring is implicit, and in the middle weighted.
    early, ahead, late = 0.0, 1.0, 1.0
    if integrator == "midpoint":
        ratio = dt * dt * stiffness / inertia
        early, ahead = 0.5, ratio / (1.0 + ratio)
        late = 0.25 + 0.75 * ahead
    x, v, expected = amplitude, 0.0, [amplitude]
    for _ in range(steps):
        x += early * dt * v
        force = -stiffness * (x + dt * ahead * v) - weight * x
        v += dt * force / (inertia + dt * dt * late * stiffness)
        x += (1.0 - early) * dt * v
        expected.append(x)
    np.testing.assert_allclose(angle, expected, rtol=0, atol=1e-5 * amplitude)
    if level:
        wave = np.cos(np.sqrt((stiffness + weight) / inertia) * dt * np.arange(steps + 1))
        np.testing.assert_allclose(angle, amplitude * wave, rtol=0, atol=0.01 * amplitude)


def test_midpoint_is_of_second_order_and_holds_the_energy():
    """Ball joints in a chain and a free body whose springs turn them by more than a radian."""
    found = model()
    q, qd = turned_by(found, 1.0), np.zeros(found.nv)
    peer = sim.Simulator(found, 1e-4, 1, "cpu", sim.MujocoContact(max_contacts=0), integrator="rk4")
    parameters = {"damping": np.zeros(found.nv)}
    peer.parameters.update(parameters)
    exact = peer.rollout(peer.state(q, qd), steps=5000).final_state.q.numpy()[0]
    errors, losses = [], []
    for dt in (0.001, 0.0005):
        simulator = sim.Simulator(found, dt, 1, "cpu", FREE_MOTION, parameters, integrator="midpoint")
        trajectory = simulator.rollout(simulator.state(q, qd), steps=round(0.5 / dt))
        errors.append(np.abs(sim.difference(found, exact, trajectory.q.numpy()[-1, 0]).numpy()).max())
        energy = total_energy(found, trajectory)
        losses.append(np.abs(energy - energy[0]).max())
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert errors[1] < 2e-4
    assert losses[0] / losses[1] > 3.5
    assert losses[1] < 1e-5 * energy[0]


@pytest.mark.parametrize("integrator", ["euler", "midpoint"])
@pytest.mark.parametrize("angle", [0.5, 3.0])
def test_stiff_springs_settle(angle, integrator):
    """With a stiffness that an explicit step of this size would blow up by, from nearly half a turn away."""
    bent = Rotation.from_rotvec(angle * np.array([0.6, 0.0, 0.8]))
    found = pendulum(1e6, rest=tuple(bent.as_quat()))
    assert H * np.sqrt(1e6 / 0.002) > 90.0
    simulator = sim.Simulator(found, H, 1, "cpu", FREE_MOTION, integrator=integrator)
    state = simulator.rollout(simulator.state(found.q0, np.ones(3)), steps=300).final_state
    np.testing.assert_allclose(state.qd.numpy()[0], 0.0, atol=1e-6)
    away = bent.inv() * Rotation.from_quat(state.q.numpy()[0])
    np.testing.assert_allclose(away.as_rotvec(), 0.0, atol=1e-5)


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("angle", [0.0, 1e-9, 1.0, 3.1])
@pytest.mark.parametrize(
    ("law", "integrator"),
    [("hard", "euler"), ("hard", "midpoint"), ("mujoco", "euler"), ("mujoco", "rk4"), ("mujoco", "implicit")],
)
def test_gradients(law, integrator, angle, uneven):
    found, rng = model(uneven), np.random.default_rng(6)
    speed = 0.2 if angle > 3.0 else 1.0  # no spring passes half a turn
    given = case(found, 3, q=turned_by(found, angle), qd=speed * rng.normal(size=found.nv), contact=METHODS[law]())
    check(replace(given, integrator=integrator), ("stiffness", "rest_position", "damping", "armature", "mass"))


@pytest.mark.parametrize("stiffness", [1e-6, 1e4])
@pytest.mark.parametrize("integrator", ["euler", "midpoint"])
def test_gradients_of_soft_and_stiff_springs(integrator, stiffness):
    """The weights of a midpoint step depend on the stiffness."""
    found = pendulum(stiffness, damping=0.01, rest=tuple(Rotation.from_rotvec([0.3, -0.2, 0.1]).as_quat()))
    given = case(found, 4, qd=np.array([1.0, -2.0, 0.5]), contact=FREE_MOTION)
    check(replace(given, integrator=integrator), ("stiffness", "rest_position", "damping", "mass"))


@pytest.mark.parametrize("integrator", ["euler", "midpoint"])
def test_matrices_of_a_step(integrator):
    found, rng = model(), np.random.default_rng(7)
    simulator = sim.Simulator(found, H, device="cpu", integrator=integrator)
    check_linearisation(
        simulator, simulator.state(turned_by(found, 1.0), rng.normal(size=found.nv)), rng.normal(size=found.nv)
    )


@pytest.mark.cpu_shapes  # a GPU has no lane groups
@pytest.mark.parametrize("integrator", ["euler", "midpoint"])
def test_lane_groups_as_single_worlds(integrator, monkeypatch):
    several = run(model(), sim.HardContact(), LANES, integrator=integrator)
    monkeypatch.setattr(BETWEEN, lambda lanes, worlds: 1)
    for name, expected in run(model(), sim.HardContact(), 1, integrator=integrator).items():
        size = np.abs(expected).max(initial=1e-3)
        np.testing.assert_allclose(several[name], expected, rtol=0.0, atol=1e-9 * size, err_msg=name)


def test_nothing_without_such_springs():
    """A model whose spherical and free joints have no springs has no stage, and no memory of one."""
    found = model()
    found.parameters["stiffness"][found.dof_q < 0] = 0.0
    for integrator in ("euler", "midpoint"):
        simulator = sim.Simulator(found, H, 1, "cpu", integrator=integrator)
        simulator.rollout(simulator.state(found.q0), steps=1)
        step = simulator.engine.shards[0].step
        assert step.pose_springs is None
        assert step.actuation.joint_force is step.tau


@pytest.mark.parametrize("law", ["hard", "mujoco"])
def test_parts_of_joint_forces(law):
    """Without constraints nothing is left of the balance of a step; springs pull as inverse dynamics says."""
    found, rng = model(), np.random.default_rng(8)
    simulator = sim.Simulator(found, H, 2, "cpu", METHODS[law](max_contacts=0))
    simulator.parameters["stiffness"] = found.parameters["stiffness"] * np.array([[1.0], [2.0]])
    first = torch.tensor(np.stack([turned_by(found, 1.0, seed) for seed in (2, 3)]))
    rate, tau = torch.tensor(rng.normal(size=(2, found.nv))), torch.tensor(rng.normal(size=(10, 2, found.nv)))
    q, qd = sim.torch.rollout(simulator, first, rate, tau)
    parts = sim.torch.JointForces(simulator)(q, qd, tau)
    ahead = H if law == "hard" else 0.0
    expected = forces(found, first[0].numpy())
    expected -= (found.parameters["damping"] + ahead * found.parameters["stiffness"]) * qd[1, 0].numpy()
    np.testing.assert_allclose(parts.passive[0, 0], expected, rtol=0, atol=1e-11)
    if law == "mujoco":  # the hard law has gyroscopic forces of the middle of a step
        np.testing.assert_allclose(parts.constraints, 0.0, atol=1e-8)


def test_mjcf_files_keep_them(tmp_path):
    (tmp_path / "sprung.xml").write_text(MJCF)
    first = load_quietly(tmp_path / "sprung.xml")
    again = strictly(sim.load, write_mjcf(tmp_path / "again.xml", first), dtype="float64")
    for name in ("stiffness", "rest_position", "damping"):
        np.testing.assert_allclose(again.parameters[name], first.parameters[name], atol=1e-12)
    peer = mujoco.MjModel.from_xml_path(str(tmp_path / "again.xml"))
    np.testing.assert_array_equal(np.sort(peer.jnt_stiffness), [2.0, 3.0, 8.0, 20.0])
    with raises_naming("springs", "shoulder", "loose"):
        write_mjcf(tmp_path / "moved.xml", model())
    with raises_naming("different values", "wrist"):
        write_mjcf(tmp_path / "uneven.xml", model(uneven=True))


@pytest.mark.parametrize("suffix", [".xml", ".usda"])
def test_a_placed_file_rests_where_it_is(suffix, tmp_path):
    """The reference of a free body moves along with the file. USD has its initial pose in single precision."""
    path = tmp_path / "sprung.xml"
    path.write_text(MJCF)
    builder, place = sim.ModelBuilder(), {"position": (1.0, -1.0, 2.0)}
    place["orientation"] = Rotation.from_rotvec([0.0, 0.3, 0.5]).as_quat()
    if suffix == ".usda":
        first = load_quietly(path)
        poses = sim.forward_kinematics(first, first.q0).numpy()[None]
        builder.add_usd(write_usd(path.with_suffix(suffix), first, poses, fps=1), **place)
    else:
        builder.add_mjcf(path, **place)
    found = builder.finalize("float64")
    assert forces(found, found.q0)[found.dof_q >= 0] == pytest.approx(2.0 * np.radians(20.0))
    np.testing.assert_allclose(forces(found, found.q0)[found.dof_q < 0], 0.0, atol=1e-5 if suffix == ".usda" else 1e-9)


def test_usd_files_keep_them(tmp_path):
    first = model()
    poses = sim.forward_kinematics(first, first.q0).numpy()
    again = strictly(sim.load, write_usd(tmp_path / "again.usda", first, poses[None], fps=1), dtype="float64")
    for name in ("stiffness", "rest_position", "damping"):
        np.testing.assert_allclose(again.parameters[name], first.parameters[name], atol=1e-12)
    with pytest.warns(sim.USDWarning, match="joints 'shoulder', 'wrist', 'loose': .*first degree of freedom"):
        write_usd(tmp_path / "uneven.usda", model(uneven=True), poses[None], fps=1)


@pytest.mark.parametrize("spring", ['stiffness="7"', 'springdamper="0.2 1.5"'])
def test_springs_of_balls_in_mujocos_schema(spring, tmp_path):
    """As MuJoCo has them in MJCF: where the frames of the joint coincide, a spring is at rest."""
    body = f"""<mujoco><worldbody><body name="rod" pos="0 0 2"><joint name="ball" type="ball" {spring}/>
      <inertial pos="0 0 -0.3" mass="1" diaginertia="0.01 0.01 0.002"/></body></worldbody></mujoco>"""
    peer = mujoco.MjModel.from_xml_string(body)
    plain = pendulum(0.0)
    path = write_usd(tmp_path / "ball.usda", plain, sim.forward_kinematics(plain, plain.q0).numpy()[None], fps=1)
    stage = Usd.Stage.Open(str(path))
    (joint,) = (prim for prim in stage.Traverse() if prim.IsA(UsdPhysics.SphericalJoint))
    name, values = spring.replace('"', "").split("=")
    numbers = [float(number) for number in values.split()]
    array = len(numbers) > 1
    kind = Sdf.ValueTypeNames.DoubleArray if array else Sdf.ValueTypeNames.Double
    joint.CreateAttribute(f"mjc:{name}", kind).Set(numbers if array else numbers[0])
    stage.Save()
    found = strictly(sim.load, path, dtype="float64")
    np.testing.assert_allclose(found.parameters["stiffness"], np.tile(peer.jnt_stiffness, 3), rtol=1e-12)
    np.testing.assert_allclose(found.parameters["damping"], peer.dof_damping, rtol=1e-12)
    np.testing.assert_array_equal(found.parameters["rest_position"], np.zeros(3))


@pytest.mark.parametrize("stiffness", [0.0, 9.0])
def test_edited_springs_of_balls_in_mujocos_schema(stiffness, tmp_path):
    """Another program may change a stiffness, also to zero."""
    first = pendulum(7.0)
    path = write_usd(tmp_path / "ball.usda", first, sim.forward_kinematics(first, first.q0).numpy()[None], fps=1)
    stage = Usd.Stage.Open(str(path))
    (joint,) = (prim for prim in stage.Traverse() if prim.IsA(UsdPhysics.SphericalJoint))
    assert joint.GetAttribute("mjc:stiffness").Get() == 7.0
    joint.GetAttribute("mjc:stiffness").Set(stiffness)
    stage.Save()
    found = strictly(sim.load, path, dtype="float64")
    np.testing.assert_array_equal(found.parameters["stiffness"], np.full(3, stiffness))
