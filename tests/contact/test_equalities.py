"""Equality constraints: loops closed by a point, welds, coupled joints; closed forms, merged bodies and MuJoCo."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import sim
from scenes.mjcf import to_mjcf
from tests.contact.worlds import DT, G, run
from tests.errors import quietly
from tests.importers.reference import ROBOTS
from tests.simulation.differences import blocks, case, check
from warp_kernels.constraints.kinds import COUPLING, ORIENTATION, POINT
from warp_kernels.types import BOX

LENGTH = 0.4


def rod(builder: sim.ModelBuilder, name: str, parent: str, position: tuple[float, ...], length: float = LENGTH) -> str:
    """A rod along -z that hangs from a hinge about y."""
    builder.add_link(name, mass=1.0, com=(0, 0, -length / 2), inertia=(0.02, 0.02, 0.001))
    return builder.add_joint(
        f"{name}_hinge", "revolute", child=name, parent=parent, position=position, axis=(0.0, 1.0, 0.0)
    )


def parallelogram(angle: float) -> sim.Model:
    """Two cranks, and a rod between their ends that hangs on the first and is held by the second."""
    builder = sim.ModelBuilder()
    rod(builder, "left", "world", (0, 0, 0))
    rod(builder, "right", "world", (0.5, 0, 0))
    builder.add_link("rod", mass=2.0, com=(0.25, 0, 0), inertia=(0.01, 0.05, 0.05))
    builder.add_joint("elbow", "revolute", child="rod", parent="left", position=(0, 0, -LENGTH), axis=(0, 1, 0))
    builder.joints["left_hinge"].q0[:] = angle
    builder.joints["right_hinge"].q0[:] = angle
    builder.joints["elbow"].q0[:] = -angle
    builder.add_point_constraint("loop", "right", "rod", position_a=(0, 0, -LENGTH))
    return builder.finalize("float64")


def test_anchor_of_the_second_link_is_found_in_the_initial_configuration():
    model = parallelogram(0.5)
    np.testing.assert_allclose(model.parameters["anchor_b"][0, :3], [0.5, 0, 0], atol=1e-12)


def test_parallelogram_is_a_pendulum():
    """The rod moves on a circle without turning: one equation for the angle of the cranks."""
    dt = 1e-4
    q, _, simulator = run(parallelogram(0.7), 1.0, dt=dt, sweeps=20)
    times = dt * np.arange(len(q))
    inertia = 2 * (0.02 + 1.0 * (LENGTH / 2) ** 2) + 2.0 * LENGTH**2
    moment = (2 * LENGTH / 2 + 2.0 * LENGTH) * G
    exact = solve_ivp(
        lambda _, y: [y[1], -moment / inertia * np.sin(y[0])], (0.0, 1.0), [0.7, 0.0], t_eval=times, rtol=1e-10,
        atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(q[:, 0], -q[:, 1], atol=1e-7)
    np.testing.assert_allclose(q[:, 0], q[:, 2], atol=1e-7)
    # First order in the step.
    np.testing.assert_allclose(q[:, 0], exact.y[0], atol=2e-3)
    (block,) = blocks(simulator)
    assert block.kind == POINT
    # All motion is in a plane: the row across it can't move anything.
    assert abs(block.impulse[1]) < 1e-9


def mujoco_run(model: sim.Model, qd: np.ndarray, steps: int, dt: float) -> np.ndarray:
    """q of MuJoCo with constraints ten steps stiff, hinges and sliders only."""
    mujoco = pytest.importorskip("mujoco")
    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=dt, sweeps=200))
    peer.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    peer.eq_solref[:] = (10 * dt, 1.0)
    peer.eq_solimp[:, :2] = 0.9999
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = model.q0, qd
    for _ in range(steps):
        mujoco.mj_step(peer, data)
    return data.qpos.copy()


def four_bar(dtype: str = "float64") -> sim.Model:
    """A crank, a coupler and a rocker in a tilted plane, closed from their triangle with the crank along x."""
    tilt = Rotation.from_euler("xz", [0.4, 0.3])
    base, coupler, rocker = 0.3, 0.55, 0.4  # from the crank's end to the rocker's hinge
    at_crank = np.arccos((base**2 + coupler**2 - rocker**2) / (2 * base * coupler))
    at_hinge = np.arccos((base**2 + rocker**2 - coupler**2) / (2 * base * rocker))
    builder = sim.ModelBuilder()
    for name, parent, position, turn, length, angle in (
        ("crank", "world", (0.0, 0.0, 0.0), tilt, 0.2, 0.0),
        ("coupler", "crank", (0.2, 0.0, 0.0), Rotation.identity(), coupler, -at_crank),
        ("rocker", "world", tilt.apply([0.2 + base, 0.0, 0.0]), tilt, rocker, at_hinge - np.pi),
    ):
        builder.add_link(name, mass=2 * length, com=(length / 2, 0, 0), inertia=(0.001, 0.02, 0.02))
        builder.add_joint(
            f"to {name}", "revolute", child=name, parent=parent, position=position, orientation=turn.as_quat(),
            axis=(0, 1, 0), q0=[angle],
        )  # fmt: skip
    builder.add_point_constraint("loop", "coupler", "rocker", position_a=(coupler, 0, 0), position_b=(rocker, 0, 0))
    return builder.finalize(dtype)


def test_four_bar_with_unequal_sides_as_in_mujoco():
    model = four_bar()
    dt, steps = 2e-5, 20000
    # Velocities that fit the loop: those after one step.
    _, thrown, _ = run(model, dt, [8.0, 0.0, 0.0], dt=dt)
    q, _, simulator = run(model, steps * dt, thrown[1], dt=dt, sweeps=10)
    theirs = mujoco_run(model, thrown[1], steps, dt)
    assert np.ptp(q[:, 0]) > 1.0
    # MuJoCo's loop is a stiff spring; ours is first order in the step.
    np.testing.assert_allclose(q[-1], theirs, atol=3e-3)
    ends = sim.forward_kinematics(model, q[-1:], ["coupler", "rocker"]).numpy()[0]
    gap = [p[:3] + Rotation.from_quat(p[3:]).apply([x, 0, 0]) for p, x in zip(ends, (0.55, 0.4), strict=True)]
    np.testing.assert_allclose(gap[0], gap[1], atol=1e-6)
    assert simulator.residual[0] < 1e-10


def two_boxes(weld: bool) -> sim.Model:
    """Two boxes side by side, welded by a constraint or in one body."""
    builder = sim.ModelBuilder()
    turn = Rotation.from_euler("xyz", [0.3, -0.2, 0.5])
    position = np.array([0.25, 0.1, 0.05])
    masses, inertias = (1.0, 0.6), (np.diag([0.01, 0.02, 0.015]), np.diag([0.004, 0.003, 0.006]))
    builder.add_link("a", mass=masses[0], inertia=inertias[0], com=(0.01, 0.02, 0.0))
    builder.add_joint("free_a", "free", child="a", position=(0.1, 0.2, 1.0), orientation=(0.1, 0.2, 0.0, 1.0))
    builder.add_link("b", mass=masses[1], inertia=inertias[1])
    if weld:
        base = Rotation.from_quat([0.1, 0.2, 0.0, 1.0])
        builder.add_joint(
            "free_b", "free", child="b", position=np.array([0.1, 0.2, 1.0]) + base.apply(position),
            orientation=(base * turn).as_quat(),
        )  # fmt: skip
        builder.add_weld_constraint("weld", "a", "b", position_a=position / 2, orientation_a=(0.3, 0.1, 0.2, 1.0))
    else:
        builder.add_joint("fixed", "fixed", child="b", parent="a", position=position, orientation=turn.as_quat())
    return builder.finalize("float64")


def test_welded_bodies_move_as_one():
    """Thrown, they move as the body that both make together."""
    one, two = two_boxes(weld=False), two_boxes(weld=True)
    start = sim.Simulator(two, DT, device="cpu")
    position = start.initial_state().q.numpy()[0]
    spin = np.array([1.0, 0.5, 2.0])
    arm = position[7:10] - position[:3]
    speed = np.array([0.3, -0.2, 1.0])
    qd = np.concatenate([speed, spin, speed + np.cross(spin, arm), spin])
    dt = 2e-4
    q, _, simulator = run(two, 0.4, qd, dt=dt, sweeps=100)
    alone, _, _ = run(one, 0.4, qd[:6], dt=dt)
    np.testing.assert_allclose(q[-1, :3], alone[-1, :3], atol=2e-4)
    turned = Rotation.from_quat(q[-1, 3:7]).inv() * Rotation.from_quat(alone[-1, 3:7])
    assert turned.magnitude() < 1e-3
    # The weld holds: b stands where it stood in a.
    relative = Rotation.from_quat(q[-1, 3:7]).inv()
    before = Rotation.from_quat(position[3:7]).inv()
    np.testing.assert_allclose(
        relative.apply(q[-1, 7:10] - q[-1, :3]), before.apply(position[7:10] - position[:3]), atol=1e-6
    )
    held = relative * Rotation.from_quat(q[-1, 10:14])
    assert (held.inv() * before * Rotation.from_quat(position[10:14])).magnitude() < 1e-6
    assert [block.kind for block in blocks(simulator)] == [POINT, ORIENTATION]


def test_weld_to_the_world_holds_a_body():
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0.3, 0, 1), orientation=(0.1, 0.2, 0.3, 1))
    builder.add_weld_constraint("hook", "world", "box_0", position_a=(0.35, 0.02, 1.1))
    model = builder.finalize("float64")
    q, qd, simulator = run(model, 0.2)
    np.testing.assert_allclose(q[-1], model.q0, atol=1e-10)
    np.testing.assert_allclose(qd[-1], 0.0, atol=1e-9)
    np.testing.assert_allclose(blocks(simulator)[0].impulse, [0, 0, 2.0 * G * DT], atol=1e-9)


@pytest.mark.parametrize(
    ("position", "turn", "velocity"),
    [((0.03, 0.04, 0.0), (0.0, 0.0, 0.0), (0.3, 0.4, 0, 0, 0, 0)), ((0, 0, 0), (0, 0, 0.1), (0, 0, 0, 0, 0, 0.5))],
)
def test_an_error_is_removed_within_max_correction(position, turn, velocity):
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0)
    builder.add_weld_constraint(
        "hook", "box_0", "world", position_b=position, orientation_b=Rotation.from_rotvec(turn).as_quat()
    )
    q, qd, _ = run(builder.finalize("float64"), 0.3, max_correction=0.5)
    np.testing.assert_allclose(qd[1], velocity, atol=1e-9)
    np.testing.assert_allclose(q[-1, :3], position, atol=1e-12)
    np.testing.assert_allclose(Rotation.from_quat(q[-1, 3:]).as_rotvec(), turn, atol=1e-12)


def geared(ratio: float, offset: float) -> sim.Model:
    """Two pendulums in trees of their own, one driven by the other."""
    builder = sim.ModelBuilder()
    rod(builder, "driver", "world", (0, 0, 0))
    rod(builder, "driven", "world", (1.0, 0, 0), length=0.6)
    builder.joints["driver_hinge"].q0[:] = 0.4
    builder.joints["driven_hinge"].q0[:] = ratio * 0.4 + offset
    builder.add_joint_coupling("driven_hinge", "driver_hinge", ratio=ratio, offset=offset)
    return builder.finalize("float64")


def test_geared_pendulums():
    """One equation: both inertias and moments reduced to the driver's axis."""
    ratio, offset, dt = -1.7, 0.2, 1e-4
    q, _, simulator = run(geared(ratio, offset), 1.0, dt=dt, sweeps=5)
    inertias = [0.02 + (length / 2) ** 2 for length in (LENGTH, 0.6)]
    moments = [length / 2 * G for length in (LENGTH, 0.6)]

    def slope(_, y):
        moment = moments[0] * np.sin(y[0]) + ratio * moments[1] * np.sin(ratio * y[0] + offset)
        return [y[1], -moment / (inertias[0] + ratio**2 * inertias[1])]

    times = dt * np.arange(len(q))
    exact = solve_ivp(slope, (0.0, 1.0), [0.4, 0.0], t_eval=times, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(q[:, 1], ratio * q[:, 0] + offset, atol=1e-12)
    np.testing.assert_allclose(q[:, 0], exact.y[0], atol=2e-3)
    assert [block.kind for block in blocks(simulator)] == [COUPLING]


def chain_with_coupling() -> sim.ModelBuilder:
    """Three links in one tree, the last joint following the first."""
    builder = sim.ModelBuilder()
    parent = "world"
    for number in range(3):
        rod(builder, f"link{number}", parent, (0, 0, -LENGTH) if number else (0, 0, 0))
        parent = f"link{number}"
    builder.add_joint_coupling("link2_hinge", "link0_hinge", ratio=0.5, offset=-0.1)
    builder.joints["link0_hinge"].q0[:] = 0.6
    builder.joints["link2_hinge"].q0[:] = 0.2
    return builder


def test_coupled_joints_of_one_chain_as_in_mujoco():
    model = chain_with_coupling().finalize("float64")
    dt, steps = 2e-5, 20000
    qd = np.array([2.0, -1.0, 1.0])
    q, _, _ = run(model, steps * dt, qd, dt=dt, sweeps=5)
    np.testing.assert_allclose(q[:, 2], 0.5 * q[:, 0] - 0.1, atol=1e-12)
    assert np.ptp(q[:, 0]) > 0.3
    np.testing.assert_allclose(q[-1], mujoco_run(model, qd, steps, dt), atol=2e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_precisions_and_parameters_per_world(dtype):
    """Each world with an anchor of its own holds a body there, after the sweeps up to rounding."""
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0)
    builder.add_weld_constraint("hook", "box_0", "world")
    model = builder.finalize(dtype)
    positions = np.array([[[0.0, 0, 0, 0, 0, 0, 1]], [[0.01, 0, 0.02, 0, 0, 0, 1]], [[0, 0, 0, 0.02, 0, 0, 1]]])
    simulator = sim.Simulator(model, DT, 3, "cpu", sim.PgsContact(), {"anchor_b": positions})
    q = simulator.rollout(simulator.initial_state(), steps=100).final_state.q.numpy()
    expected = positions[:, 0] / np.concatenate(
        [np.ones((3, 3)), np.linalg.norm(positions[:, 0, 3:], axis=1)[:, None].repeat(4, 1)], 1
    )
    np.testing.assert_allclose(q, expected, atol=1e-5 if dtype == "float32" else 1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fingers_of_a_gripper(dtype):
    """The Panda's second finger mimics its first: pushed at one, both open alike, up to the first one's limit."""
    path = ROBOTS["panda"]
    if not path.is_file():
        pytest.skip("example-robot-data is not installed")
    model = quietly(sim.load, path, dtype=dtype, visual=False, collision=False, gravity=(0, 0, 0))
    first, second = (model.qd_slice(f"panda_finger_joint{number}").start for number in (1, 2))
    tau = np.zeros(model.nv)
    tau[first] = 2.0
    q, _, simulator = run(model, 0.5, tau=tau, sweeps=50)
    opening = q[:, model.dof_q[[first, second]]]
    assert opening[20, 0] > 1e-3
    np.testing.assert_allclose(opening[:, 0], opening[:, 1], atol=1e-6 if dtype == "float32" else 1e-12)
    np.testing.assert_allclose(opening[-1, 0], model.parameters["upper_limit"][first], atol=1e-5)
    assert COUPLING in [block.kind for block in blocks(simulator)]


EQUALITY = ("anchor_a", "anchor_b")
LINK = ("mass", "com", "inertia", "gravity", "joint_placement")


def bent_loop() -> sim.ModelBuilder:
    """A loop of four hinges and a ball joint in space, its last point on the world; nothing is aligned."""
    builder = sim.ModelBuilder()
    parent = "world"
    axes = [(0.1, 1, 0), (1, 0.2, 0.1), (0.1, 0.9, 0.4), (0.3, 0.2, 1)]
    for number, axis in enumerate(axes):
        link = builder.add_link(f"l{number}", mass=1 + 0.2 * number, com=(0.05, 0.02, 0.2), inertia=(0.02, 0.03, 0.02))
        builder.add_joint(
            f"j{number}", "revolute", parent=parent, child=link, position=(0.01, 0, 0.4 if number else 0.0), axis=axis,
            spring=sim.Spring(damping=0.1), q0=[0.3 + 0.1 * number],
        )  # fmt: skip
        parent = link
    return builder


@pytest.mark.parametrize("sweeps", [1, 3, 50])
class TestGradients:
    def test_point_on_the_world(self, sweeps):
        builder = bent_loop()
        builder.add_point_constraint("loop", "l3", "world", position_a=(0.02, 0.05, 0.3))
        model = builder.finalize("float64")
        model.parameters["anchor_b"][0, :3] += (0.002, -0.001, 0.0015)  # within the largest correction
        c = case(model, 6, qd=[0.5, -0.3, 0.2, 0.1], contact=sim.PgsContact(sweeps=sweeps))
        check(c, [*EQUALITY, *LINK])

    def test_point_between_links_of_one_tree(self, sweeps):
        builder = bent_loop()
        builder.add_link("branch", mass=0.4, com=(0.1, 0, 0), inertia=(0.01, 0.01, 0.01))
        builder.add_joint("side", "spherical", parent="l0", child="branch", position=(0.05, 0, 0.1))
        builder.add_point_constraint("loop", "l3", "branch", position_a=(0.02, 0.05, 0.3))
        few = sim.PgsContact(sweeps=sweeps, erp=0.3)
        c = case(builder.finalize("float64"), 6, qd=[0.5, -0.3, 0.2, 0.1, 0.3, 0.2, 0.1], contact=few)
        check(c, [*EQUALITY, *LINK])

    def test_weld_of_a_loose_body_to_a_hand(self, sweeps):
        """A floating box held by an arm, which drags it over the ground; two trees, contacts, two blocks."""
        builder = bent_loop()
        builder.add_ground(surface=sim.Surface(friction=0.3))
        builder.joints["j0"].placement[2] += 0.02
        builder.add_box(half_extents=(0.05, 0.06, 0.07), mass=0.5)
        hand = sim.forward_kinematics(
            builder.finalize("float64"), [[*(0.3 + 0.1 * np.arange(4)), 0, 0, 0, 0, 0, 0, 1]], ["l3"]
        )
        hand = hand.numpy()[0, 0]
        builder.joints["box_0_free"].q0[:3] = hand[:3] + Rotation.from_quat(hand[3:]).apply([0.01, 0.02, 0.4])
        builder.joints["box_0_free"].q0[3:] = Rotation.from_rotvec([0.2, 0.1, 0.4]).as_quat()
        builder.add_weld_constraint("grip", "l3", "box_0", position_a=(0.01, 0.02, 0.35))
        model = builder.finalize("float64")
        model.parameters["anchor_b"][0] += (0.001, 0.002, -0.001, 0.0005, 0.001, -0.0004, 0.0)
        c = case(
            model,
            5,
            qd=[0.3, -0.3, 0.2, 0.1, *np.full(6, 0.1)],
            contact=sim.PgsContact(sweeps=sweeps),
        )
        check(c, [*EQUALITY, *LINK])

    @pytest.mark.filterwarnings("ignore::sim.errors.OpenConstraintWarning")
    def test_far_from_closed(self, sweeps):
        """At the largest correction, turned by more than a quarter; many sweeps would leave nothing else."""
        builder = sim.ModelBuilder()
        builder.add_box(half_extents=(0.1, 0.2, 0.15), mass=2.0)
        builder.add_weld_constraint(
            "hook", "box_0", "world", position_a=(0.02, 0.01, 0.03), position_b=(0.3, 0.4, 0.1),
            orientation_b=Rotation.from_rotvec([1.1, 0.8, 0.9]).as_quat(),
        )  # fmt: skip
        c = case(
            builder.finalize("float64"),
            5,
            contact=sim.PgsContact(sweeps=min(sweeps, 10)),
            qd=[0.1, 0.2, 0, 0.3, 0, 0.1],
        )
        check(c, [*EQUALITY, "mass", "com", "inertia", "gravity"])

    def test_couplings(self, sweeps):
        builder = chain_with_coupling()
        rod(builder, "driven", "world", (1.0, 0, 0), length=0.6)
        builder.add_joint_coupling("driven_hinge", "link1_hinge", ratio=-1.4, offset=0.002)
        model = builder.finalize("float64")
        c = case(model, 6, qd=[0.5, -0.3, 0.2, 0.4], contact=sim.PgsContact(sweeps=sweeps))
        check(c, ["coupling_ratio", "coupling_offset", *LINK])


def point(*links: str, **options: object):
    return lambda builder: builder.add_point_constraint("c", *links, **options)


def weld(*links: str, **options: object):
    return lambda builder: builder.add_weld_constraint("c", *links, **options)


def couple(*joints: str, **options: object):
    return lambda builder: builder.add_joint_coupling(*joints, **options)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (point("a", "nothing"), "constraint 'c': unknown link 'nothing'"),
        (weld("a", "a"), "constraint 'c': links 'a' and 'a' can't move"),
        (point("world", "base"), "constraint 'c': links 'world' and 'base' can't move"),
        (weld("a", "b", position_b=(0, 0, 0)), "constraint 'c': give both position_b and orientation_b"),
        (point("a", "b", position_a=(np.nan, 0, 0)), "constraint 'c': a: position: .* is not finite"),
        (couple("ja", "ja"), "coupling of joint 'ja' with 'ja': a joint can't follow itself"),
        (couple("ja", "jx"), "with 'jx': .*joint named 'jx'"),
        (couple("ja", "jbase"), "joint named 'jbase'"),
        (couple("ja", "jb"), "only revolute and prismatic joints can be coupled, .*'jb'"),
        (couple("ja", "jb", ratio=np.inf), "ratio inf and offset 0.0 must be finite"),
    ],
)
def test_what_is_refused(add, message):
    def build() -> None:
        builder = sim.ModelBuilder()
        for link, kind in {"base": "fixed", "a": "revolute", "b": "free"}.items():
            builder.add_link(link, mass=1.0, inertia=(1, 1, 1))
            builder.add_joint(f"j{link}", kind, child=link)
        add(builder)
        builder.finalize()

    with pytest.raises(sim.ModelError, match=message):
        build()


