"""Files that an example writes: the loss curve, the numbers, a USD stage and an animation."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import sim
from sim.output import write_file
from sim.render import Marker, Trail, fit_camera, iterate_frames, write_gif
from sim.usd import write_usd

FPS = 25  # frame rate of animations
BLUE, RED, GREY = "#26639e", "#c0392b", "#9aa3ab"


@contextmanager
def plot(path: Path, columns: int = 1, rows: int = 1) -> Iterator[list[Any]]:
    """Yield the axes of a figure, row by row; the figure is written at the end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = (6.4 if columns == 1 else 4.8 * columns, 4.0 if rows == 1 else 2.8 * rows)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, constrained_layout=True, squeeze=False)
    for each in axes.flat:
        each.grid(True, which="both", linewidth=0.3)
    yield list(axes.flat)
    write_file(path, (".png",), lambda name: figure.savefig(name, dpi=150))
    pyplot.close(figure)


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write arrays to an .npz file."""
    write_file(path, (".npz",), lambda name: np.savez(name, **arrays))


def draw_curve(
    axes: Any, values: Sequence[float] | np.ndarray, goal: float, label: str, *, marker: str | None = "o"
) -> None:
    """Draw values over the iterations on a logarithmic axis, with the goal as a line labelled ``label``."""
    from matplotlib.ticker import MaxNLocator

    axes.semilogy(range(len(values)), values, marker=marker, markersize=4, color=BLUE)
    axes.axhline(goal, color=RED, linewidth=1.0, linestyle="--", label=f"goal: {label}")
    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()


def write_curve(path: Path, distances: Sequence[float], goal: float, title: str) -> None:
    """Plot the distance from the target [m] over the iterations."""
    with plot(path) as (axes,):
        draw_curve(axes, distances, goal, f"{100.0 * goal:g} cm")
        axes.set_ylabel("distance from the target [m]")
        axes.set_title(title)


def write_result(
    options: argparse.Namespace,
    name: str,
    title: str,
    model: sim.Model,
    numbers: Mapping[str, Any],
    *,
    goal: float,
    markers: Sequence[Marker] = (),
    trails: Sequence[Trail] = (),
    azimuth: float = -60.0,
    elevation: float = 15.0,
) -> None:
    """Write all files of a finished search, and print their names.

    Args:
        options: the command line, see :func:`examples.options.example_parser`.
        name: name of the example, and of its files except the curve, ``loss.png``.
        title: title of the curve.
        model: the model.
        numbers: content of ``name.npz``: ``q`` [steps + 1, nq], ``distances`` of all iterations [m], the time step
            ``dt`` [s] and other results.
        goal: distance that counts as a hit [m].
        markers: fixed marks, such as a target.
        trails: paths that grow with the motion, with points [steps + 1, 3].
        azimuth: azimuth of the camera, see :func:`sim.render.fit_camera` [degrees].
        elevation: its elevation, likewise.
    """
    curve, file = options.out / "loss.png", options.out / f"{name}.npz"
    write_arrays(file, **numbers)
    with ThreadPoolExecutor(1) as beside:  # of the images, which don't keep all cores busy
        plotted = beside.submit(write_curve, curve, numbers["distances"], goal, title)
        motion = write_motion(
            options, name, model, numbers["q"], numbers["dt"], markers=markers, trails=trails, azimuth=azimuth,
            elevation=elevation,
        )  # fmt: skip
        plotted.result()
    print(f"wrote {', '.join(path.name for path in (curve, file, *motion))} to {options.out}")


def write_motion(
    options: argparse.Namespace,
    name: str,
    model: sim.Model,
    q: np.ndarray,
    dt: float,
    *,
    markers: Sequence[Marker] = (),
    trails: Sequence[Trail] = (),
    speed: float = 0.5,
    azimuth: float = -60.0,
    elevation: float = 15.0,
) -> list[Path]:
    """Write a motion as ``name.usda`` and, without ``--no-render``, as ``name.gif``.

    Args:
        options: the command line, see :func:`examples.options.example_parser`.
        name: file name without suffix.
        model: the model.
        q: coordinates of one world [steps + 1, nq].
        dt: time step [s].
        markers: fixed marks, such as a target.
        trails: paths that grow with the motion, with points [steps + 1, 3].
        speed: speed of the animation relative to real time; a throw is too quick to watch at full speed.
        azimuth: azimuth of the camera, see :func:`sim.render.fit_camera` [degrees].
        elevation: its elevation, likewise.

    Returns:
        the files written.
    """
    width, height = options.size
    stride = max(1, round(speed / (FPS * dt)))
    poses = sim.forward_kinematics(model, q[::stride]).numpy()
    trails = [replace(trail, points=trail.points[::stride]) for trail in trails]
    camera = fit_camera(model, poses, markers=markers, azimuth=azimuth, elevation=elevation, aspect=width / height)
    written = [options.out / f"{name}.usda"]
    with ThreadPoolExecutor(1) as beside:  # likewise
        staged = beside.submit(
            write_usd, written[0], model, poses, fps=1.0 / (stride * dt), markers=markers, trails=trails, camera=camera
        )
        if not options.no_render:
            frames = iterate_frames(
                model, poses, camera, width, height, markers=markers, trails=trails, device=options.device
            )
            pictures = np.stack(list(tqdm(frames, total=len(poses), desc="rendering", unit="frame")))
            still = np.repeat(pictures[-1:], FPS, axis=0)  # hold the last frame for a second
            written.append(options.out / f"{name}.gif")
            write_gif(written[1], np.concatenate([pictures, still]), fps=speed / (stride * dt))
        staged.result()
    return written
