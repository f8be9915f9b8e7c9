"""Gradients through contact, joint limits and dry friction against finite differences, one regime after the other.

Each case says which regimes it must pass through. Where a derivative doesn't exist (the moment at which a contact
begins to carry, to slip or to bounce falls exactly on the state) the test stays away: the states here are in general
position.
"""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.simulator.differences import Case, case, check, regimes
from warp_kernels.types import BOX, CAPSULE

BODY = ("mass", "com", "inertia", "gravity", "friction", "geometry_size", "geometry_placement")
JOINT = ("damping", "armature", "stiffness", "rest_position", "friction_loss", "lower_limit", "upper_limit")
TILT = (0.01, 0.005, 0.1, 1.0)
PYRAMID = sim.ContactOptions(friction="pyramid")


def ball(**options: float) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground(friction=0.5)
    builder.add_sphere(radius=0.1, mass=0.3, position=(0.0, 0.0, 0.1), **{"friction": 0.8, **options})
    return builder.finalize("float64")


def box(friction: float = 0.6, orientation: tuple[float, ...] = (0.0, 0.0, 0.1, 1.0)) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground(friction=1.0)
    builder.add_box(
        half_extents=(0.1, 0.2, 0.05), mass=0.7, position=(0.0, 0.0, 0.05), orientation=orientation, friction=friction
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

    def options(self, friction: str, sweeps: int, **others: float) -> sim.ContactOptions:
        return sim.ContactOptions(friction=friction, sweeps=sweeps, **others)

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


def arm(**options: object) -> sim.ModelBuilder:
    """Four joints of all kinds with springs, limits and dry friction, a box in its hand and a capsule along its
    forearm.
    """
    builder = sim.ModelBuilder()
    builder.add_ground(friction=0.7)
    parent = "world"
    joints: list[tuple[str, tuple[float, float, float], dict]] = [
        ("revolute", (0.0, 1.0, 0.0), dict(lower=-0.5, upper=0.5, friction_loss=5.0)),
        ("revolute", (1.0, 0.2, 0.0), dict(lower=-0.5, upper=0.5, friction_loss=0.4, damping=0.3, armature=0.05,
                                           stiffness=3.0, rest_position=0.2)),
        ("prismatic", (0.0, 0.0, 1.0), dict(lower=-0.5, upper=0.5)),
        ("spherical", (0.0, 0.0, 1.0), dict(friction_loss=0.01, damping=0.02)),
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
    builder = arm(friction=0.3)
    builder.add_sphere(radius=0.1, mass=0.4, friction=0.5)
    model = builder.finalize("float64")
    hand = sim.forward_kinematics(model, [[*ARM_Q, *model.q0[7:]]], ["link3"]).numpy()[0, 0]
    q = np.concatenate([ARM_Q, hand[:3] + Rotation.from_quat(hand[3:]).apply([0.01, 0.02, 0.276]), [0, 0, 0, 1]])
    qd = np.concatenate([ARM_QD, [-2.0, 0.3, -2.0, 0.0, 1.0, 0.0]])
    return case(model, 12, q, qd, sim.ContactOptions(sweeps=sweeps, friction=friction), force=0.3)


@pytest.mark.parametrize("sweeps", [1, 5, 50])
@pytest.mark.parametrize("friction", ["cone", "pyramid"])
def test_robot_ball_limits_and_dry_friction(friction, sweeps):
    c = arm_and_ball(friction, sweeps)
    assert {"lower", "upper", "slip", "held", "slide"} <= regimes(c)
    check(c, [*BODY, *JOINT, "joint_placement"])
