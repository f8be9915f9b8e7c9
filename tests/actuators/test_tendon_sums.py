"""Range of the sum of forces of a tendon's actuators: MuJoCo's motion, its sensors, gradients, both laws, files."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch

import sim
import sim.torch
from sim.exporters import write_mjcf
from sim.usd import write_usd
from tests.errors import raises_naming, strictly
from tests.mujoco_states import assert_same_state, data_at
from tests.simulation.differences import METHODS, case, check

# One tendon with forces of all kinds, with limits of their own, one without a range, one through points.
MJCF = """<mujoco><option timestep="0.002" integrator="{integrator}"/><worldbody>
  <site name="hook" pos="0.2 0 1.2"/>
  <body pos="0 0 1"><joint name="a" axis="0 1 0" damping="0.1"/><geom type="capsule" fromto="0 0 0 .4 0 0" size=".03"
      contype="0" conaffinity="0"/>
    <body pos=".4 0 0"><joint name="b" axis="0 1 0" damping="0.1"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"
      contype="0" conaffinity="0"/><site name="tip" pos="0.2 0 0"/></body></body>
</worldbody>
<tendon>
  <fixed name="t" actuatorfrcrange="-2 3"><joint joint="a" coef="0.5"/><joint joint="b" coef="-1"/></fixed>
  <fixed name="free"><joint joint="a" coef="1"/></fixed>
  <spatial name="cord" actuatorfrcrange="-1.5 0.5"><site site="hook"/><site site="tip"/></spatial>
</tendon>
<actuator>
  <motor name="m" tendon="t" gear="2" forcerange="-1.2 1.2"/>
  <position name="p" tendon="t" kp="8" kv="0.3" gear="-0.5"/>
  <general name="g" tendon="t" gainprm="-3" forcerange="-4 2"/>
  <motor name="f" tendon="free"/>
  <motor name="c" tendon="cord"/><velocity name="v" tendon="cord" kv="0.4" gear="1.5"/>
  <motor name="j" joint="b"/>
</actuator>
<sensor>
  <actuatorfrc name="m" actuator="m"/><actuatorfrc name="p" actuator="p"/><actuatorfrc name="g" actuator="g"/>
  <actuatorfrc name="c" actuator="c"/><actuatorfrc name="v" actuator="v"/><tendonactuatorfrc name="t" tendon="t"/>
