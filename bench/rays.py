"""Throughput of rays (rays/s) compared with MuJoCo's mj_multiRay, on one core.

    python -m bench.rays

A lidar of 1,024 rays in the middle of 64 worlds, each with a heightfield of 33 x 33 points, a convex mesh and a given
number of boxes, capsules and balls. Turns alternate in one process; the times are medians.
"""

import argparse
import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import torch
import trimesh
import warp as wp
from PIL import Image

import sim
from sim.output import write_text

WORLDS, COLUMNS, ROWS = 64, 128, 8
TURNS = 9


def scene(things: int, folder: Path) -> Path:
    """Write an MJCF file with loose objects around the origin, on hills."""
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (33, 33), dtype=np.uint8)).save(folder / "hills.png")
    trimesh.convex.convex_hull(0.3 * rng.normal(size=(60, 3))).export(folder / "stone.obj")
    bodies = []
    for number in range(things):
        x, y = rng.uniform(1.0, 6.0, 2) * rng.choice([-1, 1], 2)
        kind = ("box", "capsule", "sphere")[number % 3]
        bodies.append(
            f'<body pos="{x} {y} {rng.uniform(0.5, 1.5)}"><freejoint/><geom type="{kind}" size=".2 .3 .25"/></body>'
        )
    path = folder / "scene.xml"
    write_text(
        path,
        f"""<mujoco><asset><hfield name="hills" size="8 8 .5 .1" nrow="33" ncol="33" file="hills.png"/>
    <mesh name="stone" file="stone.obj"/></asset><worldbody><geom type="hfield" hfield="hills"/>
    <geom type="mesh" mesh="stone" pos="2 0 1"/>{"".join(bodies)}</worldbody></mujoco>""",
    )
    return path


def cast_with_gradient(robot: sim.torch.Robot, *inputs: torch.Tensor) -> None:
    """Compute distances, and their gradient in coordinates, origins and directions."""
    q, origin, direction = (each.clone().requires_grad_() for each in inputs)
    distance = robot.cast_rays(q, origin, direction)[0]
    distance.nan_to_num(posinf=0.0).sum().backward()


def time_scene(things: int) -> dict[str, float]:
    """Measure microseconds per ray, by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = scene(things, Path(folder))
        peer = mujoco.MjModel.from_xml_path(str(path))
        models = {}
        for dtype in ("float64", "float32"):
            builder = sim.ModelBuilder()
            builder.add_mjcf(path)
            models[dtype] = builder.finalize(dtype=dtype)
    fan = sim.rays.fan_pattern(COLUMNS, ROWS, elevations=(-0.4, 0.2))
    eye = np.array([0.0, 0.0, 1.2])
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    number, distance = np.zeros(len(fan), dtype=np.int32), np.zeros(len(fan))

    def cast_peer() -> None:
        for _ in range(WORLDS):
            mujoco.mj_multiRay(peer, data, eye, fan.ravel(), None, True, -1, number, distance, None, len(fan), 1e10)

    turns: dict[str, Callable[[], object]] = {"MuJoCo": cast_peer}
    casts: dict[str, Callable[[], tuple[torch.Tensor, ...]]] = {}
    for dtype, model in models.items():
        q = torch.as_tensor(np.repeat(model.q0[None], WORLDS, axis=0), dtype=getattr(torch, dtype))
        origin = torch.as_tensor(eye, dtype=q.dtype).expand(WORLDS, len(fan), 3).contiguous()
        along = torch.as_tensor(fan, dtype=q.dtype).expand(WORLDS, -1, -1).contiguous()
        robot = sim.torch.Robot(model)
        casts[dtype] = functools.partial(robot.cast_rays, q, origin, along)
        turns[dtype] = casts[dtype]
        turns[f"{dtype} with gradient"] = functools.partial(cast_with_gradient, robot, q, origin, along)
    cast_peer()
    expected = np.where(distance < 0.0, np.inf, distance)
    found = casts["float64"]()[0][0].numpy()
    agree = np.isclose(found, expected, atol=1e-6) | (np.isinf(found) & np.isinf(expected))
    print(f"{things} things: {100.0 * agree.mean():.1f} % of distances agree to 1e-6 m")
    for _ in range(3):  # a captured graph from the third call on
        for turn in turns.values():
            turn()
    times: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(TURNS):
        for name, turn in turns.items():
            start = time.perf_counter()
            turn()
            times[name].append(time.perf_counter() - start)
    return {name: 1e6 * float(np.median(each)) / (WORLDS * len(fan)) for name, each in times.items()}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    wp.init()
    for things in (8, 32, 128):
        for name, each in time_scene(things).items():
            print(f"  {name:24} {each:7.3f} us per ray, {1.0 / each:7.2f} million rays per second")


if __name__ == "__main__":
    main()
