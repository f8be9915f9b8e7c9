"""Contacts that the joints of what they touch hardly let move: forces through the axis of a hinge."""

import itertools

import mujoco
import numpy as np
import pytest

import sim
from tests.simulation.differences import METHODS
from warp_kernels.constraints.immovable import LEAST_SHARE
from warp_kernels.constraints.shared import LEAST_SHARE_OF_R

DT = 0.002
# An arm on a block, 3 cm in it, that turns about the upright line through its end.
YAW = """
<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody>
  <geom type="box" size="0.08 0.08 0.05" pos="0 0 -0.05"/>
  <body><joint type="hinge" axis="0 0 1"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/></body>
</worldbody></mujoco>
"""
SOLVERS = ("newton", "pgs")
CASES = list(itertools.product(SOLVERS, (1, 16), ("float32", "float64")))


@pytest.fixture(scope="module")
def yaw_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("yaw") / "yaw.xml"
    path.write_text(YAW)
    return path


def most_by_mujoco(path) -> float:
    """The largest force of a contact [N]."""
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qvel[:] = 0.3
    mujoco.mj_forward(model, data)
    forces = np.zeros((data.ncon, 6))
    for index in range(data.ncon):
        mujoco.mj_contactForce(model, data, index, forces[index])
    return np.abs(forces[:, :3]).max()


@pytest.mark.parametrize(("solver", "worlds", "dtype"), CASES)
def test_contact_on_an_axis(yaw_file, solver, worlds, dtype):
    """The contact on the axis bears nothing. The other one moves sideways, and bears what its lever makes of it.

    The hard law is 50 times stiffer than MuJoCo's, and it weighs a contact where it lies, not in the middle of the arm.
    So deep inside, Newton's method lets it bear as much more as R is less.
    """
    builder = sim.ModelBuilder()
    builder.add_mjcf(yaw_file)
    contact = METHODS[solver]()  # the file's own is MuJoCo's
    simulator = sim.Simulator(builder.finalize(dtype=dtype), DT, num_worlds=worlds, contact=contact)
    angle = np.linspace(0.02, 0.3, worlds)[:, None]
    state = simulator.state(angle, np.full((worlds, 1), 0.3))
    contacts = simulator.contacts(state)
    stiffer = 300.0 / (LEAST_SHARE_OF_R if solver == "newton" else 1.0)
    assert np.abs(contacts.force).max() < stiffer * most_by_mujoco(yaw_file)
    pressed = np.bincount(contacts.world, -contacts.force[:, 2]) / np.cos(angle[:, 0]) ** 2
    np.testing.assert_allclose(pressed, pressed[0], rtol=1e-3)
    qd = simulator.step(state).qd.numpy()
    assert (np.abs(qd) <= 0.3 + 1e-6).all()


