"""A fork while another thread is in the simulator: the new process can go on with it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import os, threading, warnings
import numpy as np
import sim
from tests.simulation.worlds import hopper

warnings.simplefilter("ignore", DeprecationWarning)
simulator = sim.Simulator(hopper(), 1 / 240, 64, "cpu", threads=1)
start = simulator.initial_state()
expected = simulator.rollout(start, steps=5).q.numpy()
over = threading.Event()

def work():
    while not over.is_set():
        simulator.rollout(start, steps=200)

thread = threading.Thread(target=work)
thread.start()
for _ in range(5):
    child = os.fork()
    if not child:
        again = simulator.rollout(start, steps=5).q.numpy()
        os._exit(0 if np.array_equal(again, expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
over.set()
thread.join()
"""


def test_a_fork_waits_until_no_thread_is_at_work():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
