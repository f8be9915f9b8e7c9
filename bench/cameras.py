"""Pictures per second of cameras for learning, of 64 x 64 pixels, compared with MuJoCo's renderer on the same core.

    python -m bench.cameras --json bench/results/cameras_cpu.json
    MUJOCO_GL=osmesa python -m bench.cameras

The Panda's file comes with example-robot-data (``pip install backswing[peers]``). Both programs read the same MJCF file
and draw colours, with the shadow of one light; ours draw depth and segmentation in the same pass. Times are processor
time. MuJoCo draws with OpenGL, on a machine without a GPU by Mesa's software, one world after another; it is measured
with a shadow map of 512 x 512 and without, at one sample per pixel.
"""

import argparse
import os
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import mujoco
import numpy as np
import torch
import warp as wp
from scipy.spatial.transform import Rotation

import sim
from bench.report import with_machine, write_json
from bench.timing import machine, pinned, time_call
from examples.learning import robot_file
from scenes.quadruped import QUADRUPED_URDF
from sim.exporters import write_mjcf
from sim.render import Camera
from warp_kernels.types import FREE

SIZE = 64
SHADOW_MAP = 512  # columns and rows of MuJoCo's
# Position and target of the camera of each scene.
VIEWS = {
    "cart-pole": ((0.0, -3.0, 0.8), (0.0, 0.0, 0.5)),
    "quadruped": ((1.0, -1.2, 0.9), (0.0, 0.0, 0.3)),
    "Panda, meshes": ((1.6, -1.6, 1.2), (0.0, 0.0, 0.4)),
}
SUN, SKY = sim.Light("directional", (0.8, 0.75, 0.66)), sim.Light("sky", (0.4, 0.45, 0.5))


