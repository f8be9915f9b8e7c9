"""Points, welds and couplings that are switched on and off in each world, and their gradients."""

import mujoco
import numpy as np
import pytest

import sim
from tests.contact.worlds import G
from tests.errors import raises_naming
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import blocks, case, check

DT = 1 / 240


def lifted(active: bool | None = False, welded: bool = True, dtype: str = "float64") -> sim.Model:
    """A box in the air below a slide that a motor holds; suction may hold the box."""
    builder = sim.ModelBuilder()
    builder.add_link("cup", mass=1.0, inertia=(0.01, 0.01, 0.01))
    builder.add_joint("slide", "prismatic", child="cup", position=(0, 0, 1.0), axis=(0, 0, 1))
    builder.add_box(name="box", half_extents=(0.1, 0.1, 0.1), mass=0.5, position=(0.02, 0, 0.8))
    add = builder.add_weld_constraint if welded else builder.add_point_constraint
    add("suction", "cup", "box", position_a=(0, 0, -0.1), active=active)
    return builder.finalize(dtype)


def holding(model: sim.Model, worlds: int, steps: int) -> np.ndarray:
    """Forces that hold cup and box [steps, worlds, nv]."""
    tau = np.zeros((steps, worlds, model.nv))
    tau[..., 0] = 1.5 * G
    return tau


@pytest.mark.parametrize("contact", [sim.HardContact(), sim.PgsContact(), sim.MujocoContact()])
@pytest.mark.parametrize("welded", [True, False])
def test_each_world_is_one_without_or_with_it(welded, contact):
    """In 16 worlds, in lane groups: those that are off move as if the constraint weren't there."""
    model, steps = lifted(welded=welded), 12
    simulator = sim.Simulator(model, DT, 16, "cpu", contact)
    on = np.arange(16) % 3 == 0
    sim.attach(simulator, simulator.initial_state(), "suction", worlds=on)
    tau = holding(model, 16, steps)
    q = simulator.rollout(simulator.initial_state(), tau).q.numpy()[-1]
    always = sim.Simulator(lifted(None, welded), DT, 1, "cpu", contact)
    held = always.rollout(always.initial_state(), tau[:, :1]).q.numpy()[-1]
    np.testing.assert_allclose(q[on], held.repeat(on.sum(), axis=0), atol=1e-9)
    fall = G * DT**2 * steps * (steps + 1) / 2
    np.testing.assert_allclose(q[~on, 3], 0.8 - fall, atol=1e-9)


def test_attached_at_the_present_pose():
    """A box that has fallen is held where it is, and let go again; the speed after a lock is that of both masses."""
    model = lifted()
    simulator = sim.Simulator(model, DT, 1, "cpu", sim.PgsContact())
    state = simulator.initial_state()
    for _ in range(10):
        state = simulator.step(state, holding(model, 1, 1)[0] * (2 / 3))
    height, speed = state.q.numpy()[0, 3], state.qd.numpy()[0, 3]
    assert speed < -0.3
    sim.attach(simulator, state, "suction")
    state = simulator.step(state, holding(model, 1, 1)[0])
    np.testing.assert_allclose(state.qd.numpy()[0, [0, 3]], speed / 3, atol=1e-9)
    assert simulator.constraint_error[0] < 1e-6
    np.testing.assert_allclose(state.q.numpy()[0, 3], height + DT * speed / 3, atol=1e-6)
    sim.detach(simulator, "suction")
    after = simulator.step(state, holding(model, 1, 1)[0])
    np.testing.assert_allclose(after.qd.numpy()[0, 3], state.qd.numpy()[0, 3] - G * DT, atol=1e-9)
    assert blocks(simulator) == []


def geared(active: bool | None) -> sim.Model:
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for number, name in enumerate("ab"):
        builder.add_link(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"hinge_{name}", "revolute", child=name, position=(number, 0, 0), axis=(0, 0, 1))
    builder.add_joint_coupling("hinge_b", "hinge_a", ratio=2.0, offset=0.3, active=active)
    return builder.finalize("float64")


