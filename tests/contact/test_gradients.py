"""Gradients through contact, joint limits and dry friction against finite differences, one regime after the other.

Each case says which regimes it must pass through. Where a derivative doesn't exist (the moment at which a contact
begins to carry, to slip or to bounce falls exactly on the state) the test stays away: the states here are in general
position.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from scenes import quadruped
from tests.simulation.differences import Case, case, check, regimes
from warp_kernels.types import BOX, CAPSULE

BODY = ("mass", "com", "inertia", "gravity", "friction", "geometry_size", "geometry_placement")
JOINT = ("damping", "armature", "stiffness", "rest_position", "friction_loss", "lower_limit", "upper_limit")
TILT = (0.01, 0.005, 0.1, 1.0)
PYRAMID = sim.HardContact(friction="pyramid")


def ball(**surface: float) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    builder.add_sphere(
        radius=0.1, mass=0.3, position=(0.0, 0.0, 0.1), surface=sim.Surface(**{"friction": 0.8, **surface})
    )
    return builder.finalize("float64")


def box(friction: float = 0.6, orientation: tuple[float, ...] = (0.0, 0.0, 0.1, 1.0)) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0))
    builder.add_box(
        half_extents=(0.1, 0.2, 0.05),
        mass=0.7,
        position=(0.0, 0.0, 0.05),
        orientation=orientation,
        surface=sim.Surface(friction=friction),
    )
    return builder.finalize("float64")


def at(model: sim.Model, height: float) -> np.ndarray:
    q = model.q0.copy()
    q[2] = height
    return q


def spin(*velocity: float) -> list[float]:
    return [*velocity, 0.2, 0.1, 0.3]


@pytest.mark.parametrize("sweeps", [1, 5, 50])
@pytest.mark.parametrize("friction", ["cone", "pyramid"])
class TestLooseBodies:
    """A ball or a box on the ground, in each regime of its contacts. The torsion of a ball on one point changes
    nothing.
    """

    def options(self, friction: str, sweeps: int, **others: float) -> sim.ContactMethod:
        return sim.PgsContact(friction=friction, sweeps=sweeps, **others)

    def test_rolling_ball(self, friction, sweeps):
        c = case(ball(), 10, qd=spin(0.3, 0.1, 0.0), contact=self.options(friction, sweeps))
        assert "stick" in regimes(c)
        # A ball that rolls does so whatever the friction.
        check(c, [n for n in BODY if n != "friction"])

    def test_sliding_ball(self, friction, sweeps):
        c = case(ball(), 10, qd=spin(3.0, 1.0, 0.0), contact=self.options(friction, sweeps))
        assert regimes(c) == {"slide"}
        check(c, BODY)

    def test_bouncing_ball(self, friction, sweeps):
        model = ball(restitution=0.6)
        c = case(model, 10, at(model, 0.13), spin(1.0, 1.0, -3.0), self.options(friction, sweeps))
        assert regimes(c) == {"open", "stick"}
        check(c, [*BODY, "restitution"], zero=["friction"])

    def test_separating_ball(self, friction, sweeps):
        c = case(ball(), 5, qd=spin(0.3, 0.1, 0.5), contact=self.options(friction, sweeps))
        assert regimes(c) == {"open"}
        check(c, ["gravity", "mass", "inertia"])

    def test_resting_box(self, friction, sweeps):
        # Softness lets it yield a little: on hard ground nothing would depend on anything.
        c = case(box(1.5), 10, contact=self.options(friction, sweeps, cfm=2.0), force=0.1)
        assert regimes(c) == {"stick"}
        check(c, ["mass", "com", "inertia", "gravity", "geometry_size", "geometry_placement"])

    def test_sliding_box(self, friction, sweeps):
        c = case(box(), 10, qd=[2.0, 0.7, 0.0, 0.0, 0.0, 0.4], contact=self.options(friction, sweeps))
        assert "slide" in regimes(c)
        check(c, BODY)

    def test_landing_box(self, friction, sweeps):
        model = box(orientation=TILT)
        c = case(model, 10, at(model, 0.0527), spin(1.0, 0.2, -0.5), self.options(friction, sweeps))
        assert {"open", "slide"} <= regimes(c)
        check(c, BODY)

    def test_soft_contact(self, friction, sweeps):
        model = box(orientation=TILT)
        soft = self.options(friction, sweeps, cfm=0.05, erp=0.3)
        c = case(model, 10, at(model, 0.0479), spin(0.45, 0.2, -0.2), soft)
        check(c, BODY)


@pytest.mark.parametrize("contact", [sim.HardContact(), sim.PgsContact(), sim.PgsContact(adjoint="implicit")])
@pytest.mark.parametrize("friction", ["cone", "pyramid"])
def test_friction_of_what_is_not_pressed_has_no_derivative(contact, friction):
    """A ball just above the ground, exactly at rest: its contact is there, and nothing of it may hold the ball."""
    model = ball(torsional_friction=0.02, rolling_friction=0.01)
    c = case(model, 2, at(model, 0.105), contact=replace(contact, friction=friction), force=0.0)
    assert regimes(c) == {"open"}
    check(c, ["gravity"])


def arm(**options: object) -> sim.ModelBuilder:
    """Four joints of all kinds with springs, limits and dry friction, a box in its hand and a capsule along its
    forearm.
    """
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.7))
    parent = "world"
    joints: list[tuple[str, tuple[float, float, float], dict]] = [
        ("revolute", (0.0, 1.0, 0.0), dict(limits=sim.Limits(lower=-0.5, upper=0.5), friction_loss=5.0)),
        ("revolute", (1.0, 0.2, 0.0),
            dict(limits=sim.Limits(lower=-0.5, upper=0.5), friction_loss=0.4,
                spring=sim.Spring(damping=0.3, stiffness=3.0, rest=0.2), armature=0.05)),
        ("prismatic", (0.0, 0.0, 1.0), dict(limits=sim.Limits(lower=-0.5, upper=0.5))),
        ("spherical", (0.0, 0.0, 1.0), dict(friction_loss=0.01, spring=sim.Spring(damping=0.02))),
    ]  # fmt: skip
    for number, (kind, axis, passive) in enumerate(joints):
        link = builder.add_link(
            f"link{number}", mass=1 + 0.2 * number, com=(0.05, 0.02, 0.2), inertia=(0.02, 0.03, 0.02)
        )
        builder.add_joint(
            f"joint{number}", kind, parent=parent, child=link, position=(0.01, 0.0, 0.4 if number else 0.2), axis=axis,
            **passive,
        )  # fmt: skip
        parent = link
    builder.add_geometry("link3", BOX, size=(0.05, 0.06, 0.07), position=(0.0, 0.0, 0.1), **options)
    builder.add_geometry("link1", CAPSULE, size=(0.05, 0.1, 0.0), **options)
    builder.exclude_collision("link1", "link3")
    return builder


ARM_Q = np.array([0.49, -0.48, 0.2, 0.0, 0.0, 0.0, 1.0])
ARM_QD = np.array([2.0, -2.0, 1.0, 0.5, 0.4, 0.3])


def arm_and_ball(friction: str = "cone", sweeps: int = 50) -> Case:
    """A ball falls on the hand and slides there while the arm runs into an upper and a lower limit."""
    builder = arm(surface=sim.Surface(friction=0.3))
    builder.add_sphere(radius=0.1, mass=0.4, surface=sim.Surface(friction=0.5))
    model = builder.finalize("float64")
    hand = sim.forward_kinematics(model, [[*ARM_Q, *model.q0[7:]]], ["link3"]).numpy()[0, 0]
    q = np.concatenate([ARM_Q, hand[:3] + Rotation.from_quat(hand[3:]).apply([0.01, 0.02, 0.276]), [0, 0, 0, 1]])
    qd = np.concatenate([ARM_QD, [-2.0, 0.3, -2.0, 0.0, 1.0, 0.0]])
    return case(model, 12, q, qd, sim.PgsContact(sweeps=sweeps, friction=friction), force=0.3)


@pytest.mark.parametrize("sweeps", [1, 5, 50])
@pytest.mark.parametrize("friction", ["cone", "pyramid"])
def test_robot_ball_limits_and_dry_friction(friction, sweeps):
    c = arm_and_ball(friction, sweeps)
    assert {"lower", "upper", "slip", "held", "slide"} <= regimes(c)
    check(c, [*BODY, *JOINT, "joint_placement"])


def pendulum(steps: int, q: float, qd: float, force: float = 0.1, **joint: float) -> Case:
    """One joint, no contact. The rod hangs along -z at q = 0."""
    builder = sim.ModelBuilder()
    builder.add_link("rod", mass=0.8, com=(0.02, 0.0, -0.3), inertia=(0.01, 0.012, 0.005))
    builder.add_joint("hinge", "revolute", child="rod", axis=(0.1, 1.0, 0.0), **joint)
    model = builder.finalize("float64")
    return case(model, steps, np.array([q]), [qd], force=force)


LINK = ("mass", "com", "inertia", "gravity", "joint_placement")


def test_lower_limit():
    c = pendulum(8, -0.29, -2.0, limits=sim.Limits(-0.3, 2.0), spring=sim.Spring(damping=0.1))
    assert regimes(c) == {"lower"}
    # The joint stands at its limit in the end; a limit that isn't reached doesn't matter, nor do the forces.
    check(c, [*LINK, "lower_limit", "upper_limit", "damping"], zero=["upper_limit"])


def test_upper_limit():
    c = pendulum(8, 0.49, 2.0, limits=sim.Limits(-0.3, 0.5), spring=sim.Spring(damping=0.1))
    assert regimes(c) == {"upper"}
    check(c, [*LINK, "lower_limit", "upper_limit", "damping"], zero=["lower_limit"])


def test_between_limits():
    c = pendulum(8, 0.3, 2.0, limits=sim.Limits(-0.3, 0.5), armature=0.1)
    assert regimes(c) == set()
    check(c, [*LINK, "lower_limit", "upper_limit", "armature"], zero=["lower_limit", "upper_limit"])


def test_narrow_range():
    """Both limits are near at once; in the end the joint is between them."""
    c = pendulum(8, 0.001, 0.9, limits=sim.Limits(-0.003, 0.002))
    c = replace(c, tau=10.0 * np.array([1, 1, -1, -1, -1, -1, 0.4, 0.3])[:, None])
    assert regimes(c) == {"lower", "upper"}
    check(c, [*LINK, "lower_limit", "upper_limit"])


def test_dry_friction_slips():
    c = pendulum(8, 0.3, 2.0, friction_loss=0.7)
    assert regimes(c) == {"slip"}
    check(c, [*LINK, "friction_loss"])


def test_dry_friction_holds():
    c = replace(pendulum(8, 0.3, 0.0, friction_loss=5.0), contact=sim.PgsContact())
    assert regimes(c) == {"held"}
    # Once it holds, the joint stays where it is: nothing depends on anything but that.
    check(c, [*LINK, "friction_loss"], zero=["tau", *LINK, "friction_loss"])


def test_soft_limit():
    c = replace(pendulum(8, 0.45, 2.0, limits=sim.Limits(-0.3, 0.46)), contact=sim.PgsContact(cfm=0.5, erp=0.4))
    assert regimes(c) == {"upper"}
    check(c, [*LINK, "lower_limit", "upper_limit"], zero=["lower_limit"])


def test_deep_overlap():
    """Pushed out at max_correction, however deep it is."""
    c = case(ball(), 5, at(ball(), 0.07), spin(0.1, 0.02, -0.2), force=0.02)
    assert regimes(c) == {"stick"}
    check(c, ["mass", "inertia", "geometry_size"])
    c = case(ball(), 5, at(ball(), 0.07), spin(4.0, 0.2, -0.2))
    assert regimes(c) == {"slide"}
    check(c, BODY)


def test_robot_on_the_ground():
    """The arm's hand is dragged over the ground."""
    builder = arm(surface=sim.Surface(friction=0.6))
    builder.joints["joint1"].upper = 3.0
    model = builder.finalize("float64")
    q = np.array([0.45, 2.4, 0.2, 0.05, -0.1, 0.02, 1.0])
    hand = model.geometries[[geometry.type for geometry in model.geometries].index(BOX)]
    pose = sim.forward_kinematics(model, q[None], ["link3"]).numpy()[0, 0]
    turn = Rotation.from_quat(pose[3:])
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * hand.size + hand.placement[:3]
    lowest = (pose[:3] + turn.apply(corners))[:, 2].min()
    builder.joints["joint0"].placement[2] += 0.002 - lowest
    c = case(builder.finalize("float64"), 10, q, [0.3, 1.5, -0.6, 0.5, 0.4, 0.3], force=0.3)
    assert {"slide", "slip"} <= regimes(c)
    check(c, [*BODY, "joint_placement", "friction_loss", "damping", "armature"])


