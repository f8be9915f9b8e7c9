"""Ray tracer over the triangles of a model, on the CPU or a GPU."""

import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp
from scipy.spatial.transform import Rotation

from sim.arrays.critical_sections import interruptible, serialized
from sim.arrays.device_model import find_device
from sim.arrays.launch import launch
from sim.cores import usable_cores
from sim.errors import ModelError
from sim.model.checks import as_numbers, is_positive, is_whole, require_type
from sim.model.looks.looks import DEFAULT_MATERIAL
from sim.model.model import Model
from sim.model.poses import IDENTITY
from sim.render.colors import linear_light
from sim.render.lights import SHADOW_RAYS, LightSet
from sim.render.occlusion import AmbientOcclusion, sky_directions
from sim.render.rows import record_rows, run_rows
from sim.render.tendons import COLOR as TENDON_COLOR
from sim.render.tendons import num_tendon_pieces, tendon_pieces, tubes
from sim.render.tessellation import Triangles, sphere, textured
from sim.render.textures import TextureSet, uv_density
from sim.render.view import (
    Camera,
    Marker,
    Trail,
    check_poses,
    check_size,
    instance_poses,
    length_unit,
    listed,
    visible_planes,
    visible_solids,
)
from warp_kernels.render.occlusion import occlusion_kernels
from warp_kernels.render.trace import render_kernels

TRAIL_BEADS = 96
FEW = 3  # maximum number of shapes with fine tessellation; fewer round shapes may fill the picture
FINE, COARSE = 64, 32  # numbers of sides of their circles
LEAF = 8  # triangles per leaf of the bounding volume hierarchy; fewer are slower on a CPU

MOST_SAMPLES = 1024  # rays in each pixel


@dataclass(frozen=True)
class Survey:
    """Depth and segmentation at the centre of every pixel of a picture.

    Attributes:
        depth: distance along the viewing axis of the camera [height, width], infinite for the sky [m].
        geometry: index in ``model.geometries`` [height, width]; -1 for the sky, -2 for markers, trails and tendons.
        world: index of the world [height, width]; -1 for sky, planes, markers, trails and tendons.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.render import Renderer, fit_camera
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> renderer = Renderer(model, width=64, height=48, camera=fit_camera(model, poses), device="cpu")
        >>> survey = renderer.survey(poses[0])
        >>> survey.depth.shape, bool(np.isinf(survey.depth[survey.geometry == -1]).all())
        ((48, 64), True)
    """

    depth: np.ndarray
    geometry: np.ndarray
    world: np.ndarray


