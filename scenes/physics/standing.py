"""A quadruped that stands, and one that is dropped and settles: the ground carries its weight."""

from dataclasses import replace

import numpy as np

from scenes import quadruped
from scenes.physics.scene import G, PhysicsScene, Quantity

STIFFNESS = 200.0  # stiffness of every joint spring [N m/rad]
DAMPING = 5.0  # damping of every joint [N m s/rad]


def robot(height: float) -> PhysicsScene:
    """Build the quadruped of :mod:`scenes.quadruped` with joint springs, its feet ``height`` above the ground [m]."""
    scene = quadruped.build("float64", height=height)
    joints = scene.model.dof_q >= 0
    rest = np.where(joints, scene.q0[scene.model.dof_q], 0.0)
    springs = {"stiffness": STIFFNESS * joints, "damping": DAMPING * joints, "rest_position": rest}
    model = replace(scene.model, q0=scene.q0, parameters={**scene.model.parameters, **springs})
    weight = float(model.parameters["mass"].sum()) * G
    settled = "the oscillation has died out"
    quantities = (
        Quantity("contact forces, vertical", "N", weight, 1e-4, settled, lambda m: float(m.support[2])),
        Quantity("contact forces, sideways", "N", 0.0, 1e-4, settled, lambda m: float(np.abs(m.support[:2]).max())),
        # The springs push the feet outwards. With Newton's method they creep, by regularised friction, at a thousandth
        # of the velocity that the force would give a foot in a step.
        Quantity("speed", "m/s", 0.0, 1e-6, settled, lambda m: float(np.abs(m.qd[-1]).max()), 1e-4),
    )
    name = f"quadruped, dropped from {height:g} m" if height else "quadruped, standing"
    return PhysicsScene(name, model, np.zeros(model.nv), 1e-3, 4.0, quantities)
