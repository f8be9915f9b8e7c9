"""Pairs of geometries that may touch, and the arrays on a device that collision kernels share."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.allocation import fill, integer_array
from sim.arrays.shape_arrays import geometry_struct, packed_struct, row_array, starts
from sim.errors import ModelError
from sim.model.geometries import Geometry, HullFaces, Mesh
from sim.model.model import GEOMETRY_TYPE_NAMES, Model
from sim.model.shapes.hulls import PackedShapes, hull_faces_of
from sim.model.shapes.inertia import mesh_mass_properties
from sim.model.shapes.triangles import MeshElements
from sim.simulation.stepping.pair_friction import friction_directions, friction_rules
from sim.simulation.stepping.sensors import contact_slots, num_slots, sensor_arrays
from warp_kernels import types as codes
from warp_kernels.collision.broad_phase import WORD
from warp_kernels.collision.field.grid import KINDS
from warp_kernels.collision.field.hull.contact import EDGE_KINDS, MOST, window_size
from warp_kernels.collision.pairs import (
    BALL_PAIRS,
    BALLS,
    BOXES,
    CLOSED_FORM,
    COLLISION_PAIRS,
    CONVEX_SHAPES,
    FAMILIES,
    HULLS,
    MUJOCO_PAIRS,
    ON_TRIANGLES,
)
from warp_kernels.collision.shapes.capsules import MUJOCO_PARALLEL_SINE_SQUARED, PARALLEL_SINE_SQUARED
from warp_kernels.collision.structs import Pairs, collision_structs

# Maximum number of moving geometries whose pairs are listed once per model. Beyond it a grid finds candidate pairs in
# every step.
MOST_LISTED = 128
# Geometries that touch another in one point or, along a line, in two.
ROUNDED = (codes.SPHERE, codes.CAPSULE, codes.ELLIPSOID)
# Integer arrays packed into one row.
NUMBERED = ("neighbour", "owned_start", "owned")


def candidate_pairs(model: Model, by_mujoco: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of geometries that may touch, found once per model.

    Both geometries collide, at least one moves, they are on different links, group and mask agree on both sides, and
    the pair isn't excluded.

    Returns:
        geometry indices a and b, int32 [num_pairs] each, with ``type[a] <= type[b]`` (codes of
        :mod:`warp_kernels.types`), ordered by family (:data:`warp_kernels.collision.pairs.FAMILIES`), then by the types
        and the indices; under MuJoCo's law those with contact points of its own come first in their family.

    Raises:
        ModelError: for a pair of types without a contact function, naming both geometries and their links.
    """
    colliding = [index for index, geometry in enumerate(model.geometries) if geometry.collides]
    pairs = [
        by_type(model, i, j)
        for position, i in enumerate(colliding)
        for j in colliding[position + 1 :]
        if may_touch(model, i, j)
    ]
    pairs.sort(key=lambda pair: (*_types(model, *pair), *pair))
    for i, j in pairs:
        require_contact_function(model, i, j)
    by_type_of_pair = list(MUJOCO_PAIRS)

    def rank(pair: tuple[int, int]) -> tuple[int, int]:
        types = _types(model, *pair)
        own = by_mujoco and types in MUJOCO_PAIRS
        return family_of(model, *pair), by_type_of_pair.index(types) if own else len(MUJOCO_PAIRS)

    pairs.sort(key=rank)
    array = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1])


def free_bases(model: Model) -> np.ndarray:
    """Return the links with a free joint whose motion isn't prescribed."""
    free = np.flatnonzero(np.asarray(model.joint_type) == codes.FREE)
    return free[np.logical_not(model.prescribed[model.joint_qd_start[free]])]


