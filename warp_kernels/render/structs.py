"""Structs of the ray tracer: the view, lights, textures, the scene, and the surface that a ray hits."""

import functools
from types import SimpleNamespace

import warp as wp


@functools.cache
def surface_structs() -> SimpleNamespace:
    """Return the structs that don't depend on what kinds of light there are, in single precision."""

    @wp.struct
    class Dome:
        """Image of the surroundings by latitude and longitude, as :class:`sim.Light` has it; none if ``levels`` is 0.

        Images begin at a texel and have a width and a height: the image itself in ``levels`` of detail, each half as
        large as the one before, then those seen in rough surfaces. ``harmonics`` are the coefficients of the light on
        matte surfaces, and ``turn`` rotates from the image's frame to the world.
        """

        levels: int
        turn: wp.quat
        starts: wp.array(dtype=int)
        sizes: wp.array2d(dtype=int)
        texels: wp.array(dtype=wp.vec3)
        harmonics: wp.array(dtype=wp.vec3)

    @wp.struct
    class Textures:
        """Images, each with its levels of detail: the image itself, then half of its size, and so on to one texel.

        A level begins at a texel, and has a width and a height. Texels are bytes of sRGB, of which ``linear`` has the
        linear light [256].
        """

        first_level: wp.array(dtype=int)
        levels: wp.array(dtype=int)
        starts: wp.array(dtype=int)
        sizes: wp.array2d(dtype=int)
        texels: wp.array2d(dtype=wp.uint8)
        linear: wp.array(dtype=float)

    @wp.struct
    class Surface:
        """First surface of a ray: an instance, ground or sky, with its normals towards the eye, smoothed and of the
        triangle, the colours that it reflects diffusely and like a mirror (head-on), its roughness, and the amount of
        haze before it.
        """

        shown: int
        point: wp.vec3
        normal: wp.vec3
        flat: wp.vec3
        albedo: wp.vec3
        mirror: wp.vec3
        roughness: float
        distance: float
        haze: float

    return SimpleNamespace(Dome=Dome, Textures=Textures, Surface=Surface)


@functools.cache
def render_structs(extended: bool) -> SimpleNamespace:
    """Return the structs, in single precision.

    Args:
        extended: whether light comes from extended sources, too: from lights with soft shadows, and from skies with an
            image. Without any, functions of the ray tracer don't look for them, and structs have no fields for them.
    """
    shared = surface_structs()
    Dome, Textures = shared.Dome, shared.Textures

    @wp.struct
    class View:
        """Pinhole camera and sky. ``right`` and ``up`` are scaled to the size of one pixel at distance 1.

        ``zenith`` and ``horizon`` are the background. A surface reflects ``overhead`` diffusely if it faces up, and
        ``bounce`` if it faces down; like a mirror it reflects ``high``, ``low`` and, below the horizon, ``bounce``.
        A ``dome`` with an image replaces the background, and its light times ``tint`` is added.
        """

        eye: wp.vec3
        right: wp.vec3
        up: wp.vec3
        forward: wp.vec3
        width: int
        height: int
        zenith: wp.vec3
        horizon: wp.vec3
        overhead: wp.vec3
        high: wp.vec3
        low: wp.vec3
        bounce: wp.vec3
        tile: float
        fog: float
        if extended:
            dome: Dome
            tint: wp.vec3

    @wp.struct
    class Lights:
        """Lights other than the sky: directional, or at a position; the axis that they shine along; colour and
        attenuation as in :class:`sim.Light`; angles of the cone at which the light
        begins to fade and ends [rad]; exponent of the cosine; factor of highlights; whether they cast shadows.

        Sizes: whether a light is flat; its ``across`` axis; and ``extents``, zero without a size: sine of half of the
        diameter of a directional light; radius of a ball or a disk and zero; half of the width and height of a
        rectangle. Shadows of lights with a size take so many ``rays``; 1 leaves them hard.
        """

        directional: wp.array(dtype=int)
        positions: wp.array(dtype=wp.vec3)
        axes: wp.array(dtype=wp.vec3)
        colors: wp.array(dtype=wp.vec3)
        attenuation: wp.array(dtype=wp.vec3)
        cones: wp.array(dtype=wp.vec2)
        exponents: wp.array(dtype=float)
        specular: wp.array(dtype=float)
        shadows: wp.array(dtype=int)
        if extended:
            flat: wp.array(dtype=int)
            across: wp.array(dtype=wp.vec3)
            extents: wp.array(dtype=wp.vec2)
            rays: int

    @wp.struct
    class Scene:
        """Scene: the planes with their colours, textures (-1 for none) and repeats per length; colour, opacity,
        roughness, metallic and texture of each instance; and for each triangle its instance, normals and texture
        coordinates at its three corners, and the texture coordinates per length. The triangles of the mesh ``glass``,
        which is transparent, come after those of the mesh of all others.
        """

        planes: wp.array(dtype=wp.transform)
        plane_colors: wp.array(dtype=wp.vec3)
        plane_textures: wp.array(dtype=int)
        plane_repeats: wp.array(dtype=wp.vec2)
        instance_colors: wp.array(dtype=wp.vec3)
        instance_opacity: wp.array(dtype=float)
        instance_roughness: wp.array(dtype=float)
        instance_metallic: wp.array(dtype=float)
        instance_textures: wp.array(dtype=int)
        first_glass: int
        triangle_instance: wp.array(dtype=int)
        corner_normals: wp.array(dtype=wp.vec3)
        corner_uv: wp.array(dtype=wp.vec2)
        triangle_density: wp.array(dtype=float)
        textures: Textures
        lights: Lights

    return SimpleNamespace(**vars(shared), View=View, Lights=Lights, Scene=Scene)