def test_a_clutch():
    model = geared(False)
    assert model.q0.tolist() == [0.0, 0.0]  # those of a coupling that is off are free
    simulator = sim.Simulator(model, DT, 2, "cpu", sim.PgsContact())
    state = simulator.state(np.array([0.1, -0.4]), np.array([1.0, 0.0]))
    sim.attach(simulator, state, ["hinge_b"], worlds=[1])
    end = simulator.step(state)
    np.testing.assert_allclose(end.qd.numpy(), [[1.0, 0.0], [0.2, 0.4]], atol=1e-9)
    np.testing.assert_allclose(simulator.parameters["coupling_offset"], [[0.3], [-0.6]])


@pytest.mark.parametrize("active", [True, False])
def test_gradients(active):
    """Of what is on; the anchors of what is off have none."""
    model = lifted(active)
    c = case(model, 6, qd=[0.1, 0.2, -0.1, 0.3, 0.5, -0.4, 0.2], force=0.3)
    anchors = ["anchor_a", "anchor_b"]
    check(c, ["mass", "com", *anchors], zero=[] if active else anchors)


XML = """
<mujoco>
  <option timestep="0.003" cone="elliptic" tolerance="0" iterations="200"/>
  <worldbody>
    <body name="a" pos="0 0 1"><joint name="turn" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04"/></body>
    <body name="b" pos="0.5 0.3 1.2"><joint name="twist" axis="1 0 0"/><geom type="box" size="0.1 0.2 0.05"/></body>
    <body name="c" pos="0.5 0.9 1"><freejoint/><geom type="box" size="0.1 0.06 0.05"/></body>
  </worldbody>
  <equality>
    <connect name="pin" body1="a" body2="b" anchor="0.4 0.01 0" active="{0}"/>
    <weld name="bond" body1="b" body2="c" active="{1}"/>
    <joint name="follow" joint1="twist" joint2="turn" polycoef="0.1 -1.5 0 0 0" active="{2}"/>
  </equality>
</mujoco>
"""


@pytest.mark.parametrize("active", [(True, False, False), (False, True, False), (False, False, True)])
def test_as_in_mujoco(tmp_path, active):
    """The file's ``active``, switched in the next step, and written again; with MuJoCo's forces."""
    path = tmp_path / "scene.xml"
    path.write_text(XML.format(*(str(each).lower() for each in active)))
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    qd = np.cos(1.7 * np.arange(model.nv))
    data = data_at(peer, model, model.q0, qd)
    state = simulator.state(model.q0, qd)
    for switched in (active, active[::-1]):
        data.eq_active[:] = switched
        mujoco.mj_step(peer, data)
        simulator.parameters.update({"anchor_active": switched[:2], "coupling_active": switched[2:]})
        state = simulator.step(state)
        _, qvel = sim.to_mujoco(model, state.q.numpy()[0], state.qd.numpy()[0])
        np.testing.assert_allclose(qvel, data.qvel, atol=1e-10)
        for name, on in zip(("pin", "bond"), switched[:2], strict=True):
            expected = -data.efc_force[:3] if on else np.zeros(3)  # MuJoCo's acts on the first body
            np.testing.assert_allclose(simulator.constraint_force[name][0, :3], expected, atol=1e-6)
    again = load_quietly(sim.exporters.write_mjcf(tmp_path / "again.xml", model))
    for name in ("anchor_active", "coupling_active"):
        np.testing.assert_array_equal(again.parameters[name], model.parameters[name])


def test_usd(tmp_path):
    model = lifted()
    path = tmp_path / "scene.usda"
    sim.usd.write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy()[None], fps=30)
    assert sim.load(path).parameters["anchor_active"].tolist() == [0.0]


