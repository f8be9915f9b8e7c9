"""The ant of :mod:`bench.worlds` in MJX and in mujoco_warp, on one core; each may be in a separate environment.

Run as a program it measures mujoco_warp, and imports nothing else of Backswing than :mod:`bench.timing`.
"""

import json
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.timing import pinned, time_call

ROOT = Path(__file__).parents[1]
WORLDS = (64, 1024)
STEPS = 20


def ant_in_mjx(python: str, file: Path) -> list[dict[str, Any]]:
    """Measure Euler steps with one Newton iteration, and their gradient, in MJX."""
    rows = []
    for worlds in WORLDS:
        given = {"file": str(file), "frame_skip": 1, "envs": worlds, "horizon": STEPS, "seconds": 2.0}
        found = _run([python, "-m", "bench.learning_mjx", json.dumps(given)])
        rows.append({"worlds": worlds, **found})
        print(rows[-1])
    return rows


def ant_in_mujoco_warp(python: str, file: Path) -> list[dict[str, Any]]:
    """Measure Euler steps with default settings in mujoco_warp, which has no gradient."""
    rows = []
    for worlds in WORLDS:
        found = _run([python, "-m", "bench.worlds_peers", json.dumps({"file": str(file), "worlds": worlds})])
        rows.append({"worlds": worlds, **found})
        print(rows[-1])
    return rows


def _run(command: list[str]) -> dict[str, Any]:
    """Return the last line of a program's output."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(file: str, worlds: int) -> dict[str, Any]:
    """Measure microseconds of processor time per world and step."""
    import mujoco
    import mujoco_warp
    import numpy as np
    import warp as wp

    model = mujoco.MjModel.from_xml_path(file)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 100)
    inputs = 0.2 * np.random.default_rng(1).uniform(-1.0, 1.0, (worlds, model.nu)).astype(np.float32)
    with wp.ScopedDevice("cpu"), pinned(1):
        on_device, state = mujoco_warp.put_model(model), mujoco_warp.put_data(model, data, nworld=worlds)
        wp.copy(state.ctrl, wp.array(inputs, dtype=float))

        def steps() -> None:
            for _ in range(STEPS):
                mujoco_warp.step(on_device, state)

        found = time_call(steps, seconds=2.0, repeats=3, clock=time.process_time).median
    return {"forward_us": 1e6 * found / (STEPS * worlds), "version": version("mujoco-warp")}


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
