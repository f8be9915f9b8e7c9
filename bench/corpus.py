"""Coverage of the MJCF files in some folders: how many load, how many move as in MuJoCo, and missing features.

pip download --no-deps gymnasium gymnasium-robotics dm_control robosuite; unzip each into corpus/
python -m bench.corpus corpus --json out/corpus.json

A file counts if MuJoCo compiles it. Results are stored after each file; repeat the command to resume.
"""

import argparse
import json
import re
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import mujoco

import sim
from bench.report import write_json

# Notes that don't concern the motion of the file.
HARMLESS = re.compile(
    r"used with MuJoCo's law|ignored: (\d+ )?sensor|is deprecated|ignored: \d+ skins?$"
    r"|delay and interval of sensors|^rangefinders|^sensors of actuators"
)


@dataclass
class Found:
    """Result for one file.

    Attributes:
        error: reason why it doesn't load; None if it does.
        moves: True if something in it moves.
        notes: dropped or changed elements that affect its motion.
        law: reason why the law "mujoco" rejects it with the file's settings; None if it doesn't.
    """

    error: str | None = None
    moves: bool = False
    notes: list[str] = field(default_factory=list)
    law: str | None = None

    @property
    def clean(self) -> bool:
        """True if it loads without a warning about its motion."""
        return self.error is None and not self.notes


def main() -> None:
    """Count and print; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders with MJCF files")
    parser.add_argument("--json", type=Path, required=True, help="what is found, file by file")
    options = parser.parse_args()
    record = json.loads(options.json.read_text()) if options.json.exists() else {}
    for folder in options.folders:
        for path in sorted(folder.rglob("*.xml")):
            if str(path) not in record:
                found = look_at(path)
                record[str(path)] = None if found is None else asdict(found)
                write_json(options.json, record)
    print(summary([Found(**each) for each in record.values() if each is not None]))


def look_at(path: Path) -> Found | None:
    """Return the result for a file; None if MuJoCo doesn't compile it."""
    try:
        mujoco.MjModel.from_xml_path(str(path))
    except ValueError:
        return None
    found = Found()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = sim.load(path)
        except sim.ModelError as error:
            found.error = str(error).removeprefix(f"{path}: ")
            return found
    lines = [line for each in said for line in str(each.message).removeprefix(f"{path}: ").splitlines()]
    notes = [line.strip().removeprefix("- ") for line in lines if "things are not as in MuJoCo" not in line]
    found.notes = [note for note in notes if not HARMLESS.search(note)]
    found.moves = model.nv > 0
    if found.moves:
        try:
            sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
        except sim.ModelError as error:
            found.law = str(error)
    return found


def summary(files: list[Found]) -> str:
    """Return counts, and missing features by decreasing frequency."""
    moving = [found for found in files if found.moves]
    whole = [found for found in moving if found.clean and found.law is None]
    lines = [
        f"{len(files)} files compile, {sum(found.error is None for found in files)} load",
        f"{sum(found.clean for found in files)} load without a warning that changes the motion",
        f"{len(moving)} have something that moves; the law takes {len(whole)} whole",
    ]
    counts: Counter[str] = Counter()
    for found in files:
        texts = {*found.notes, *filter(None, (found.error, found.law))}
        counts.update({re.sub(r"\(.*?\)|'.*?'", "...", text)[:100] for text in texts})
    return "\n".join([*lines, *(f"{count:4} {text}" for text, count in counts.most_common())])


if __name__ == "__main__":
    main()
