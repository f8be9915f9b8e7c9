"""Exclusions of collisions in a USD file: collision groups and filtered pairs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from pxr import Sdf, UsdPhysics

from sim.importers.usd.stage import Kind, Scene

# Attributes of an articulation that keep its bodies from colliding with each other.
SELF_COLLISION = ("newton:selfCollisionEnabled", "physxArticulation:enabledSelfCollisions")
MOST_KINDS = 31  # number of groups that the bits of a mask can represent


@dataclass(frozen=True)
class Filters:
    """Bodies and colliders that never collide, and group and mask of colliders in collision groups."""

    bodies: set[frozenset[Sdf.Path]]
    colliders: set[frozenset[Sdf.Path]]
    bits: dict[Sdf.Path, tuple[int, int]]


def read_filters(scene: Scene, colliders: list[UsdPhysics.ShapeDesc]) -> Filters:
    """Read the groups and filtered pairs of a file. Colliders of one set of groups share a bit.

    Raises:
        ImportFileError: for more sets of groups than a mask has bits.
    """
    kinds: dict[frozenset[Sdf.Path], int] = {}
    for found in colliders:
        kinds.setdefault(frozenset(found.collisionGroups), len(kinds))
    if len(kinds) > MOST_KINDS:
        raise scene.error(
            colliders[0].primPath,
            f"the colliders of this file are in {len(kinds)} different sets of collision groups; at most {MOST_KINDS} "
            "are supported. Filter pairs of bodies or colliders instead",
        )
    masks = dict.fromkeys(kinds, -1)
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(scene.stage)
    inverted = _inverted_groups(scene)
    for a, b in ((a, b) for a in kinds for b in kinds):
        apart = any(not table.IsCollisionEnabled(i, j) for i in a for j in b)
        # An inverted group collides only with the groups that it names, so not with colliders without a group.
        if apart or (not b and a & inverted) or (not a and b & inverted):
            masks[a] &= ~(1 << kinds[b])
    bits: dict[Sdf.Path, tuple[int, int]] = {}
    if any(mask != -1 for mask in masks.values()):
        for found in colliders:
            kind = frozenset(found.collisionGroups)
            bits[found.primPath] = (1 << kinds[kind], masks[kind])
    return Filters(*_filtered_pairs(scene, colliders), bits)


def _inverted_groups(scene: Scene) -> set[Sdf.Path]:
    """Return groups that collide only with those that they name, and those merged with such a group."""
    groups = {
        group.primPath: UsdPhysics.CollisionGroup(scene.prim(group.primPath)) for group in scene.of(Kind.CollisionGroup)
    }
    inverted = {path for path, group in groups.items() if group.GetInvertFilteredGroupsAttr().Get()}
    merged = {groups[path].GetMergeGroupNameAttr().Get() for path in inverted} - {None, ""}
    return inverted | {path for path, group in groups.items() if group.GetMergeGroupNameAttr().Get() in merged}


def _filtered_pairs(
    scene: Scene, colliders: list[UsdPhysics.ShapeDesc]
) -> tuple[set[frozenset[Sdf.Path]], set[frozenset[Sdf.Path]]]:
    """Return pairs of bodies, and pairs of colliders."""
    known = {found.primPath for found in colliders}
    below: dict[Sdf.Path, list[Sdf.Path]] = {}
    for path in known:
        for above in path.GetPrefixes():
            below.setdefault(above, []).append(path)
    members = {
        found.primPath: [body for body in found.articulatedBodies if body in scene.bodies]
        for found in scene.of(Kind.Articulation)
    }
    bodies: set[frozenset[Sdf.Path]] = set()
    pairs: set[frozenset[Sdf.Path]] = set()
    described = (*scene.of(Kind.RigidBody), *scene.of(Kind.Articulation), *colliders)
    for found, other in ((each, other) for each in described for other in each.filteredCollisions):
        sides = [_members(path, scene, members, known) for path in (found.primPath, other)]
        if not sides[1]:
            scene.notes.append(f"prim '{found.primPath}': filters collisions with '{other}', which doesn't collide")
        for a, b in ((a, b) for a in sides[0] for b in sides[1] if a != b):
            if a in scene.bodies and b in scene.bodies:
                bodies.add(frozenset((a, b)))
            else:
                pairs.update(frozenset((i, j)) for i in below.get(a, ()) for j in below.get(b, ()) if i != j)
        if found.primPath == other and other in members:
            bodies.update(frozenset(pair) for pair in combinations(members[other], 2))
    for path, own in members.items():
        if any(scene.stated(scene.prim(path), name) is False for name in SELF_COLLISION):
            bodies.update(frozenset(pair) for pair in combinations(own, 2))
    return bodies, pairs


def _members(
    path: Sdf.Path, scene: Scene, articulations: dict[Sdf.Path, list[Sdf.Path]], colliders: set[Sdf.Path]
) -> list[Sdf.Path]:
    """Return the targets of a path in a filtered pair: a body, the bodies of an articulation, or a collider."""
    if path in scene.bodies or path in colliders:
        return [path]
    return articulations.get(path, [])
