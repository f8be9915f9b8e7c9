"""A process of bench/parallel_training.py. Prints the environment steps per second of all processes that train
together.

python -m bench.parallel_training_worker 256 30         # environments and iterations
"""

import sys
import time

import torch
import warp as wp

from sim.envs import make_task
from sim.learn import make_learner, processes

TASK = "Ant"
WARM_UP = 5  # iterations before the clock starts


def main() -> None:
    """Train; see the module docstring."""
    envs, iterations = map(int, sys.argv[1:])
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    processes.join("cpu")
    learner = make_learner(make_task(TASK), "shac", iterations=iterations, device="cpu", threads=1, envs=envs)
    for _ in range(WARM_UP):
        learner.iterate()
    start = time.perf_counter()
    for _ in range(iterations):
        learner.iterate()
    seconds = time.perf_counter() - start
    if processes.number() == 0:
        print(processes.count() * envs * learner.horizon * iterations / seconds)


if __name__ == "__main__":
    main()
