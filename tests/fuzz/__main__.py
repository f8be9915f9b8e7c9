"""Change valid files at random and read them: ``python -m tests.fuzz --minutes 60``.

Every file must end in a model or an ImportFileError that names it, within 10 s of processor time and 1 GB. One that
doesn't is kept, with the message and the numbers that make it again: ``python -m tests.fuzz --seed S --case N``.
Crashes inside of USD's own library are counted but are no failure, since the process that reads is made for them.
"""

import argparse
import itertools
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from sim.errors import ImportFileError
from sim.importers.untrusted import Limits, ReadingProcess
from tests.fuzz.mutations import make_case

PLURALS = {"model": "models", "error": "errors", "crash": "crashes", "failure": "failures"}
LIMITS = Limits(seconds=60.0, cpu_seconds=10.0, memory=1e9)
ENDED = ("made the process", "took more than", "took longer", "needs more than")


def judge(process: ReadingProcess, path: Path) -> tuple[str, str]:
    """What became of a file, "model", "error", "crash" or "failure", and the message."""
    try:
        process.load(path, {})
    except ImportFileError as error:
        if any(words in str(error) for words in ENDED):
            return "crash" if path.suffix.startswith(".usd") else "failure", str(error)
        return "error" if str(error).startswith(str(path)) else "failure", str(error)
    except Exception as error:
        return "failure", repr(error)
    return "model", ""


def fuzz(seed: int, numbers: Iterable[int], until: float, out: Path) -> Counter[str]:
    """Read case after case until a time [s, of time.monotonic()]; returns how often each outcome came."""
    counts: Counter[str] = Counter()
    with (
        warnings.catch_warnings(action="ignore"),
        ReadingProcess(LIMITS) as process,
        tqdm(numbers, unit="file", disable=None) as bar,
    ):
        for number in bar:
            if time.monotonic() > until:
                break
            with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
                path, changed = make_case(seed, number, Path(folder))
                outcome, message = judge(process, path)
                counts[outcome] += 1
                if outcome == "failure":
                    out.mkdir(parents=True, exist_ok=True)
                    shutil.copy(changed, out / changed.name)
                    (out / f"{changed.name}.txt").write_text(f"--seed {seed} --case {number}\n{message}\n")
                    tqdm.write(f"--seed {seed} --case {number}: {message[:300]}\n  kept as {out / changed.name}")
            bar.set_postfix(counts, refresh=False)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2.0, help="how long (default: 2)")
    parser.add_argument("--seed", type=int, default=None, help="of the generator (default: from the clock)")
    parser.add_argument("--case", type=int, default=None, help="the number of the only case to run")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="where files that failed are kept")
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    numbers = itertools.count() if given.case is None else [given.case]
    counts = fuzz(seed, numbers, time.monotonic() + 60.0 * given.minutes, given.out)
    found = ", ".join(f"{count} {name if count == 1 else PLURALS[name]}" for name, count in sorted(counts.items()))
    print(f"seed {seed}: {sum(counts.values())} files: {found}")
    return int(counts["failure"] > 0)


if __name__ == "__main__":
    sys.exit(main())
