"""Properties of joints in the schemas of Newton, MuJoCo and PhysX, in SI units and rad."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pxr import Usd

from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.stage import Scene

# PhysX' default, which means no limit
UNBOUNDED_SPEED = 1e6


@dataclass(frozen=True)
class Units:
    """Units of a joint: SI units per unit of the file.

    Attributes:
        position: rad or m; own: the same where MuJoCo's schema has rad instead of degrees.
        inertia: kg m^2 or kg.
        effort: N m or N.
    """

    position: float
    own: float
    inertia: float
    effort: float


# Properties by the argument of the builder's add_joint: attributes in the order of precedence, and their units.
Unit = Callable[[Units], float]
PROPERTIES: dict[str, tuple[tuple[str, Unit], ...]] = {
    "armature": (
        ("newton:armature", lambda unit: unit.inertia),
        ("mjc:armature", lambda unit: unit.inertia),
        ("physxJoint:armature", lambda unit: unit.inertia),
    ),
    "friction_loss": (
        ("newton:friction", lambda unit: unit.effort),
        ("mjc:frictionloss", lambda unit: unit.effort),
        ("urdf:dynamics:friction", lambda _: 1.0),
    ),
    "damping": (
        ("newton:damping", lambda unit: unit.effort / unit.position),
        ("mjc:damping", lambda unit: unit.effort / unit.own),
        ("urdf:dynamics:damping", lambda _: 1.0),
    ),
    "velocity": (
        ("newton:velocityLimit", lambda unit: unit.position),
        ("physxJoint:maxJointVelocity", lambda unit: unit.position),
        ("urdf:limit:velocity", lambda _: 1.0),
    ),
    "stiffness": (("mjc:stiffness", lambda unit: unit.effort / unit.own),),
}
# For joints with a single coordinate only.
SCALAR_PROPERTIES: dict[str, tuple[tuple[str, Unit], ...]] = {
    "limit_stiffness": (
        ("newton:limitStiffness", lambda unit: unit.effort / unit.position),
        ("physxLimit:angular:stiffness", lambda unit: unit.effort / unit.position),
        ("physxLimit:linear:stiffness", lambda unit: unit.effort / unit.position),
    ),
    "limit_damping": (
        ("newton:limitDamping", lambda unit: unit.effort / unit.position),
        ("physxLimit:angular:damping", lambda unit: unit.effort / unit.position),
        ("physxLimit:linear:damping", lambda unit: unit.effort / unit.position),
    ),
}


def joint_properties(scene: Scene, prim: Usd.Prim, joint: Joint | None) -> dict[str, float]:
    """Return joint properties of other simulators' schemas, as arguments of :meth:`sim.ModelBuilder.add_joint`.

    Newton's schema takes precedence, then MuJoCo's, then PhysX', then attributes of a converted URDF file, which are in
    its units. Zeros and infinities, which mean that the property is absent, are omitted.

    Args:
        scene: the file.
        prim: the joint, or the body that is free.
        joint: None for a body that is free.
    """
    if joint is None:
        armature = scene.number(prim, "physxJoint:armature")
        return {"armature": armature * scene.mass} if armature else {}
    table = PROPERTIES | (SCALAR_PROPERTIES if joint.type in ("revolute", "prismatic") else {})
    unit = _units(scene, joint)
    found = {}
    for name, attributes in table.items():
        values = [(scene.number(prim, attribute), of) for attribute, of in attributes]
        numbers = [value * of(unit) for value, of in values if value is not None]
        if numbers and numbers[0] and np.isfinite(numbers[0]):
            found[name] = numbers[0]
    if found.get("velocity", 0.0) >= UNBOUNDED_SPEED * unit.position:
        del found["velocity"]
    if "limit_stiffness" not in found:
        found.pop("limit_damping", None)  # a hard limit has no damper
    if "stiffness" in found and joint.type != "spherical":
        found["rest_position"] = scene.mujoco_position(prim, "mjc:springref", joint.type == "revolute") or 0.0
    return found if joint.type != "fixed" else {}  # none of it can move


def states(scene: Scene, prim: Usd.Prim, name: str) -> bool:
    """Return whether a joint states a property of :data:`PROPERTIES`, be it as zero."""
    return any(scene.stated(prim, attribute) is not None for attribute, _ in PROPERTIES.get(name, ()))


def _units(scene: Scene, joint: Joint) -> Units:
    if joint.type == "prismatic":
        return Units(scene.length, scene.length, scene.mass, scene.mass * scene.length)
    moment = scene.mass * scene.length**2
    return Units(float(np.radians(1.0)), 1.0, moment, moment)
