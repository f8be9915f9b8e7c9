"""C++ code that the rows of the worlds of a lane group and their way back share: where a side of a constraint is, and how it moves.

For :func:`warp_kernels.algebra.lane_code.native_code`, with the names of :data:`KINDS` among its parts.
"""

from warp_kernels.types import CONTACT, ORIENTATION, POINT

KINDS = {"CONTACT": CONTACT, "POINT": POINT, "ORIENTATION": ORIENTATION}

# Of arrays of two dimensions.
ENTRY = """
#define ENTRY(array, type, i, j) (reinterpret_cast<type*>(reinterpret_cast<char*>(array.data) + (i) * wp::int64(array.strides[0]) + (j) * wp::int64(array.strides[1])))
"""
# Before a side is looked at: a world without it has an empty path and a frame of zeros. ``linear`` and ``angular`` are one where the rows of
# a world are made of the velocity of a point, or of an orientation.
NO_SIDE = """
        const number_type sign = side ? 1 : -1;
        bits paths = 0;
        wp::uint64 all = 0;
        bool any_linear = false, any_angular = false;
        pack frame[9], lever[3], linear = nothing, angular = nothing;
        for (int c = 0; c < 9; ++c) frame[c] = nothing;
        for (int c = 0; c < 3; ++c) lever[c] = nothing;
"""
# Lever and frame of a constraint of the kind ``which``, with the number ``at`` of its contact or anchor, in world n of the group.
PLACE = """
            if (which == {ORIENTATION}) {{
                any_angular = true;
                angular[n] = 1;
            }} else {{
                any_linear = true;
                linear[n] = 1;
                const number_type* point = which == {CONTACT} ? ENTRY(contact_point, const number_type, at, world) : ENTRY(anchor_point, const number_type, at, world);
                const number_type* from = ENTRY(origin, const number_type, other, world);
                const number_type* to = ENTRY(origin, const number_type, tree, world);
                for (int c = 0; c < 3; ++c) lever[c][n] = point[c] + (from[c] - to[c]);
                if (which == {CONTACT} ? contact_apart.shape[0] > 0 : anchor_apart.shape[0] > 0) {{
                    const number_type* apart = which == {CONTACT} ? ENTRY(contact_apart, const number_type, at, world) : ENTRY(anchor_apart, const number_type, at, world);
                    for (int c = 0; c < 3; ++c) lever[c][n] = (point[c] + number_type(0.5) * sign * apart[c]) + (from[c] - to[c]);
                }}
            }}
            const number_type* own_frame = which == {CONTACT} ? ENTRY(contact_frame, const number_type, at, world) : ENTRY(anchor_frame, const number_type, 2 * at + which - {POINT}, world);
            for (int c = 0; c < 9; ++c) frame[c][n] = sign * own_frame[c];
"""
# What a unit rate of degree of freedom k moves. ``on`` is one where it is on a world's path.
MOTION = """
            const pack on = __builtin_convertvector((paths >> wp::uint64(k)) & wp::uint64(1), pack);
            const pack* column = reinterpret_cast<const pack*>(ENTRY(subspace, const char, k, group));
            const pack x = column[0], y = column[1], z = column[2];
            pack motion[3] = {{x, y, z}};
            if (any_linear) {{
                const pack of_point[3] = {{
                    column[3] + (y * lever[2] - z * lever[1]),
                    column[4] + (z * lever[0] - x * lever[2]),
                    column[5] + (x * lever[1] - y * lever[0])}};
                for (int c = 0; c < 3; ++c) motion[c] = any_angular ? linear * of_point[c] + angular * motion[c] : of_point[c];
            }}
"""