def test_errors():
    fixed = sim.Simulator(lifted(None), DT, device="cpu")
    assert "anchor_active" not in fixed.parameters
    with raises_naming("attach", "no constraint of the model switches"):
        sim.attach(fixed, fixed.initial_state(), "suction")
    simulator = sim.Simulator(lifted(), DT, 2, device="cpu")
    with raises_naming("detach", "no constraint 'glue'", "suction"):
        sim.detach(simulator, "glue")
    with raises_naming("worlds", "out of bounds"):
        sim.detach(simulator, "suction", worlds=[5])
    with raises_naming("constraint 'a'", "active", "True, False or None"):
        sim.ModelBuilder().add_point_constraint("a", "world", "b", active=1)


def test_an_input_of_each_step():
    """Over a rollout as in steps with parameters; the trajectory keeps it for the backward pass."""
    model, steps = lifted(), 9
    active = np.zeros((steps, 2, 1))
    active[:4, 0], active[3:7, 1] = 1.0, 1.0
    simulator = sim.Simulator(model, DT, 2, "cpu")
    tau = holding(model, 2, steps)
    whole = simulator.rollout(simulator.initial_state(), tau, active=active, checkpoint_interval=3)
    state = simulator.initial_state()
    for step in range(steps):
        if step % 2:
            simulator.parameters["anchor_active"] = active[step]
        state = simulator.step(state, tau[step], active=None if step % 2 else active[step])
    np.testing.assert_array_equal(whole.final_state.q.numpy(), state.q.numpy())
    assert np.ptp(state.q.numpy()[:, 3]) > 1e-3
    once = simulator.rollout(simulator.initial_state(), tau, active=active)
    bars = np.ones((2, model.nq)), np.ones((2, model.nv))
    simulator.parameters["anchor_active"] = 0.0
    found = [each.backward(*bars, ["mass"]) for each in (whole, once)]
    np.testing.assert_array_equal(found[0].tau.numpy(), found[1].tau.numpy())
    change = np.zeros_like(tau)
    change[1, :, 0] = 1e-4
    ends = [
        simulator.rollout(simulator.initial_state(), tau + sign * change, active=active).final_state for sign in (1, -1)
    ]
    rises = [(each.q.numpy().sum(axis=1) + each.qd.numpy().sum(axis=1)) for each in ends]
    np.testing.assert_allclose(found[0].tau.numpy()[1, :, 0], (rises[0] - rises[1]) / 2e-4, rtol=1e-6)
    with raises_naming("active has shape", "expected"):
        simulator.rollout(simulator.initial_state(), tau, active=np.ones((steps, 2, 3)))


@pytest.mark.parametrize("contact", [sim.HardContact(), sim.PgsContact(), sim.MujocoContact()])
@pytest.mark.parametrize("welded", [True, False])
def test_forces_at_rest(welded, contact):
    """The weight of what hangs, and the moment of its lever; reports follow the input, not the parameters."""
    model = lifted(welded=welded)
    simulator = sim.Simulator(model, DT, 2, "cpu", contact)
    assert not simulator.constraint_force["suction"].any()
    q0 = model.q0.copy()
    if not welded:  # straight below
        q0[1] = 0.0
        sim.attach(simulator, simulator.state(q0), "suction")
    active = np.tile([[1.0], [0.0]], (200, 1, 1))
    simulator.rollout(simulator.state(q0), holding(model, 2, 200), active=active)
    weight, found = 0.5 * G, simulator.constraint_force["suction"]
    np.testing.assert_allclose(found[0, :3], [0, 0, weight], atol=1e-4)
    np.testing.assert_allclose(found[0, 3:], [0, -0.02 * weight * welded, 0], atol=2e-3)
    assert not found[1].any()
    assert simulator.constraint_error[0] < 1e-3
    assert simulator.constraint_error[1] == 0.0


