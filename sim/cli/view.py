"""Show the model of a file in the browser (extra [view]), with sliders for its joints and simulation from any pose.

Play, pause, step and scrub a motion: one simulated first (--steps or --seconds), states of a file (--trajectory) or the
stored motion of a USD file (--stored). Contacts are drawn too.

With --target, arrows show how a force on each link during one step would bring a chosen link closer to a point at the
end of the motion: the negative gradient of the final distance, from the backward pass.
"""

import argparse
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import warp as wp

from sim.cli.convert import USD
from sim.cli.files import UsageError, add_file, read_file, refuse_unused, say
from sim.cli.motion import (
    SIMULATION,
    add_motion,
    begin,
    check_finite,
    check_seed,
    check_worlds,
    number_of_steps,
    simulator_of,
    time_step,
)
from sim.cli.pictures import frame_rate, frame_times, open_motion
from sim.dynamics.kinematics import forward_kinematics
from sim.errors import ModelError
from sim.model.model import Model
from sim.render import Marker
from sim.simulation.trajectory import Trajectory
from sim.viewer import Viewer, force_gradients

MOST_STATES = 120.0  # frames per second of a stored motion


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    add_motion(parser)
    parser.add_argument(
        "--trajectory",
        type=Path,
        metavar="NPZ",
        help="states to show: an .npz file written by 'backswing simulate', or with q [states, nq] and dt",
    )
    parser.add_argument("--stored", action="store_true", help="show the motion stored in a USD file")
    parser.add_argument(
        "--target", nargs=4, metavar=("LINK", "X", "Y", "Z"),
        help="target point of a link at the end of the motion [m]; arrows show the forces that bring it closer",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: only this machine can connect)"
    )
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (default 8080; 0: any free port)")


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    simulated = (given.steps, given.seconds) != (None, None)
    check_worlds(given)
    if given.trajectory is not None:
        own = ("steps", "seconds", "worlds", "keyframe", "noise", "seed")
        refuse_unused(given, own, "--trajectory contains its worlds and states; remove either")
    if given.target is not None and not simulated:
        raise UsageError("--target requires a simulated motion; add --seconds")
    if given.stored:
        return _show_stored(given)
    check_seed(given)
    model, notes = read_file(given, "float32")
    say(notes)
    markers = () if given.target is None else (Marker("target", _target(model, given)[1]),)
    states = None if given.trajectory is None else read_states(given.trajectory, model)
    if states is not None:
        _check_use(given, states)
        given.worlds = states["q"].shape[1]
    with Viewer(model, given.worlds, host=given.host, port=given.port, markers=markers) as viewer:
        if states is not None:
            _show_states(viewer, given, states)
        elif simulated:
            _show_simulated(viewer, given)
        else:
            _show_start(viewer, given)
        viewer.wait()
    return 0


def _check_use(given: argparse.Namespace, states: dict[str, np.ndarray]) -> None:
    """Raise UsageError for options that don't matter with the states of a file."""
    if "dt" in states:
        refuse_unused(given, ["dt"], f"{given.trajectory} has its own; remove it")
    if not {"qd", "control"} <= states.keys():
        unused = ("law", "device", "threads_per_world")
        refuse_unused(given, unused, f"{given.trajectory} has no velocities and inputs to simulate from; remove them")


def _show_stored(given: argparse.Namespace) -> int:
    """Show the stored motion of a USD file; every moving piece is a free body."""
    others = ("trajectory", "steps", "seconds", "worlds", "keyframe", "device", *SIMULATION)
    refuse_unused(given, others, "--stored shows the file's motion; remove either")
    if given.file.suffix.lower() not in USD:
        raise UsageError(f"--stored requires a USD file, but {given.file} isn't one; remove --stored")
    motion, notes = open_motion(given)
    say(notes)
    if not motion.moves:
        raise UsageError(f"{given.file} stores no motion; remove --stored")
    fps = frame_rate(motion, None, MOST_STATES)
    q = np.array([motion.poses(time).reshape(motion.num_worlds, -1) for time in frame_times(motion, fps)])
    with Viewer(motion.model, motion.num_worlds, host=given.host, port=given.port, spacing=0.0) as viewer:
        viewer.play(q, 1.0 / fps)
        viewer.wait()
    return 0


def _show_start(viewer: Viewer, given: argparse.Namespace) -> None:
    try:
        simulator, state, control = begin(viewer.model, given, time_step(viewer.model, given))
    except ModelError as error:  # it can still be shown
        say([f"it can't be simulated: {error}"])
        return
    viewer.show(state.q)
    viewer.offer_simulation(simulator, state.qd.numpy(), control)


