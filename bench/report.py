"""Records of a benchmark, printed as a table or written as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sim.output import write_text


@dataclass
class Record:
    """One measured case and one peer. Times are medians per world and step [microseconds]; None: not measured.

    Attributes:
        case: the measured case.
        worlds: number of worlds in the batch.
        device: "cpu" or "cuda:0".
        dtype: "float32" or "float64".
        forward_us: time of one forward step of one world.
        backward_us: time of its backward pass, including the recomputed forward step.
        bytes_per_step: memory that a rollout keeps per world and step.
        peer: name of the engine compared with.
        peer_forward_us: the peer's time of a forward step.
        peer_backward_us: the peer's time of the gradient of a step.
        cores: number of processor cores for each.
        steps: number of steps of the measured rollout.
        note: how the peer was run, and what limits a figure.
    """

    case: str
    worlds: int
    device: str
    dtype: str
    forward_us: float | None = None
    backward_us: float | None = None
    bytes_per_step: float | None = None
    peer: str | None = None
    peer_forward_us: float | None = None
    peer_backward_us: float | None = None
    cores: int = 1
    steps: int | None = None
    note: str = ""


# Load average above which the machine is or was recently busy with other work.
IDLE_LOAD = 0.5

COLUMNS = (
    ("case", "case"),
    ("worlds", "worlds"),
    ("device", "device"),
    ("dtype", "dtype"),
    ("cores", "cores"),
    ("steps", "steps"),
    ("forward_us", "forward µs"),
    ("backward_us", "backward µs"),
    ("bytes_per_step", "bytes/step"),
    ("peer", "peer"),
    ("peer_forward_us", "peer forward µs"),
    ("peer_backward_us", "peer backward µs"),
)


def print_table(records: list[Record], machine: dict[str, str]) -> None:
    """Print the machine, then one line per record, notes last."""
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    rows = [[title for _, title in COLUMNS]]
    rows += [[_text(getattr(record, name)) for name, _ in COLUMNS] for record in records]
    widths = [max(len(row[k]) for row in rows) for k in range(len(COLUMNS))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    if float(machine["load"]) > IDLE_LOAD:
        print(f"The machine was busy beforehand (load average {machine['load']}): do not use these times as results.")
    for note in dict.fromkeys(record.note for record in records if record.note):
        print(f"  - {note}")


def write_json(path: str | Path, record: Any) -> None:
    """Write results as JSON: lists, dicts, numbers, texts, and dataclasses as dicts. Missing folders are created."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(record, indent=1, default=asdict) + "\n")


def with_machine(records: Sequence[Any], machine: dict[str, str]) -> list[dict[str, Any]]:
    """Return records, of any dataclass, each with the machine it was measured on."""
    return [{**asdict(record), "machine": machine} for record in records]


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