@pytest.mark.parametrize("friction", ["cone", "pyramid"])
def test_robot_on_robot(friction):
    """Two arms that swing against each other, each with a capsule for its forearm."""
    builder = sim.ModelBuilder()
    for side in (-1.0, 1.0):
        links = [f"{name}{side:+.0f}" for name in ("upper", "fore")]
        for number, link in enumerate(links):
            builder.add_link(link, mass=1.0 + 0.3 * number, com=(0.01, 0.02, 0.2), inertia=(0.03, 0.02, 0.01))
            builder.add_joint(
                f"to {link}", "revolute", child=link, parent=links[0] if number else "world",
                position=(0.0, 0.0, 0.4) if number else (0.06 * side, 0.02 * side, 0.0),
                axis=(0.0, 1.0, 0.1) if number else (0.1, 1.0, 0.0), spring=sim.Spring(damping=0.05), armature=0.01,
            )  # fmt: skip
        builder.add_geometry(
            links[1], CAPSULE, size=(0.05, 0.15, 0.0), position=(0.0, 0.0, 0.2),
            surface=sim.Surface(friction=0.5, restitution=0.5),
            orientation=(0.2 * side, 0.0, 0.0, 1.0),
        )  # fmt: skip
    model = builder.finalize("float64")
    c = case(model, 10, np.array([0.0, -0.03, 0.0, 0.03]), [1.0, 0.4, -0.5, -0.8], sim.HardContact(friction=friction))
    assert regimes(c) & {"slide", "stick"}
    check(c, [*BODY, "restitution", "joint_placement", "damping", "armature"])


