"""What a test runs in a process of its own: calls that are interrupted, each followed by the same call undisturbed.

    python -m tests.simulation.interrupted rollout 50 backward 50

prints how many of the calls of each kind were interrupted; it ends with an error where a result that follows is another
one. Moments are drawn over the time of a call (``rollout``, ``backward``), which threads spend in kernels, or over the
lines of Python that it runs (all kinds).
"""

import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
import warp as wp

import sim
import sim.render
import sim.torch

wp.config.log_level = wp.LOG_WARNING

PACKAGE = str(Path(sim.__file__).parent)
STEPS, WORLDS = 60, 32
Result = list[np.ndarray]


def simulation() -> tuple[sim.Simulator, sim.State]:
    """A box that slides, in four shards."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.8))
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, 0.1))
    model = builder.finalize()
    simulator = sim.Simulator(model, 1.0 / 240.0, WORLDS, "cpu", threads=4)
    assert len(simulator.engine.shards) == 4
    return simulator, simulator.state(model.q0, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])


def rollout_call() -> Callable[[], Result]:
    """A rollout."""
    simulator, state = simulation()
    return lambda: [simulator.rollout(state, steps=STEPS).q.numpy().copy()]


def backward_call() -> Callable[[], Result]:
    """A way back, with the gradient of a parameter that all worlds share."""
    simulator, state = simulation()
    trajectory = simulator.rollout(state, steps=STEPS // 4)
    seed = np.ones((WORLDS, simulator.model.nq))

    def call() -> Result:
        gradients = trajectory.backward(seed, parameters=["friction"])
        return [gradients.qd.numpy().copy(), gradients.parameters["friction"]]

    return call


def parameters_call() -> Callable[[], Result]:
    """A rollout through PyTorch with a parameter of its own, and its gradient; then one without."""
    simulator, state = simulation()
    q, qd = (torch.tensor(each.numpy()) for each in (state.q, state.qd))

    def call() -> Result:
        friction = torch.tensor(simulator.model.parameters["friction"] * 0.5, requires_grad=True)
        end, _ = sim.torch.rollout(simulator, q, qd, steps=4, friction=friction)
        end[-1].sum().backward()
        assert friction.grad is not None
        own = simulator.rollout(state, steps=4).q.numpy().copy()
        return [end.detach().numpy(), friction.grad.numpy(), own]

    return call


def robot_call() -> Callable[[], Result]:
    """A robot's call with its gradient, of new robots now and then: graphs are captured at the third call."""
    builder = sim.ModelBuilder()
    link = builder.add_link("arm", mass=1.0, com=(0.0, 0.0, -0.3), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child=link, axis=(0.0, 1.0, 0.0))
    model = builder.finalize("float64")
    calls, robots = [0], [sim.torch.Robot(model)]

    def call() -> Result:
        calls[0] += 1
        if calls[0] % 12 == 0:
            robots[0] = sim.torch.Robot(model)
        q = torch.full((3, 1), 0.4, dtype=torch.float64, requires_grad=True)
        tau = robots[0].inverse_dynamics(q, q * 0.5, q * 0.25)
        tau.sum().backward()
        assert q.grad is not None
        return [tau.detach().numpy(), q.grad.numpy()]

    return call


def render_call() -> Callable[[], Result]:
    """A picture."""
    model = simulation()[0].model
    poses = np.array([[0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0]])
    camera = sim.render.fit_camera(model, poses[None])
    renderer = sim.render.Renderer(model, width=64, height=48, camera=camera)
    return lambda: [renderer.draw(poses)]


CALLS = {
    "rollout": rollout_call,
    "backward": backward_call,
    "parameters": parameters_call,
    "robot": robot_call,
    "render": render_call,
}


def interrupted_in_time(call: Callable[[], Result], duration: float, rng: random.Random) -> bool:
    """Run a call that gets Ctrl-C after a part of its duration; whether that stopped it."""
    timer = threading.Timer(rng.uniform(0.0, duration), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        call()
        timer.join()
        time.sleep(0.001)
    except KeyboardInterrupt:
        timer.join()
        return True
    return False


def traced(call: Callable[[], Result], at_line: Callable[[], None]) -> None:
    """Run a call, and ``at_line`` at each line of this package that it runs."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            at_line()
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)


def interrupted_at_line(call: Callable[[], Result], line: int) -> bool:
    """Run a call that gets Ctrl-C at one of the lines of this package that it runs; whether that stopped it."""
    passed = itertools.count(1)
    try:
        traced(call, lambda: signal.raise_signal(signal.SIGINT) if next(passed) == line else None)
    except KeyboardInterrupt:
        return True
    return False


def lines_of(call: Callable[[], Result]) -> int:
    """How many lines of this package a call runs."""
    passed = itertools.count()
    traced(call, passed.__next__)
    return next(passed)


def main(kind: str, times: int) -> None:
    """Interrupt a kind of call, and compare what follows."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started this with SIGINT ignored
    call, rng = CALLS[kind](), random.Random(0)
    expected = call()
    start = time.perf_counter()
    call()
    duration = time.perf_counter() - start
    lines = lines_of(call)
    stopped = 0
    for number in range(times):
        if kind in ("rollout", "backward") and number % 2 == 0:
            stopped += interrupted_in_time(call, duration, rng)
        else:
            stopped += interrupted_at_line(call, rng.randint(1, lines))
        for found, wanted in zip(call(), expected, strict=True):
            assert np.array_equal(found, wanted), f"{kind}: after interrupt {number} another result"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    print(kind, stopped)


if __name__ == "__main__":
    for kind, times in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        main(kind, int(times))
