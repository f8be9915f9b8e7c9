"""Trees of bodies formed by the joints of a USD file."""

from __future__ import annotations

from dataclasses import dataclass

from pxr import Sdf

from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.stage import Kind, Scene
from sim.usd.parts import tree_number


@dataclass(frozen=True)
class Forest:
    """Bodies in the order of their trees, the parent joint of each (None: free), and the other joints."""

    carriers: dict[Sdf.Path, Joint | None]
    loops: list[Joint]


def forest(scene: Scene, joints: list[Joint]) -> Forest:
    """Choose the parent joints of the bodies.

    A tree starts at the body that is joined to the world; without one at the root of its articulation, or else at the
    first of its bodies in the file. What remains are joints that close loops, and joints excluded from articulations
    between bodies that are connected without them. No dynamic body carries a kinematic one.
    """
    touching: dict[Sdf.Path, list[Joint]] = {body: [] for body in scene.bodies}
    for joint in sorted(joints, key=lambda joint: not joint.in_tree):
        touching[joint.child].append(joint)
        if joint.parent is not None:
            touching[joint.parent].append(joint)
    carriers: dict[Sdf.Path, Joint | None] = {}
    used: set[Sdf.Path] = set()
    for root in _roots(scene, joints):
        if root in carriers:
            continue
        ground = next((joint for joint in touching[root] if joint.parent is None and joint.in_tree), None)
        used.update([ground.path] if ground is not None else [])
        carriers[root] = ground
        _grow(root, touching, carriers, used, scene.kinematic)
    return Forest(_as_written(scene, carriers), [joint for joint in joints if joint.path not in used])


def _as_written(scene: Scene, carriers: dict[Sdf.Path, Joint | None]) -> dict[Sdf.Path, Joint | None]:
    """Return the bodies with their trees in the order in which they were written; others follow unchanged."""
    number: dict[Sdf.Path, float] = {}
    for body, carrier in carriers.items():
        above = None if carrier is None else carrier.parent
        number[body] = tree_number(scene.prim(body)) if above is None else number[above]
    return {body: carriers[body] for body in sorted(carriers, key=lambda body: number[body])}


def _roots(scene: Scene, joints: list[Joint]) -> list[Sdf.Path]:
    """Yield every body, starting with preferred roots of trees."""
    grounded = [joint.child for joint in joints if joint.parent is None and joint.in_tree]
    named = [path for found in scene.of(Kind.Articulation) for path in (*found.rootPrims, found.primPath)]
    by_root = [path for path in named if path in scene.bodies]
    kinematic = [body for body in scene.bodies if body in scene.kinematic]
    return [*grounded, *kinematic, *by_root, *scene.bodies]


def _grow(
    root: Sdf.Path,
    touching: dict[Sdf.Path, list[Joint]],
    carriers: dict[Sdf.Path, Joint | None],
    used: set[Sdf.Path],
    kinematic: set[Sdf.Path],
) -> None:
    """Follow the joints from a root, depth first in the order of the file."""
    stack = list(reversed(touching[root]))
    while stack:
        joint = stack.pop()
        if joint.path in used or joint.parent is None or not joint.in_tree:
            continue
        if joint.parent not in carriers:
            joint = joint.swapped()
        if joint.child in carriers or (joint.child in kinematic and joint.parent not in kinematic):
            continue
        used.add(joint.path)
        carriers[joint.child] = joint
        stack.extend(reversed(touching[joint.child]))
