"""Torques without feedback that lift the pendulums of the paper's table 4, found by gradients.

    python -m bench.open_loop --json bench/results/open_loop_cpu.json

Adam improves sixteen random sequences of torques for each pendulum until the best reaches the goal. It is then replayed
with a quarter of the time step: the remaining return isn't due to integration errors.
"""

import argparse
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import warp as wp
from tqdm import tqdm

import sim
import sim.torch
from bench.report import write_json
from bench.timing import machine
from sim.envs import Task, make_task

STARTS = 16
RATE = 0.05  # of Adam, in units of the largest torque before tanh
SPREAD = 0.3  # of the first torques
GOOD = 0.999  # fraction of the best return at which a search ends
SECONDS = 10.0
TEXT = """\
Gradients search for torques without feedback that lift each pendulum. Each search starts from 16 random sequences,
runs on one core and ends at 99.9 % of the best return, n² / 2.

With one step of the simulation for each torque, as in the paper, the torques found for two links and more exploit the
integration error: replayed with a quarter of the time step, the tip ends elsewhere."""


@dataclass(frozen=True)
class Row:
    """Result for one pendulum.

    Attributes:
        links: n.
        substeps: steps of the simulation for each torque.
        best: return of the best sequence.
        iterations: number of rollouts with gradient.
        seconds: their time, on one core.
        miss: distance of the tip to its goal at the end [m].
        miss_with_quarter_steps: the same with the sequence replayed at a quarter of the time step [m].
    """

    links: int
    substeps: int
    best: float
    iterations: int
    seconds: float
    miss: float
    miss_with_quarter_steps: float


def search(links: int, substeps: int, seed: int = 0) -> Row:
    """Search for the torques of one pendulum."""
    task = make_task(f"Pendulum-{links}", substeps=substeps)
    simulator = sim.Simulator(task.model(), task.dt, STARTS, "cpu", threads=1)
    generator = torch.Generator().manual_seed(seed)
    free = SPREAD * torch.randn(task.max_episode_length, STARTS, links, generator=generator)
    free.requires_grad_()
    optimiser = torch.optim.Adam([free], RATE)
    most = 0.5 * links**2
    begun, iterations = time.perf_counter(), 0
    while True:
        distance = final_distance(task, simulator, free.tanh())
        least = int(distance.argmin())
        best, spent = most - 2.0 * float(distance[least].detach()) ** 2, time.perf_counter() - begun
        if best >= GOOD * most or spent > SECONDS:
            break
        optimiser.zero_grad()
        distance.square().sum().backward()
        optimiser.step()
        iterations += 1
    fine = make_task(f"Pendulum-{links}", substeps=4 * substeps)
    with torch.no_grad():
        chosen = free[:, least : least + 1].tanh()
        replay = sim.Simulator(fine.model(), fine.dt, 1, "cpu", threads=1)
        again = float(final_distance(fine, replay, chosen)[0])
    return Row(links, substeps, best, iterations, spent, math.sqrt(0.5 * (most - best)), again)


def final_distance(task: Task, simulator: sim.Simulator, control: torch.Tensor) -> torch.Tensor:
    """Return the distance of the tip to its goal after a sequence of torques [steps, worlds, links], from rest."""
    still = torch.zeros(control.shape[1], control.shape[2])
    first = task.episodes(still, still)
    q, qd = sim.torch.rollout(simulator, first.q, first.qd, control=control, hold=task.frame_skip)
    return task.squared_distance(task.episodes(q[-1], qd[-1])).sqrt()  # type: ignore[attr-defined]


def section(record: dict) -> str:
    """Return a table of all pendulums, for docs/results/pendulums.md."""
    lines = [
        TEXT,
        "",
        "| links | steps for a torque | return / best | iterations | seconds | miss [m] | with a quarter of the step |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        share = row["best"] / (0.5 * row["links"] ** 2)
        cells = f"{share:.4f} | {row['iterations']} | {row['seconds']:.1f} | {row['miss']:.3f}"
        lines.append(f"| {row['links']} | {row['substeps']} | {cells} | {row['miss_with_quarter_steps']:.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--links", type=int, nargs="*", default=list(range(1, 8)), help="which pendulums (1 to 7)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    before = machine()
    todo = [(links, substeps) for substeps in (1, 8) for links in options.links]
    rows = [asdict(search(links, substeps)) for links, substeps in tqdm(todo, unit="pendulum")]
    for row in rows:
        print(row)
    if options.json is not None:
        write_json(options.json, {"machine": before, "rows": rows})


if __name__ == "__main__":
    main()
