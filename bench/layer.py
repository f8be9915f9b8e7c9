"""Time of a step of a layer of balls on the ground, compared with MuJoCo, and cost of their simulator.

python -m bench.layer --json bench/results/layer_cpu.json

MuJoCo's default solver and the simulator alternate in one process, on one core, each with a separate motion. Processor
time is measured, so that other work on the machine has little effect. The balls lie in a square, apart by their radius
or just touching. They are dropped from a millimetre, and are measured while they settle and once they are at rest.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import sim
from bench import peers
from bench.report import write_json
from bench.timing import machine, pinned
from scenes import crowd
from scenes.crowd import MASS, SIZE
from sim.simulation.engine.memory import bytes_of

DT = 1.0 / 240.0
COUNTS = (200, 1000, 2000, 5000)
SPACINGS = {"apart": 3.0 * SIZE, "touching": 2.0 * SIZE}
PHASES = {"settling": (20, 5), "at rest": (300, 20)}  # steps before each is measured, and of a turn
TURNS = 12


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="numbers of balls")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    wp.init()
    record: dict[str, Any] = {"machine": machine(), "rows": []}
    with pinned(1):
        for case in SPACINGS:
            for count in options.counts:
                for row in measure(case, count):
                    record["rows"].append(row)
                    print(row, flush=True)
    if options.json is not None:
        write_json(options.json, record)


def measure(case: str, count: int) -> Iterator[dict[str, Any]]:
    """Measure seconds of construction, megabytes, and milliseconds of a step: the median and the longest of the turns.

    systems: maximum number of Newton systems of an island, averaged over the last steps of the turns.
    """
    import mujoco

    scene = crowd.loose("ball", count, spacing=SPACINGS[case], height=0.001)
    peer = peers.mujoco_newton(mjcf(scene.q0.reshape(-1, 7)), dt=DT)
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = sim.to_mujoco(scene.model, scene.q0, scene.qd0)
    start = time.process_time()
    simulator = sim.Simulator(scene.model, DT, 1, "cpu", threads=1)
    construction = time.process_time() - start
    step = simulator.engine.shards[0].step
    state = simulator.initial_state()
    for phase, (before, turn) in PHASES.items():
        state = simulator.rollout(state, steps=before).final_state
        mujoco.mj_step(peer, data, before)
        times: dict[str, list[float]] = {"ours": [], "mujoco": []}
        systems = []
        for _ in range(TURNS):
            start = time.process_time()
            state = simulator.rollout(state, steps=turn).final_state
            times["ours"].append(1e3 * (time.process_time() - start) / turn)
            systems.append(int(simulator.solver_iterations[0]))
            start = time.process_time()
            mujoco.mj_step(peer, data, turn)
            times["mujoco"].append(1e3 * (time.process_time() - start) / turn)
        yield {
            "case": case,
            "phase": phase,
            "balls": count,
            "contacts": int(step.contact_stage.contact_count.numpy()[0]),
            "peer_contacts": int(data.ncon),
            "construction_s": construction,
            "megabytes": bytes_of(step) / 1e6,
            "systems": float(np.mean(systems)),
            **{f"{name}_ms": float(np.median(values)) for name, values in times.items()},
            **{f"{name}_longest_ms": max(values) for name, values in times.items()},
        }


def mjcf(poses: np.ndarray) -> str:
    """Return the layer for MuJoCo, with its default softness and the friction of a ball and the ground here."""
    ball = f'<freejoint/><geom type="sphere" size="{SIZE}" mass="{MASS}" friction="0.64"/>'
    bodies = "".join(f'<body pos="{x} {y} {z}">{ball}</body>' for x, y, z in poses[:, :3])
    plane = '<geom type="plane" size="0 0 1" friction="0.64"/>'
    return f'<mujoco><size memory="400M"/><worldbody>{plane}{bodies}</worldbody></mujoco>'


if __name__ == "__main__":
    main()