@pytest.mark.parametrize("contact", [sim.HardContact(), sim.PgsContact(), sim.MujocoContact()])
def test_forces_of_couplings_and_tendons(contact):
    """A weight on a rope at its limit, one on a tied rope, a gear that is driven and held, in two worlds."""
    builder = sim.ModelBuilder()
    for number, name in enumerate(("limited", "tied")):
        builder.add_link(name, mass=2.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"{name}_slide", "prismatic", child=name, position=(number, 0, 0), axis=(0, 0, 1))
        upper = 1.0 if name == "limited" else np.inf
        path = [("world", (number, 0, 1)), (name, (0, 0, 0))]
        builder.add_spatial_tendon(f"{name}_rope", path, limits=(0.0, upper))
    builder.add_tendon_coupling("knot", "tied_rope")
    for number, name in enumerate("ab"):
        builder.add_link(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"hinge_{name}", "revolute", child=name, position=(number, 1, 0), axis=(0, 0, 1))
    builder.add_joint_coupling("hinge_b", "hinge_a", ratio=2.0)
    model = builder.finalize("float64")
    tau = np.zeros((2, model.nv))
    tau[1, model.qd_slice("hinge_a")], tau[1, model.qd_slice("limited_slide")] = 1.0, -3.0
    simulator = sim.Simulator(model, 1e-3, 2, "cpu", contact)
    simulator.rollout(simulator.initial_state(), tau[None].repeat(200, axis=0))
    force, weight = simulator.constraint_force, 2.0 * G
    assert sorted(force) == ["hinge_b", "knot", "limited_rope", "tied_rope"]
    np.testing.assert_allclose(force["limited_rope"], [-weight, -weight - 3.0], rtol=1e-3)
    np.testing.assert_allclose(force["knot"], [-weight, -weight], rtol=1e-3)
    np.testing.assert_allclose(force["tied_rope"], 0.0)
    # b turns at twice the acceleration 1 / 0.5 of a.
    np.testing.assert_allclose(force["hinge_b"], [0.0, 0.1 * 2.0 * 2.0], rtol=1e-3, atol=1e-9)


