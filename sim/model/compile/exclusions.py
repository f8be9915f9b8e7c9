"""Pairs of geometries that never touch."""

from sim.errors import ModelError
from sim.model.model import Geometry
from sim.model.specs import WORLD, WorldSpec
from warp_kernels import types as codes


def excluded_pairs(world: WorldSpec, geometries: list[Geometry]) -> frozenset[tuple[int, int]]:
    """Pairs of geometry indices that never collide: on links joined by a joint, or excluded by name.

    Links welded together count as one. The world itself is nobody's neighbour, so that a link hinged to it still
    touches the ground; but the base of a robot, welded to the world, is a neighbour of the next link.
    """
    cluster = {name: name for name in (WORLD, *world.links)}

    def head(name: str) -> str:
        while cluster[name] != name:
            name = cluster[name]
        return name

    for joint in world.joints.values():
        if joint.type == codes.FIXED and joint.parent != WORLD:
            cluster[head(joint.child)] = head(joint.parent)
    pairs = {
        frozenset((head(joint.parent), head(joint.child))) for joint in world.joints.values() if joint.parent != WORLD
    }
    for names in world.excluded:
        for name in names:
            if name not in cluster:
                raise ModelError(f"exclude_collision: unknown link '{name}'")
        pairs.add(frozenset(head(name) for name in names))
    owners = [head(spec.link) for spec in world.geometries.values()]
    colliding = [index for index, geometry in enumerate(geometries) if geometry.collides]
    by_link = {(i, j) for i in colliding for j in colliding if i < j and frozenset((owners[i], owners[j])) in pairs}
    return frozenset(by_link | _excluded_geometries(world))


def _excluded_geometries(world: WorldSpec) -> set[tuple[int, int]]:
    """Pairs of geometry indices that are excluded by their own names."""
    index = {name: number for number, name in enumerate(world.geometries)}
    pairs = set()
    for names in world.excluded_geometries:
        for name in names:
            if name not in index:
                raise ModelError(f"exclude_geometries: unknown geometry '{name}'")
        i, j = sorted(index[name] for name in names)
        pairs.add((i, j))
    return pairs
