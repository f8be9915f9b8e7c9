"""Surfaces of colliders in MuJoCo's schema: friction, dimension and softness of contacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
from pxr import Sdf, Usd, UsdShade

from sim.importers.usd.stage import Scene
from sim.model.builder import WorldBuilder
from sim.model.softness import SOLIMP, SOLREF, Softness, corrected_softness
from sim.usd.annotations import kept_softness

# Minimum ``condim`` of contacts with sliding, torsional and rolling friction, and MuJoCo's minimum friction of each.
LEAST_DIMENSION = np.array([3, 4, 6])
LEAST_FRICTION = 1e-5
DIMENSIONS = (1, 3, 4, 6)
# Defaults of the schemas, which files don't state
DIMENSION, TORSIONAL, ROLLING = 3, 0.005, 0.0001


def softness_of(scene: Scene, prim: Usd.Prim, solref: str, solimp: str) -> Softness:
    """Return the softness that a prim states under two names; MuJoCo's default without them."""
    return corrected_softness(scene.numbers(prim, solref, SOLREF), scene.numbers(prim, solimp, SOLIMP))


def constraint_softness(scene: Scene, prim: Usd.Prim, stored: str) -> Softness:
    """Return the softness of a joint's constraint: that of MuJoCo's schema, or the one stored under a name.

    Raises:
        ModelError: for invalid stored numbers.
    """
    schemas = ("MjcEqualityJointAPI", "MjcEqualityConnectAPI", "MjcEqualityWeldAPI")
    if any(scene.has_schema(prim, name) for name in schemas):
        return softness_of(scene, prim, "mjc:solref", "mjc:solimp")
    return kept_softness(prim, stored)


def surface_of(scene: Scene, prim: Usd.Prim, friction: float) -> dict[str, object]:
    """Return surface properties of a collider in MuJoCo's schema, as of :class:`sim.Surface`; nothing for others.

    Args:
        scene: the file.
        prim: the collider.
        friction: sliding friction of its material.
    """
    if not scene.has_schema(prim, "MjcCollisionAPI"):
        return {}
    material, _ = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")
    if material:
        for name in ("newton:contactStiffness", "newton:contactDamping"):
            scene.stated(material.GetPrim(), name)  # of the solref that the collider states itself
    slide, spin, roll = _acting(_frictions(scene, prim, friction), _dimension(scene, prim)).tolist()
    margin, gap = (
        max(0.0, scene.number(prim, f"newton:contact{name}") or scene.number(prim, f"mjc:{name.lower()}") or 0.0)
        for name in ("Margin", "Gap")
    )
    mix = scene.number(prim, "mjc:solmix")
    return {
        "friction": slide, "torsional_friction": spin * scene.length, "rolling_friction": roll * scene.length,
        "friction_rule": "maximum", "contact_priority": _priority(scene, prim),
        "softness": softness_of(scene, prim, "mjc:solref", "mjc:solimp"), "softness_mix": 1.0 if mix is None else mix,
        "contact_margin": margin * scene.length if np.isfinite(margin) else 0.0,
        "contact_gap": gap * scene.length if np.isfinite(gap) else 0.0,
    }  # fmt: skip


def state_pairs(
    scene: Scene, builder: WorldBuilder, names: Mapping[Sdf.Path, Sequence[str]], frictions: Mapping[Sdf.Path, float]
) -> None:
    """Set the friction of pairs of colliders of different ``condim``, of which MuJoCo takes the larger.

    Args:
        scene: the file.
        builder: the builder with the geometries.
        names: names of the geometries of each collider.
        frictions: sliding friction of the material of each collider.
    """
    prims = {path: scene.prim(path) for path in names}
    own = {path: prim for path, prim in prims.items() if scene.has_schema(prim, "MjcCollisionAPI")}
    dimensions = {path: _dimension(scene, prim) for path, prim in own.items()}
    if len(set(dimensions.values())) < 2:
        return
    stated = {path: _frictions(scene, prim, frictions[path]) for path, prim in own.items()}
    priorities = {path: _priority(scene, prim) for path, prim in own.items()}
    bodies = {path: scene.body_of(path) for path in own}
    for first, second in combinations(own, 2):
        if dimensions[first] == dimensions[second] or bodies[first] == bodies[second]:
            continue
        if priorities[first] != priorities[second]:
            continue  # that of the higher priority counts
        here = np.maximum(*(_acting(stated[path], dimensions[path]) for path in (first, second)))
        dimension = max(dimensions[first], dimensions[second])
        there = _acting(np.maximum(stated[first], stated[second]), dimension)
        if (here != there).any():
            for pair in product(names[first], names[second]):
                slide, spin, roll = there.tolist()
                builder.set_pair_friction(
                    *pair, friction=slide, torsional_friction=spin * scene.length, rolling_friction=roll * scene.length
                )


def _frictions(scene: Scene, prim: Usd.Prim, friction: float) -> np.ndarray:
    """Return sliding, torsional and rolling friction of a collider [3], in units of the stage."""
    material, _ = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")
    found = [friction]
    for default, newton, mujoco in (
        (TORSIONAL, "newton:torsionalFriction", "mjc:torsionalfriction"),
        (ROLLING, "newton:rollingFriction", "mjc:rollingfriction"),
    ):
        values = [scene.number(material.GetPrim(), name) for name in (newton, mujoco)] if material else []
        found.append(next((value for value in values if value is not None), default))
    return np.maximum(found, LEAST_FRICTION)


def _acting(friction: np.ndarray, dimension: int) -> np.ndarray:
    """Return friction [3], zero in the dimensions that contacts don't have."""
    return np.where(dimension >= LEAST_DIMENSION, friction, 0.0)


def _dimension(scene: Scene, prim: Usd.Prim) -> int:
    stated = scene.number(prim, "mjc:condim")
    if stated is not None and stated not in DIMENSIONS:
        raise scene.error(prim, f"mjc:condim is {stated:g}; it must be 1, 3, 4 or 6")
    return DIMENSION if stated is None else int(stated)


def _priority(scene: Scene, prim: Usd.Prim) -> int:
    return int(np.clip(scene.number(prim, "mjc:priority") or 0.0, -(2**31), 2**31 - 1))