def test_forces_of_one_name():
    """The name is the weld's; the joint that follows, the coupling and the tendon are told apart by their kinds."""
    builder = sim.ModelBuilder()
    for number, name in enumerate(("same", "other")):
        builder.add_link(name, mass=2.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(name, "prismatic", child=name, position=(number, 0, 0), axis=(0, 0, 1))
        builder.add_fixed_tendon("same" if number else "free", {name: 1.0}, friction_loss=3.0)
    builder.add_tendon_coupling("same", "free")
    builder.add_joint_coupling("same", "other")
    builder.add_sphere(radius=0.1, mass=0.5, position=(0, 0, 1), name="load")
    builder.add_weld_constraint("same", "world", "load")
    simulator = sim.Simulator(builder.finalize("float64"), 1e-3, device="cpu")
    simulator.rollout(simulator.initial_state(), steps=200)
    force = simulator.constraint_force
    assert sorted(force) == ["free", "joint/same", "same", "tendon/same", "tendon_coupling/same"]
    np.testing.assert_allclose(force["same"], [[0, 0, 0.5 * G, 0, 0, 0]], rtol=1e-3, atol=1e-6)
    # Both slides are held at rest: each tendon's force with those of the couplings carries 2 kg.
    np.testing.assert_allclose(force["tendon/same"] - force["joint/same"], 2.0 * G, rtol=1e-3)
    np.testing.assert_allclose(force["free"] + force["tendon_coupling/same"] + force["joint/same"], 2.0 * G, rtol=1e-3)


def test_check_gradients_takes_it():
    """With switches that change between steps; without them the same motion has other gradients."""
    model = lifted()
    simulator = sim.Simulator(model, DT, 2, "cpu")
    active = np.zeros((6, 2, 1))
    active[2:, 1] = 1.0
    tau, rates = holding(model, 2, 6), np.array([0.1, 0.2, -0.1, 0.3, 0.5, -0.4, 0.2])
    state = simulator.state(model.q0, rates)
    report = sim.check_gradients(simulator, state, tau, ["q", "qd", "tau", "mass"], active=active, worlds=[0, 1])
    assert not report.wrong
    felt = [e for e in report.entries if e.entry.argument == "tau" and e.world == 1]
    held = simulator.rollout(state, tau, active=active)
    rng = np.random.default_rng(0)
    bars = rng.normal(size=(2, model.nq)), rng.normal(size=(2, model.nv))
    expected = held.backward(*bars).tau.numpy()[:, 1]
    assert max(abs(e.analytic - expected[e.entry.index]) for e in felt) < 1e-9 * abs(expected).max()


ROPES = """
<mujoco>
  <option timestep="0.003" tolerance="0" iterations="200"/>
  <worldbody>
    <site name="beam" pos="0.1 0 2"/>
    <body name="a" pos="0 0 1"><joint name="rise" type="slide" axis="0 0 1"/>
      <geom type="sphere" size="0.1"/><site name="eye"/></body>
    <body name="b" pos="0.5 0 1"><joint name="turn" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04"/></body>
  </worldbody>
  <tendon>
    <spatial name="rope"><site site="beam"/><site site="eye"/></spatial>
    <fixed name="belt"><joint joint="turn" coef="0.3"/></fixed>
  </tendon>
  <equality>
    <tendon name="brake" tendon1="rope" active="{0}"/>
    <tendon name="winch" tendon1="belt" tendon2="rope" polycoef="0.1 -1.5 0.2 0 0" active="{1}"/>
  </equality>
</mujoco>
"""


@pytest.mark.parametrize("active", [(True, False), (False, True)])
def test_couplings_of_tendons_as_in_mujoco(tmp_path, active):
    """The file's ``active``, switched in the next step, and written again, also to USD."""
    path = tmp_path / "scene.xml"
    path.write_text(ROPES.format(*(str(each).lower() for each in active)))
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    assert model.switch_names == ("brake", "winch")
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    qd = np.array([0.7, -1.2])
    data = data_at(peer, model, model.q0, qd)
    state = simulator.state(model.q0, qd)
    for switched in (active, active[::-1], (False, False), (True, True)):
        data.eq_active[:] = switched
        mujoco.mj_step(peer, data)
        state = simulator.step(state, active=np.array(switched, dtype=float))
        _, qvel = sim.to_mujoco(model, state.q.numpy()[0], state.qd.numpy()[0])
        np.testing.assert_allclose(qvel, data.qvel, atol=1e-10)
    poses = sim.forward_kinematics(model, model.q0[None]).numpy()[None]
    sim.usd.write_usd(tmp_path / "again.usda", model, poses, fps=30)
    for again in (sim.exporters.write_mjcf(tmp_path / "again.xml", model), tmp_path / "again.usda"):
        np.testing.assert_array_equal(load_quietly(again).parameters["tendon_coupling_active"], active)


def test_a_brake_holds_a_rope_where_it_is(tmp_path):
    """In the second of two worlds, with that world's own point of the rope."""
    path = tmp_path / "scene.xml"
    path.write_text(ROPES.format("false", "false"))
    model = load_quietly(path)
    points = model.parameters["tendon_point"][None].repeat(2, axis=0)
    points[1, 0, 2] += 0.3
    simulator = sim.Simulator(model, DT, 2, "cpu", sim.HardContact(), {"tendon_point": points})
    state = simulator.rollout(simulator.initial_state(), steps=12).final_state
    height = state.q.numpy()[:, 0]
    sim.attach(simulator, state, "brake", worlds=[1])
    held = simulator.rollout(state, steps=12).final_state.q.numpy()[:, 0]
    assert held[0] < height[0] - 0.03
    np.testing.assert_allclose(held[1], height[1], atol=1e-3)
    sim.detach(simulator, "brake")
    assert simulator.parameters["tendon_coupling_active"].tolist() == [[0, 0], [0, 0]]
