"""Which triangle of a heightfield a ray meets first: a walk over the cells below and above it.

Along a ray, its height over the surface is a continuous function, linear on each triangle. The first triangle on which it
changes its sign is met, so that no ray slips through between two of them. (The walk from cell to cell is that of
Amanatides and Woo 1987.)
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.collision.field.grid import KINDS, LOWER_TRIANGLE, UPPER_TRIANGLE, grid_functions
from warp_kernels.rays.hits import hit_functions
from warp_kernels.rays.surfaces import surface_time_functions
from warp_kernels.types import warp_types

# What a time may be wrong by, as a share of a cell's sides.
SLACK = 1.0e-3


@functools.cache
def field_hit_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision. ``shape`` of a field: place of its first height, rows, columns."""
    vec3 = warp_types(scalar).vec3
    vec4 = wp.types.vector(4, scalar)
    hits, grid = hit_functions(scalar), grid_functions(scalar)
    surfaces = surface_time_functions(scalar)
    along = scalar(1.0e-12 if scalar is wp.float64 else 1.0e-5)  # sine between a ray and a plane that it lies in
    Hit = hits.Hit

    @wp.func
    def until(o: scalar, d: scalar, low: scalar, high: scalar):
        """When a coordinate leaves an interval, infinite for never."""
        time = scalar(wp.inf)
        if d > scalar(0.0):
            time = (high - o) / d
        elif d < scalar(0.0):
            time = (low - o) / d
        return time

    @wp.func
    def since(o: scalar, d: scalar, half: scalar):
        """When a coordinate comes into [-half, half], infinite for never."""
        time = scalar(-wp.inf)
        if d > scalar(0.0):
            time = (-half - o) / d
        elif d < scalar(0.0):
            time = (half - o) / d
        elif wp.abs(o) > half:
            time = scalar(wp.inf)
        return time

    @wp.func
    def clearance(
        o: vec3, d: vec3, time: scalar, size: vec3, step: vec3, row: int, column: int, kind: int, corners: vec4
    ):
        """Height of a ray over the plane of one of a cell's two triangles; heights of the corners row by row."""
        u = (o[0] + d[0] * time + size[0]) / step[0] - scalar(column)
        v = (o[1] + d[1] * time + size[1]) / step[1] - scalar(row)
        surface = corners[0] + u * (corners[1] - corners[0]) + v * (corners[3] - corners[1])
        if kind == UPPER_TRIANGLE:
            surface = corners[0] + v * (corners[2] - corners[0]) + u * (corners[3] - corners[2])
        return o[2] + d[2] * time - surface

    @wp.func
    def field_hit(
        target: int,
        shape: wp.vec3i,
        o: vec3,
        d: vec3,
        size: vec3,
        height: wp.array2d(dtype=scalar),
        height_row: int,
        hit: Hit,
    ):
        """The nearer of a hit and the first triangle that a ray goes through."""
        step = grid.spacing(shape, size)
        now = wp.max(wp.max(since(o[0], d[0], size[0]), since(o[1], d[1], size[1])), scalar(0.0))
        end = wp.min(until(o[0], d[0], -size[0], size[0]), until(o[1], d[1], -size[1], size[1]))
        end = wp.min(end, hit.time)
        if now <= end:
            column = wp.clamp(int((o[0] + d[0] * now + size[0]) / step[0]), 0, shape[2] - 2)
            row = wp.clamp(int((o[1] + d[1] * now + size[1]) / step[1]), 0, shape[1] - 2)
            began = bool(False)
            before = scalar(0.0)
            searching = bool(True)
            slack = scalar(SLACK) * (step[0] + step[1])
            while searching:
                first = shape[0] + row * shape[2] + column
                corners = size[2] * vec4(
                    height[height_row, first],
                    height[height_row, first + 1],
                    height[height_row, first + shape[2]],
                    height[height_row, first + shape[2] + 1],
                )
                low = scalar(column) * step[0] - size[0]
                near = scalar(row) * step[1] - size[1]
                next_column = until(o[0], d[0], low, low + step[0])
                next_row = until(o[1], d[1], near, near + step[1])
                stop = wp.min(wp.min(next_column, next_row), end)
                # How far v is above u, as a function of time: the side of the cell's diagonal.
                slope = d[1] / step[1] - d[0] / step[0]
                side = (o[1] + size[1]) / step[1] - scalar(row) - (o[0] + size[0]) / step[0] + scalar(column)
                turn = stop
                if slope != scalar(0.0):
                    turn = -side / slope
                    if turn <= now or turn > stop:
                        turn = stop
                for part in range(2):
                    place = turn
                    if part == 1:
                        place = stop
                    if searching and (part == 0 or place > now):
                        above = side
                        if slope != scalar(0.0):
                            above += slope * scalar(0.5) * (now + place)
                        kind = LOWER_TRIANGLE
                        if above > scalar(0.0):
                            kind = UPPER_TRIANGLE
                        if not began:
                            before = clearance(o, d, now, size, step, row, column, kind, corners)
                            began = True
                        after = d[2]  # of a vertical ray, which stays over one place without an end
                        if place < scalar(wp.inf):
                            after = clearance(o, d, place, size, step, row, column, kind, corners)
                        crosses = before >= scalar(0.0) and after < scalar(0.0)
                        if before <= scalar(0.0) and after > scalar(0.0):
                            crosses = True
                        if crosses:
                            element = KINDS * (row * shape[2] + column) + kind
                            triangle = grid.element_corners(height, height_row, shape, size, element)
                            normal = surfaces.surface_normal(wp.static(codes.HEIGHTFIELD), element, o, size, triangle)
                            time = surfaces.surface_time(wp.static(codes.HEIGHTFIELD), element, o, d, size, triangle)
                            # A ray within the plane of a triangle meets it anywhere, by rounding: the next one decides.
                            crosses = time >= now - slack and time <= place + slack
                            if crosses and wp.abs(wp.dot(normal, d)) > along:
                                hit = hits.take(time, target, element, hit)
                                searching = hit.target != target
                                before = after
                        else:
                            before = after
                        now = place
                if stop >= end:
                    searching = False
                elif next_column < next_row:
                    column += 1
                    if d[0] < scalar(0.0):
                        column -= 2
                else:
                    row += 1
                    if d[1] < scalar(0.0):
                        row -= 2
                if row < 0 or column < 0 or row > shape[1] - 2 or column > shape[2] - 2:
                    searching = False
        return hit

    return SimpleNamespace(field_hit=field_hit)
