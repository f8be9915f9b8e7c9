"""Round bodies on a heightfield: spheres, capsules, cylinders and ellipsoids."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import CAPSULE, CYLINDER, ELLIPSOID, warp_types


@functools.cache
def body_functions(scalar: Any) -> SimpleNamespace:
    """Return the struct Body and Warp functions for one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform

    @wp.struct
    class Body:
        """Body in the field's frame, with the half extents of its box there and the cutoff distance of its contacts."""

        type: int
        pose: transform
        size: vec3
        extent: vec3
        cutoff: scalar

    @wp.func
    def extent_of(type: int, pose: transform, size: vec3):
        """Return the half extents, along the field's axes, of the box around a body."""
        rotation = wp.quat_to_matrix(wp.transform_get_rotation(pose))
        axis = vec3(rotation[0, 2], rotation[1, 2], rotation[2, 2])
        extent = vec3(size[0], size[0], size[0])
        if type == CAPSULE:
            extent += size[1] * wp.abs(axis)
        elif type == CYLINDER:
            for k in range(3):
                across = wp.sqrt(wp.max(scalar(1.0) - axis[k] * axis[k], scalar(0.0)))
                extent[k] = size[0] * across + size[1] * wp.abs(axis[k])
        elif type == ELLIPSOID:
            for k in range(3):
                row = vec3(rotation[k, 0], rotation[k, 1], rotation[k, 2])
                extent[k] = wp.length(wp.cw_mul(row, size))
        return extent

    @wp.func
    def make_body(type: int, pose: transform, size: vec3, cutoff: scalar):
        body = Body()
        body.type = type
        body.pose = pose
        body.size = size
        body.extent = extent_of(type, pose, size)
        body.cutoff = cutoff
        return body

    return SimpleNamespace(Body=Body, make_body=make_body)
