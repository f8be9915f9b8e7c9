"""Time to draw an image of 640 x 480 pixels, with shadows and smooth edges, for three scenes.

python -m bench.render --json bench/results/render_cpu.json
python -m bench.render --device cuda:0 --json bench/results/render_gpu.json

The Panda's file comes with example-robot-data (``pip install backswing[peers]``).
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import warp as wp

import sim
from bench.report import with_machine, write_json
from bench.timing import machine, pinned
from examples.learning import robot_file
from scenes import quadruped, throw
from sim.render import AmbientOcclusion, Renderer, fit_camera

WIDTH, HEIGHT = 640, 480
SWING = 0.3  # joint motion since the first picture, whose poses determine the bounding volume hierarchy [rad]


@dataclass
class Row:
    """One scene. Times are the fastest of several pictures [ms]: wall-clock time, and time summed over all cores."""

    scene: str
    width: int
    height: int
    triangles: int
    occlusion_rays: int
    device: str
    cores: int
    ms: float
    cpu_ms: float
    pictures: int


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--device", default="cpu", help='"cpu" (default), or for example "cuda:0"')
    parser.add_argument("--cores", type=int, default=2, help="processor cores (default 2)")
    parser.add_argument("--repeats", type=int, default=20, help="pictures per scene (default 20)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    where = machine()
    rows = []
    print(f"{'scene':12}{'triangles':>10}{'occlusion rays':>16}{'ms':>8}{'ms on all cores':>17}")
    with pinned(options.cores):
        for name, model, q in scenes():
            for occlusion in (None, AmbientOcclusion()):
                row = measure(name, model, q, occlusion, options)
                print(
                    f"{row.scene:12}{row.triangles:10}{row.occlusion_rays:16}{row.ms:8.1f}{row.cpu_ms:17.1f}",
                    flush=True,
                )
                rows.append(row)
    if options.json is not None:
        write_json(options.json, with_machine(rows, where))


def scenes() -> Iterator[tuple[str, sim.Model, np.ndarray]]:
    """Return name, model and coordinates [nq] of each scene."""
    for name, scene in (("quadruped", quadruped.build()), ("throw", throw.build())):
        yield name, scene.model, scene.q0
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_urdf(robot_file("panda"))
    model = builder.finalize()
    yield "Panda", model, np.array([0.3, -0.6, 0.2, -2.2, 0.1, 1.7, 0.8, 0.02, 0.02])


def measure(
    name: str, model: sim.Model, q: np.ndarray, occlusion: AmbientOcclusion | None, options: argparse.Namespace
) -> Row:
    """Time images of the scene after it has moved."""
    moved = sim.integrate(model, q[None], np.full((1, model.nv), SWING), 1.0).numpy()
    before, poses = (sim.forward_kinematics(model, at).numpy()[0] for at in (moved, q[None]))
    renderer = Renderer(
        model, width=WIDTH, height=HEIGHT, camera=fit_camera(model, poses[None]), device=options.device,
        occlusion=occlusion,
    )  # fmt: skip
    renderer.draw(before)
    times = []
    for _ in range(options.repeats + 1):  # the first is a warm-up
        start = time.perf_counter(), time.process_time()
        renderer.draw(poses)
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, cpu = 1e3 * np.array(times[1:]).min(axis=0)
    triangles, rays = len(renderer.indices) // 3, 0 if occlusion is None else occlusion.rays
    return Row(
        name, WIDTH, HEIGHT, triangles, rays, options.device, options.cores, float(wall), float(cpu), options.repeats
    )


if __name__ == "__main__":
    main()
