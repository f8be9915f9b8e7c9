"""Springs of spherical and free joints without time: their law, MuJoCo's forces, energy, gradients, what is refused."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.dynamics.gradients import check_gradients
from tests.errors import raises_naming
from tests.importers.mjcf_zoo import load_quietly, random_state

MJCF = """<mujoco><option timestep="0.002"/><worldbody>
  <body pos="0 0 1"><joint name="shoulder" type="ball" stiffness="8" damping="0.05"/>
    <geom type="box" size=".05 .1 .2" pos="0 .1 -.3" contype="0" conaffinity="0"/>
    <body pos="0 0 -.6" euler="20 0 10"><joint name="elbow" axis="1 0 0" stiffness="2" springref="20"/>
      <geom type="box" size=".03 .04 .1" pos="0 0 -.1" contype="0" conaffinity="0"/>
      <body pos="0 0 -.3"><joint name="wrist" type="ball" stiffness="3"/>
        <geom type="box" size=".05 .03 .1" pos="0 0 -.2" contype="0" conaffinity="0"/></body></body></body>
  <body name="loose" pos="1 2 1" euler="10 20 30"><joint name="loose" type="free" stiffness="20" damping="0.1"/>
    <geom type="box" size=".05 .1 .2" pos="0 0 0.05" contype="0" conaffinity="0"/></body>