@dataclass
class Row:
    """One scene. Numbers are pictures per second of one core; None where MuJoCo can't draw.

    Attributes:
        scene: name.
        geometries: number of geometries that are drawn.
        worlds: number of worlds drawn at a time.
        size: number of columns and rows.
        device: "cpu" or "cuda:0".
        frames_per_second: of ours, by processor time on a CPU.
        mujoco, mujoco_without_shadows: of MuJoCo's renderer.
        mujoco_geometries: number of geometries that it draws.
        renderer: what OpenGL draws with.
    """

    scene: str
    geometries: int
    worlds: int
    size: int
    device: str
    frames_per_second: float
    mujoco: float | None
    mujoco_without_shadows: float | None
    mujoco_geometries: int | None
    renderer: str | None


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--device", default="cpu", help='"cpu" (default), or for example "cuda:0"')
    parser.add_argument("--worlds", type=int, default=256, help="worlds drawn at a time (default 256)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    where, rows = machine(), []
    with pinned(1), tempfile.TemporaryDirectory() as folder:
        for name in VIEWS:
            rows.append(measure(name, write_scene(name, Path(folder)), options))
            print(rows[-1], flush=True)
    if options.json is not None:
        write_json(options.json, with_machine(rows, where))


def write_scene(name: str, folder: Path) -> Path:
    """Write a scene as an MJCF file; return its path."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    if name == "cart-pole":
        builder.add_link("cart", mass=1.0, inertia=(0.01, 0.01, 0.01))
        builder.add_joint("rail", "prismatic", child="cart", axis=(1.0, 0.0, 0.0), position=(0.0, 0.0, 0.3))
        builder.add_link("pole", mass=0.1, inertia=(0.01, 0.01, 0.01))
        builder.add_joint("hinge", "continuous", child="pole", parent="cart", axis=(0.0, 1.0, 0.0))
        builder.add_geometry("cart", "box", size=(0.15, 0.1, 0.06), collides=False)
        builder.add_geometry("pole", "capsule", size=(0.03, 0.47), position=(0.0, 0.0, 0.5), collides=False)
    elif name == "quadruped":
        builder.add_urdf(QUADRUPED_URDF, position=(0.0, 0.0, 0.4), floating_base=True)
    else:
        builder.add_urdf(robot_file("panda"))
    eye, target = VIEWS[name]
    turn = Rotation.from_matrix(Camera(eye, target).axes().T).as_quat()
    builder.add_camera("eye", position=eye, orientation=turn, fov=45.0)
    builder.add_light("sun", SUN, orientation=(0.25, -0.2, 0.0, 0.95))
    builder.add_light("sky", SKY)
    path = folder / f"{name}.xml"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of velocity limits and names, which no picture shows
        write_mjcf(path, builder.finalize())
    return path


def measure(name: str, path: Path, options: argparse.Namespace) -> Row:
    """Time pictures of a scene by both programs."""
    builder = sim.ModelBuilder()
    builder.add_mjcf(path)
    model = builder.finalize()
    rng = np.random.default_rng(0)
    moves = 0.2 * rng.normal(size=(options.worlds, model.nv))
    moves[:, : 6 * (name == "quadruped")] *= 0.1
    q = sim.integrate(model, np.repeat(model.q0[None], options.worlds, axis=0), moves, 1.0).numpy()
    peer = mujoco_rates(path, model, q[:16])
    rate = our_rate(model, torch.as_tensor(q, device=options.device))
    seen = sum(geometry.visible for geometry in model.geometries)
    return Row(name, seen, options.worlds, SIZE, options.device, rate, *peer)


def our_rate(model: sim.Model, q: torch.Tensor) -> float:
    """Return pictures per second, with random colours and lights, into the same memory."""
    cameras = sim.torch.Cameras(model, "eye", SIZE, SIZE)
    looks = cameras.randomise(len(q), torch.Generator(q.device).manual_seed(0))
    out = cameras.images(len(q), q.device)

    def draw() -> None:
        cameras.draw(q, looks, out=out)
        if q.is_cuda:
            torch.cuda.synchronize(q.device)

    clock = time.perf_counter if q.is_cuda else time.process_time
    return len(q) / time_call(draw, seconds=3.0, clock=clock).median


def mujoco_rates(
    path: Path, model: sim.Model, q: np.ndarray
) -> tuple[float | None, float | None, int | None, str | None]:
    """Return pictures per second of MuJoCo's renderer with shadows and without, the number of geometries that it draws,
    and what OpenGL draws with.
    """
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    # One sample per pixel, as here, and a map of shadows that is no finer than such pictures need.
    peer.vis.quality.offsamples, peer.vis.quality.shadowsize = 0, SHADOW_MAP
    try:
        renderer = mujoco.Renderer(peer, SIZE, SIZE)
    except Exception as error:  # what is missing differs between OpenGL's libraries
        print(f"MuJoCo can't draw here: {error}")
        return None, None, None, None
    from OpenGL import GL  # type: ignore[import-untyped]

    used = GL.glGetString(GL.GL_RENDERER).decode()
    coordinates, picture, rates = mujoco_coordinates(model, q), np.empty((SIZE, SIZE, 3), dtype=np.uint8), []

    def draw() -> None:
        for position in coordinates:
            data.qpos[:] = position
            mujoco.mj_kinematics(peer, data)
            mujoco.mj_camlight(peer, data)
            renderer.update_scene(data, "eye")
            renderer.render(out=picture)

    for shadows in (True, False):
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        rates.append(len(q) / time_call(draw, seconds=3.0, clock=time.process_time).median)
    drawn = int(renderer.scene.ngeom)
    renderer.close()
    return rates[0], rates[1], drawn, used


def mujoco_coordinates(model: sim.Model, q: np.ndarray) -> np.ndarray:
    """Return coordinates in MuJoCo's order: quaternions begin with w."""
    found = q.copy()
    if model.joint_type[0] == FREE:
        found[:, 3:7] = q[:, [6, 3, 4, 5]]
    return found


if __name__ == "__main__":
    main()
