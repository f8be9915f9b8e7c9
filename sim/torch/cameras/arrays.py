"""Scene of cameras as arrays on a device: materials of geometries, and what cameras and lights move with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

from sim.arrays.allocation import fill
from sim.arrays.device_model import DeviceModel
from sim.model.frames import MountedCamera
from sim.model.geometries import Geometry
from sim.model.looks.lights import MountedLight
from sim.rays.targets import TargetArrays
from sim.render.lights import LightSet
from sim.render.mounted import carried_mass
from sim.render.tessellation import with_normals
from sim.render.textures import TextureSet, uv_density
from sim.render.view import is_seen
from warp_kernels import types as codes
from warp_kernels.render.camera_surfaces import look_structs
from warp_kernels.render.mounts import CENTRE_OF_MASS, LINK, POINT, mount_structs
from warp_kernels.render.structs import surface_structs
from warp_kernels.render.trace import render_kernels

FOLLOWS = {"link": LINK, "point": POINT, "centre of mass": CENTRE_OF_MASS}


class SceneArrays:
    """A model as cameras see it, on a device.

    Args:
        m: the model on the device.
        cameras: the cameras.
        lights: the lights.
        size: columns and rows of a picture.
        tile: side length of the squares of the ground [m].
        haze: density of the haze over the ground [1/m].

    Attributes:
        count: number of visible geometries.
        extended: as of :func:`warp_kernels.render.structs.render_structs`.
        targets: see :func:`warp_kernels.rays.pieces.ray_structs`.
        looks: see :func:`warp_kernels.render.camera_surfaces.look_structs`.
        mounts, light_mounts: see :func:`warp_kernels.render.mounts.mount_structs`.
        light, lights: sky and lights, see :func:`warp_kernels.render.trace.render_kernels`.
        headlight: 1 for a light at the eye of the camera [num_lights].
        across: axes of lights across the one that they shine along, on what they move with [num_lights, 3].
        camera_placement: poses of cameras on what they move with [num_cameras].
        pixel_size: size of a pixel at distance 1 [num_cameras].
    """

    def __init__(
        self,
        m: DeviceModel,
        cameras: Sequence[MountedCamera],
        lights: LightSet,
        size: tuple[int, int],
        tile: float,
        haze: float,
    ):
        t, kernels, Mounts = m.types, render_kernels(lights.extended), mount_structs(m.types.scalar).Mounts
        self.extended = lights.extended
        seen = [number for number, geometry in enumerate(m.model.geometries) if is_seen(geometry)]
        self._arrays = TargetArrays(m, seen)
        self.count, self.targets = len(seen), self._arrays.targets
        head = np.array([one.light.type == "headlight" for one in lights.mounted], dtype=np.int32)
        placements = np.array([camera.placement for camera in cameras])
        pixel = 2.0 * np.tan(np.radians([camera.fov for camera in cameras]) / 2.0) / size[1]
        with wp.ScopedDevice(m.device):
            self.looks = fill(look_structs().Looks, **_looks([m.model.geometries[number] for number in seen]))
            self.mounts = fill(Mounts, **_mounts(m, cameras))
            self.light_mounts = fill(Mounts, **_mounts(m, lights.mounted))
            self.lights, dome = lights.arrays(kernels), lights.dome(kernels)
            self.across: wp.array = wp.array(_axes_across(lights.mounted), dtype=wp.vec3)
            self.headlight: wp.array = wp.array(head, dtype=wp.int32)
            self.camera_placement: wp.array = wp.array(placements, dtype=t.transform)
            self.pixel_size: wp.array = wp.array(pixel, dtype=t.scalar)
        self.light = kernels.View()
        self.light.width, self.light.height = size
        self.light.tile, self.light.fog = tile, haze
        lights.light(self.light, dome)


def _looks(geometries: Sequence[Geometry]) -> dict[str, Any]:
    """Return the fields of ``Looks``."""
    materials = [geometry.material for geometry in geometries]
    textures = TextureSet(materials)
    normals, uv, density, first, repeat, texture = [], [], [], [], [], []
    faces = 0
    for geometry, material in zip(geometries, materials, strict=True):
        mesh = geometry.mesh if geometry.type in (codes.CONVEX, codes.MESH) else None
        has_uv = mesh is not None and mesh.uv is not None
        shown = has_uv or material.repeat is not None
        texture.append(textures.index(material, shown))
        repeat.append((0.0, 0.0) if has_uv or material.repeat is None else material.repeat)
        first.append(-1 if mesh is None else faces)
        if mesh is None:
            continue
        vertices = mesh.vertices * geometry.size
        own = np.zeros((len(mesh.faces), 3, 2)) if mesh.uv is None else np.asarray(mesh.uv)
        normals.append(corner_normals(vertices, mesh.faces))
        uv.append(own)
        density.append(uv_density(vertices, mesh.faces, own))
        faces += len(mesh.faces)
    return {
        "opacity": wp.array([geometry.rgba[3] for geometry in geometries], dtype=float),
        "roughness": wp.array([material.roughness for material in materials], dtype=float),
        "metallic": wp.array([material.metallic for material in materials], dtype=float),
        "texture": wp.array(np.array(texture, dtype=np.int32), dtype=wp.int32),
        "repeat": wp.array(np.reshape(repeat, (-1, 2)).astype(np.float32), dtype=wp.vec2),
        "first": wp.array(np.array(first, dtype=np.int32), dtype=wp.int32),
        "normals": _joined(normals, 3, wp.vec3),
        "uv": _joined(uv, 2, wp.vec2),
        "density": wp.array(np.concatenate([np.zeros(0), *density]).astype(np.float32), dtype=float),
        "textures": textures.arrays(surface_structs()),
    }


def _joined(parts: Sequence[np.ndarray], size: int, dtype: Any) -> wp.array:
    """Return vectors of all meshes in one array."""
    rows = np.concatenate([np.zeros((0, size)), *(part.reshape(-1, size) for part in parts)])
    return wp.array(rows.astype(np.float32), dtype=dtype)


def corner_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the smoothed normals at the corners of all triangles [nf, 3, 3], zero for those without area."""
    corners = vertices[faces]
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = np.zeros((len(faces), 3, 3))
    normals[np.linalg.norm(areas, axis=1) > 0.0] = with_normals(vertices, faces).normals
    return normals


def _axes_across(lights: Sequence[MountedLight]) -> np.ndarray:
    """Return the x axes of lights [n, 3]."""
    turns = [Rotation.from_quat(one.placement[3:]).as_matrix()[:, 0] for one in lights]
    return np.array(turns, dtype=np.float32).reshape(-1, 3)


def _mounts(m: DeviceModel, mounted: Sequence[MountedCamera | MountedLight]) -> dict[str, Any]:
    """Return the fields of ``Mounts``."""
    masses = [carried_mass(m.model, one.link) for one in mounted]
    shares = [mass / max(float(mass.sum()), 1e-300) for mass in masses]
    follows = [
        POINT if one.follows == "centre of mass" and not mass.any() else FOLLOWS[one.follows]
        for one, mass in zip(mounted, masses, strict=True)
    ]
    points = np.array([one.point for one in mounted]).reshape(-1, 3)
    return {
        "link": wp.array(np.array([one.link for one in mounted], dtype=np.int32), dtype=wp.int32),
        "point": wp.array(points, dtype=m.types.vec3),
        "follows": wp.array(np.array(follows, dtype=np.int32), dtype=wp.int32),
        "share": wp.array(np.array(shares).reshape(len(mounted), m.model.num_links), dtype=m.types.scalar),
    }
