"""Time of a step over the number of bodies in a world: apart in the air, apart on the ground, in contact.

python -m bench.crowd --json bench/results/crowd_cpu.json --markdown docs/contact/many-bodies.md
python -m bench.crowd --quick

Compared with MuJoCo's Newton method with its defaults, after settling for the same time.
"""

import argparse
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import sim
from bench import peers
from bench.report import with_machine, write_json
from bench.timing import machine, pinned, time_call
from scenes import crowd
from scenes.crowd import SIZE, Crowd
from scenes.mjcf import to_mjcf
from sim.output import write_text

DT = 1.0 / 240.0
WORLDS = 2
STEPS = 5
SETTLE_STEPS = 60
START, END = "<!-- table of the crowd -->", "<!-- end of the crowd -->"


@dataclass
class Row:
    """One measured case. Times are the fastest of several, per world and step [us]. Counts are for one world.

    mujoco_us: MuJoCo's step, float64; None if it is not installed.
    """

    case: str
    bodies: int
    pairs: int
    contacts: int
    couplings: int
    forward_us: float
    backward_us: float
    mujoco_us: float | None


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--markdown", type=Path, help="replace the table of boxes and quadrupeds in this file")
    parser.add_argument("--quick", action="store_true", help="few bodies, few repeats")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    wp.init()
    where = machine()
    rows = []
    with pinned(1):
        for case, bodies, scene, parameters in cases(options.quick):
            rows.append(measure(case, bodies, scene, parameters, 0.05 if options.quick else 0.3))
            print(rows[-1], flush=True)
    print_rows(rows)
    if options.markdown is not None:
        text = options.markdown.read_text()
        before, after = text.split(START)[0], text.split(END)[1]
        write_text(options.markdown, f"{before}{START}\n{table(rows)}\n{END}{after}")
    if options.json is not None:
        write_json(options.json, with_machine(rows, where))


def cases(quick: bool) -> Iterator[tuple[str, int, Crowd, dict[str, np.ndarray]]]:
    """Return name, number of bodies, scene and parameters of every case."""
    for shape in ("box", "ball"):
        for count in (4, 10) if quick else (10, 50):
            apart = 4.0 * SIZE
            yield f"{shape} in the air", count, crowd.loose(shape, count, spacing=apart, height=10.0), {}
            yield f"{shape} on the ground", count, crowd.loose(shape, count, spacing=apart), {}
            yield f"{shape} in a heap", count, crowd.loose(shape, count, spacing=2.5 * SIZE, layers=4), {}
    for count in (1, 2) if quick else (1, 2, 5, 10):
        for name, spacing in (("apart", (1.0, 1.0)), ("in touch", (0.58, 0.17))):
            scene = crowd.quadrupeds(count, spacing=spacing)
            yield f"quadruped {name}", count, scene, crowd.springs(scene)


def measure(case: str, bodies: int, scene: Crowd, parameters: dict[str, np.ndarray], seconds: float) -> Row:
    """Let the world settle, then time steps from the settled state."""
    simulator = sim.Simulator(scene.model, DT, WORLDS, "cpu", parameters=parameters, threads=1)
    settled = simulator.rollout(simulator.state(scene.q0), steps=SETTLE_STEPS).final_state
    state = simulator.state(settled.q.numpy(), settled.qd.numpy())
    trajectory = simulator.rollout(state, steps=STEPS)
    step = simulator.engine.shards[0].step
    rows = step.constraint_stage.couplings.row.numpy()[: int(step.constraint_stage.constraints.count.numpy()[0]), 0]
    length = np.diff(step.constraint_stage.couplings.run.numpy()[:, 0], axis=1)
    couplings = sum(int(length[row[2] : row[3]].sum()) for row in rows)
    seed = wp.ones_like(state.q)
    forward = time_call(lambda: simulator.rollout(state, steps=STEPS), seconds=seconds)
    backward = time_call(lambda: trajectory.backward(seed), seconds=seconds)
    scale = 1e6 / (STEPS * WORLDS)
    contacts = int(step.contact_stage.contact_count.numpy()[0])
    peer = time_mujoco(scene, parameters, seconds) if importlib.util.find_spec("mujoco") else None
    times = forward.best * scale, backward.best * scale, peer
    return Row(case, bodies, step.collision.num_pairs, contacts, couplings, *times)


def time_mujoco(scene: Crowd, parameters: dict[str, np.ndarray], seconds: float) -> float:
    """Measure microseconds of MuJoCo's step in the same world."""
    import mujoco

    model = scene.model
    peer = peers.mujoco_newton(to_mjcf(model, dt=DT, sweeps=50), dt=DT)
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = sim.to_mujoco(model, scene.q0, scene.qd0)
    if parameters:
        hinges = peer.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
        addresses = peer.jnt_qposadr[hinges]
        peer.jnt_stiffness[hinges] = parameters["stiffness"].max()
        peer.dof_damping[peer.jnt_dofadr[hinges]] = parameters["damping"].max()
        peer.qpos_spring[addresses] = data.qpos[addresses]
    mujoco.mj_step(peer, data, SETTLE_STEPS)
    settled = [part.copy() for part in (data.qpos, data.qvel, data.qacc_warmstart)]

    def reset() -> None:
        data.qpos[:], data.qvel[:], data.qacc_warmstart[:] = settled

    return time_call(lambda: mujoco.mj_step(peer, data, STEPS), prepare=reset, seconds=seconds).best * 1e6 / STEPS


def print_rows(rows: list[Row]) -> None:
    """Print a table."""
    heads = f"{'case':24}{'bodies':>8}{'pairs':>8}{'contacts':>10}{'couplings':>11}"
    print(f"{heads}{'forward us':>12}{'backward us':>13}{'MuJoCo us':>11}")
    for row in rows:
        print(
            f"{row.case:24}{row.bodies:8}{row.pairs:8}{row.contacts:10}{row.couplings:11}"
            f"{row.forward_us:12.1f}{row.backward_us:13.1f}{_or_dash(row.mujoco_us):>11}"
        )


def table(rows: list[Row]) -> str:
    """Return boxes and quadrupeds as a Markdown table."""
    heads = "world", "bodies", "candidate pairs", "contacts", "forward [µs]", "backward [µs]", "MuJoCo, forward [µs]"
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        if not row.case.startswith("ball"):
            times = f"{row.forward_us:.0f} | {row.backward_us:.0f} | {_or_dash(row.mujoco_us)}"
            lines.append(f"| {row.case} | {row.bodies} | {row.pairs} | {row.contacts} | {times} |")
    return "\n".join(lines)


def _or_dash(value: Any) -> str:
    return "-" if value is None else f"{value:.0f}"


if __name__ == "__main__":
    main()