def pairs_on_meshes(model: Model) -> tuple[dict[int, list[tuple[int, int]]], dict[int, list[tuple[int, int]]]]:
    """Return the pairs of a moving geometry and a static triangle mesh that may touch: those of free bodies by link,
    and those of articulated trees without prescribed joints by tree.
    """
    meshes = [g for g, geometry in enumerate(model.geometries) if geometry.type == codes.MESH and geometry.collides]
    trees = np.asarray(model.link_tree)
    alone = {int(link) for link in free_bases(model) if np.count_nonzero(trees == trees[link]) == 1}
    led = set(trees[np.asarray(model.dof_link)[model.prescribed]])
    bodies: dict[int, list[tuple[int, int]]] = {}
    limbs: dict[int, list[tuple[int, int]]] = {}
    for g, geometry in enumerate(model.geometries):
        if geometry.collides and not model.is_static(geometry) and trees[geometry.link] not in led:
            pairs = [(g, mesh) for mesh in meshes if may_touch(model, g, mesh)]
            if pairs and geometry.link in alone:
                bodies.setdefault(geometry.link, []).extend(pairs)
            elif pairs:
                limbs.setdefault(int(trees[geometry.link]), []).extend(pairs)
    return bodies, limbs


def default_max_contacts(model: Model, margin: float, by_mujoco: bool = False) -> int:
    """Return a contact capacity per world that suffices for most scenes.

    It is the number of contacts that all candidate pairs could have together (not counted for a crowd), but at most 4
    per moving geometry that collides, plus 16, plus for each moving tree beyond the first the contacts that it has when
    packed. Of the many pairs of a robot's links only a few touch at once, while loose bodies in a pile touch on all
    sides. A box among boxes has 28 contacts: half of those of 6 faces with 4, 12 edges with 2 and 8 corners with 1; a
    ball or a capsule has 8. Bodies smaller than the margin are within it of many that they don't touch: 4 more for each
    pair of them, at most 64 per body. ``contact_overflow`` counts dropped contacts where this is exceeded; then give
    the simulator a larger ``max_contacts``.
    """
    moving = [g for g in model.geometries if g.collides and not model.is_static(g)]
    trees = {model.link_tree[geometry.link] for geometry in moving}
    angular = {model.link_tree[geometry.link] for geometry in moving if geometry.type not in ROUNDED}
    packed = 28 * len(angular) + 8 * (len(trees) - len(angular)) - (28 if angular else 8)
    small = len(trees - {model.link_tree[geometry.link] for geometry in moving if radius_of(geometry) >= margin})
    crowded = min(4 * small * (small - 1) // 2, 64 * small)
    enough = 4 * len(moving) + max(packed, 0) + 16 + crowded
    if is_crowd(model):
        return enough
    pairs = zip(*candidate_pairs(model), strict=True)
    return min(sum(most_contacts(model, i, j, by_mujoco) for i, j in pairs), enough)


def is_crowd(model: Model) -> bool:
    """Return whether more than ``MOST_LISTED`` geometries move, so that a grid finds candidate pairs in every step."""
    return sum(g.collides and not model.is_static(g) for g in model.geometries) > MOST_LISTED


def radius_of(geometry: Geometry) -> float:
    """Return the approximate radius of a geometry about its frame's origin [m]; infinite for unbounded ones."""
    if geometry.type in (codes.PLANE, codes.HEIGHTFIELD, codes.MESH):
        return float("inf")
    corners = _hull(geometry)
    extents = np.abs(corners).max(axis=0) if len(corners) else np.ones(3)
    return float(np.linalg.norm(extents * geometry.size))


def most_contacts(model: Model, i: int, j: int, by_mujoco: bool = False) -> int:
    """Return the maximum number of contacts of a pair from :func:`candidate_pairs`."""
    types = _types(model, i, j)
    if by_mujoco and types in MUJOCO_PAIRS:
        return MUJOCO_PAIRS[types][1]
    family, most = COLLISION_PAIRS[types]
    has_inner_ball = family in (CONVEX_SHAPES, *ON_TRIANGLES) and codes.SPHERE not in types
    return most + has_inner_ball


class CollisionModel:
    """Candidate pairs of a model, and the arrays that its collision kernels share, on one device.

    Attributes:
        num_pairs: number of candidate pairs.
        pair_a: first geometry of each pair [num_pairs].
        pair_b: second geometry of each pair [num_pairs].
        pair_rule: rule that combines each pair's friction, a code of :mod:`warp_kernels.collision.materials`
            [num_pairs].
        pair_stated: index of each pair among those with their own friction, -1 without [num_pairs].
        no_friction: zeros [num_pairs], the friction of those before ``state_friction`` replaces it.
        directions: directions of friction that differs along two tangents, see :func:`friction_directions`; None
            without.
        pairs: pairs of each family (:data:`warp_kernels.collision.pairs.FAMILIES`), see
            :class:`warp_kernels.collision.structs.Pairs`.
        searched: pairs by the name of the kernels that detect them: those of each family, and before the convex ones
            those of MUJOCO_PAIRS under MuJoCo's law.
        evaluated: pairs by the name of the kernels that evaluate them.
        colliding: geometries of all pairs.
        geometry_link: link of each geometry, -1 for the world [num_geometries].
        geometries, packed, mujoco_planes, triangles: see
            :func:`warp_kernels.collision.structs.collision_structs`.
        num_sensors: number of measured vectors: contact forces on geometries, forces of sensors, and readings of
            contact sensors.
        sensors: sensors, see :func:`warp_kernels.sensors.structs.sensor_structs`.
        contact_slots: slots of contact sensors, see :func:`contact_slots`.
        on_meshes: what may touch static meshes, see :func:`pairs_on_meshes`.
        by_grid: whether pairs are found in every step, see :mod:`sim.simulation.stepping.body_grid`.
        cells, candidates: working arrays of a shard for that.

    ``by_mujoco``, whether the contact law is MuJoCo's, decides whether capsules count as parallel, and which points
    touch planes; ``max_contacts`` is the contact capacity.

    Raises:
        ModelError: see :func:`candidate_pairs`; for a convex mesh and a heightfield that are too fine for feature ids
            of 32 bits, naming both.
    """

    by_grid = False
    # Arrays in which a step finds its pairs.
    found: Any = ()
    directions: Any | None = None
    cells: Any
    candidates: Any

    def __init__(
        self,
        model: Model,
        device: wp.DeviceLike = None,
        sensed: Sequence[int | str] = (),
        by_mujoco: bool = False,
        max_contacts: int = 0,
    ):
        pair_a, pair_b = candidate_pairs(model, by_mujoco)

        def room_for(sides: np.ndarray) -> int:
            a, b = sides[pair_a], sides[pair_b]
            matching = np.flatnonzero((a & 1 & (b >> 1)) | (b & 1 & (a >> 1)))
            return min(
                sum(most_contacts(model, pair_a[pair], pair_b[pair], by_mujoco) for pair in matching), max_contacts
            )

        self._share(model, device, sensed, by_mujoco, room_for)
        self.num_pairs = len(pair_a)
        self.pair_a, self.pair_b = self._integers(pair_a), self._integers(pair_b)
        listed = list(zip(pair_a.tolist(), pair_b.tolist(), strict=True))
        rules, stated = friction_rules(model, listed)
        self.directions = friction_directions(model, listed, device)
        self.pair_rule, self.pair_stated = self._integers(rules), self._integers(stated)
        self.no_friction = wp.zeros(self.num_pairs, dtype=codes.warp_types(model.scalar).vec3, device=device)
        self.colliding = self._integers(np.union1d(pair_a, pair_b))
        family = [family_of(model, i, j) for i, j in zip(pair_a, pair_b, strict=True)]
        limits = [int(start) for start in np.searchsorted(family, range(len(FAMILIES) + 1))]
        self.pairs = {
            family: self._listed(first, end)
            for family, (first, end) in zip(FAMILIES, itertools.pairwise(limits), strict=True)
        }
        types = [_types(model, i, j) for i, j in zip(pair_a, pair_b, strict=True)]
        self._set_types(types)
        self._divide(types if by_mujoco else [])
        convex, *grounds = (
            np.arange(self.pairs[family].first, self.pairs[family].end) for family in (CONVEX_SHAPES, *HULLS)
        )
        on_ground = np.concatenate(grounds)
        members = {*pair_a[convex], *pair_b[convex], *pair_a[on_ground]}
        self._pack_shapes(model, members, zip(pair_a[on_ground], pair_b[on_ground], strict=True))

    def for_worlds(self, num_worlds: int, max_contacts: int) -> "CollisionModel":
        """Return the collision arrays of a shard: these, which all shards share."""
        return self

    def _share(
        self,
        model: Model,
        device: wp.DeviceLike,
        sensed: Sequence[int | str],
        by_mujoco: bool,
        room_for: Callable[[np.ndarray], int],
    ) -> None:
        """Set the arrays that don't depend on the pairs."""
        self._device = device
        self.contact_slots = contact_slots(model, sensed, room_for)
        self.num_sensors = num_slots(sensed, self.contact_slots)
        self.sensors = sensor_arrays(model, sensed, self.contact_slots, by_mujoco, device)
        self.geometry_link = self._integers([geometry.link for geometry in model.geometries])
        self.geometries = self._geometries(model, by_mujoco)
        self.mujoco_planes = self._planes(model, by_mujoco)
        self.on_meshes = pairs_on_meshes(model)

    def _set_types(self, types: Iterable[tuple[int, int]]) -> None:
        """Set the attributes that depend on the types of all pairs."""
        present = set(types)
        self._without_plane = any(codes.PLANE not in pair for pair in present)
        self._only_balls = all(pair in BALL_PAIRS for pair in present if COLLISION_PAIRS[pair][0] == CLOSED_FORM)

    def _divide(self, types: list[tuple[int, int]]) -> None:
        """Set the pairs of each kernel; types: those of all pairs under MuJoCo's law."""
        self.searched, self.evaluated = {}, {}
        for family, pairs in self.pairs.items():
            first, evaluated = pairs.first, pairs.first
            for own, (name, _) in MUJOCO_PAIRS.items() if family == CONVEX_SHAPES else ():
                start, first = first, first + types.count(own)
                if start < first:
                    self.searched[name] = self._listed(start, first)
                    if name != BOXES:  # evaluated with other convex pairs
                        self.evaluated[name], evaluated = self.searched[name], first
            self.searched[family] = self._listed(first, pairs.end)
            self.evaluated[family] = self._listed(evaluated, pairs.end)

    def _listed(self, first: int, end: int) -> Any:
        return self._pairs_between(first, end, first_bit=first, end_bit=end, room=0)

    def _pairs_between(self, first: int, end: int, **bits: int) -> Any:
        """Return the pairs of one family."""
        return fill(Pairs, first=first, end=end, a=self.pair_a, b=self.pair_b, rule=self.pair_rule, **bits)

    def _pack_shapes(self, model: Model, members: set[int], on_ground: Iterable[tuple[int, int]]) -> None:
        """Pack the shapes of geometries in convex pairs, and in pairs of a body and the ground below it."""
        shapes = _packed_shapes(model, members)
        elements = _mesh_elements(model)
        _check_features(model, shapes, elements, on_ground)
        self.packed = packed_struct(model, shapes, self._device)
        self.triangles = self._triangles(model, elements)

    def _geometries(self, model: Model, by_mujoco: bool) -> Any:
        parallel = MUJOCO_PARALLEL_SINE_SQUARED if by_mujoco else PARALLEL_SINE_SQUARED
        return geometry_struct(model, [_hull(geometry) for geometry in model.geometries], parallel, self._device)

    def _planes(self, model: Model, by_mujoco: bool) -> Any:
        fans: list[list[int]] = []
        faces = HullFaces()
        centres = np.zeros((len(model.geometries), 3))
        for index, geometry in enumerate(model.geometries if by_mujoco else ()):
            own: list[list[int]] = [[] for _ in _hull(geometry)]
            if own:
                if geometry.mesh is not None and geometry.mesh.hull_faces is None:
                    centres[index] = mesh_mass_properties(geometry.mesh)[1]  # those of MuJoCo are about their centres
                found = hull_faces_of(geometry)
                for number, polygon in enumerate(found.polygons, len(faces.polygons)):
                    for vertex in polygon:
                        own[vertex].append(number)
                faces = HullFaces((*faces.polygons, *found.polygons), np.concatenate([faces.normals, found.normals]))
            fans += own
        return fill(
            collision_structs(model.scalar).MujocoPlanes,
            by_mujoco=int(by_mujoco),
            fan_start=self._integers(starts(fans)),
            fan=self._integers([face for fan in fans for face in fan]),
            polygon_start=self._integers(starts(faces.polygons)),
            polygon=self._integers([vertex for polygon in faces.polygons for vertex in polygon]),
            normal=self._array(faces.normals, codes.warp_types(model.scalar).vec3),
            centre=self._array(centres, codes.warp_types(model.scalar).vec3),
        )

    def _triangles(self, model: Model, elements: MeshElements) -> Any:
        # Kept alive, since kernels look the trees up by their handles.
        self._trees = [_tree(mesh, self._device) for mesh in elements.meshes]
        handles = [self._trees[which].id if which >= 0 else 0 for which in elements.stored]
        vec3 = codes.warp_types(model.scalar).vec3
        numbers = {name: np.concatenate([np.zeros(0, dtype=np.int64), *getattr(elements, name)]) for name in NUMBERED}
        return fill(
            collision_structs(model.scalar).Triangles,
            bvh=wp.array(np.array(handles, dtype=np.uint64), dtype=wp.uint64, device=self._device),
            extent=self._array(elements.extent, wp.vec3i),
            vertices=self._array(_rows(elements.vertices), vec3),
            corner=self._array(_rows(elements.corner).astype(np.int32), wp.vec3i),
            outward=self._array(_rows(elements.outward), vec3),
            beside=self._array(_rows(elements.beside, 2).astype(np.int32), wp.vec2i),
            neighbour=self._integers(numbers["neighbour"]),
            owned_start=self._integers(np.append(numbers["owned_start"], len(numbers["owned"]))),
            owned=self._integers(numbers["owned"]),
        )

    def _integers(self, values: npt.ArrayLike) -> wp.array:
        return integer_array(values, self._device)

    def _array(self, values: npt.ArrayLike, dtype: Any) -> wp.array:
        return row_array(values, dtype, self._device)

    def all_candidates(self, num_worlds: int) -> wp.array:
        """Return a bit per pair and world, all set; see :mod:`warp_kernels.collision.broad_phase`."""
        words = -(-self.num_pairs // WORD)
        device = self.pair_a.device
        return wp.full((words, num_worlds), wp.uint32(2**WORD - 1), dtype=wp.uint32, device=device)

    @property
    def has_turning_pairs(self) -> bool:
        """Return whether there are pairs whose normal depends on their motion; see
        :mod:`warp_kernels.collision.touch`.
        """
        return self._without_plane

    def kernels_of(self, family: str) -> str:
        """Return the name of the kernels of a family or of MUJOCO_PAIRS, one of
        :data:`warp_kernels.collision.pairs.PAIR_KERNELS`.
        """
        return BALLS if family == CLOSED_FORM and self._only_balls else family

    def has_pairs(self, family: str) -> bool:
        """Return whether a family has pairs."""
        pairs = self.pairs[family]
        return bool(pairs.first < pairs.end)


def _hull(geometry: Geometry) -> np.ndarray:
    if geometry.type != codes.CONVEX or geometry.mesh is None or not geometry.collides:
        return np.zeros((0, 3))
    return np.asarray(geometry.mesh.vertices, dtype=np.float64).reshape(-1, 3)


def _mesh_elements(model: Model) -> MeshElements:
    elements = MeshElements()
    for geometry in model.geometries:
        if geometry.type == codes.MESH and geometry.collides and geometry.mesh is not None:
            elements.add(geometry.mesh)
        else:
            elements.add_nothing()
    return elements


def _tree(mesh: Mesh, device: wp.DeviceLike) -> wp.Bvh:
    """Return a tree of boxes around the triangles of a mesh, rounded outwards."""
    corners = np.asarray(mesh.vertices)[np.asarray(mesh.faces)]
    low = np.nextafter(corners.min(axis=1).astype(np.float32), np.float32(-np.inf))
    high = np.nextafter(corners.max(axis=1).astype(np.float32), np.float32(np.inf))
    lowers: wp.array = wp.array(low, dtype=wp.vec3, device=device)
    uppers: wp.array = wp.array(high, dtype=wp.vec3, device=device)
    return wp.Bvh(lowers, uppers)


def _rows(parts: Sequence[np.ndarray], width: int = 3) -> np.ndarray:
    return np.concatenate([np.zeros((0, width)), *parts])


def _packed_shapes(model: Model, members: set[int]) -> PackedShapes:
    shapes = PackedShapes()
    for index, geometry in enumerate(model.geometries):
        if index in members:
            shapes.add(geometry)
        else:
            shapes.add_nothing()
    return shapes


def may_touch(model: Model, i: int, j: int) -> bool:
    """Return whether two colliding geometries may touch each other, see :func:`candidate_pairs`."""
    a, b = model.geometries[i], model.geometries[j]
    if a.link == b.link or not (model.is_movable(a.link) or model.is_movable(b.link)):
        return False
    if not (a.group & b.mask and b.group & a.mask):
        return False
    return (min(i, j), max(i, j)) not in model.excluded_pairs


def require_contact_function(model: Model, i: int, j: int) -> None:
    """Raise ModelError if contact of two geometries is not supported; i has the lower type."""
    if _types(model, i, j) not in COLLISION_PAIRS:
        raise ModelError(_unsupported(model, i, j))


def by_type(model: Model, i: int, j: int) -> tuple[int, int]:
    """Return a pair with the geometry of the lower type first."""
    return (i, j) if model.geometries[i].type <= model.geometries[j].type else (j, i)


def _types(model: Model, i: int, j: int) -> tuple[int, int]:
    return model.geometries[i].type, model.geometries[j].type


def family_of(model: Model, i: int, j: int) -> int:
    """Return the index of a pair's family in FAMILIES."""
    return FAMILIES.index(COLLISION_PAIRS[_types(model, i, j)][0])


def _check_features(
    model: Model, shapes: PackedShapes, elements: MeshElements, on_ground: Iterable[tuple[int, int]]
) -> None:
    """Raise ModelError if feature ids of a body on a heightfield or mesh exceed 31 bits."""
    for body, field in on_ground:
        heights = model.geometries[field].heights
        vertices, faces, edges = shapes.extent[body][1], shapes.extent[body][3], shapes.edge_extent[body][1]
        points = len(elements.corner[elements.stored[field]]) if heights is None else heights.size
        parts = KINDS * vertices + faces + EDGE_KINDS * edges
        if points * parts <= MOST or (heights is not None and _cells_under(model, body, field) <= window_size(parts)):
            continue
        raise ModelError(
            f"{_describe(model, body)} has {vertices} vertices and {_describe(model, field)} has {points} "
            f"{'elements' if heights is None else 'points'}, together too many; simplify the mesh, or divide the "
            f"{'triangle mesh' if heights is None else 'heightfield'}"
        )


def _cells_under(model: Model, body: int, field: int) -> float:
    """Return the rows or columns of a heightfield that the ids of a body's features must distinguish.

    A feature's element is on either side of the body's origin, within its radius; twice that, since sizes may change.
    """
    ground, hull = model.geometries[field], model.geometries[body]
    assert ground.heights is not None
    spacing = 2.0 * ground.size[:2] / (np.array(ground.heights.shape[::-1]) - 1)
    corners = _hull(hull)
    radius = np.linalg.norm(hull.size * (np.abs(corners).max(axis=0) if len(corners) else 1.0))
    return float(8.0 + 4.0 * radius / spacing.min())


def _describe(model: Model, index: int) -> str:
    geometry = model.geometries[index]
    link = "the world" if geometry.link < 0 else f"link '{model.link_names[geometry.link]}'"
    return f"geometry '{geometry.name}' ({GEOMETRY_TYPE_NAMES[geometry.type]}) of {link}"


def _unsupported(model: Model, i: int, j: int) -> str:
    return (
        f"{_describe(model, i)} and {_describe(model, j)} may touch, but contact of these shapes is not supported; "
        "exclude the pair (exclude_collision, group and mask), set collides=False for one of them, or use another "
        "shape"
    )
