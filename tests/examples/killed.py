"""Kills an example at random moments, resumes it until it ends, and compares its files with those of a whole run.

``python tests/examples/killed.py FOLDER KILLS KILLS_PER_RUN SEED CONSTANTS NAME [options]``. Every run is a process of
its own, forked from one that has imported everything. CONSTANTS, a JSON object, replace those of the example.
"""

import importlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import warp as wp

sys.path.insert(0, str(Path(__file__).parents[2]))
from warp_kernels.registry import all_modules


def prepare(name: str) -> None:
    """Do once what every run would do again before it starts to work: import everything, define the kernels.

    No kernel is compiled or loaded: that starts threads, which a forked process doesn't have.
    """
    for module in (f"examples.{name}", "matplotlib.pyplot", "pxr.UsdGeom"):
        importlib.import_module(module)
    for kernels in all_modules(wp.float32, (1, 8), looping=True):
        kernels.get_module_hash()


def start(name: str, constants: dict[str, float], arguments: list[str], out: Path) -> int:
    """Fork a process that runs the example. Returns its number."""
    module = importlib.import_module(f"examples.{name}")
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    log = os.open(out.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    vars(module).update(constants)
    sys.argv = [name, *arguments, "--out", str(out)]
    status = 1
    try:
        module.main()
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def kill_after(child: int, seconds: float) -> tuple[bool, float]:
    """Kill a process after a while, unless it ends before. Returns whether it was killed, and how long it ran [s]."""
    began = time.monotonic()
    while (lasted := time.monotonic() - began) < seconds:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False, lasted
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == signal.SIGKILL, lasted  # it may have ended just before


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def main() -> None:
    folder, kills, per_run, seed = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    constants, name, arguments = json.loads(sys.argv[5]), sys.argv[6], sys.argv[7:]
    chance = random.Random(seed)

    def finish(out: Path) -> None:
        _, status = os.waitpid(start(name, constants, arguments, out), 0)
        assert status == 0, out.with_suffix(".log").read_text()

    prepare(name)
    began = time.monotonic()
    finish(folder / "whole")  # longer than others, where it compiles kernels
    seconds = time.monotonic() - began
    whole = contents(folder / "whole")
    killed = runs = 0
    while killed < kills:
        out, runs = folder / f"killed{runs}", runs + 1
        for attempt in range(min(per_run, kills - killed)):
            child = start(name, constants, arguments, out)
            was_killed, lasted = kill_after(child, chance.uniform(0.1, 1.0) * seconds)
            killed += was_killed
            if attempt == 0 and not was_killed:
                seconds = lasted
        finish(out)
        found = contents(out)
        assert found.keys() == whole.keys(), f"{out}: {sorted(found)}"
        different = [file for file in whole if found[file] != whole[file]]
        assert not different, f"{out}: {different} differ from those of a whole run"
    resumed = sum(path.read_text().count("resuming from") for path in folder.glob("*.log"))
    print(f"{name}: {killed} killed at work, {runs} runs, {resumed} resumed, {seconds:.1f} s each")


if __name__ == "__main__":
    main()
