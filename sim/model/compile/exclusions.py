"""Pairs of geometries that never touch, or that have a friction of their own."""

from collections.abc import Iterable, Mapping

from sim.errors import ModelError
from sim.model.model import Geometry, PairFriction, PairSoftness
from sim.model.specs import WORLD, WorldSpec
from sim.model.topology import ExcludedPairs
from warp_kernels import types as codes


def excluded_pairs(world: WorldSpec, geometries: list[Geometry]) -> ExcludedPairs:
    """Pairs of geometry indices that never collide: on links joined by a joint, or excluded by name.

    Links welded together count as one. The world itself is nobody's neighbour, so that a link hinged to it still
    touches the ground; but the base of a robot, welded to the world, is a neighbour of the next link.
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
    """The number of the body that each link belongs to, for the world's own links and those welded to each other."""
    cluster = {name: name for name in (WORLD, *world.links)}

    def head(name: str) -> str:
        while cluster[name] != name:
            cluster[name] = cluster[cluster[name]]  # halves the way for the next search
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
    """Pairs of geometry indices that are excluded by their own names."""
    index = {name: number for number, name in enumerate(world.geometries)}
    return {_pair(index, names, "exclude_geometries") for names in world.excluded_geometries}


def _pair(index: Mapping[str, int], names: Iterable[str], method: str) -> tuple[int, int]:
    """The indices of two geometries, the smaller one first."""
    for name in names:
        if name not in index:
            raise ModelError(f"{method}: unknown geometry '{name}'")
    i, j = sorted(index[name] for name in names)
    return i, j


def pair_frictions(world: WorldSpec) -> tuple[PairFriction, ...]:
    """The friction of pairs of geometries that have one of their own."""
    index = {name: number for number, name in enumerate(world.geometries)}
    return tuple(
        PairFriction(*_pair(index, names, "set_pair_friction"), *values)
        for names, values in world.pair_frictions.items()
    )


def pair_softness(world: WorldSpec) -> tuple[PairSoftness, ...]:
    """The softness of pairs of geometries that have one of their own."""
    index = {name: number for number, name in enumerate(world.geometries)}
    return tuple(
        PairSoftness(*_pair(index, names, "set_pair_softness"), softness, margin, gap)
        for names, (softness, margin, gap) in world.pair_softness.items()
    )