</worldbody></mujoco>"""
ANGLES = (0.0, 1e-9, 1e-3, 0.3, 2.0, 3.1)


def model(uneven: bool = False) -> sim.Model:
    """Springs that rest somewhere, between other joints and on a free body; ``uneven`` ones differ between the axes."""
    builder, inertia = sim.ModelBuilder(), (0.02, 0.03, 0.04)
    for name in ("upper", "lower", "hand", "loose"):
        builder.add_link(name, mass=0.8, com=(0.02, 0.1, -0.2), inertia=inertia)
    bent, still = (Rotation.from_rotvec(v).as_quat() for v in ([0.2, -0.3, 0.4], [0.0, 0.0, 0.0]))
    builder.add_joint(
        "shoulder",
        "spherical",
        child="upper",
        position=(0, 0, 1),
        spring=sim.Spring(stiffness=8.0, rest=bent, damping=0.1),
    )
    builder.add_joint(
        "elbow",
        "revolute",
        parent="upper",
        child="lower",
        position=(0, 0, -0.4),
        spring=sim.Spring(stiffness=2.0, rest=0.3),
    )
    builder.add_joint(
        "wrist",
        "spherical",
        parent="lower",
        child="hand",
        position=(0, 0, -0.3),
        spring=sim.Spring(stiffness=3.0, rest=still),
    )
    rest = (0.1, 0.2, 0.3, *bent)
    builder.add_joint("loose", "free", child="loose", position=(0, 1, 0), spring=sim.Spring(stiffness=20.0, rest=rest))
    found = builder.finalize("float64")
    if uneven:
        found.parameters["stiffness"] *= np.random.default_rng(0).uniform(0.5, 1.5, found.nv)
    return found


def turned_by(found: sim.Model, angle: float, seed: int = 2) -> np.ndarray:
    """Coordinates whose rotations are an angle away from rest."""
    rng, q, rest = np.random.default_rng(seed), found.q0.copy(), found.parameters["rest_position"]
    q[found.joint_q_start[found.joint("loose")] :][:3] += rng.normal(size=3)
    for name in ("shoulder", "wrist", "loose"):
        link = found.joint(name)
        start, k = int(found.joint_q_start[link]), found.dofs_of(link)[-3:]
        start += 3 * (name == "loose")
        turn = rng.normal(size=3)
        turn = Rotation.from_rotvec(angle * turn / np.linalg.norm(turn))
        reference = Rotation.from_rotvec(rest[k])
        q[start : start + 4] = (turn * reference if name == "loose" else reference * turn).as_quat()
    return q


def forces(found: sim.Model, q: np.ndarray) -> np.ndarray:
    """Joint forces of springs [nv]."""
    still = np.zeros(found.nv)
    without, whole = (
        sim.inverse_dynamics(found, q, still, still, passive=passive).numpy() for passive in (False, True)
    )
    return without - whole


@pytest.mark.parametrize("angle", ANGLES)
def test_the_law(angle):
    """The torque is the stiffness times the rotation vector, along the child's axes, or of a free joint the world's."""
    found = model()
    q = turned_by(found, angle)
    force, rest = forces(found, q), found.parameters["rest_position"]
    for name, stiffness in (("shoulder", 8.0), ("wrist", 3.0), ("loose", 20.0)):
        dofs, start = found.dofs_of(found.joint(name)), int(found.joint_q_start[found.joint(name)])
        reference = Rotation.from_rotvec(rest[dofs[-3:]])
        if name == "loose":
            np.testing.assert_allclose(
                force[dofs[:3]], -stiffness * (q[start : start + 3] - rest[dofs[:3]]), atol=1e-13
            )
            turn = Rotation.from_quat(q[start + 3 : start + 7]) * reference.inv()
        else:
            turn = reference.inv() * Rotation.from_quat(q[start : start + 4])
        np.testing.assert_allclose(np.linalg.norm(turn.as_rotvec()), angle, atol=1e-9)
        np.testing.assert_allclose(force[dofs[-3:]], -stiffness * turn.as_rotvec(), rtol=0, atol=1e-12)


def test_half_a_turn():
    """On both sides of half a turn the spring pulls back the shorter way, with the same energy."""
    builder = sim.ModelBuilder()
    builder.add_link("ball", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("ball", "spherical", child="ball", spring=sim.Spring(stiffness=2.0))
    found = builder.finalize("float64")
    for angle, torque in ((np.pi - 1e-6, -2.0 * np.pi), (np.pi, -2.0 * np.pi), (np.pi + 1e-6, 2.0 * np.pi)):
        q = np.array(
            [0.0, np.sin(0.5 * angle), 0.0, max(np.cos(0.5 * angle), 0.0) if angle == np.pi else np.cos(0.5 * angle)]
        )
        np.testing.assert_allclose(forces(found, q), [0, torque, 0], atol=1e-5)
        assert sim.potential_energy(found, q).numpy()[0] == pytest.approx(np.pi**2, rel=1e-5)


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("angle", ANGLES)
def test_forces_are_the_slope_of_the_energy(angle, uneven):
    """Of equal stiffnesses and of different ones."""
    found = model(uneven)
    q, step = turned_by(found, angle), 1e-5
    sides = [
        sim.potential_energy(
            found, sim.integrate(found, np.tile(q, (found.nv, 1)), sign * step * np.eye(found.nv))
        ).numpy()
        for sign in (1.0, -1.0)
    ]
    weight = sim.inverse_dynamics(found, q, np.zeros(found.nv), np.zeros(found.nv)).numpy()
    expected = (sides[0] - sides[1]) / (2.0 * step)
    np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_forces_are_those_of_mujoco(tmp_path):
    (tmp_path / "sprung.xml").write_text(MJCF)
    found, peer = load_quietly(tmp_path / "sprung.xml"), mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(peer)
    for seed in range(3):
        q, _ = random_state(found, seed)
        turn = np.stack([sim.to_mujoco(found, q, unit)[1] for unit in np.eye(found.nv)], axis=1)
        data.qpos[:] = sim.to_mujoco(found, q, np.zeros(found.nv))[0]
        mujoco.mj_forward(peer, data)
        np.testing.assert_allclose(forces(found, q), turn.T @ data.qfrc_spring, rtol=0, atol=1e-11)
        assert np.abs(data.qfrc_spring).max() > 10.0
        still = np.zeros(found.nv)
        acceleration = turn @ sim.forward_dynamics(found, q, still, still).numpy()
        np.testing.assert_allclose(acceleration, data.qacc, rtol=0, atol=1e-10 * np.abs(data.qacc).max())


@pytest.mark.parametrize("per_world", [False, True])
@pytest.mark.parametrize("angle", [1e-9, 1.5])
def test_gradients(angle, per_world, device):
    found, rng = model(), np.random.default_rng(4)
    q = np.stack([turned_by(found, angle, seed) for seed in (2, 3)])
    qd, third = rng.normal(size=(2, 2, found.nv))
    names = ("stiffness", "rest_position", "damping", "mass", "gravity")
    for function in (sim.inverse_dynamics, sim.forward_dynamics):
        check_gradients(function, found, (q, qd, third), names, per_world, device)
    check_gradients(sim.potential_energy, found, (q,), ("stiffness", "rest_position", "mass"), per_world, device)


def test_many_worlds_as_one():
    """More worlds than a lane group has, each with a stiffness of its own."""
    found, rng = model(), np.random.default_rng(5)
    worlds = 19
    q = np.stack([turned_by(found, 1.0, seed) for seed in range(worlds)])
    qd, tau = rng.normal(size=(2, worlds, found.nv))
    stiffness = found.parameters["stiffness"] * rng.uniform(0.5, 2.0, (worlds, found.nv))
    m = sim.DeviceModel(found, "cpu", worlds, {"stiffness": stiffness})
    together = sim.forward_dynamics(m, q, qd, tau).numpy()
    for world in range(worlds):
        own = sim.DeviceModel(found, "cpu", 1, {"stiffness": stiffness[world]})
        single = sim.forward_dynamics(own, *(each[world : world + 1] for each in (q, qd, tau))).numpy()[0]
        np.testing.assert_allclose(together[world], single, rtol=0, atol=1e-12 * np.abs(single).max())


def test_where_springs_rest():
    """By default without a rotation, or where a free body begins."""
    builder = sim.ModelBuilder()
    spring, turn = sim.Spring(stiffness=1.0), Rotation.from_rotvec([0.1, 0.2, 0.3])
    for name, kind in (("ball", "spherical"), ("loose", "free")):
        builder.add_link(name, mass=1.0, inertia=(1, 1, 1))
        builder.add_joint(name, kind, child=name, position=(1, 2, 3), orientation=turn.as_quat(), spring=spring)
    found = builder.finalize("float64")
    np.testing.assert_allclose(found.parameters["rest_position"], [0, 0, 0, 1, 2, 3, 0.1, 0.2, 0.3], atol=1e-15)
    np.testing.assert_array_equal(found.parameters["stiffness"], np.ones(9))
    assert found.sprung_links.tolist() == [0, 1]


def test_what_is_refused():
    builder = sim.ModelBuilder()
    for name in ("ball", "loose", "hinge", "plain"):
        builder.add_link(name, mass=1.0, inertia=(1, 1, 1))
    with raises_naming("Spring", "rest"):
        sim.Spring(rest=(0.0, 0.0, 1.0))
    with raises_naming("Spring", "rest", "nan"):
        sim.Spring(rest=(0.0, 0.0, np.nan, 1.0))
    for kind, rest, what in (
        ("spherical", 0.3, "quaternion"), ("spherical", (0.0, 0.0, 0.0, 0.0), "zero quaternion"),
        ("free", (0.0, 0.0, 0.0, 1.0), "position"), ("revolute", (0.0, 0.0, 0.0, 1.0), "spring.rest"),
    ):  # fmt: skip
        with raises_naming("joint 'j'", what):
            builder.add_joint("j", kind, child="ball", spring=sim.Spring(stiffness=1.0, rest=rest))
    for kind in ("spherical", "free"):
        with raises_naming("joint 'j'", "stiffness", "kinematic"):
            builder.add_joint("j", kind, child="ball", kinematic=True, spring=sim.Spring(stiffness=1.0))
    with raises_naming("joint 'j'", "fixed"):
        builder.add_joint("j", "fixed", child="ball", spring=sim.Spring(stiffness=1.0))
    builder.add_joint("hinge", "revolute", child="hinge")
    with raises_naming("tendon 't'", "spring.rest"):
        builder.add_fixed_tendon("t", {"hinge": 1.0}, spring=sim.Spring(rest=(0.0, 0.0, 0.0, 1.0)))
    for name, kind in (("ball", "spherical"), ("loose", "free"), ("plain", "spherical")):
        builder.add_joint(name, kind, child=name, spring=sim.Spring(stiffness=float(name == "ball")))
    found = builder.finalize()
    simulator = sim.Simulator(found, 0.01, num_worlds=1)
    changed = simulator.parameters["stiffness"]
    changed[found.dofs_of(found.joint("ball"))] = 3.0
    simulator.parameters["stiffness"] = changed
    changed[found.dofs_of(found.joint("plain"))] = 3.0
    with raises_naming("stiffness", "joint 'plain'", "sim.Spring"):
        simulator.parameters["stiffness"] = changed