class Renderer:
    """Renderer of one model. Create it once, then call :meth:`draw` for every frame.

    Args:
        model: the model; its visible geometries are drawn, planes as a checkered ground, and spatial
            tendons along their paths.
        width: width of the picture [pixels].
        height: height of the picture [pixels].
        camera: the camera.
        markers: fixed balls.
        trails: paths of points, drawn up to the frame shown.
        device: Warp device, such as "cpu" or "cuda:0".
        supersamples: number of rays per pixel on an edge, on a grid; a square number.
        tile: side length of the squares of the ground [m]. Default: 0.5 m, times a power of ten if the camera is nearer
            than 0.2 m or farther than 200 m.
        offsets: displayed position of the origin of each world [num_worlds, 3], see :func:`grid_offsets`. Default: one
            world at the origin. Planes are drawn once.
        occlusion: darken corners and gaps, where less of the sky is visible; None disables this.
        exposure: factor of the brightness of the model's lights. Default: a white surface at the middle of the scene
            that faces all of them is as bright as in the light of sun and sky.
        shadow_rays: number of rays from a surface towards each light with a size, whose shadows have soft borders; 1
            for hard ones. Pixels in a penumbra get more rays, as those on an edge do.

    Raises:
        ModelError: for a size that isn't a positive integer, supersamples that are not a square number, a tile that is
            not positive, or shadow_rays that are not from 1 to 1024.

    Example:
        >>> import sim
        >>> from sim.render import Renderer, fit_camera
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> renderer = Renderer(model, width=64, height=48, camera=fit_camera(model, poses), device="cpu")
        >>> renderer.draw(poses[0]).shape, renderer.survey(poses[0]).depth.shape
        ((48, 64, 3), (48, 64))
    """

    _in_bands = True

    def __init__(
        self,
        model: Model,
        *,
        width: int,
        height: int,
        camera: Camera,
        markers: Sequence[Marker] = (),
        trails: Sequence[Trail] = (),
        device: str | None = None,
        supersamples: int = 9,
        tile: float | None = None,
        offsets: npt.ArrayLike = ((0.0, 0.0, 0.0),),
        occlusion: AmbientOcclusion | None = None,
        exposure: float | None = None,
        shadow_rays: int = SHADOW_RAYS,
    ):
        require_type("Renderer: model", model, Model, "a sim.Model")
        check_size(width, height)
        if not (is_whole(supersamples, 1) and supersamples <= MOST_SAMPLES) or not _is_square(supersamples):
            raise ModelError(
                f"supersamples is {supersamples}; it must be a square number such as 4, 9 or 16, at most {MOST_SAMPLES}"
            )
        if occlusion is not None:
            require_type("occlusion", occlusion, AmbientOcclusion, "a sim.render.AmbientOcclusion")
        self.model, self.width, self.height = model, width, height
        self.trails = listed("trails", trails, Trail)
        self.offsets = as_numbers("offsets", offsets)
        if self.offsets.ndim != 2 or self.offsets.shape[1] != 3 or not len(self.offsets):
            raise ModelError(f"offsets have shape {self.offsets.shape}; expected [num_worlds, 3]")
        self.device = find_device(device)
        if tile is not None and not is_positive(tile):
            raise ModelError(f"tile is {tile!r}; it must be positive")
        require_type("camera", camera, Camera, "a sim.render.Camera")
        if exposure is not None and not is_positive(exposure):
            raise ModelError(f"exposure is {exposure!r}; it must be positive")
        self.unit = length_unit(camera.distance)
        self.lights = LightSet(model, len(self.offsets), exposure, self.unit, shadow_rays)
        self.kernels = render_kernels(self.lights.extended)
        self.scene = self.kernels.Scene()
        self.textures = TextureSet([g.material for g in model.geometries if g.visible])
        self._collect(listed("markers", markers, Marker))
        self._collect_planes()
        self.size = (height, width)
        self.tile, self.occlusion = 0.5 * self.unit if tile is None else float(tile), occlusion
        with wp.ScopedDevice(self.device):
            self.dome = self.lights.dome(self.kernels)
            self.samples: wp.array = wp.array(
                _sample_pattern(round(supersamples**0.5)).astype(np.float32), dtype=wp.vec2
            )
            self.color = wp.zeros((height, width), dtype=wp.vec3)
            self.smooth = wp.zeros((height, width), dtype=wp.vec3)
            self.shown = wp.zeros((height, width), dtype=int)
            self.soft = wp.zeros((height, width), dtype=int)
            self.pixels = wp.zeros((height, width, 3), dtype=wp.uint8)
            self.directions: wp.array = wp.array(
                sky_directions(0 if occlusion is None else occlusion.rays), dtype=wp.vec3
            )
        self.meshes: dict[str, wp.Mesh] = {}
        self.camera = camera

    @property
    def camera(self) -> Camera:
        """The camera, which may change from picture to picture."""
        return self._camera

    @camera.setter
    def camera(self, camera: Camera) -> None:
        require_type("camera", camera, Camera, "a sim.render.Camera")
        self._camera, self.view = camera, self._view(camera)
        self._orient_planes()
        self.passes = self._passes() if self.meshes else []

    @serialized
    def draw(self, poses: np.ndarray, frame: int = 0) -> np.ndarray:
        """Draw one picture, uint8 [height, width, 3].

        Args:
            poses: link poses in the frame of their world, [num_worlds, num_links, 7], or [num_links, 7] for one world.
            frame: index of the frame up to which trails are drawn.
        """
        self._stage(poses, frame)
        return self._finish()

    @serialized
    def survey(self, poses: np.ndarray, frame: int = 0) -> Survey:
        """Compute depth and segmentation instead of a picture. Arguments as for :meth:`draw`."""
        self._stage(poses, frame)
        depth = wp.empty(self.size, dtype=float, device=self.device)
        run_rows(self._rows(self.kernels.survey_pixels, depth=depth))
        shown = self.shown.numpy()
        seen = len(self.drawn) * len(self.offsets)
        # Instances first, then markers, trails and tendons. Planes and sky are numbered from the end: the sky last,
        # planes in reverse.
        others = len(self.scene.instance_colors) - seen
        geometry = np.array([*(self.drawn * len(self.offsets)), *[-2] * others, *self.plane_numbers[::-1], -1])
        world = np.array([*np.repeat(np.arange(len(self.offsets)), len(self.drawn)), *[-1] * (len(geometry) - seen)])
        return Survey(self.unit * depth.numpy(), geometry[shown], world[shown])

    @serialized
    def openness(self, poses: np.ndarray, frame: int = 0) -> np.ndarray:
        """Compute the share of a uniform sky's light that reaches the surface at every pixel, float32 [height, width].

        This is the cosine-weighted share of directions that are unblocked within the reach of ``occlusion``. It is 1
        where nothing blocks the sky. Arguments as for :meth:`draw`.

        Raises:
            ModelError: for a renderer without ``occlusion``.
        """
        if self.occlusion is None:
            raise ModelError(
                "openness: the renderer has no ambient occlusion; create it with occlusion=AmbientOcclusion()"
            )
        self._stage(poses, frame)
        part = wp.empty(self.size, dtype=float, device=self.device)
        kernel = occlusion_kernels(self.lights.extended).measure_openness
        run_rows(self._rows(kernel, max_distance=self.occlusion.reach / self.unit, sky_part=part))
        return np.asarray(part.numpy())

    def _finish(self) -> np.ndarray:
        """Draw the staged frame."""
        for launches in self.passes:
            run_rows(launches)
        return self.pixels.numpy().copy()

    def _stage(self, poses: np.ndarray, frame: int) -> None:
        """Move everything to its pose in a frame."""
        array = as_numbers("poses", poses)
        worlds = array[None] if array.ndim == 2 else array
        if worlds.shape[:1] != self.offsets.shape[:1]:
            raise ModelError(f"poses have shape {array.shape}, but there are {len(self.offsets)} worlds")
        link_poses = check_poses(self.model, worlds)
        if not self.meshes or self._rebuilds():
            self._update(link_poses, frame if self._rebuilds() else -1)  # a hierarchy that is kept gets full trails
            self.meshes = {
                name: wp.Mesh(self.points, indices, bvh_leaf_size=LEAF) for name, indices in self.indices.items()
            }
            self.passes = self._passes()
        if not self._rebuilds():
            self._update(link_poses, frame)
            for mesh in self.meshes.values():
                mesh.refit()

    def _rebuilds(self) -> bool:
        """Return whether the hierarchy of bounding volumes is rebuilt for every frame instead of refitted.

        Rays are up to four times slower through one that was built for other poses. Building costs as much per triangle
        as a ray per pixel.
        """
        return self.device.is_cpu and len(self.scene.triangle_instance) < self.width * self.height

    def _passes(self) -> list[list[wp.Launch]]:
        """Return the recorded launches that draw a frame; each pass depends on the complete previous pass."""
        passes = [
            self._rows(self.kernels.shade_pixels),
            self._rows(self.kernels.refine_edges),
        ]
        if self.occlusion is not None:
            kernel = occlusion_kernels(self.lights.extended).shade_corners
            passes.append(self._rows(kernel, max_distance=self.occlusion.reach / self.unit))
        passes.append(self._rows(self.kernels.encode_pixels))
        return passes

    def _rows(self, kernel: wp.Kernel, **named: Any) -> list[wp.Launch]:
        meshes = {"glass": wp.uint64(0), **{name: mesh.id for name, mesh in self.meshes.items()}}
        return record_rows(kernel, self.size, self, meshes, device=self.device, in_bands=self._in_bands, **named)

    def _collect(self, markers: Sequence[Marker]) -> None:
        """Collect all triangle meshes. An instance is one rigid mesh."""
        self.drawn = visible_solids(self.model)
        drawn = [self.model.geometries[k] for k in self.drawn]
        worlds = len(self.offsets)
        segments = FINE if len(drawn) * worlds <= FEW else COARSE
        shapes: list[Triangles] = [textured(g, segments) for g in drawn] * worlds
        colors = [g.rgba for g in drawn] * worlds
        self.marker_poses = _at([m.position for m in markers])
        shapes += [sphere(m.radius) for m in markers]
        colors += [(*m.color, 1.0) for m in markers]
        for trail in self.trails:
            shapes += [sphere(trail.radius, 10)] * TRAIL_BEADS
            colors += [(*trail.color, 1.0)] * TRAIL_BEADS
        self.tubes = tubes(worlds * num_tendon_pieces(self.model))
        first_tube = sum(len(s.vertices) for s in shapes)
        shapes += [self.tubes.shape] * self.tubes.count
        colors += [(*TENDON_COLOR, 1.0)] * self.tubes.count
        shapes.append(_speck())  # so that a world without triangles has a mesh, too
        colors.append((0.0, 0.0, 0.0, 1.0))
        starts = np.cumsum([0, *(len(s.vertices) for s in shapes)])
        faces = np.concatenate([s.faces + start for s, start in zip(shapes, starts[:-1], strict=True)])
        rgba = np.array(colors)
        materials = [g.material for g in drawn] * worlds
        materials += [DEFAULT_MATERIAL] * (len(shapes) - len(materials))
        instance = np.repeat(np.arange(len(shapes)), [len(s.faces) for s in shapes])
        order = np.argsort(rgba[instance, 3] < 1.0, kind="stable")  # transparent shapes come last
        solid = int((rgba[instance, 3] >= 1.0).sum())
        normals = np.concatenate([s.normals for s in shapes])[order]
        with wp.ScopedDevice(self.device):
            self.local: wp.array = wp.array(
                np.concatenate([s.vertices for s in shapes]).astype(np.float32), dtype=wp.vec3
            )
            parts = {"mesh": order[:solid], "glass": order[solid:]}
            self.indices: dict[str, wp.array] = {
                name: wp.array(faces[part].ravel().astype(np.int32), dtype=int)
                for name, part in parts.items()
                if part.size
            }
            self.vertex_instance = _numbers([len(s.vertices) for s in shapes])
            self.scene.triangle_instance = wp.array(instance[order].astype(np.int32), dtype=int)
            self.scene.corner_normals = wp.array(normals.reshape(-1, 3).astype(np.float32), dtype=wp.vec3)
            self.scene.instance_colors = wp.array(linear_light(rgba[:, :3]).astype(np.float32), dtype=wp.vec3)
            self.scene.instance_opacity = wp.array(rgba[:, 3].astype(np.float32), dtype=float)
            self.scene.instance_roughness = wp.array([m.roughness for m in materials], dtype=float)
            self.scene.instance_metallic = wp.array([m.metallic for m in materials], dtype=float)
            pairs = zip(materials, shapes, strict=True)
            numbers = [self.textures.index(material, shape.uv is not None) for material, shape in pairs]
            self.scene.instance_textures = wp.array(numbers, dtype=int)
            uv = np.concatenate([np.zeros((len(s.faces), 3, 2)) if s.uv is None else s.uv for s in shapes])[order]
            self.scene.corner_uv = wp.array(uv.reshape(-1, 2).astype(np.float32), dtype=wp.vec2)
            points = np.concatenate([s.vertices for s in shapes]) / self.unit
            self.scene.triangle_density = wp.array(uv_density(points, faces[order], uv).astype(np.float32), dtype=float)
            self.scene.textures = self.textures.arrays(self.kernels)
            self.scene.lights = self.lights.arrays(self.kernels)
            self.scene.first_glass = solid
            self.local_tubes = self.local[first_tube : first_tube + self.tubes.count * len(self.tubes.shape.vertices)]
            self.points: wp.array = wp.zeros(len(self.local), dtype=wp.vec3)
            self.instance_poses: wp.array = wp.zeros(len(shapes), dtype=wp.transform)
            self.instance_scales: wp.array = wp.zeros(len(shapes), dtype=float)

    def _collect_planes(self) -> None:
        self.plane_numbers = visible_planes(self.model)
        planes = [self.model.geometries[k] for k in self.plane_numbers]
        self.plane_poses = np.array([plane.placement for plane in planes]).reshape(-1, 7)
        materials = [plane.material for plane in planes]
        self.repeats = np.array([(m.texture and m.repeat) or (0.0, 0.0) for m in materials]).reshape(-1, 2)
        textures = np.array([self.textures.index(m, m.repeat is not None) for m in materials], dtype=np.int32)
        self.scene.plane_textures = wp.array(textures, dtype=int, device=self.device)
        repeats = (self.repeats * self.unit).astype(np.float32)
        self.scene.plane_repeats = wp.array(repeats, dtype=wp.vec2, device=self.device)
        colors = linear_light(np.array([plane.rgba[:3] for plane in planes]).reshape(-1, 3))
        self.scene.planes = wp.zeros(len(planes), dtype=wp.transform, device=self.device)
        self.scene.plane_colors = wp.array(colors.astype(np.float32), dtype=wp.vec3, device=self.device)

    def _orient_planes(self) -> None:
        """Move the planes for the camera, each within itself to the point that the camera looks at, by whole squares or
        whole repeats of its texture.
        """
        poses = self.plane_poses.copy()
        if not len(poses):
            return  # older versions of SciPy reject an empty array of rotations
        turn = Rotation.from_quat(poses[:, 3:])
        period = np.zeros((len(poses), 3))
        squares = np.full_like(self.repeats, 2.0 * self.tile)
        period[:, :2] = np.divide(1.0, self.repeats, out=squares, where=self.repeats != 0.0)
        seen = turn.inv().apply(np.asarray(self.camera.target) - poses[:, :3])
        poses[:, :3] += turn.apply(np.floor(seen[:, :2] / period[:, :2]) @ np.eye(2, 3) * period)
        self.scene.planes.assign(self._seen(poses))

    def _seen(self, poses: np.ndarray) -> np.ndarray:
        """Return poses [n, 7] relative to the camera's target, for single precision, in the unit of length."""
        poses = poses.copy()
        poses[:, :3] = (poses[:, :3] - np.asarray(self.camera.target)) / self.unit
        return poses.astype(np.float32)

    def _view(self, camera: Camera) -> object:
        right, up, backward = camera.axes()
        pixel = 2.0 * np.tan(np.radians(camera.fov) / 2.0) / self.height
        view = self.kernels.View()
        view.eye, view.right, view.up = (
            wp.vec3(*((np.asarray(camera.position) - np.asarray(camera.target)) / self.unit)),
            wp.vec3(*(right * pixel)),
            wp.vec3(*(up * pixel)),
        )
        view.forward = wp.vec3(*-backward)
        view.width, view.height = self.width, self.height
        self.lights.light(view, self.dome)
        view.tile = self.tile / self.unit
        view.fog = 0.25 * self.unit / camera.distance
        return view

    def _update(self, link_poses: np.ndarray, frame: int) -> None:
        """Move all instances and their vertices to a frame with link_poses [num_worlds, num_links, 7]."""
        drawn = [self.model.geometries[k] for k in self.drawn]
        poses = [instance_poses(drawn, link_poses, self.offsets).reshape(-1, 7), self.marker_poses]
        scales = [np.ones(len(poses[0]) + len(self.marker_poses))]
        for trail in self.trails:
            beads, shown = _beads(trail, frame)
            poses.append(_at(beads))
            scales.append(shown.astype(float))
        if self.tubes.count:
            pieces = [
                tendon_pieces(self.model, of_world) + offset
                for of_world, offset in zip(link_poses, self.offsets, strict=True)
            ]
            placed, vertices = self.tubes.update(np.concatenate(pieces))
            poses.append(placed)
            scales.append(np.ones(self.tubes.count))
            self.local_tubes.assign(vertices.astype(np.float32))
        self.instance_poses.assign(np.concatenate([self._seen(np.concatenate(poses)), [IDENTITY]]).astype(np.float32))
        self.instance_scales.assign((np.concatenate([*scales, [self.unit]]) / self.unit).astype(np.float32))
        eye, target = np.array(self.camera.position), np.array(self.camera.target)
        self.lights.move(self.scene.lights, link_poses[0], self.offsets[0], eye, target)
        launch(self.kernels.transform_vertices, len(self.local), self, device=self.device)


