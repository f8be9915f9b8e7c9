"""Which bodies can touch heightfields, and the most contacts that each can have with one at once."""

from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, HEIGHTFIELD, SPHERE

# Bodies with roundings, whose parts are numbered in contact.py, ...
ROUND_FIELD_PAIRS = {(kind, HEIGHTFIELD): 4 for kind in (SPHERE, CAPSULE, CYLINDER, ELLIPSOID)}

# ... and bodies of vertices, edges and faces, see hull_contact.py.
HULL_FIELD_PAIRS = {(kind, HEIGHTFIELD): 4 for kind in (BOX, CONVEX)}

MAX_FIELD_CONTACTS = {**ROUND_FIELD_PAIRS, **HULL_FIELD_PAIRS}
