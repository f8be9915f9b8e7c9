"""Surfaces that rays of cameras hit: their normals, and their colours by materials and images."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.rays.pieces import piece_functions, ray_structs
from warp_kernels.rays.surfaces import hit_functions, surface_time_functions
from warp_kernels.render.structs import surface_structs
from warp_kernels.render.trace import DIELECTRIC, render_kernels
from warp_kernels.types import warp_types


@functools.cache
def look_structs() -> SimpleNamespace:
    """Return the structs."""
    Textures = surface_structs().Textures

    @wp.struct
    class Looks:
        """Materials of the targets of rays.

        Attributes:
            opacity, roughness, metallic: of each [num_targets].
            texture: index of its image, -1 without one [num_targets].
            repeat: repeats of the image per metre along x and y, zero if the corners have coordinates [num_targets].
            first: offset of its triangles in the arrays below, -1 without any [num_targets].
            normals: at three corners of each triangle, in the target's frame.
            uv: texture coordinates at three corners of each triangle.
            density: texture coordinates per length in each triangle [1/m].
            textures: the images.
        """

        opacity: wp.array(dtype=float)
        roughness: wp.array(dtype=float)
        metallic: wp.array(dtype=float)
        texture: wp.array(dtype=wp.int32)
        repeat: wp.array(dtype=wp.vec2)
        first: wp.array(dtype=wp.int32)
        normals: wp.array(dtype=wp.vec3)
        uv: wp.array(dtype=wp.vec2)
        density: wp.array(dtype=float)
        textures: Textures

    return SimpleNamespace(Looks=Looks)


@functools.cache
def camera_surface_functions(scalar: Any, extended: bool) -> SimpleNamespace:
    """Return the functions for one precision.

    Args:
        scalar: the precision.
        extended: as of :func:`warp_kernels.render.structs.render_structs`.
    """
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    Targets, Hit, Looks = ray_structs(scalar).Targets, hit_functions(scalar).Hit, look_structs().Looks
    pieces, surface_normal = piece_functions(scalar), surface_time_functions(scalar).surface_normal
    base = render_kernels(extended)
    View, Surface = base.View, base.Surface

    @wp.func
    def corner_weights(point: vec3, corners: mat33):
        """Return the barycentric coordinates of a point of a triangle."""
        a = vec3(corners[0, 0], corners[0, 1], corners[0, 2])
        along = vec3(corners[1, 0], corners[1, 1], corners[1, 2]) - a
        across = vec3(corners[2, 0], corners[2, 1], corners[2, 2]) - a
        area = wp.cross(along, across)
        squared = wp.max(wp.dot(area, area), scalar(1.0e-36))
        second = float(wp.dot(wp.cross(point - a, across), area) / squared)
        third = float(wp.dot(wp.cross(along, point - a), area) / squared)
        return wp.vec3(1.0 - second - third, second, third)

    @wp.func
    def ground_color(looks: Looks, view: View, target: int, point: vec3, found: Surface):
        """Return a plane's share of its colour, of squares or an image; ``point`` is in its frame."""
        slant = wp.max(wp.abs(wp.dot(found.normal, wp.normalize(found.point - view.eye))), 1.0e-3)
        footprint = found.distance * wp.length(view.up) / slant
        x = float(point[0])
        y = float(point[1])
        texture = looks.texture[target]
        shade = base.checker(x / view.tile, y / view.tile, footprint / view.tile)
        color = wp.vec3(1.0, 1.0, 1.0) * (0.78 + 0.22 * shade)
        if texture >= 0:
            repeat = looks.repeat[target]
            uv = wp.vec2(0.5 + x * repeat[0], 0.5 + y * repeat[1])
            size = footprint * wp.max(wp.abs(repeat[0]), wp.abs(repeat[1]))
            color = base.image_color(looks.textures, texture, uv, size)
        return color

    @wp.func
    def picture_color(
        looks: Looks, view: View, target: int, feature: int, point: vec3, local: vec3, weights: wp.vec3, found: Surface
    ):
        """Return the colour of a target's image at a point of its frame, white without one; ``local`` is its normal."""
        color = wp.vec3(1.0, 1.0, 1.0)
        texture = looks.texture[target]
        if texture >= 0:
            repeat = looks.repeat[target]
            uv = wp.vec2(0.5 + float(point[0]) * repeat[0], 0.5 + float(point[1]) * repeat[1])
            density = wp.sqrt(wp.abs(repeat[0] * repeat[1] * float(local[2])))
            if repeat[0] == 0.0:
                face = looks.first[target] + feature
                uv = (
                    looks.uv[3 * face] * weights[0]
                    + looks.uv[3 * face + 1] * weights[1]
                    + looks.uv[3 * face + 2] * weights[2]
                )
                density = looks.density[face]
            slant = wp.max(wp.abs(wp.dot(found.flat, wp.normalize(found.point - view.eye))), 0.1)
            pixel = found.distance * wp.length(view.up) / wp.sqrt(slant)
            color = base.image_color(looks.textures, texture, uv, pixel * density)
        return color

    @wp.func
    def surface_of(
        targets: Targets,
        looks: Looks,
        view: View,
        pose: transform,
        size: vec3,
        height: wp.array2d(dtype=scalar),
        world: int,
        hit: Hit,
        point: vec3,
        direction: wp.vec3,
        distance: float,
        color: wp.vec3,
    ):
        """Return the surface of a hit at a point of the world; ``color`` is that of its geometry.

        The normal ``flat`` is the outward one, also where the ray leaves the target.
        """
        target = hit.target
        type = targets.type[target]
        inside = wp.transform_point(wp.transform_inverse(pose), point)
        corners = pieces.piece_corners(targets, target, hit.feature, size, height, world)
        local = surface_normal(type, hit.feature, inside, size, corners)
        turn = wp.transform_get_rotation(pose)
        found = Surface()
        found.shown = target
        found.distance = distance
        found.point = wp.vec3(point)
        found.flat = wp.vec3(wp.quat_rotate(turn, local))
        found.normal = found.flat
        weights = wp.vec3()
        first = looks.first[target]
        if first >= 0:
            weights = corner_weights(inside, corners)
            face = 3 * (first + hit.feature)
            smooth = looks.normals[face] * weights[0]
            smooth += looks.normals[face + 1] * weights[1]
            smooth += looks.normals[face + 2] * weights[2]
            found.normal = wp.normalize(wp.vec3(wp.quat_rotate(turn, vec3(smooth))))
        if wp.dot(found.normal, direction) > 0.2:
            found.normal = -found.normal
        if type == wp.static(codes.PLANE):
            found.albedo = wp.cw_mul(color, ground_color(looks, view, target, inside, found))
            found.haze = 1.0 - wp.exp(-distance * distance * view.fog * view.fog)
        else:
            base_color = wp.cw_mul(
                color, picture_color(looks, view, target, hit.feature, inside, local, weights, found)
            )
            metallic = looks.metallic[target]
            found.albedo = base_color * (1.0 - metallic)
            found.mirror = base.mix(wp.vec3(DIELECTRIC, DIELECTRIC, DIELECTRIC), base_color, metallic)
            found.roughness = looks.roughness[target]
        return found

    return SimpleNamespace(surface_of=surface_of)
