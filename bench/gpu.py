"""All measurements of a GPU, in pieces: the tests on it, hashes of results, the benchmarks. ``make gpu`` runs it.

    python -m bench.gpu --minutes 9
    python -m bench.gpu --list

Machines with a GPU are often rented by the minute. A call takes at most ``--minutes``, and the next one resumes at the
first piece that isn't done; each piece has a log under ``--out``. A failed piece isn't run again without ``--again``,
and one that didn't finish in a whole call counts as failed. The records of the benchmarks are written to bench/results.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import write_json
from warp_kernels.team import WIDTHS

ROOT = Path(__file__).parents[1]
RESULTS = "bench/results"
# Folders of tests that launch kernels, the quick ones first.
TESTED = (
    "simulation", "dynamics", "torch", "actuators", "physics", "distances", "rays", "envs", "render", "collision",
    "contact",
)  # fmt: skip
WORLDS = ("1", "64", "1024", "4096", "16384", "65536")
# A piece that got this fraction of the longest call won't finish in another one.
MOST_OF_A_CALL = 0.9


@dataclass(frozen=True)
class Piece:
    """Command that takes some minutes.

    Attributes:
        name: name of its log.
        arguments: arguments of Python.
    """

    name: str
    arguments: tuple[str, ...]


def pieces(device: str, workers: int) -> list[Piece]:
    """Return kernels, tests, hashes of results and benchmarks, in order of priority."""
    compiled = [
        Piece(f"kernels {dtype}", ("-m", "sim", "warmup", "--device", device, "--dtype", dtype))
        for dtype in ("float32", "float64")
    ]
    label = device.partition(":")[0]
    options = ("-q", "-k", label, "--numprocesses", str(workers), "--dist", "worksteal")
    tests = [Piece(f"tests {folder}", ("-m", "pytest", f"tests/{folder}", *options)) for folder in TESTED]
    on = ("--device", device)
    measured = {
        "step": ("--worlds", *WORLDS),
        "robot": (),
        "learning": ("--envs", "4096"),
        "render": (),
    }
    benchmarks = [
        Piece(f"bench {name}", ("-m", f"bench.{name}", *on, *further, "--json", f"{RESULTS}/{name}_{label}.json"))
        for name, further in measured.items()
    ]
    # What is compared with "bench step", the same with one thread per world.
    teams = [
        Piece(
            f"bench step, teams of {width}",
            (
                "-m", "bench.step", *on, "--worlds", *WORLDS, "--threads-per-world", str(width), "--quick",
                "--json", f"{RESULTS}/step_teams_{width}_{label}.json",
            ),
        )
        for width in WIDTHS
    ]  # fmt: skip
    hashes = Piece(
        "hashes",
        ("-m", "bench.reproducibility", *on, "--worlds", "64", "4096", "--json", f"{RESULTS}/hashes_{label}.json"),
    )
    return [*compiled, *tests, hashes, *benchmarks, *teams]


def run_pieces(
    todo: Sequence[Piece], out: Path, seconds: float, run: Callable[[Piece, Path, float], int | None], again: bool
) -> dict[str, str]:
    """Run the unfinished pieces, until the time is over; return the status of each piece, by name.

    Args:
        todo: all pieces in order.
        out: folder of the logs and of the status.
        seconds: maximum time of this call.
        run: runs a piece with its log and the time left; returns its exit status, or None if the time was over.
        again: run failed pieces again.
    """
    out.mkdir(parents=True, exist_ok=True)
    file = out / "pieces.json"
    known: dict[str, str] = json.loads(file.read_text()) if file.is_file() else {}
    begun = time.monotonic()
    for piece in todo:
        if known.get(piece.name) == "done" or (piece.name in known and not again):
            continue
        left = seconds - (time.monotonic() - begun)
        if left <= 0.0:
            break
        status = run(piece, out / f"{piece.name.replace(' ', '_')}.log", left)
        if status is None and left < MOST_OF_A_CALL * seconds:
            break  # it comes first in the next call
        known[piece.name] = {0: "done", None: "took too long"}.get(status, f"failed, exit status {status}")
        write_json(file, known)
    return known


def run_piece(piece: Piece, log: Path, seconds: float) -> int | None:
    """Run a command with its output in a file."""
    print(f"{piece.name}: python {shlex.join(piece.arguments)}", flush=True)
    with log.open("w") as file:
        try:
            done = subprocess.run(
                [sys.executable, *piece.arguments], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, timeout=seconds,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
    return done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help='such as "cuda:0" (default)')
    parser.add_argument("--minutes", type=float, default=9.0, help="longest time of this call (9)")
    parser.add_argument("--out", type=Path, default=Path("out/gpu"), help="folder of the logs (out/gpu)")
    parser.add_argument("--workers", type=int, default=4, help="processes that run tests (4)")
    parser.add_argument("--again", action="store_true", help="run failed pieces again")
    parser.add_argument("--list", action="store_true", help="print the pieces, and run none")
    options = parser.parse_args()
    todo = pieces(options.device, options.workers)
    if options.list:
        print("\n".join(f"{piece.name}: python {shlex.join(piece.arguments)}" for piece in todo))
        return
    known = run_pieces(todo, options.out, 60.0 * options.minutes, run_piece, options.again)
    for piece in todo:
        print(f"{piece.name}: {known.get(piece.name, 'not yet')}")
    if any(known.get(piece.name) != "done" for piece in todo):
        sys.exit(f"not all pieces are done (logs in {options.out}); repeat the command to continue")


if __name__ == "__main__":
    main()
