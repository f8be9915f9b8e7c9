"""Physical properties stated in a file: NaN raises an error, and ignored properties are named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pxr import Sdf, Usd

from sim.importers.usd.stage import Scene

# Attributes of a physics scene that switch its gravity off.
SWITCHES_OF_GRAVITY = ("newton:gravityEnabled", "mjc:flag:gravity")
# Attributes of shapes that are read
SHAPES = (
    "size", "radius", "height", "axis", "radiusTop", "radiusBottom", "points", "faceVertexCounts", "faceVertexIndices",
)  # fmt: skip
# Values that mean "default" in schemas that the USD library doesn't know, if that is not zero, off or infinite.
USUAL = {
    "physxRigidBody:angularDamping": 0.05,
    "physxRigidBody:maxAngularVelocity": 5729.58,
    "physxRigidBody:maxDepenetrationVelocity": 3.0,
    "physxRigidBody:sleepThreshold": 5e-5,
    "physxRigidBody:stabilizationThreshold": 1e-5,
    "physxRigidBody:cfmScale": 0.025,
    "physxRigidBody:solverPositionIterationCount": 16,
    "physxRigidBody:solverVelocityIterationCount": 1,
    "physxArticulation:enabledSelfCollisions": True,
    "physxArticulation:articulationEnabled": True,
    "physxArticulation:sleepThreshold": 5e-5,
    "physxArticulation:stabilizationThreshold": 1e-5,
    "physxArticulation:solverPositionIterationCount": 32,
    "physxArticulation:solverVelocityIterationCount": 1,
    "physxJoint:maxJointVelocity": 1e6,
    "physxMaterial:frictionCombineMode": "average",
    "physxMaterial:restitutionCombineMode": "average",
    "physxMaterial:improvePatchFriction": True,
    "physxSurfaceVelocity:surfaceVelocityEnabled": True,
    "physxSurfaceVelocity:surfaceVelocityLocalSpace": True,
    "newton:selfCollisionEnabled": True,
    "newton:mimicEnabled": True,
    # Switches of MuJoCo without which its models move in another way
    **{
        f"mjc:flag:{name}": True
        for name in (
            "actuation",
            "clampctrl",
            "constraint",
            "contact",
            "damper",
            "equality",
            "filterparent",
            "frictionloss",
            "limit",
            "refsafe",
            "spring",
        )
    },
    "mjc:actDim": -1,
    "mjc:springlength": (-1.0, -1.0),
}
# Properties that have no meaning here: they concern MuJoCo's and Newton's solvers, statistics and viewers.
MEANINGLESS = frozenset({
    "newton:maxSolverIterations", "newton:maxHullVertices", "mjc:group", "mjc:rgba", "mjc:width", "mjc:lengthRange:min",
    "mjc:lengthRange:max", "mjc:inheritRange", "mjc:flag:energy", "mjc:flag:fwdinv", "mjc:flag:invdiscrete",
    "mjc:compiler:inertiaFromGeom", "mjc:compiler:fitAABB", "mjc:compiler:fuseStatic", "mjc:compiler:saveInertial",
    "mjc:compiler:useThread", "mjc:compiler:alignFree", "mjc:compiler:autoLimits",
    *(
        f"mjc:option:{name}"
        for name in (
            "ccd_iterations", "ccd_tolerance", "iterations", "jacobian", "ls_iterations", "ls_tolerance",
            "sdf_initpoints", "sdf_iterations", "solver", "tolerance",
        )
    ),
})  # fmt: skip


def refuse_types(scene: Scene) -> None:
    """Raise ImportFileError for values whose type differs from that of the attribute in its schema.

    Raises:
        ImportFileError: naming the prim and the attribute.
    """
    for prim in scene.prims():
        for name in prim.GetAuthoredPropertyNames():
            if name in SHAPES or name.startswith("xformOp") or _is_physical(name):
                _refuse_type(scene, prim, name)


def refuse_numbers(scene: Scene) -> None:
    """Raise ImportFileError for NaN as a physical property, or the zero quaternion as an orientation.

    Raises:
        ImportFileError: naming the prim and the property.
    """
    for prim in scene.prims():
        for name in prim.GetAuthoredPropertyNames():
            turns = name.startswith("xformOp:orient")
            if turns or _is_physical(name):
                # A property that moves has no value but at its times.
                value = prim.GetAttribute(name).Get(Usd.TimeCode.EarliestTime()) if prim.HasAttribute(name) else None
                numbers = None if value is None else _numbers(value)
                if numbers is not None and np.isnan(numbers).any():
                    raise scene.error(prim, f"{name} is {numbers.squeeze().tolist()}; it must be a number")
                if numbers is not None and turns and not numbers.any():
                    raise scene.error(prim, f"{name} is the zero quaternion; no rotation has it")


def _refuse_type(scene: Scene, prim: Usd.Prim, name: str) -> None:
    attribute = prim.GetAttribute(name)
    if attribute and attribute.HasAuthoredValue():
        value, usual = attribute.Get(Usd.TimeCode.EarliestTime()), attribute.GetTypeName().defaultValue
        if usual is not None and not isinstance(value, type(usual)):
            raise scene.error(prim, f"{name} is {value!r}; it must be of type '{attribute.GetTypeName()}'")
    elif attribute and attribute.GetResolveInfo().ValueIsBlocked():
        raise scene.error(
            prim, f"{name} is None, which also removes its default; state a value, or remove the attribute"
        )


def note_unread(scene: Scene) -> None:
    """Note the ignored physical properties: one note per schema, with the first prim of each."""
    found: dict[str, dict[str, list[Sdf.Path]]] = {}
    for prim, name in _stated(scene):
        path = prim.GetPath()
        if path.AppendProperty(name) not in scene.read and _is_unknown(prim, name) and _matters(prim, name):
            schema = "UsdPhysics" if _is_standard(name) else name.split(":")[0]
            found.setdefault(schema, {}).setdefault(name, []).append(path)
    for properties in found.values():
        names = (
            f"{name} ('{prims[0]}'{f' and {len(prims) - 1} more' if len(prims) > 1 else ''})"
            for name, prims in properties.items()
        )
        scene.notes.append(f"not read: {', '.join(names)}")


def _stated(scene: Scene) -> Iterator[tuple[Usd.Prim, str]]:
    """Yield the prims and names of all physical properties that the file states."""
    for prim in scene.prims():
        for name in prim.GetAuthoredPropertyNames():
            if _is_physical(name):
                yield prim, name


def _is_physical(name: str) -> bool:
    return _is_standard(name) or name.startswith(("newton:", "mjc:", "physx"))


def _is_standard(name: str) -> bool:
    return name.startswith("physics:") or ":physics:" in name


def _is_unknown(prim: Usd.Prim, name: str) -> bool:
    """Return whether a property is not one of UsdPhysics, whose reader reads all that its schemas on a prim define.

    A property without its schema, as a mass without MassAPI, isn't read either.
    """
    if name in SWITCHES_OF_GRAVITY or name in MEANINGLESS:
        return False
    return not _is_standard(name) or name not in prim.GetPrimDefinition().GetPropertyNames()


def _matters(prim: Usd.Prim, name: str) -> bool:
    """Return whether a property states something other than the default."""
    if prim.HasRelationship(name):
        return bool(prim.GetRelationship(name).GetTargets())
    value = prim.GetAttribute(name).Get()
    usual = USUAL.get(name, prim.GetPrimDefinition().GetAttributeFallbackValue(name))
    numbers = _numbers(value)
    if usual is not None:
        known = _numbers(usual)
        return value != usual if numbers is None or known is None else not np.allclose(numbers, known, rtol=1e-3)
    if numbers is None:
        return bool(value)
    return bool((np.isfinite(numbers) & (numbers != 0.0)).any())


def _numbers(value: Any) -> np.ndarray | None:
    """Return the numbers of a value; None for a text."""
    if hasattr(value, "GetImaginary"):
        value = [*value.GetImaginary(), value.GetReal()]
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
