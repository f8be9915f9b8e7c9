"""Structs of arrays that the collision kernels share, by subject, with shapes and units."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@wp.struct
class Pairs:
    """Candidate pairs, and the range of those of one family.

    Worlds share a list of pairs, or each has its own; then those of a family are contiguous, world by world.

    Attributes:
        first: the first pair of the family.
        end: the pair after its last one.
        first_bit: the bit of its first pair among the broad-phase bits of a world (:mod:`warp_kernels.collision.broad_phase`).
        end_bit: the bit after that of its last pair.
        room: capacity of a world's own list; 0 if worlds share one.
        a: first geometry of each pair [num_pairs].
        b: second geometry of each pair [num_pairs].
        rule: rule that combines their friction, a code of :mod:`warp_kernels.collision.materials` [num_pairs].
    """

    first: int
    end: int
    first_bit: int
    end_bit: int
    room: int
    a: wp.array(dtype=wp.int32)
    b: wp.array(dtype=wp.int32)
    rule: wp.array(dtype=wp.int32)


@functools.cache
def collision_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision."""
    vec2, vec3 = warp_types(scalar).vec2, warp_types(scalar).vec3

    @wp.struct
    class Slots:
        """Contacts found by the narrow phase [slot, world].

        Attributes:
            pair: its pair.
            feature: touching parts, a code of the pair's family.
            codes_a: vertices of side a that touch; no rows without convex pairs, nor in the next two.
            codes_b: those of side b.
            witness: normal in the frame of geometry a.
            time: share of the step after which the pair touches; no rows if no pair turns, nor in ``lead``.
            lead: slot of the pair's nearest contact.
            gap: distance of the pair's nearest contact that the step would leave without contact forces [m].
        """

        pair: wp.array2d(dtype=wp.int32)
        feature: wp.array2d(dtype=wp.int32)
        codes_a: wp.array2d(dtype=wp.vec3i)
        codes_b: wp.array2d(dtype=wp.vec3i)
        witness: wp.array2d(dtype=vec3)
        time: wp.array2d(dtype=scalar)
        lead: wp.array2d(dtype=wp.int32)
        gap: wp.array2d(dtype=scalar)

    @wp.struct
    class Geometries:
        """Geometries of a model.

        Attributes:
            link: link of each geometry, -1 for the world [num_geometries].
            type: type code of each geometry [num_geometries].
            link_tree: tree of each link [num_links].
            vertex_start: start of the hull of each geometry in ``hull_vertices``, and its end [num_geometries + 1].
            hull_vertices: vertices of all convex meshes, unscaled, in their geometry's frame [m].
            hull_radius: distance of the farthest hull vertex from the geometry's origin, unscaled [num_geometries], m.
            field_shape: of a heightfield the offset of its first height, its rows and its columns [num_geometries].
            parallel: squared sine between the axes of capsules below which they touch as parallel ones.
        """

        link: wp.array(dtype=wp.int32)
        type: wp.array(dtype=wp.int32)
        link_tree: wp.array(dtype=wp.int32)
        vertex_start: wp.array(dtype=wp.int32)
        hull_vertices: wp.array(dtype=vec3)
        hull_radius: wp.array(dtype=scalar)
        field_shape: wp.array(dtype=wp.vec3i)
        parallel: scalar

    @wp.struct
    class Directions:
        """Pairs whose friction differs along two tangents, see :mod:`warp_kernels.collision.directions`.

        Attributes:
            geometry: geometry whose direction the first tangent follows, WORLD_AXES or ISOTROPIC [num_pairs].
            axis: that direction in the geometry's frame [num_pairs].
            turn: cosine and sine of the angle by which it is turned about the contact's normal [num_pairs].
            directed: 1 for geometries with a direction [num_geometries].
        """

        geometry: wp.array(dtype=wp.int32)
        axis: wp.array(dtype=vec3)
        turn: wp.array(dtype=vec2)
        directed: wp.array(dtype=wp.int32)

    @wp.struct
    class PackedShapes:
        """Vertices, faces and edges of the geometries in convex pairs, and of the boxes and convex meshes on
        heightfields.

        They are those of unit size, see :func:`warp_kernels.collision.convex.support.shape_functions`, shape after
        shape. Vertices of a face or an edge are counted from the shape's first.

        Attributes:
            extent: first vertex, number of vertices, first face, number of faces of each geometry [num_geometries].
            edge_extent: first edge and number of edges of each geometry [num_geometries].
            vertices: in their geometry's frame [vertex].
            face_start: start of the corners of each face in ``face_corner``, and their end [face + 1].
            face_corner: vertices of the faces, counter-clockwise seen from outside [corner].
            face_normal: outward unit normals [face].
            edges: of each edge its two vertices, and a vertex of either adjacent face [edge].
            ball_centre, ball_radius: of a ball inside of each convex mesh, in its geometry's frame [num_geometries], m.
            box_centre, box_extents: of the box around each convex mesh along the axes of its frame [num_geometries], m.
        """

        extent: wp.array(dtype=wp.vec4i)
        edge_extent: wp.array(dtype=wp.vec2i)
        vertices: wp.array(dtype=vec3)
        face_start: wp.array(dtype=wp.int32)
        face_corner: wp.array(dtype=wp.int32)
        face_normal: wp.array(dtype=vec3)
        edges: wp.array(dtype=wp.vec4i)
        ball_centre: wp.array(dtype=vec3)
        ball_radius: wp.array(dtype=scalar)
        box_centre: wp.array(dtype=vec3)
        box_extents: wp.array(dtype=vec3)

    @wp.struct
    class MujocoPlanes:
        """Choice of contact points on planes, see :mod:`warp_kernels.collision.plane.mujoco`.

        Attributes:
            by_mujoco: 1 if the law is MuJoCo's.
            fan_start: start of the faces at each of ``hull_vertices`` in ``fan``, and their end; no rows unless the law is
                MuJoCo's [vertex + 1].
            fan: faces at the vertices.
            polygon_start: start of the vertices of each face in ``polygon``, and their end [face + 1].
            polygon: vertices of the faces, counted from the hull's first, counter-clockwise seen from outside.
            normal: outward unit normals of the unscaled faces [face].
            centre: centre of volume of each unscaled hull [geometry].
        """

        by_mujoco: int
        fan_start: wp.array(dtype=wp.int32)
        fan: wp.array(dtype=wp.int32)
        polygon_start: wp.array(dtype=wp.int32)
        polygon: wp.array(dtype=wp.int32)
        normal: wp.array(dtype=vec3)
        centre: wp.array(dtype=vec3)

    @wp.struct
    class Triangles:
        """Elements of all static triangle meshes, see :mod:`warp_kernels.collision.field.ground.triangles`.

        Attributes:
            bvh: the tree of boxes around the triangles of each mesh [num_geometries].
            extent: first element of each mesh, its numbers of triangles and of edges [num_geometries].
            vertices: unscaled, in their geometry's frame [vertex], m.
            corner: vertices of each element; an edge's first is repeated, a point three times [element].
            outward: mean of the normals around each element, unscaled [element].
            beside: of an edge the vertex across on either side, -1 at the border; of a point start and end of its
                neighbours; of a triangle a bit for each edge that is a border, and 0 [element].
            neighbour: vertices that share an edge with a point [neighbour].
            owned_start: start of the elements that belong to a triangle in ``owned``, and their end [element + 1].
            owned: numbers of elements: the triangle's own, then those of edges and points [element].
        """

        bvh: wp.array(dtype=wp.uint64)
        extent: wp.array(dtype=wp.vec3i)
        vertices: wp.array(dtype=vec3)
        corner: wp.array(dtype=wp.vec3i)
        outward: wp.array(dtype=vec3)
        beside: wp.array(dtype=wp.vec2i)
        neighbour: wp.array(dtype=wp.int32)
        owned_start: wp.array(dtype=wp.int32)
        owned: wp.array(dtype=wp.int32)

    return SimpleNamespace(
        Slots=Slots,
        Geometries=Geometries,
        Directions=Directions,
        PackedShapes=PackedShapes,
        MujocoPlanes=MujocoPlanes,
        Triangles=Triangles,
    )
