"""Cameras: colour, depth and segmentation of many worlds, as tensors on their device."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import warp as wp

from sim.arrays.critical_sections import serialized
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch, record
from sim.cores import usable_cores
from sim.dynamics.differentiable_op import paused_tape, run_in_chunks
from sim.dynamics.kinematics import POSES_WORTH_LANES, pose_operation
from sim.errors import ModelError
from sim.model.checks import is_positive, is_whole, names_in, number, require_type
from sim.model.model import Model
from sim.rays.cast import RAY_PARAMETERS
from sim.render.lights import LightSet
from sim.render.rows import run_rows
from sim.render.view import check_size
from sim.torch.arrays import (
    TORCH_DTYPES,
    as_array,
    known_device,
    on_torch_stream,
    require_dense,
    require_tensor,
    torch_device,
    warp_device,
)
from sim.torch.cameras.arrays import SceneArrays
from sim.torch.cameras.looks import Looks, RandomLooks, looks_of
from sim.torch.modes import not_compiled, require_no_recording
from warp_kernels.rays.search import search_ray_kernels
from warp_kernels.render.cameras import camera_kernels
from warp_kernels.render.mounts import mount_kernels

MOST_ROWS = 2**31 - 1  # of all pictures together, and of pixels
BANDS = 8  # of a CPU's core, which balance the load
KEPT = 4  # numbers of worlds whose poses keep their memory


class CameraImages(NamedTuple):
    """Pictures of cameras, top row first.

    Attributes:
        rgb: red, green and blue, sRGB, uint8 [worlds, cameras, height, width, 3].
        depth: distance along the viewing axis, float32 [worlds, cameras, height, width], m; infinite for the sky.
        geometry: index in ``model.geometries``, int32 [worlds, cameras, height, width]; -1 for the sky.

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> _ = scene.add_camera("above", position=(0.0, 0.0, 3.0))
        >>> cameras = sim.torch.Cameras(scene.finalize(), width=4, height=3)
        >>> images = cameras.draw(torch.zeros(2, 0))
        >>> images.rgb.shape, images.depth[1, 0, 0, 0], images.geometry.unique()
        (torch.Size([2, 1, 3, 4, 3]), tensor(3.), tensor([0], dtype=torch.int32))
    """

    rgb: torch.Tensor
    depth: torch.Tensor
    geometry: torch.Tensor


class Cameras:
    """Cameras of a model in many worlds at once: colour, depth and segmentation, without gradients.

    One launch draws all worlds, cameras and pixels. A picture shows what :func:`sim.render.render_frames` shows through
    :func:`sim.render.view_of`: materials, textures, shadows, transparent surfaces and the reflected sky. Primitive
    shapes are exact instead of tessellated. There is one ray per pixel, without smoothing of edges; the ground isn't
    darkened next to objects, heightfields aren't smoothed, planes are visible from above only, and tendons aren't
    drawn.

    Args:
        model: the model of one world.
        names: names of its cameras, see :meth:`sim.ModelBuilder.add_camera`. Default: all of them.
        width: number of columns.
        height: number of rows.
        tile: side length of the squares of the ground [m].
        haze: density of the haze over the ground, 0.25 in :func:`sim.render.render_frames` through such cameras [1/m].
        exposure: factor of the brightness of the model's lights, as of :class:`sim.render.Renderer`.
        shadow_rays: number of rays from a surface towards each light with a size, whose shadows have soft borders, as
            of :class:`sim.render.Renderer`. With 1 they are hard, and pictures faster.

    Attributes:
        names: as given, or those of all cameras.

    Raises:
        ModelError: for an unknown camera, a model without cameras, sizes that aren't positive, and
            shadow_rays that are not from 1 to 1024.

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> ball = scene.add_sphere(radius=0.2, mass=1.0, position=(0.0, 0.0, 1.0), name="ball")
        >>> _ = scene.add_camera("above", position=(0.0, 0.0, 3.0))
        >>> model = scene.finalize()
        >>> cameras = sim.torch.Cameras(model, width=32, height=24)
        >>> q = torch.as_tensor(model.q0, dtype=torch.float32).repeat(16, 1)
        >>> images = cameras.draw(q, cameras.randomise(16, torch.Generator().manual_seed(0)))
        >>> images.rgb.shape, images.depth.min(), images.geometry.unique()
        (torch.Size([16, 1, 24, 32, 3]), tensor(1.8049), tensor([0, 1], dtype=torch.int32))
    """

    def __init__(
        self,
        model: Model,
        names: str | Sequence[str] | None = None,
        width: int = 64,
        height: int = 64,
        *,
        tile: float = 0.5,
        haze: float = 0.0,
        exposure: float | None = None,
        shadow_rays: int = 1,
    ):
        require_type("Cameras: model", model, Model, "a sim.Model")
        check_size(width, height)
        chosen = [camera.name for camera in model.cameras] if names is None else names_in("Cameras: names", names)
        if not chosen:
            raise ModelError("Cameras: the model has no camera; add one with ModelBuilder.add_camera, or name one")
        self._tile, self._haze = number("Cameras", "tile", tile), number("Cameras", "haze", haze)
        if not 0.0 < self._tile < np.inf or not 0.0 <= self._haze < np.inf:
            raise ModelError(
                f"Cameras: tile is {tile!r} and haze {haze!r}; the tile must be positive, the haze not negative"
            )
        self.model, self.names, self.width, self.height = model, tuple(chosen), int(width), int(height)
        if exposure is not None and not is_positive(exposure):
            raise ModelError(f"Cameras: exposure is {exposure!r}; it must be positive")
        self._lights = LightSet(model, 1, exposure, 1.0, shadow_rays)
        self._mounted = [model.camera(name) for name in self.names]
        self._worlds: dict[torch.device, _Worlds] = {}

    def __repr__(self) -> str:
        return f"Cameras({', '.join(self.names)}; {self.width} x {self.height} pixels)"

    def __getstate__(self) -> dict[str, Any]:
        """Return the content of a copy or pickle, without the arrays of devices, which are made again."""
        return {**self.__dict__, "_worlds": {}}

    def looks(self, device: torch.device | str) -> Looks:
        """Return the colours and lights of the model, with one row each, on a device.

        Raises:
            ModelError: for an unknown device.
        """
        return looks_of(self.model, self._lights, known_device("looks", device))

    def randomise(
        self,
        count: int,
        generator: torch.Generator,
        *,
        geometries: Sequence[str] | None = None,
        color: float = 1.0,
        elevation: tuple[float, float] = (0.35, np.pi / 2.0),
        shift: float = 0.0,
        light: tuple[float, float] = (0.5, 1.25),
        ambient: tuple[float, float] = (0.5, 1.25),
    ) -> Looks:
        """Draw random colours and lights of worlds, uniformly, on the generator's device.

        Args:
            count: number of worlds.
            generator: source of random numbers.
            geometries: names of the geometries whose colours change. Default: all of them.
            color: share of a random colour in theirs, from 0 (the model's) to 1 (any).
            elevation: lowest and highest elevation of directional lights of the world, such as the sun; their
                direction is uniform between both [rad].
            shift: largest displacement of lights along each axis [m].
            light: lowest and highest factor of the light of each.
            ambient: lowest and highest factor of the light of the sky.

        Raises:
            ModelError: for an unknown geometry, and for ranges that don't ascend.
        """
        if not is_whole(count, 1):
            raise ModelError(f"randomise: count is {count!r:.80}; it must be a whole number of at least 1")
        self._check_pixels("randomise", int(count))
        require_type("randomise: generator", generator, torch.Generator, "a torch.Generator")
        chosen = (
            range(self.model.num_geometries)
            if geometries is None
            else [self.model.geometry(name) for name in names_in("randomise: geometries", geometries)]
        )
        ranges = RandomLooks(color, elevation, shift, light, ambient)
        return ranges.draw(self.looks(generator.device), int(count), generator, chosen, self._lights.mounted)

    def images(self, count: int, device: torch.device | str) -> CameraImages:
        """Return uninitialised images of a number of worlds, for ``out`` of :meth:`draw`.

        Raises:
            ModelError: for an unknown device, and a number of worlds that isn't whole or has too many pixels.
        """
        device = known_device("images", device)
        if not is_whole(count, 0):
            raise ModelError(f"images: count is {count!r:.80}; it must be a whole number that is not negative")
        self._check_pixels("images", int(count))
        shape = (count, len(self.names), self.height, self.width)
        return CameraImages(
            torch.empty(*shape, 3, dtype=torch.uint8, device=device),
            torch.empty(shape, dtype=torch.float32, device=device),
            torch.empty(shape, dtype=torch.int32, device=device),
        )

    @not_compiled("kernels of Warp are launched outside of what torch.compile can see")
    def draw(
        self,
        q: torch.Tensor,
        looks: Looks | None = None,
        *,
        out: CameraImages | None = None,
        **parameters: torch.Tensor,
    ) -> CameraImages:
        """Draw the pictures of all worlds and cameras on the device of the coordinates.

        Args:
            q: joint coordinates [worlds, nq], in the model's dtype.
            looks: colours and lights, see :meth:`looks` and :meth:`randomise`. Default: those of the model.
            out: images of these worlds that are overwritten and returned, so that nothing is allocated; see
                :meth:`images`. Default: new ones.
            **parameters: ``geometry_placement`` [m, quaternion], ``geometry_size`` and ``height``, of the model's shape
                or with one value per world. Default: those of the model.

        Raises:
            ModelError: for a wrong shape, dtype or device, and an unknown parameter.
        """
        require_no_recording("pictures of cameras")
        require_dense("draw: q", q)
        require_tensor("draw: q", q, (len(q) if q.dim() else 0, self.model.nq), TORCH_DTYPES[self.model.dtype])
        self._check_pixels("draw", len(q))
        looks = self._looks(q, looks)
        given = {name: self._parameter(q, name, value) for name, value in parameters.items()}
        made = self.images(len(q), q.device) if out is None else out
        if out is not None:
            self._check_out(q, out)
        if len(q):
            with torch.no_grad(), on_torch_stream(q.device):
                self._on(q.device).draw(q.detach().contiguous(), looks, given, made)
        return made

    def _check_pixels(self, where: str, count: int) -> None:
        if count * len(self.names) * self.height * self.width > MOST_ROWS:
            raise ModelError(f"{where}: {count} worlds have more than {MOST_ROWS} pixels; draw some of them at a time")

    def _on(self, device: torch.device) -> "_Worlds":
        if device not in self._worlds:
            self._worlds[device] = _Worlds(self, warp_device(device))
        return self._worlds[device]

    def _looks(self, q: torch.Tensor, looks: Looks | None) -> Looks:
        """Return looks as contiguous tensors, checked."""
        own = self._on(q.device).own_looks
        if looks is None:
            return own
        require_type("draw: looks", looks, Looks, "a sim.torch.Looks")
        found = []
        for name, value in looks._asdict().items():
            require_dense(f"draw: {name}", value)
            rows = len(value) if value.dim() and len(value) in (1, len(q)) else len(q)
            inner = getattr(own, name).shape[1:]
            require_tensor(f"draw: {name}", value, (rows, *inner), torch.float32)
            _require_device(f"draw: {name}", value, q)
            found.append(value.detach().contiguous())
        return Looks(*found)

    def _parameter(self, q: torch.Tensor, name: str, value: torch.Tensor) -> torch.Tensor:
        """Return a parameter as a contiguous tensor [1 or worlds, ...], checked."""
        if name not in RAY_PARAMETERS:
            raise ModelError(f"draw: unknown parameter '{name}'; known: {', '.join(RAY_PARAMETERS)}")
        shape = self.model.parameters[name].shape
        require_dense(f"draw: {name}", value)
        whole = value[None] if value.shape == shape else value
        rows = len(whole) if whole.dim() and len(whole) in (1, len(q)) else len(q)
        require_tensor(f"draw: {name}", whole, (rows, *shape), q.dtype)
        _require_device(f"draw: {name}", whole, q)
        if name == "geometry_placement":
            turn = torch.nn.functional.normalize(whole[..., 3:], dim=-1)
            whole = torch.cat([whole[..., :3], turn], dim=-1)
        return whole.detach().contiguous()

    def _check_out(self, q: torch.Tensor, out: CameraImages) -> None:
        require_type("draw: out", out, CameraImages, "a sim.torch.CameraImages, such as that of images()")
        shape = (len(q), len(self.names), self.height, self.width)
        require_tensor("draw: rgb of out", out.rgb, (*shape, 3), torch.uint8)
        require_tensor("draw: depth of out", out.depth, shape, torch.float32)
        require_tensor("draw: geometry of out", out.geometry, shape, torch.int32)
        for name, value in out._asdict().items():
            _require_device(f"draw: {name} of out", value, q)
            if not value.is_contiguous():
                raise ModelError(f"draw: {name} of out isn't contiguous; make it with images()")


def _require_device(name: str, value: torch.Tensor, q: torch.Tensor) -> None:
    if value.device != q.device:
        raise ModelError(f"{name} is on {value.device}, but q on {q.device}")


class _Worlds:
    """Arrays of cameras on a device, and their launches.

    Args:
        cameras: the cameras.
        device: the device.
    """

    @serialized
    def __init__(self, cameras: Cameras, device: wp.Device):
        model = cameras.model
        self._many = DeviceModel(model, device)
        self._few = self._many.with_lanes(1)
        self._pictures = len(cameras.names)
        size = cameras.width, cameras.height
        self._scene = SceneArrays(self._many, cameras._mounted, cameras._lights, size, cameras._tile, cameras._haze)
        self._size, self._poses = size, pose_operation(model, tuple(model.link_names))
        self._kept: dict[int, dict[str, wp.array]] = {}
        self.own_looks = looks_of(model, cameras._lights, torch_device(device))

    @serialized
    def draw(self, q: torch.Tensor, looks: Looks, given: dict[str, torch.Tensor], images: CameraImages) -> None:
        """Draw into images; all tensors are contiguous."""
        m = self._many if len(q) >= POSES_WORTH_LANES else self._few
        arrays = self._arrays(len(q))
        parameters = {
            **m.parameters, **{name: as_array(value, m.parameter_dtype(name)) for name, value in given.items()}
        }  # fmt: skip
        with paused_tape():
            if m.model.num_links:
                run_in_chunks(self._poses.forward, m, arrays["link_pose"], [as_array(q, m.types.scalar)])
            self._launch(m, arrays, parameters, looks, images)

    def _launch(
        self,
        m: DeviceModel,
        arrays: dict[str, wp.array],
        parameters: dict[str, wp.array],
        looks: Looks,
        images: CameraImages,
    ) -> None:
        scene, mounts = self._scene, mount_kernels(m.types.scalar)
        kernels = camera_kernels(m.types.scalar, scene.extended)
        worlds = arrays["eye"].shape[0]
        sources = (scene, arrays, parameters)
        if scene.count:
            pose_targets = search_ray_kernels(m.types.scalar).pose_targets
            launch(pose_targets, arrays["target_pose"].shape, *sources, device=m.device)
        launch(mounts.pose_cameras, arrays["eye"].shape, *sources, device=m.device)
        lamps = {
            "placed": as_array(looks.light_positions, wp.vec3),
            "along": as_array(looks.light_axes, wp.vec3),
            "light_color": as_array(looks.light_colors, wp.vec3),
            "ambient": as_array(looks.ambient, wp.vec3),
        }
        if arrays["light_axis"].size:
            launch(mounts.pose_lights, arrays["light_axis"].shape, lamps, *sources, device=m.device)
        srgb = as_array(looks.colors, wp.vec3)
        color = arrays["color"]
        if color.size:
            color = color[: srgb.shape[0]]
            launch(kernels.linear_colors, color.shape, srgb=srgb, color=color, device=m.device)
        width, height = self._size
        rows = worlds * self._pictures * height
        seen = {
            "color": color,
            **lamps,
            "rgb": as_array(images.rgb.view(rows, width, 3), wp.uint8),
            "depth": as_array(images.depth.view(rows, width), wp.float32),
            "geometry": as_array(images.geometry.view(rows, width), wp.int32),
        }
        if not m.device.is_cpu:
            launch(kernels.draw_pixels, (rows, width), seen, *sources, device=m.device, first_row=0)
            return
        band = max(-(-rows // (BANDS * len(usable_cores()))), 1)
        run_rows(
            [
                record(
                    kernels.draw_pixels, (min(band, rows - first), width), seen, *sources, device=m.device,
                    first_row=first,
                )
                for first in range(0, rows, band)
            ]
        )  # fmt: skip

    def _arrays(self, worlds: int) -> dict[str, wp.array]:
        """Return the working arrays for a number of worlds, kept for the next call."""
        if worlds not in self._kept:
            if len(self._kept) == KEPT:
                self._kept.pop(next(iter(self._kept)))
            m, targets, lights = self._many, (worlds, self._scene.count), (worlds, self._scene.headlight.shape[0])
            shapes: dict[str, tuple[tuple[int, ...], Any]] = {
                "link_pose": ((worlds, m.model.num_links, 7), m.types.scalar),
                "target_pose": (targets, m.types.transform),
                "target_ball": (targets, wp.types.vector(4, m.types.scalar)),
                "eye": ((worlds, self._pictures), m.types.transform),
                "light_position": (lights, wp.vec3),
                "light_axis": (lights, wp.vec3),
                "light_across": (lights, wp.vec3),
                "color": ((worlds, m.model.num_geometries), wp.vec3),
            }
            self._kept[worlds] = {
                name: wp.zeros(shape, dtype=dtype, device=m.device) for name, (shape, dtype) in shapes.items()
            }
        return self._kept[worlds]
