"""Processor time of a step with many contacts: fifty boxes that fall on each other, and ten standing quadrupeds.

python -m bench.heap --json bench/results/heap_cpu.json

Both solvers, Newton's method also with a warm start and under MuJoCo's law, and MuJoCo's Newton method alternate in one
process, on one core, each with a separate motion. Processor time is measured, so that other work on the machine has
little effect.
"""

import argparse
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

import sim
from bench import peers
from bench.report import write_json
from bench.standing import DAMPING, STIFFNESS, mjcf, standing, start_pose
from bench.standing import DT as STANDING_DT
from bench.timing import machine, pinned
from scenes import crowd
from scenes.mjcf import to_mjcf

DT = 1.0 / 240.0
BOXES = 50
STEPS = 480
TURN = 20  # steps of one engine per turn
ROBOTS, WORLDS, ROBOT_STEPS, ROUNDS = 10, 16, 20, 9
SOLVERS = ("newton", "pgs")  # of robots, which don't need a warm start
CONTACTS = {
    "newton": sim.HardContact(),
    "newton_warm": sim.HardContact(warm_start=True),
    "pgs": sim.PgsContact(),
    "mujoco_law": sim.MujocoContact(friction="pyramid"),
}
COUNTED = ("newton", "newton_warm")  # whose systems are counted


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--heaps", type=int, default=5, help="heaps of fifty boxes (5)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    wp.init()
    record: dict[str, Any] = {"machine": machine()}
    with pinned(1):
        record["heaps"] = [measure_heap(seed) for seed in range(options.heaps)]
        record["quadrupeds"] = measure_quadrupeds()
    print(json.dumps(record, indent=1))
    if options.json is not None:
        write_json(options.json, record)


def measure_heap(seed: int) -> dict[str, float]:
    """Measure milliseconds of a step over two seconds, systems that Newton's method solves, and its largest residual
    [m/s].
    """
    scene = crowd.loose("box", BOXES, spacing=0.16, height=0.001, layers=5)
    rng = np.random.default_rng(seed)
    q = scene.q0.reshape(-1, 7).copy()
    q[:, 3:] = Rotation.from_rotvec(2.0 * rng.normal(size=(BOXES, 3))).as_quat()
    qd = 0.1 * rng.normal(size=scene.model.nv)
    found = dict.fromkeys((*CONTACTS, "mujoco"), 0.0)
    systems: dict[str, list[int]] = {name: [] for name in COUNTED}
    residuals = []
    simulators = {
        name: sim.Simulator(scene.model, DT, 1, "cpu", contact, threads=1) for name, contact in CONTACTS.items()
    }
    states = {name: each.state(q.reshape(-1), qd) for name, each in simulators.items()}
    for name in CONTACTS:
        simulators[name].rollout(states[name], steps=TURN)
    peer = heap_in_mujoco(scene.model, q.reshape(-1), qd)
    for _ in range(STEPS // TURN):
        for name, simulator in simulators.items():
            start = time.process_time()
            final = simulator.rollout(states[name], steps=TURN).final_state
            found[name] += 1e3 * (time.process_time() - start) / STEPS
            if name in systems:  # the same steps once more, one by one
                for _ in range(TURN):
                    states[name] = simulator.step(states[name])
                    systems[name].append(int(simulator.solver_iterations[0]))
                    residuals.append(float(simulator.residual[0]))
            states[name] = final
        found["mujoco"] += 1e3 * processor_seconds(peer) / STEPS
    for name, counts in systems.items():
        found |= {f"systems_of_{name}": float(np.mean(counts)), f"most_systems_of_{name}": max(counts)}
    return found | {"residual": max(residuals)}


def heap_in_mujoco(model: sim.Model, q: np.ndarray, qd: np.ndarray) -> Callable[[], None]:
    """Make a function that takes some steps of the heap with MuJoCo's default solver."""
    import mujoco

    peer = peers.mujoco_newton(to_mjcf(model, dt=DT, sweeps=50), dt=DT)
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = sim.to_mujoco(model, q, qd)
    return lambda: mujoco.mj_step(peer, data, TURN)


def measure_quadrupeds() -> dict[str, float]:
    """Measure microseconds of a step of a world of ten quadrupeds, and of its backward pass: the fastest of several
    turns.
    """
    calls: dict[str, Callable[[], object]] = {}
    for name in SOLVERS:
        case = standing(WORLDS, device="cpu", dtype="float32", cores=1, contact=CONTACTS[name], robots=ROBOTS)
        tau = case.control(ROBOT_STEPS)
        trajectory = case.simulator.rollout(case.state, tau)
        case.check_contacts()
        calls[name] = functools.partial(case.simulator.rollout, case.state, tau)
        calls[f"{name}_back"] = functools.partial(trajectory.backward, wp.ones_like(case.state.q))
    calls["mujoco"] = quadrupeds_in_mujoco()
    times = [{name: processor_seconds(call) for name, call in calls.items()} for _ in range(ROUNDS)]
    return {name: 1e6 * min(turn[name] for turn in times) / (ROBOT_STEPS * WORLDS) for name in calls}


def quadrupeds_in_mujoco() -> Callable[[], None]:
    """Make a function that takes the same steps of the ten robots with MuJoCo's default solver, from the standing
    state.
    """
    import mujoco

    peer = peers.mujoco_newton(mjcf(ROBOTS, 50), dt=STANDING_DT)
    data = peers.mujoco_standing(peer, start_pose(ROBOTS), stiffness=STIFFNESS, damping=DAMPING)
    return lambda: mujoco.mj_step(peer, data, ROBOT_STEPS * WORLDS)


def processor_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    main()