def test_names_are_unique():
    builder = sim.ModelBuilder()
    builder.add_point_constraint("c", "a", "b")
    with pytest.raises(sim.ModelError, match="constraint 'c': a constraint of this name exists already"):
        builder.add_weld_constraint("c", "a", "b")
    builder.add_joint_coupling("j", "k")
    with pytest.raises(sim.ModelError, match="coupling of joint 'j' with 'l': .* 'k'"):
        builder.add_joint_coupling("j", "l")


def test_constraint_through_a_collapsed_link():
    """An anchor on a link that is welded to another stands in that one's frame."""
    for collapse in (True, False):
        builder = sim.ModelBuilder()
        builder.add_link("a", mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint("free", "free", child="a", position=(0, 0, 1))
        builder.add_link("tip", mass=0.2, inertia=(0.01, 0.01, 0.01))
        builder.add_joint("weld", "fixed", child="tip", parent="a", position=(0.2, 0, 0), orientation=(0, 0, 1, 1))
        builder.add_geometry("tip", BOX, size=(0.1, 0.1, 0.1))
        builder.add_point_constraint("c", "tip", "world", position_a=(0.1, 0, 0))
        model = builder.finalize("float64", collapse_fixed=collapse)
        np.testing.assert_allclose(model.parameters["anchor_b"][0, :3], [0.2, 0.1, 1.0], atol=1e-12)
        q, _, _ = run(model, 0.2)
        position = Rotation.from_quat(q[-1, 3:]).apply([0.2, 0.1, 0.0]) + q[-1, :3]
        np.testing.assert_allclose(position, [0.2, 0.1, 1.0], atol=1e-6)
        assert q[-1, 2] < 1.0 - 0.01