</sensor></mujoco>"""
# Sums of the first tendon above, within and below its range, and one with a force of zero; the motor or the general
# actuator is at a limit of its own.
CONTROLS = {
    "above": (4.0, -0.1, -0.2, 0.3, -3.0, -2.0, 0.2), "within": (1.5, -0.3, 0.1, 0.3, -0.2, -0.5, 0.2),
    "below": (-6.0, -0.3, 0.5, 0.3, 2.0, 0.0, 0.2), "with a zero": (0.0, -4.0, -30.0, 0.3, -3.0, 0.0, 0.2),
}  # fmt: skip
# Sums of the last tendon, at a bound of its range.
SUMS = {"above": -1.5, "below": 0.5, "with a zero": -1.5}
PARAMETERS = (
    "tendon_force_lower", "tendon_force_upper", "actuator_gear", "actuator_kp", "actuator_kd", "actuator_gain",
    "actuator_force_limit", "actuator_force_centre", "tendon_coefficient", "tendon_point", "mass",
)  # fmt: skip


def read(folder, integrator: str = "Euler") -> tuple[sim.Model, mujoco.MjModel]:
    path = folder / "pulled.xml"
    path.write_text(MJCF.format(integrator=integrator))
    return strictly(sim.load, path, dtype="float64"), mujoco.MjModel.from_xml_path(str(path))


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
@pytest.mark.parametrize("name", CONTROLS)
def test_motion_and_sensors_are_those_of_mujoco(name, integrator, tmp_path):
    model, peer = read(tmp_path, integrator)
    ranges = [model.parameters[f"tendon_force_{side}"] for side in ("lower", "upper")]
    np.testing.assert_array_equal(ranges, [[-2, -np.inf, -1.5], [3, np.inf, 0.5]])
    q, qd, control = np.array([0.3, -0.4]), np.array([0.5, 1.0]), np.array(CONTROLS[name])
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), num_worlds=1, device="cpu")
    for steps, bound in ((1, 1e-13), (200, 1e-10)):
        data = data_at(peer, model, q, qd, ctrl=control)
        forces = []
        for _ in range(steps):
            mujoco.mj_step(peer, data)
            forces.append(data.actuator_force.copy())
        trajectory = simulator.rollout(simulator.state(q, qd), steps=steps, control=np.tile(control, (steps, 1, 1)))
        assert_same_state(model, trajectory.final_state, data, qpos_atol=bound, qvel_atol=10.0 * bound)
    if integrator == "Euler":
        states = [torch.tensor(each.numpy()) for each in (trajectory.q, trajectory.qd)]
        given = torch.tensor(control).expand(steps, 1, -1)
        found = sim.torch.actuator_forces(simulator, *states, given)[:, 0]
        np.testing.assert_allclose(found, forces, rtol=0, atol=1e-9)
    data = data_at(peer, model, q, qd, ctrl=control)
    mujoco.mj_forward(peer, data)
    bounded = data.actuator_force.copy()
    peer.tendon_actfrclimited[:] = 0
    mujoco.mj_forward(peer, data)
    assert bounded[4:6].sum() == pytest.approx(SUMS.get(name, data.actuator_force[4:6].sum()), abs=1e-12)
    assert (name == "within") == (abs(bounded[1] - data.actuator_force[1]) < 1e-12)


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize(("law", "integrator"), [("hard", "euler"), ("hard", "midpoint"), ("mujoco", "euler")])
def test_gradients(name, law, integrator, tmp_path):
    model, _ = read(tmp_path)
    given = case(model, 4, q=np.array([0.3, -0.4]), qd=[0.5, 1.0], contact=METHODS[law](), dt=0.004)
    control = np.tile(CONTROLS[name], (4, 1))
    bounds = ("tendon_force_lower", "tendon_force_upper")
    zero = bounds if name == "within" else ()
    check(replace(given, control=control, integrator=integrator), PARAMETERS, zero=zero)


def test_forces_under_both_laws(tmp_path):
    """Forces on tendons are explicit, so that both laws have the same acceleration in a first step."""
    model, _ = read(tmp_path)
    changes = []
    for law in ("hard", "mujoco"):
        simulator = sim.Simulator(model, 1e-6, 1, "cpu", METHODS[law]())
        control = np.array(CONTROLS["above"])[None, None]
        state = simulator.rollout(
            simulator.state(np.array([0.3, -0.4]), [0.5, 1.0]), steps=1, control=control
        ).final_state
        changes.append((state.qd.numpy()[0] - [0.5, 1.0]) / 1e-6)
    np.testing.assert_allclose(*changes, rtol=1e-4)


def test_damping_ends_where_the_sum_is_bounded(tmp_path):
    """The midpoint step damps gains of velocity as a constraint: forces at their bound have none left."""
    builder = sim.ModelBuilder()
    builder.add_link("cart", mass=2.0, inertia=(1, 1, 1))
    builder.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
    builder.add_fixed_tendon("belt", {"rail": 1.0}, force_range=(-3.0, 3.0))
    for number in range(2):
        builder.add_actuator(None, "velocity", tendon="belt", name=f"v{number}", gains=sim.Gains(kd=50.0))
    simulator = sim.Simulator(builder.finalize("float64"), 0.01, 1, "cpu", integrator="midpoint")
    state = simulator.rollout(simulator.state([0.0], [5.0]), steps=10, control=np.zeros((10, 1, 2))).final_state
    np.testing.assert_allclose(state.qd.numpy(), [[5.0 - 0.1 * 3.0 / 2.0]], atol=1e-12)
    rest = simulator.rollout(simulator.state([0.0], [0.01]), steps=10, control=np.zeros((10, 1, 2))).final_state
    assert 0.0 <= float(rest.qd.numpy()[0, 0]) < 0.01 * np.exp(-1.5)


def test_ranges_of_worlds(tmp_path):
    """Each world has its own; the others are as if alone."""
    model, _ = read(tmp_path)
    upper = np.array([3.0, np.inf, 0.5]) * np.array([[1.0], [0.2], [5.0]])
    q, control = np.tile([0.3, -0.4], (3, 1)), np.tile(CONTROLS["above"], (20, 3, 1))
    together = sim.Simulator(model, 0.002, 3, "cpu", parameters={"tendon_force_upper": upper})
    found = together.rollout(together.state(q, np.zeros((3, 2))), steps=20, control=control).final_state.qd.numpy()
    for world in range(3):
        one = sim.Simulator(model, 0.002, 1, "cpu", parameters={"tendon_force_upper": upper[world]})
        state = one.rollout(one.state(q[0], np.zeros(2)), steps=20, control=control[:, :1]).final_state
        np.testing.assert_allclose(found[world], state.qd.numpy()[0], rtol=0, atol=1e-12)
    assert np.ptp(found[:, 0]) > 0.01


def test_files_keep_them(tmp_path):
    model, _ = read(tmp_path)
    poses = sim.forward_kinematics(model, model.q0).numpy()[None]
    for path in (
        write_mjcf(tmp_path / "again.xml", model), write_usd(tmp_path / "again.usda", model, poses, fps=1),
    ):  # fmt: skip
        again = strictly(sim.load, path, dtype="float64")
        for name in ("tendon_force_lower", "tendon_force_upper", "actuator_gear", "actuator_force_limit"):
            np.testing.assert_allclose(again.parameters[name], model.parameters[name], err_msg=f"{path} {name}")


def test_only_where_a_tendon_has_one():
    builder = sim.ModelBuilder()
    builder.add_link("cart", mass=2.0, inertia=(1, 1, 1))
    builder.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
    for given in ((1.0, 1.0), (2.0, -1.0), (np.nan, 1.0)):
        with raises_naming("tendon 'belt'", "force_range"):
            builder.add_fixed_tendon("belt", {"rail": 1.0}, force_range=given)
    builder.add_fixed_tendon("belt", {"rail": 1.0})
    builder.add_actuator(tendon="belt")
    model = builder.finalize()
    assert "tendon_force_lower" not in model.parameters
    assert not model.bounds_sums
