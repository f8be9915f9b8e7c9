"""Memory of a rollout and its backward pass: the growth of a fresh process, or of the GPU's memory pool."""

import argparse
import json
import subprocess
import sys

import warp as wp

from bench import resident
from bench.standing import standing

WORLDS = 256  # enough that memory pages of a few kilobytes do not matter


def bytes_per_step(steps: int, *, device: str, dtype: str, worlds: int = WORLDS) -> tuple[float, float]:
    """Measure memory per world and step of a rollout in a separate process [bytes].

    Returns:
        memory that the rollout keeps, and peak over rollout and backward pass, both beyond a short rollout.
    """
    command = [sys.executable, "-m", "bench.memory", str(steps), device, dtype, str(worlds)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    numbers = json.loads(output.splitlines()[-1])
    return numbers["kept"], numbers["peak"]


def measure(steps: int, device: str, dtype: str, worlds: int) -> dict[str, float]:
    """Measure in this process. A second measurement would find its memory already allocated."""
    wp.config.log_level = wp.LOG_WARNING
    case = standing(worlds, device=device, dtype=dtype, cores=1)
    seed = wp.ones_like(case.state.q)
    for _ in range(2):  # load kernels, capture graphs
        case.simulator.rollout(case.state, case.control(2)).backward(seed)
    before = _in_use(device)
    resident.reset_peak()
    trajectory = case.simulator.rollout(case.state, case.control(steps))
    kept = _in_use(device) - before
    trajectory.backward(seed)
    peak = _peak(device) - before
    return {"kept": kept / (steps * worlds), "peak": peak / (steps * worlds)}


def _in_use(device: str) -> int:
    if wp.get_device(device).is_cuda:
        wp.synchronize_device(device)
        return int(wp.get_mempool_used_mem_current(device))
    return resident.in_use()


def _peak(device: str) -> int:
    if wp.get_device(device).is_cuda:
        return int(wp.get_mempool_used_mem_high(device))
    return resident.peak()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=int)
    parser.add_argument("device")
    parser.add_argument("dtype")
    parser.add_argument("worlds", type=int)
    arguments = parser.parse_args()
    print(json.dumps(measure(**vars(arguments))))


if __name__ == "__main__":
    main()
