"""Ctrl-C at any moment: the call ends with KeyboardInterrupt, and what is called next gives what it gave before."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sim.arrays.critical_sections import check, deferred, interruptible
from tests.simulation.interrupted import interrupted_at_line, lines_of, simulation

ROOT = Path(__file__).parents[2]


# The others came when the call was over, or at a line beyond the last one: a robot's calls are shorter once captured.
FEWEST = {"rollout": 0.8, "backward": 0.8, "parameters": 0.8, "robot": 0.2, "render": 0.8}


@pytest.mark.parametrize("kinds", [{"rollout": 50, "backward": 50}, {"parameters": 20, "robot": 100, "render": 10}])
def test_what_follows_an_interrupt(kinds):
    arguments = [str(part) for item in kinds.items() for part in item]
    command = [sys.executable, "-m", "tests.simulation.interrupted", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    stopped = dict(line.split() for line in done.stdout.splitlines() if line.split()[0] in kinds)
    assert all(int(stopped[kind]) > FEWEST[kind] * times for kind, times in kinds.items()), stopped


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """As in a terminal; a shell starts what it runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(then: Callable[[], object]) -> None:
    with deferred(), deferred():
        os.kill(os.getpid(), signal.SIGINT)
        then()


def test_signals_wait_and_are_not_lost():
    order = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(lambda: order.append("done"))
    assert order == ["done"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_wait_after_one_at_any_line():
    def interruptible_once() -> None:
        with deferred(), interruptible():
            pass

    for line in range(1, lines_of(interruptible_once) + 1):
        assert interrupted_at_line(interruptible_once, line)
        test_signals_wait_and_are_not_lost()


def enter_interruptible() -> None:
    with interruptible():
        pytest.fail("the signal should have come")


@pytest.mark.parametrize("function", [check, enter_interruptible])
def test_places_where_signals_may_interrupt(function):
    after = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(lambda: after.append(function()))
    assert not after


@pytest.mark.cpu_shapes
def test_handlers_that_do_not_raise_do_not_stop_anything():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("signal"))
    try:
        simulator, state = simulation()
        expected = simulator.rollout(state, steps=20).q.numpy()
        timer = threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        found = simulator.rollout(state, steps=20).q.numpy()
        timer.join()
        assert (found == expected).all()
        assert seen == ["signal"]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.cpu_shapes
def test_an_error_in_one_thread_stops_the_others():
    simulator, state = simulation()
    expected = simulator.rollout(state, steps=20).q.numpy()
    running = []

    def work(shard):
        running.append(shard)
        if shard is simulator.engine.shards[1]:
            raise ArithmeticError("of this thread")
        while not shard.stopped:
            time.sleep(0.001)
        running.remove(shard)

    with pytest.raises(ArithmeticError, match="of this thread"):
        simulator.engine.run_forward(work)
    assert running == [simulator.engine.shards[1]]
    assert (simulator.rollout(state, steps=20).q.numpy() == expected).all()
