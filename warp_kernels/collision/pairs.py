"""Pairs of geometry types that can touch.

A new pair gets an entry in :data:`COLLISION_PAIRS`. One with a closed form gets a branch in both functions of
:mod:`warp_kernels.collision.closed` too; the other families take any two of their shapes. Contacts with a plane in
points fixed to the body have separate kernels: most contacts of robots are such, and a kernel with all the other shapes
would slow them down.
"""

from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, HEIGHTFIELD, MESH, PLANE, SPHERE

# Families of pairs, in the order in which their kernels run.
ON_PLANE = "on_plane"  # points and balls fixed to a shape, on a plane: closed.py
CLOSED_FORM = "closed_form"  # closed.py
CONVEX_SHAPES = "convex_shapes"  # found by support functions: convex/detect.py and convex/contact.py
ROUND_ON_FIELD = "round_on_field"  # round bodies on heightfields: field/candidates.py and field/contact.py
HULL_ON_FIELD = "hull_on_field"  # boxes and convex meshes on heightfields: field/hull
ROUND_ON_MESH = "round_on_mesh"  # the same on static triangle meshes
HULL_ON_MESH = "hull_on_mesh"
# Instead of CLOSED_FORM if all pairs of a model are among BALL_PAIRS: the same without the other shapes, which takes a
# third of the time to compile.
BALLS = "balls"
# Pairs of CONVEX_SHAPES with contact points of MuJoCo's under its law, which have kernels of their own: two boxes, and a
# capsule and a box (shapes/capsule_box.py).
BOXES = "boxes"
CAPSULE_BOX = "capsule_box"
FAMILIES = (ON_PLANE, CLOSED_FORM, CONVEX_SHAPES, ROUND_ON_FIELD, HULL_ON_FIELD, ROUND_ON_MESH, HULL_ON_MESH)

# Kind of ground of the last four families, see field/surface.py.
FIELD, TRIANGLES = "field", "triangles"
ON_TRIANGLES = (ROUND_ON_MESH, HULL_ON_MESH)
ROUND = (ROUND_ON_FIELD, ROUND_ON_MESH)
HULLS = (HULL_ON_FIELD, HULL_ON_MESH)


def ground_of(family: str) -> str:
    """Return the kind of ground in pairs of a family that has one."""
    return TRIANGLES if family in ON_TRIANGLES else FIELD


# Family of each pair of types (first <= second) that can touch, and its maximum number of contacts at once, except for
# that of an inner ball (touch/inner_ball.py).
COLLISION_PAIRS = {
    (PLANE, SPHERE): (ON_PLANE, 1),
    (PLANE, CAPSULE): (ON_PLANE, 2),
    (PLANE, BOX): (ON_PLANE, 4),
    (PLANE, CONVEX): (ON_PLANE, 4),
    (PLANE, CYLINDER): (CLOSED_FORM, 4),
    (PLANE, ELLIPSOID): (CLOSED_FORM, 1),
    (SPHERE, SPHERE): (CLOSED_FORM, 1),
    (SPHERE, CAPSULE): (CLOSED_FORM, 1),
    (SPHERE, BOX): (CLOSED_FORM, 1),
    (SPHERE, CONVEX): (CONVEX_SHAPES, 1),
    (SPHERE, CYLINDER): (CONVEX_SHAPES, 1),
    (SPHERE, ELLIPSOID): (CLOSED_FORM, 1),
    (SPHERE, HEIGHTFIELD): (ROUND_ON_FIELD, 4),
    (SPHERE, MESH): (ROUND_ON_MESH, 4),
    (CAPSULE, CAPSULE): (CLOSED_FORM, 2),
    (CAPSULE, BOX): (CONVEX_SHAPES, 4),
    (CAPSULE, CONVEX): (CONVEX_SHAPES, 4),
    (CAPSULE, CYLINDER): (CONVEX_SHAPES, 4),
    (CAPSULE, ELLIPSOID): (CONVEX_SHAPES, 1),
    (CAPSULE, HEIGHTFIELD): (ROUND_ON_FIELD, 4),
    (CAPSULE, MESH): (ROUND_ON_MESH, 4),
    (BOX, BOX): (CONVEX_SHAPES, 4),
    (BOX, CONVEX): (CONVEX_SHAPES, 4),
    (BOX, CYLINDER): (CONVEX_SHAPES, 4),
    (BOX, ELLIPSOID): (CONVEX_SHAPES, 1),
    (BOX, HEIGHTFIELD): (HULL_ON_FIELD, 4),
    (BOX, MESH): (HULL_ON_MESH, 4),
    (CONVEX, CONVEX): (CONVEX_SHAPES, 4),
    (CONVEX, CYLINDER): (CONVEX_SHAPES, 4),
    (CONVEX, ELLIPSOID): (CONVEX_SHAPES, 1),
    (CONVEX, HEIGHTFIELD): (HULL_ON_FIELD, 4),
    (CONVEX, MESH): (HULL_ON_MESH, 4),
    (CYLINDER, CYLINDER): (CONVEX_SHAPES, 4),
    (CYLINDER, ELLIPSOID): (CONVEX_SHAPES, 1),
    (CYLINDER, HEIGHTFIELD): (ROUND_ON_FIELD, 4),
    (CYLINDER, MESH): (ROUND_ON_MESH, 4),
    (ELLIPSOID, ELLIPSOID): (CONVEX_SHAPES, 1),
    (ELLIPSOID, HEIGHTFIELD): (ROUND_ON_FIELD, 4),
    (ELLIPSOID, MESH): (ROUND_ON_MESH, 4),
}
BALL_PAIRS = frozenset({(SPHERE, SPHERE), (SPHERE, CAPSULE), (SPHERE, BOX)})

# Families of pairs with a distance, in the order in which its kernels run.
DISTANCE_FAMILIES = (ON_PLANE, CLOSED_FORM, CONVEX_SHAPES)

# Types of these pairs, with their maximum numbers of contacts, in the order in which their kernels run.
MUJOCO_PAIRS = {(CAPSULE, BOX): (CAPSULE_BOX, 2), (BOX, BOX): (BOXES, 8)}

# Names for which kernels are made.
PAIR_KERNELS = (*FAMILIES, BALLS, CAPSULE_BOX)


def base_family(name: str) -> str:
    """Return the family of the pairs of kernels with a name of PAIR_KERNELS."""
    return CLOSED_FORM if name in (BALLS, CAPSULE_BOX) else name


def distance_family(type_a: int, type_b: int) -> str | None:
    """Return the family whose kernels find the distance between geometries of two types; None if there is none."""
    family, _ = COLLISION_PAIRS.get((min(type_a, type_b), max(type_a, type_b)), (None, 0))
    return family if family in DISTANCE_FAMILIES else None
