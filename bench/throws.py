"""Throws in 64 worlds: a picture of all of them, and their animation.

    python -m bench.throws

In each world an arm throws a ball at a different random target, with torques found like those of ``examples.throw``.
Finished worlds are stored in --out, so that an interrupted run can be resumed.
"""

import argparse
import functools
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

import sim
from examples.throw import GOAL, TARGET_COLOR, optimise
from scenes import throw
from sim.render import Marker, Outermost, Renderer, Trail, fit_camera, link_boxes, write_gif

WORLDS, SEED = 64, 1
SPACING = np.array([2.6, 1.5, 0.0])  # between worlds: along the throws, and across [m]
SHOWN = 20  # steps from frame to frame
FPS = 25.0
HELD = 25  # repetitions of the last frame


def throws(kept: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return targets [WORLDS, 3] and coordinates [frames, WORLDS, nq] of the throws at them."""
    targets = throw.random_targets(SEED, WORLDS)
    motions = []
    for number, target in enumerate(tqdm(targets, desc="throwing", unit="world")):
        file = kept / f"{number}.npy"
        if not file.is_file():
            result = optimise(throw.build(tuple(target)), 50, "cpu", bar=False)
            if not result.hit:
                print(f"world {number} misses its target by more than {100.0 * GOAL:g} cm")
            np.save(file, result.q[::SHOWN])
        motions.append(np.load(file))
    return np.array(targets), np.stack(motions, axis=1)


def offsets_of_throws() -> np.ndarray:
    """Return offsets of the worlds [WORLDS, 3]: eight rows of eight."""
    rows, columns = np.divmod(np.arange(WORLDS), 8)
    return SPACING * (np.stack([rows, columns, np.zeros(WORLDS)], axis=1) - [3.5, 3.5, 0.0])


def stage(width: int, height: int, targets: np.ndarray, q: np.ndarray) -> tuple[Renderer, np.ndarray]:
    """Make a renderer of all worlds, and link poses [frames, WORLDS, num_links, 7]."""
    scene = throw.build()
    offsets = offsets_of_throws()
    poses = np.stack([sim.forward_kinematics(scene.model, each).numpy() for each in q])
    ball = q[:, :, scene.ball_position] + offsets
    trails = [Trail(f"path{k}", ball[:, k], 0.02) for k in range(WORLDS)]
    markers = [
        Marker(f"target{k}", tuple(target + offset), 0.06, TARGET_COLOR)
        for k, (target, offset) in enumerate(zip(targets, offsets, strict=True))
    ]
    outermost = Outermost(scene.model.num_links, link_boxes(scene.model))
    for each in poses:
        shifted = each.copy()
        shifted[..., :3] += offsets[:, None]
        outermost.add(shifted)
    camera = fit_camera(
        scene.model, outermost.poses, azimuth=-78.0, elevation=32.0, fov=26.0, aspect=width / height, margin=1.02
    )
    renderer = Renderer(
        scene.model,
        width=width,
        height=height,
        camera=camera,
        markers=markers,
        trails=trails,
        offsets=offsets,
        tile=1.0,
    )
    return renderer, poses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/pictures/throws"), help="folder (out/pictures/throws)")
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 720), metavar=("WIDTH", "HEIGHT"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    targets, q = throws(options.out)
    width, height = options.size
    renderer, poses = stage(width, height, targets, q)
    draw = functools.partial(tqdm, total=len(poses), desc="rendering", unit="frame")
    pictures = np.stack([renderer.draw(each, frame) for frame, each in enumerate(draw(poses))])
    Image.fromarray(pictures[-1]).save(options.out / "throws.png")
    write_gif(options.out / "throws.gif", np.concatenate([pictures, np.repeat(pictures[-1:], HELD, axis=0)]), FPS)


if __name__ == "__main__":
    main()
