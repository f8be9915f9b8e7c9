"""Gradients that every adjoint of a solution must have, whichever solver found it: each regime and each kind of row.

``contact`` are the options of the solver. ``inside`` is the depth at which bodies that rest on something begin [m]:
Newton's method has a kink at a distance of zero.
"""

from dataclasses import replace

import numpy as np
import torch

import sim
import sim.torch
from tests.contact.test_cones import arm as spherical_arm
from tests.contact.test_cones import turned
from tests.contact.test_equalities import bent_loop
from tests.contact.test_gradients import (
    BODY,
    JOINT,
    LINK,
    TILT,
    arm_and_ball,
    at,
    ball,
    box,
    pendulum,
    spin,
)
from tests.contact.test_torsion import ball as resisting_ball
from tests.simulation.differences import Case, case, check, regimes


def lowered(model: sim.Model, inside: float) -> np.ndarray:
    """Coordinates in which every loose body is a little lower, each more than the one before."""
    q = model.q0.copy().reshape(-1, 7)
    q[:, 2] -= inside * (1 + np.arange(len(q)))
    return q.reshape(-1)


def residuals(c: Case) -> tuple[float, float]:
    """Of the solution [m/s], and of its adjoint, relative."""
    simulator = c.simulator()
    c.rollout(simulator).backward(np.ones((1, c.model.nq)))
    return simulator.residual[0], simulator.adjoint_residual[0]


def check_rolling_ball(contact: sim.ContactMethod, inside: float = 0.0) -> None:
    c = case(ball(), 10, lowered(ball(), inside), spin(0.3, 0.1, 0.0), contact)
    assert "stick" in regimes(c)
    check(c, [n for n in BODY if n != "friction"])


def check_sliding_ball(contact: sim.ContactMethod, inside: float = 0.0) -> None:
    c = case(ball(), 10, lowered(ball(), inside), spin(3.0, 1.0, 0.0), contact)
    assert regimes(c) == {"slide"}
    check(c, BODY)


def check_bouncing_ball(contact: sim.ContactMethod) -> None:
    model = ball(restitution=0.6)
    c = case(model, 10, at(model, 0.13), spin(1.0, 1.0, -3.0), contact)
    assert regimes(c) == {"open", "stick"}
    check(c, [*BODY, "restitution"], zero=["friction"])


def check_resting_box(contact: sim.ContactMethod, inside: float = 0.0) -> None:
    """Four redundant contacts hold it."""
    c = case(box(1.5), 10, lowered(box(), inside), contact=contact, force=0.1)
    assert regimes(c) == {"stick"}
    assert max(residuals(c)) < 1e-12
    check(c, ["mass", "com", "inertia", "gravity", "geometry_size", "geometry_placement"])


def check_sliding_box(contact: sim.ContactMethod, inside: float = 0.0, adjoint_bound: float = np.inf) -> None:
    """It slides and spins: how the corners share the weight decides where their friction acts.

    adjoint_bound: of the adjoint's residual.
    """
    c = case(box(), 10, lowered(box(), inside), [2.0, 0.7, 0.0, 0.0, 0.0, 0.4], contact)
    assert "slide" in regimes(c)
    solution, adjoint = residuals(c)
    assert solution < 1e-12
    assert adjoint < adjoint_bound
    check(c, BODY)


def check_landing_box(contact: sim.ContactMethod) -> None:
    model = box(orientation=TILT)
    c = case(model, 10, at(model, 0.0527), spin(1.0, 0.2, -0.5), contact)
    assert {"open", "slide"} <= regimes(c)
    check(c, BODY)


def check_robot(contact: sim.ContactMethod) -> None:
    """Both limits, dry friction that slips and that holds, and a ball that slides on the hand."""
    c = replace(arm_and_ball(contact.friction), contact=contact)
    assert {"lower", "upper", "slip", "held", "slide"} <= regimes(c)
    check(c, [*BODY, *JOINT, "joint_placement"], most=12)


def check_limits(contact: sim.ContactMethod) -> None:
    for q, qd, parameter in ((-0.29, -2.0, "lower_limit"), (0.49, 2.0, "upper_limit")):
        c = replace(pendulum(8, q, qd, limits=sim.Limits(-0.3, 0.5), spring=sim.Spring(damping=0.1)), contact=contact)
        other = "upper_limit" if parameter == "lower_limit" else "lower_limit"
        check(c, [*LINK, "lower_limit", "upper_limit", "damping"], zero=[other])


def check_slipping_joint(contact: sim.ContactMethod) -> None:
    c = replace(pendulum(8, 0.3, 2.0, friction_loss=0.7), contact=contact)
    assert regimes(c) == {"slip"}
    check(c, [*LINK, "friction_loss"])


def held_joint(contact: sim.ContactMethod) -> Case:
    """Dry friction that holds a pendulum."""
    c = replace(pendulum(8, 0.3, 0.0, friction_loss=5.0), contact=contact)
    assert regimes(c) == {"held"}
    return c


def check_spinning_and_rolling_friction(contact: sim.ContactMethod, inside: float = 0.0) -> None:
    """Their bounds are part of the contact's normal impulse, and so is their adjoint."""
    for qd, slip in (([0.5, 0.2, 0.0, -2.0, 5.0, 3.0], ()), ([3.0, 1.0, 0.0, 2.0, 1.0, 5.0], ("friction",))):
        model = resisting_ball(friction=0.3) if slip else resisting_ball()
        c = case(model, 8, lowered(model, inside), qd, contact)
        others = [name for name in BODY if name != "friction"]
        check(c, ["torsional_friction", "rolling_friction", *others, *slip])


def check_equalities(contact: sim.ContactMethod) -> None:
    """A chain closed to a loop by a point, and a coupled pair of joints."""
    builder = bent_loop()
    builder.add_point_constraint("loop", "l3", "world", position_a=(0.02, 0.05, 0.3))
    model = builder.finalize("float64")
    model.parameters["anchor_b"][0, :3] += (0.002, -0.001, 0.0015)
    check(case(model, 6, qd=[0.5, -0.3, 0.2, 0.1], contact=contact), ["anchor_a", "anchor_b", *LINK])
    builder = bent_loop()
    builder.add_joint_coupling("j3", "j1", ratio=-1.4, offset=0.002)
    check(
        case(builder.finalize("float64"), 6, qd=[0.5, -0.3, 0.2, 0.4], contact=contact),
        ["coupling_ratio", "coupling_offset", *LINK],
    )


def check_spherical_limit(contact: sim.ContactMethod) -> None:
    model = spherical_arm(swing=0.5)
    q = np.concatenate([[0.2], turned(0.47, (0.6, 0.8, 0.0)), [0.1]])
    check(case(model, 6, q, [0.5, 3.0, 2.0, 1.0, 0.3], contact), ["swing_limit", *LINK])


def gradcheck_rollout(contact: sim.ContactMethod, inside: float = 0.0) -> None:
    """Steps of two worlds, a ball that slides and one that rolls, through the torch operation."""
    simulator = sim.Simulator(ball(), 1 / 240, 2, "cpu", contact)
    q = torch.tensor(np.tile(lowered(ball(), inside), (2, 1)), requires_grad=True)
    qd = torch.tensor([spin(3.0, 1.0, 0.0), spin(0.3, 0.1, 0.0)], dtype=torch.float64, requires_grad=True)
    friction = torch.tensor(simulator.parameters["friction"], requires_grad=True)
    torch.autograd.gradcheck(
        lambda q, qd, friction: sim.torch.rollout(simulator, q, qd, steps=3, friction=friction), (q, qd, friction)
    )