@serialized
def draw_together(renderers: Sequence[Renderer], poses: np.ndarray, frames: Sequence[int]) -> list[np.ndarray]:
    """Draw frames of a motion, as many at a time as there are renderers.

    A core that is idle in one picture works on another. With one renderer per core, each draws in one thread: otherwise
    it would wait for Python's lock at every band.

    Args:
        renderers: equal renderers.
        poses: link poses of the whole motion [frames, num_worlds, num_links, 7].
        frames: the frames to draw.

    Returns:
        Their pictures, each as of :meth:`Renderer.draw`.
    """
    free, staging = list(renderers), threading.Lock()
    for renderer in renderers:
        renderer._in_bands = len(renderers) < len(usable_cores())

    def draw(frame: int) -> np.ndarray:
        renderer = free.pop()
        try:
            with staging:
                renderer._stage(poses[frame], frame)
            return renderer._finish()
        finally:
            free.append(renderer)

    with ThreadPoolExecutor(len(renderers)) as pool:
        pictures = pool.map(draw, frames)
        with interruptible():
            return list(pictures)


def _beads(trail: Trail, frame: int) -> tuple[np.ndarray, np.ndarray]:
    """Return equidistant points along the whole path [TRAIL_BEADS, 3], and the number shown in a frame (-1: all).

    Points ahead of the frame are placed at its position, so that they do not shade the ground further on.
    """
    path = np.asarray(trail.points, dtype=np.float64)
    travelled = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    points = np.linspace(0.0, travelled[-1], TRAIL_BEADS)
    beads = np.stack([np.interp(points, travelled, path[:, axis]) for axis in range(3)], axis=1)
    shown = points <= travelled[frame]
    return np.where(shown[:, None], beads, path[frame]), shown