def _show_simulated(viewer: Viewer, given: argparse.Namespace) -> None:
    model, dt = viewer.model, time_step(viewer.model, given)
    simulator, state, control = begin(model, given, dt)
    steps = number_of_steps(given, dt)
    print(f"simulating {steps} steps (the first run compiles kernels)", file=sys.stderr)
    forces = None if given.target is None else np.zeros((steps, given.worlds, model.nv))
    inputs = None if control is None else np.tile(control, (steps, given.worlds, 1))
    trajectory = simulator.rollout(state, forces, steps, control=inputs)
    check_finite(trajectory.q.numpy(), trajectory.qd.numpy())
    pushes = None
    if given.target is not None:
        link, target = _target(model, given)
        distance, gradient = distance_gradient(trajectory, link, target)
        pushes = -force_gradients(trajectory, gradient)
        strongest = np.linalg.norm(pushes, axis=-1).max()
        print(
            f"'{link}' ends {distance.mean():.4g} m from the target. Arrows: how much closer a force on a link for one "
            f"step would bring it; at most {strongest:.3g} m/N"
        )
    viewer.play(trajectory, gradients=pushes)
    viewer.offer_simulation(simulator, control=control)


def _show_states(viewer: Viewer, given: argparse.Namespace, states: dict[str, np.ndarray]) -> None:
    dt = float(states.get("dt", time_step(viewer.model, given)))
    if not {"qd", "control"} <= states.keys():  # without inputs, contacts and their forces are unknown
        viewer.play(states["q"], dt)
        return
    try:
        simulator = simulator_of(viewer.model, given, dt)
    except ModelError as error:
        say([f"it can't be simulated, so its contacts are unknown: {error}"])
        viewer.play(states["q"], dt)
        return
    model, steps = viewer.model, len(states["q"]) - 1

    def upload(array: np.ndarray) -> wp.array:
        return wp.array(array, dtype=model.scalar, device=simulator.device)

    control = upload(np.tile(states["control"], (steps, given.worlds, 1))) if model.nu else None
    viewer.play(Trajectory(simulator, upload(states["q"]), upload(states["qd"]), None, control))
    viewer.offer_simulation(simulator, control=states["control"] if model.nu else None)


def read_states(path: Path, model: Model) -> dict[str, np.ndarray]:
    """Read a file of states, with q [states, worlds, nq].

    Raises:
        ModelError: for a file that can't be read, and for states of another model.
    """
    try:
        with np.load(path) as file:
            found = {name: file[name] for name in ("q", "qd", "dt", "control", "joint_names") if name in file}
    except (OSError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: not a readable file of states (.npz): {error}") from None
    if "q" not in found:
        raise ModelError(f"{path}: has no array 'q'; write states with 'backswing simulate'")
    for name, size, what in (("q", model.nq, "coordinates"), ("qd", model.nv, "velocities")):
        if name in found and found[name].ndim == 2:
            found[name] = found[name][:, None]
        if name in found and (found[name].ndim != 3 or 0 in found[name].shape or found[name].shape[2] != size):
            raise ModelError(
                f"{path}: {name} has shape {found[name].shape}, but the model has {size} {what}; use the file and "
                "options (such as --floating-base) that it was simulated with"
            )
    names = found.pop("joint_names", np.array(model.joint_names)).tolist()
    if names != list(model.joint_names):
        raise ModelError(
            f"{path}: its joints are {', '.join(names)}, but those of the model are {', '.join(model.joint_names)}"
        )
    return found


def distance_gradient(trajectory: Trajectory, link: str, target: Sequence[float]) -> tuple[np.ndarray, wp.array]:
    """Compute the final distance of a link's origin from a point [num_worlds], and its gradient in the last q."""
    q = wp.clone(trajectory.final_state.q, requires_grad=True)
    with wp.Tape() as tape:
        pose = forward_kinematics(trajectory.simulator.model, q, [link])
    offset = pose.numpy()[:, 0, :3] - target
    distance = np.linalg.norm(offset, axis=1)
    seed = np.zeros(pose.shape)
    seed[:, 0, :3] = offset / np.maximum(distance, 1e-12)[:, None]
    tape.backward(grads={pose: wp.array(seed, dtype=pose.dtype, device=pose.device)})
    return distance, q.grad


def _target(model: Model, given: argparse.Namespace) -> tuple[str, tuple[float, ...]]:
    link = model.frame(given.target[0]).name
    try:
        position = tuple(float(value) for value in given.target[1:])
    except ValueError:
        position = (np.nan,)
    if not np.isfinite(position).all():
        raise UsageError(f"--target {' '.join(given.target)}: it must be a link name and three numbers")
    return link, position
