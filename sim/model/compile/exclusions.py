"""Excluded pairs of geometries, and pairs with their own friction or softness."""

from collections.abc import Iterable, Mapping

from sim.errors import ModelError
from sim.model.geometries import Geometry, PairFriction, PairSoftness
from sim.model.specs import WORLD, WorldSpec
from sim.model.topology import ExcludedPairs
from warp_kernels import types as codes


def excluded_pairs(world: WorldSpec, geometries: list[Geometry]) -> ExcludedPairs:
    """Return the pairs of geometry indices that never collide: on links joined by a joint, or excluded by name.

    Links welded together count as one. The world is no link's neighbour, so that a link on a joint to the world
    collides with the ground; but the base of a robot, welded to the world, is a neighbour of the next link.
    """
    body = _bodies(world)

    def pair(a: str, b: str) -> tuple[int, int]:
        return min(body[a], body[b]), max(body[a], body[b])

    neighbours = {pair(joint.parent, joint.child) for joint in world.joints.values() if joint.parent != WORLD}
    for names in world.excluded:
        _check_links(names, body)
        neighbours.add(pair(min(names), max(names)))
    groups = []
    for names in world.excluded_groups:
        _check_links(names, body)
        groups.append({body[name] for name in names})
    owners = {
        index: body[spec.link]
        for index, (spec, geometry) in enumerate(zip(world.geometries.values(), geometries, strict=True))
        if geometry.collides
    }
    return ExcludedPairs(owners, neighbours, groups, _excluded_geometries(world))


def _bodies(world: WorldSpec) -> dict[str, int]:
    """Return the index of the body that each link belongs to, for the world's links and those welded together."""
    cluster = {name: name for name in (WORLD, *world.links)}

    def head(name: str) -> str:
        while cluster[name] != name:
            cluster[name] = cluster[cluster[name]]  # path halving
            name = cluster[name]
        return name

    for joint in world.joints.values():
        if joint.type == codes.FIXED and joint.parent != WORLD:
            cluster[head(joint.child)] = head(joint.parent)
    number = {name: index for index, name in enumerate(cluster)}
    return {name: number[head(name)] for name in cluster}


def _check_links(names: Iterable[str], body: dict[str, int]) -> None:
    for name in names:
        if name not in body:
            raise ModelError(f"exclude_collision: unknown link '{name}'")


def _excluded_geometries(world: WorldSpec) -> set[tuple[int, int]]:
    """Return the pairs of geometry indices that are excluded by their names."""
    index = {name: number for number, name in enumerate(world.geometries)}
    return {_pair(index, names, "exclude_geometries") for names in world.excluded_geometries}


def _pair(index: Mapping[str, int], names: Iterable[str], method: str) -> tuple[int, int]:
    """Return the indices of two geometries, the smaller one first."""
    for name in names:
        if name not in index:
            raise ModelError(f"{method}: unknown geometry '{name}'")
    i, j = sorted(index[name] for name in names)
    return i, j


def pair_frictions(world: WorldSpec) -> tuple[PairFriction, ...]:
    """Return the pairs of geometries that have their own friction."""
    index = {name: number for number, name in enumerate(world.geometries)}
    return tuple(
        PairFriction(*_pair(index, names, "set_pair_friction"), is_isotropic=values[1] is None)
        for names, values in world.pair_frictions.items()
    )


def pair_softness(world: WorldSpec) -> tuple[PairSoftness, ...]:
    """Return the softness of pairs of geometries that have their own."""
    index = {name: number for number, name in enumerate(world.geometries)}
    return tuple(
        PairSoftness(*_pair(index, names, "set_pair_softness"), softness, margin, gap)
        for names, (softness, margin, gap) in world.pair_softness.items()
    )
