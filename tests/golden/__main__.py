"""Record and compare golden runs: states, gradients, Jacobians of a step and replay tables, bit for bit.

    python -m tests.golden record out/golden            # before a change
    python -m tests.golden compare out/golden           # after it: the present code with what was recorded
    python -m tests.golden compare --with main          # the present code with that of a revision
    python -m tests.golden store                        # write tests/golden/stored.json, which the tests compare with

Both runs must be of one machine, since bits depend on its CPU. With a revision the present cases run on the packages
sim and warp_kernels of that revision. Exits with status 1 where anything differs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import sim
from tests.golden.cases import CASES
from tests.golden.compare import ERROR, differences
from tests.golden.record import TABLE, Arrays, record
from tests.golden.stored import write

ROOT = Path(__file__).parents[2]
ENGINE = ("sim", "warp_kernels")  # packages of a revision
OURS = ("tests", "scenes", "bench")  # what the cases are made of


def run(name: str) -> Arrays:
    """Record a case; where it fails, the message."""
    try:
        return record(CASES[name]())
    except Exception as error:
        return {ERROR: np.array(f"{type(error).__name__}: {error}")}


def record_to(folder: Path, names: list[str]) -> None:
    """Record cases, each into a file of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        found: dict[str, Any] = run(name)
        np.savez(folder / f"{name}.npz", **found)


def compare_with(folder: Path, names: list[str], launches: bool, verbose: bool) -> int:
    """Run cases and compare them with those of a folder; returns how many differ."""
    different = 0
    for name in names:
        path = folder / f"{name}.npz"
        old = load(path) if path.exists() else {ERROR: np.array("it wasn't recorded")}
        new = run(name)
        if not launches:
            old, new = ({key: value for key, value in one.items() if not key.startswith(TABLE)} for one in (old, new))
        found = dict(differences(old, new))
        if ERROR in old or ERROR in new:  # even where both failed alike
            found[ERROR] = f"{old.get(ERROR, 'none')} -> {new.get(ERROR, 'none')}"
        different += bool(found)
        print(f"{name}: {f'{len(found)} of {len(old)} arrays differ' if found else f'{len(old)} arrays are the same'}")
        for array in sorted(old.keys() | new.keys()) if verbose else found:
            print(f"    {array}: {found.get(array, 'same')}", flush=True)
    return different


def load(path: Path) -> Arrays:
    """The arrays of a file."""
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files}


def record_revision(revision: str, folder: Path, names: list[str]) -> None:
    """Record cases with the packages of a revision.

    Args:
        revision: as git names it.
        folder: where the files go.
        names: of the cases.
    """
    with tempfile.TemporaryDirectory(prefix="golden-") as checkout:
        archive = subprocess.run(["git", "archive", revision, *ENGINE], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x"], cwd=checkout, check=True, input=archive.stdout)
        for package in OURS:
            (Path(checkout) / package).symlink_to(ROOT / package)
        command = [sys.executable, "-m", "tests.golden", "record", str(folder.resolve()), "--engine", checkout]
        environment = {**os.environ, "PYTHONPATH": checkout}
        subprocess.run([*command, "--cases", *names], cwd=checkout, check=True, env=environment)


def chosen(parts: list[str]) -> list[str]:
    """The cases of these names, or those whose names contain one of them; all for none."""
    if parts and set(parts) <= set(CASES):
        return parts
    names = [name for name in CASES if not parts or any(part in name for part in parts)]
    if not names:
        raise SystemExit(f"no case has a name with {' or '.join(parts)}; there are {', '.join(CASES)}")
    return names


def main() -> int:
    """Run the command and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["record", "compare", "store"])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "out" / "golden", help="default: out/golden")
    parser.add_argument("--with", dest="revision", help="compare with this revision of git in place of a folder")
    parser.add_argument("--cases", nargs="+", default=[], help="parts of the names of cases; default: all")
    parser.add_argument("--values-only", action="store_true", help="don't compare replay tables")
    parser.add_argument("--verbose", action="store_true", help="print arrays that are the same too")
    parser.add_argument("--engine", type=Path, help=argparse.SUPPRESS)  # where sim must come from
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    warnings.simplefilter("ignore")
    engine = Path(sim.__file__).parents[1]
    if engine != (options.engine or ROOT).resolve():
        raise SystemExit(f"sim is imported from {engine}; run this in {ROOT}")
    names, start = chosen(options.cases), time.monotonic()
    if options.command == "store":
        write({name: make() for name, make in CASES.items()})
        return 0
    if options.command == "record":
        record_to(options.folder, names)
        print(f"recorded {len(names)} cases in {time.monotonic() - start:.0f} s")
        return 0
    with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
        folder = options.folder
        if options.revision is not None:
            folder = Path(temporary)
            record_revision(options.revision, folder, names)
        different = compare_with(folder, names, not options.values_only, options.verbose)
    print(f"{different} of {len(names)} cases differ, {time.monotonic() - start:.0f} s")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
