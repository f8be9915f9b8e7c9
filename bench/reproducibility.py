"""Hashes of results, which have the same bits in every run and, for a world, whatever the number of worlds.

python -m bench.reproducibility --device cuda:0 --worlds 64 4096 --json out/bench/reproducibility.json

Quadrupeds are thrown onto the ground, from another height and with another velocity in each world, under either law and
with one thread or a team of threads per world. States of every step are hashed, and gradients in the initial states.
The command fails if hashes of states differ. Gradients on a GPU are the same to rounding only if several threads add to
them.
"""

import argparse
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sim
from bench.report import with_machine, write_json
from bench.timing import machine
from scenes import crowd

DT = 1.0e-3  # [s]
LAWS: dict[str, sim.ContactMethod] = {"hard": sim.HardContact(), "mujoco": sim.MujocoContact()}
DTYPES = ("float32", "float64")


@dataclass
class Record:
    """Hashes of one case. "states" are coordinates and velocities of all steps, "gradients" those in initial states.

    Attributes:
        law: contact law.
        dtype: precision.
        threads_per_world: threads of a GPU that share out the work of a world.
        quantity: "states" or "gradients".
        device: such as "cuda:0".
        steps: number of steps.
        worlds: numbers of worlds.
        hashes: SHA-256 of all worlds, for each number of them.
        first_hashes: of the worlds that every number has, for each number.
        in_every_run: whether a second run has the same hashes.
        for_every_number: whether ``first_hashes`` are the same.
    """

    law: str
    dtype: str
    threads_per_world: int
    quantity: str
    device: str
    steps: int
    worlds: list[int]
    hashes: list[str]
    first_hashes: list[str]
    in_every_run: bool
    for_every_number: bool


def main() -> None:
    """Print the hashes; fail if states differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda:0"')
    parser.add_argument("--worlds", type=int, nargs="+", default=[64, 256], help="numbers of worlds (64 256)")
    parser.add_argument("--threads-per-world", type=int, nargs="+", default=[1, 16], help="1, 8, 16 or 32 (1 16)")
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--laws", nargs="+", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--steps", type=int, default=300, help="number of steps (300)")
    parser.add_argument("--json", type=Path, help="write the records to this file")
    options = parser.parse_args()
    records = [
        record
        for law in options.laws
        for dtype in options.dtypes
        for threads in options.threads_per_world
        for record in compared(law, dtype, threads, options.device, options.steps, options.worlds)
    ]
    for each in records:
        name = f"{each.law}, {each.dtype}, {each.threads_per_world} threads, {each.quantity}"
        print(f"{name}: every run {each.in_every_run}, every number of worlds {each.for_every_number}")
    if options.json is not None:
        write_json(options.json, with_machine(records, machine()))
    if not all(each.in_every_run and each.for_every_number for each in records if each.quantity == "states"):
        sys.exit("states differ")


def compared(
    law: str, dtype: str, threads_per_world: int, device: str, steps: int, worlds: Sequence[int]
) -> list[Record]:
    """Return the records of states and of gradients of one case."""
    runs = [[thrown(law, dtype, threads_per_world, device, steps, each) for each in worlds] for _ in range(2)]
    records = []
    for quantity in ("states", "gradients"):
        every, again = ([run[quantity] for run in each] for each in runs)
        whole = [hash_of(array) for array in every]
        first = [hash_of(array[: min(worlds)]) for array in every]
        records.append(
            Record(
                law, dtype, threads_per_world, quantity, device, steps, list(worlds), whole, first,
                in_every_run=whole == [hash_of(array) for array in again], for_every_number=len(set(first)) == 1,
            )
        )  # fmt: skip
    return records


def thrown(law: str, dtype: str, threads_per_world: int, device: str, steps: int, worlds: int) -> dict[str, np.ndarray]:
    """Return states of a rollout [worlds, steps + 1, nq + nv], and gradients in initial states [worlds, nq + nv]."""
    scene = crowd.herd(1, dtype)
    model = scene.model
    simulator = sim.Simulator(
        model, DT, worlds, device, LAWS[law], crowd.springs(scene, 200.0, 5.0), threads_per_world=threads_per_world
    )
    q = np.tile(scene.q0, (worlds, 1))
    qd = np.zeros((worlds, model.nv))
    for world in range(worlds):
        rng = np.random.default_rng(world)  # the same for every number of worlds
        q[world, 2] += rng.uniform(0.0, 0.05)
        qd[world] = rng.normal(size=model.nv)
    trajectory = simulator.rollout(simulator.state(q.astype(dtype), qd.astype(dtype)), steps=steps)
    states = np.concatenate([trajectory.q.numpy(), trajectory.qd.numpy()], axis=-1).swapaxes(0, 1)
    gradient = trajectory.backward(np.ones((worlds, model.nq), dtype))
    return {"states": states, "gradients": np.hstack([gradient.q.numpy(), gradient.qd.numpy()])}


def hash_of(array: np.ndarray) -> str:
    """Return the SHA-256 of an array's numbers."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


if __name__ == "__main__":
    main()