def ball_on_hinge(lever: float, dtype: str) -> sim.Model:
    """A ball of 1 kg, 2 cm in a wall without friction; the contact lies ``lever`` beside the axis of its hinge."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_geometry(
        "world", "box", size=(0.5, 0.1, 0.5), position=(0.0, 0.09, 0.0), surface=sim.Surface(friction=0.0)
    )
    builder.add_link("ball", mass=1.0, com=(lever, -0.04, 0.0), inertia=np.eye(3) * 1e-3)
    builder.add_joint("hinge", "revolute", child="ball")
    builder.add_geometry(
        "ball", "sphere", size=(0.05, 0.0, 0.0), position=(lever, -0.04, 0.0), surface=sim.Surface(friction=0.0)
    )
    return builder.finalize(dtype)


def impulse(simulator: sim.Simulator) -> float:
    """Of the one contact [N s]."""
    contacts = simulator.contacts(simulator.state(simulator.model.q0))
    assert len(contacts) == 1
    return np.linalg.norm(contacts.force) * DT


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lever", [1e-17, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2])
def test_beside_an_axis(lever, dtype):
    """The impulse of one row in closed form: with the least mobility near the axis, none where levers are rounding."""
    simulator = sim.Simulator(ball_on_hinge(lever, dtype), DT)
    inertia = 1e-3 + 0.04**2 + lever**2
    mobility = lever**2 / inertia
    wanted = 0.02 / (DT + simulator.contact.recovery_time)
    speed = min(wanted, simulator.contact.corrections[0])
    beyond = max(mobility / 3.0 - LEAST_SHARE, 0.0)
    softness = simulator.contact.regularisation * (LEAST_SHARE + max(speed / wanted, LEAST_SHARE_OF_R) * beyond)
    is_rounding = mobility / 3.0 < (64.0 * np.finfo(dtype).eps) ** 2
    expected = 0.0 if is_rounding else speed / (mobility + softness)
    assert impulse(simulator) == pytest.approx(expected, rel=1e-9 if dtype == "float64" else 2e-3)
    qd = simulator.step(simulator.state(simulator.model.q0)).qd.numpy()[0, 0]
    assert abs(qd) == pytest.approx(lever / inertia * expected, rel=1e-6 if dtype == "float64" else 2e-3)


@pytest.mark.parametrize("lever", [1e-9, 1e-6, 1e-4])
def test_sweeps_beside_an_axis(lever):
    """A sweep takes steps as for the least mobility: fifty of them make no more than fifty times its impulse."""
    options = sim.PgsContact(sweeps=50)
    simulator = sim.Simulator(ball_on_hinge(lever, "float64"), DT, contact=options)
    mobility = lever**2 / (1e-3 + 0.04**2 + lever**2)
    left = (1.0 - mobility / LEAST_SHARE) ** 50
    if mobility < 1e-20:
        assert 0.0 <= impulse(simulator) <= 50.0 / LEAST_SHARE
    else:
        assert impulse(simulator) == pytest.approx((1.0 - left) / mobility, rel=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("lever", [1e-4, 1e-2])
def test_gradients_beside_an_axis(solver, lever):
    """On either side of the least mobility, in the state and all parameters."""
    simulator = sim.Simulator(ball_on_hinge(lever, "float64"), DT, contact=METHODS[solver]())
    report = sim.check_gradients(simulator, simulator.state([0.0], [0.01]), steps=2)
    assert not report.wrong, str(report)


def fingers(hold: str, dtype: str = "float64") -> sim.Model:
    """Two fingers that slide in a palm, which turns with an arm: neither can turn without the other.

    hold: what acts between them, a "weld" with frames 0.1 rad apart, a "point", or friction that resists "spin".
    """
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=2.0, inertia=(0.05, 0.06, 0.07))
    builder.add_joint("shoulder", "revolute", child="arm", axis=(0.0, 0.3, 1.0), spring=sim.Spring(damping=0.1))
    builder.add_link("palm", mass=1.0, inertia=(0.02, 0.03, 0.01))
    builder.add_joint("wrist", "revolute", child="palm", parent="arm", position=(0.4, 0.1, 0.2), axis=(1.0, 0.2, 0.1))
    for side, name in ((1.0, "left"), (-1.0, "right")):
        builder.add_link(name, mass=0.3, com=(0.01, 0.0, 0.03), inertia=(0.002, 0.001, 0.003))
        builder.add_joint(
            f"slide_{name}", "prismatic", child=name, parent="palm", position=(0.1, 0.05 * side, 0.07),
            axis=(0.0, side, 0.1),
        )  # fmt: skip
        if hold == "spin":
            builder.add_geometry(
                name, "sphere", size=(0.0505, 0.0, 0.0), surface=sim.Surface(torsional_friction=0.01, friction=0.8)
            )
    position = (0.01, 0.1, 0.05)
    if hold == "weld":
        builder.add_weld_constraint("tie", "left", "right", position_b=position, orientation_b=(0.05, 0.0, 0.0, 1.0))
    elif hold == "point":
        builder.add_point_constraint("tie", "left", "right", position_b=position)
    return builder.finalize(dtype)


def pressed_fingers(simulator: sim.Simulator) -> tuple[sim.State, np.ndarray]:
    """A state and the forces of some steps, which press the fingers on each other."""
    state = simulator.state([0.3, 0.2, 0.001, 0.002], [0.5, -0.7, -0.1, -0.2])
    return state, np.tile([0.3, -0.4, -5.0, -6.0], (3, simulator.num_worlds, 1))


@pytest.mark.filterwarnings("ignore::sim.errors.OpenConstraintWarning")
@pytest.mark.parametrize(("solver", "worlds", "dtype"), CASES)
def test_sides_that_move_alike(solver, worlds, dtype):
    """A weld of links that can't turn against each other, which nothing can satisfy, holds their points alone."""
    final = []
    for hold in ("weld", "point"):
        contact = METHODS[solver]()
        simulator = sim.Simulator(fingers(hold, dtype), 0.01, num_worlds=worlds, contact=contact)
        final.append(simulator.rollout(*pressed_fingers(simulator)).final_state.qd.numpy())
    np.testing.assert_allclose(*final, atol=1e-12 if dtype == "float64" else 1e-4)


@pytest.mark.filterwarnings("ignore::sim.errors.OpenConstraintWarning")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("hold", ["weld", "spin"])
def test_gradients_of_sides_that_move_alike(solver, hold):
    simulator = sim.Simulator(fingers(hold), 0.01, contact=METHODS[solver]())
    state, tau = pressed_fingers(simulator)
    report = sim.check_gradients(simulator, state, tau, ["q", "qd", "tau", "mass", "joint_placement"])
    assert all(entry.verdict == "right" for entry in report.entries), str(report)
