"""Motions as USD files, written at once or frame by frame during a simulation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
from pxr import UsdUtils

from sim.errors import ModelError
from sim.model.checks import MOST_ITEMS, as_numbers, is_positive, is_whole, number, require_path, require_type
from sim.model.model import Model
from sim.output import WritingFolder, check_target, system_errors, write_file
from sim.render.view import Camera, Marker, Trail, check_poses, check_world_poses
from sim.simulation.contacts import Contacts
from sim.usd.layers import ContactWriter, layer_errors
from sim.usd.over import write_layer
from sim.usd.stage import StageWriter

LAYERS = (".usda", ".usdc", ".usd")
PACKAGE = ".usdz"
SUFFIXES = (*LAYERS, PACKAGE)
# Number of values after which frames are flushed to the file
FLUSH_AFTER = 5_000_000


def write_usd(
    path: str | os.PathLike[str],
    model: Model,
    poses: npt.ArrayLike,
    *,
    fps: float,
    markers: Sequence[Marker] = (),
    trails: Sequence[Trail] = (),
    camera: Camera | None = None,
    massless_bodies: bool = False,
    over: str | os.PathLike[str] | None = None,
) -> Path:
    """Write a motion as a USD stage.

    One world: every link is an Xform with its visuals as meshes, its colliders as implicit shapes of purpose guide,
    mass properties and joints, so that the file is also a UsdPhysics description of the model. Several worlds: visuals
    only, with one PointInstancer per link.

    Links without mass between hinges and slides aren't written: the file has several joints between the same two
    bodies, as MuJoCo and Newton do.

    Args:
        path: the file, ending in .usda (text), .usdc or .usd (binary), or .usdz, a package with the textures inside.
        model: the model.
        poses: link poses, position and quaternion xyzw in the world frame: [frames, num_links, 7] for one world,
            [frames, num_worlds, num_links, 7] for several.
        fps: frames per second; frame k is at time code k.
        markers: balls to draw, such as a target.
        trails: paths of points to draw as curves [m], complete in every frame.
        camera: the camera. Default: one that sees the whole motion.
        massless_bodies: write these links as bodies of 1e-12 kg, for programs that read one joint per body, such as
            PhysX.
        over: the USD file that the model was read from. The result then holds only the time samples of its bodies, with
            that file as a sublayer: materials, lights, cameras and everything else stay the file's own. It has no
            markers, trails and camera of its own, and one world. A package (.usdz) has a copy of that file and of all
            that it refers to.

    Returns:
        The path.

    Raises:
        ModelError: for another suffix, a missing folder, poses with a wrong shape or non-finite values, an fps that is
            not positive, or if the file can't be written; with ``over`` for a model that wasn't read from that file.

    Example:
        >>> import tempfile
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()  # one frame
        >>> path = sim.usd.write_usd(tempfile.mkdtemp() + "/robot.usda", model, poses, fps=60)
        >>> sim.load(path).nv
        7
    """
    _check_fps(fps)
    checked = check_world_poses(model, poses)
    if over is not None:
        given = {"markers": markers, "trails": trails, "camera": camera, "massless_bodies": massless_bodies}
        return _write_over(path, model, checked, float(fps), over, [name for name, value in given.items() if value])

    def write(name: str, target: Path) -> None:
        writer = StageWriter(
            name, target, model, float(fps), checked.shape[1], markers, trails, camera, massless_bodies=massless_bodies
        )
        for frame in checked:
            writer.append(frame)
        writer.finish()

    return _write_stage(path, write)


def _write_stage(path: str | os.PathLike[str], write: Callable[[str, Path], None]) -> Path:
    """Write a stage, or a package with it.

    Args:
        path: the file.
        write: writes the file that is its first argument, of which the second is the final path.
    """
    target = check_target(path, SUFFIXES)

    def write_package(name: str) -> None:
        inside = Path(name).parent / "package"
        inside.mkdir()
        stage = inside / f"{target.stem}.usdc"
        write(str(stage), stage)
        if not UsdUtils.CreateNewUsdzPackage(str(stage), name):
            missing = UsdUtils.ComputeAllDependencies(str(stage))[2]
            raise OSError(f"not found: {', '.join(missing)}" if missing else "USD can't write the package")

    def write_either(name: str) -> None:
        with layer_errors():
            if target.suffix.lower() == PACKAGE:
                write_package(name)
            else:
                write(name, target)

    return write_file(path, SUFFIXES, write_either)


def _write_over(
    path: str | os.PathLike[str],
    model: Model,
    poses: np.ndarray,
    fps: float,
    over: str | os.PathLike[str],
    given: list[str],
) -> Path:
    """Write a motion over a stage: :func:`write_usd` with checked poses and the names of other arguments."""
    if given:
        raise ModelError(f"write_usd: {', '.join(given)} can't be written over a stage; leave {given[0]} out")
    if poses.shape[1] != 1:
        raise ModelError(f"write_usd: {poses.shape[1]} worlds can't be written over a stage; write one of them")
    require_path(over)
    target, below = check_target(path, SUFFIXES), Path(over)
    if os.path.exists(target) and os.path.exists(below) and target.samefile(below):
        raise ModelError(f"{target}: is the stage itself; write the motion to another file")
    return _write_stage(path, lambda name, final: write_layer(name, final, below, model, poses[:, 0], fps))


class UsdRecorder:
    """Recorder that writes a motion as a USD stage while it is simulated, keeping only a few frames in memory.

    ::

        with sim.usd.UsdRecorder("motion.usdc", model, fps=60, num_worlds=1024) as recorder:
            for _ in range(240):
                state = simulator.step(state)
                recorder.append(sim.forward_kinematics(model, state.q))

    The stage is that of :func:`write_usd`. A binary file (.usdc, .usd) is written incrementally; a text file (.usda)
    stays in memory until the end. The file appears when the recorder is closed, even after an error, with the frames
    recorded so far.

    Args:
        path: the file, ending in .usda, .usdc or .usd.
        model: the model.
        fps: frames per second; frame k is at time code k.
        num_worlds: number of worlds.
        markers: balls to draw.
        camera: the camera. Default: one that sees the whole motion.
        force_scale: length of a contact force [m/N]. Default: the weight of the model is half a metre long.

    Raises:
        ModelError: as :func:`write_usd`; :meth:`append` for poses with a wrong shape or non-finite values, and
            after :meth:`close`.

    Example:
        >>> import tempfile
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> simulator = sim.Simulator(model, dt=1 / 60, device="cpu")
        >>> state = simulator.initial_state()
        >>> path = tempfile.mkdtemp() + "/motion.usdc"
        >>> with sim.usd.UsdRecorder(path, model, fps=60) as recorder:
        ...     for _ in range(3):
        ...         state = simulator.step(state)
        ...         recorder.append(sim.forward_kinematics(model, state.q))
        >>> sim.load(path).nv
        7
    """

    def __init__(
        self, path: str | os.PathLike[str], model: Model, *, fps: float, num_worlds: int = 1,
        markers: Sequence[Marker] = (), camera: Camera | None = None, force_scale: float | None = None,
    ):  # fmt: skip
        _check_fps(fps)
        if not (is_whole(num_worlds, 1) and num_worlds <= MOST_ITEMS):
            raise ModelError(f"num_worlds is {num_worlds!r}; it must be a whole number from 1 to {MOST_ITEMS}")
        if force_scale is not None:
            number("UsdRecorder", "force_scale", force_scale)
        self._target = check_target(path, LAYERS)
        self._model, self._num_worlds, self._scale = model, num_worlds, force_scale
        with system_errors(self._target):
            self._folder = WritingFolder(self._target.parent)
        name = self._folder.path / f"new{self._target.suffix.lower()}"
        try:
            with system_errors(self._target), layer_errors():
                self._writer = StageWriter(str(name), self._target, model, float(fps), num_worlds, markers, (), camera)
        except BaseException:
            self._folder.close()
            raise
        self._contacts: ContactWriter | None = None
        self._unwritten, self._closed = 0, False

    def append(self, poses: npt.ArrayLike, contacts: Contacts | None = None) -> None:
        """Add a frame.

        Args:
            poses: link poses in the world frame, [num_worlds, num_links, 7], or [num_links, 7] of a single world.
            contacts: contacts of :meth:`sim.Simulator.contacts`. Points and forces are drawn in a separate layer,
                ``<name>_contacts``, which a viewer can mute.
        """
        if self._closed:
            raise ModelError(f"{self._target}: the recorder is closed; create another recorder for further frames")
        array = as_numbers("poses", poses)
        worlds = array[None] if array.ndim == 2 and self._num_worlds == 1 else array
        if worlds.shape != (self._num_worlds, self._model.num_links, 7):
            raise ModelError(
                f"poses have shape {array.shape}; expected [{self._num_worlds}, {self._model.num_links}, 7]"
            )
        if contacts is not None:
            require_type("contacts", contacts, Contacts, "a result of sim.Simulator.contacts, or None")
        frame = self._writer.frames
        self._writer.append(check_poses(self._model, worlds))
        if contacts is not None and self._contacts is None:
            layer = self._target.with_name(f"{self._target.stem}_contacts{self._target.suffix.lower()}")
            with system_errors(self._target):
                self._contacts = ContactWriter(self._writer.stage, layer.name, self._model, self._scale, frame)
        if self._contacts is not None:
            self._contacts.append(frame, contacts)
        self._unwritten += worlds.size
        if self._unwritten > FLUSH_AFTER and self._target.suffix.lower() != ".usda":
            with system_errors(self._target):
                self._writer.flush()
            self._unwritten = 0

    def close(self) -> None:
        """Complete the stage and move the file into place. Without frames no file is written.

        A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._writer.frames:
                with system_errors(self._target):
                    self._finish()
        finally:
            self._folder.close()

    def _finish(self) -> None:
        self._writer.finish()
        written = self._folder.path
        if self._contacts is not None:
            self._contacts.finish()
            (written / self._contacts.name).replace(self._target.with_name(self._contacts.name))
        (written / f"new{self._target.suffix.lower()}").replace(self._target)

    def __enter__(self) -> UsdRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_fps(fps: float) -> None:
    if not is_positive(fps):
        raise ModelError(f"fps is {fps!r}; it must be positive")