def _at(positions: npt.ArrayLike) -> np.ndarray:
    """Return poses [n, 7] without rotation at positions [n, 3]."""
    points = np.asarray(positions, dtype=np.float64).reshape(-1, 3)
    return np.concatenate([points, np.tile(IDENTITY[3:], (len(points), 1))], axis=1)


def _speck() -> Triangles:
    """Return a triangle without area, far from the visible scene, where it doesn't darken the ground."""
    corners = np.tile([0.0, 0.0, -1e5], (3, 1))
    return Triangles(corners, np.array([[0, 1, 2]]), np.ones((1, 3, 3)))


def _numbers(counts: list[int]) -> wp.array:
    """Return 0 repeated counts[0] times, 1 repeated counts[1] times and so on."""
    return wp.array(np.repeat(np.arange(len(counts)), counts).astype(np.int32), dtype=int)


def _is_square(number: int) -> bool:
    return math.isqrt(number) ** 2 == number


def _sample_pattern(side: int) -> np.ndarray:
    """Return positions of side^2 rays on a grid in a pixel, corners first, without the centre."""
    grid = (np.arange(side) + 0.5) / side
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    distance = np.linalg.norm(points - 0.5, axis=1)
    return points[np.argsort(-distance, kind="stable")][: np.count_nonzero(distance)]