@pytest.mark.parametrize("sweeps", [10, 50])
def test_balls_of_three_sizes(sweeps):
    """A ball thrown on two that touch: one problem over all contacts of a world."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.6))
    for number, (x, z, radius) in enumerate([(-0.101, 0.1, 0.1), (0.081, 0.08, 0.08), (0.0, 0.21, 0.06)]):
        builder.add_sphere(
            radius=radius, mass=0.2 + 0.1 * number, position=(x, 0.01 * number, z), surface=sim.Surface(friction=0.9)
        )
    model = builder.finalize("float64")
    qd = np.zeros((3, 6))
    qd[2] = [0.2, 0.1, -1.5, 0.3, 0.2, 0.1]
    c = case(model, 10, qd=qd.reshape(-1), contact=sim.PgsContact(sweeps=sweeps))
    check(c, BODY)


@pytest.mark.parametrize("sweeps", [10, 50])
def test_ellipsoid_between_ground_and_ball(sweeps):
    """A ball lands on the slope of an ellipsoid, which rolls away under it."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.6))
    builder.add_ellipsoid(
        semi_axes=(0.2, 0.15, 0.1), mass=0.5, position=(0.0, 0.0, 0.1), surface=sim.Surface(friction=0.9)
    )
    builder.add_sphere(radius=0.06, mass=0.3, position=(0.08, 0.02, 0.155), surface=sim.Surface(friction=0.7))
    q = builder.finalize("float64").q0
    q[3:7] = (0.01, 0.02, 0.05, 1.0)
    qd = np.zeros(12)
    qd[6:] = [0.1, 0.2, -1.0, 0.3, 0.2, 0.1]
    c = case(builder.finalize("float64"), 10, q, qd, sim.PgsContact(sweeps=sweeps))
    assert regimes(c) & {"slide", "stick"}
    check(c, BODY)


def test_quadruped_lands_and_slides():
    """Fifty steps: four feet meet the ground and slide while springs hold the legs."""
    scene = quadruped.build("float64", friction=0.4, height=0.004)
    model = scene.model
    joints = model.dof_q >= 0
    rest = np.where(joints, scene.q0[model.dof_q], 0.0)
    model.parameters.update(stiffness=60.0 * joints, damping=2.0 * joints, rest_position=rest)
    q = scene.q0.copy()
    q[3:7] = (0.01, 0.02, 0.03, 1.0)
    qd = np.zeros(model.nv)
    qd[:6] = 1.2, 0.3, -0.2, 0.1, 0.2, 0.1
    c = case(model, 50, q, qd, force=0.5, dt=1 / 500)
    assert {"open", "slide"} <= regimes(c)
    check(c, [*BODY, "joint_placement", "damping", "armature", "stiffness", "rest_position"], most=25)
