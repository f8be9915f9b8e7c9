"""Sample enhancement on the ant of Qiao et al.: SAC alone, and with transitions that are added to each step.

    python -m bench.sample_enhancement --json bench/results/sample_enhancement_cpu.json
    python -m bench.sample_enhancement --minutes 10 --seeds 3

All train for the same time of the processor, on one thread. What the file already has isn't trained again.
"""

import argparse
import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import warp as wp
from tqdm import tqdm

from bench.timing import machine
from examples.resume import Progress
from examples.rl import sac
from examples.rl.training import evaluate, train
from sim.envs import make
from sim.output import write_text

TASK, ENVS, POINTS = "AntPaper", 16, 12
# Wider networks than a pendulum needs, and a discount, since episodes are ten times as long.
COMMON: dict[str, Any] = {"discount": 0.99, "hidden": (128, 128), "updates": 4, "capacity": 500_000}


@dataclass(frozen=True)
class Variant:
    """What is added to each step.

    Attributes:
        name: in the table.
        settings: of :class:`examples.rl.sac.Settings`.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)


VARIANTS = [
    Variant("nothing"),
    Variant("9 by derivatives, within 0.01", {"extras": 9, "first_order": True, "spread": 0.01}),
    Variant("9 simulated, within 0.01", {"extras": 9, "spread": 0.01}),
    Variant("9 simulated, within 0.1", {"extras": 9, "spread": 0.1}),
]
ABOUT = """\
The paper's sample enhancement adds to each step nine transitions whose actions are within 0.01 of the one taken, by
the derivatives of the step. Here its ant (`AntPaper`) learns by soft actor-critic (`examples/rl/sac.py`) without them;
with them, by the whole derivative, and with rewards and ends of the states that it predicts; and with nine neighbours
that are simulated, which takes about as long. All train for the same time, so that what takes time comes with fewer
steps. The returns are means of the last 64 episodes, random as they are in training, at a third, two thirds and the
whole of the time; and then that of the policy without randomness.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--json", type=Path, default=Path("out/bench/sample_enhancement.json"), help="add records there"
    )
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each variant (1)")
    parser.add_argument("--minutes", type=float, default=2.0, help="time of a training (2)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    record: dict[str, Any] = {"machine": machine(), "rows": []}
    if options.json.is_file():
        record = json.loads(options.json.read_text())
    options.json.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["variant"], row["seed"], row["minutes"]) for row in record["rows"]}
    wanted = [(variant, seed) for seed in range(options.seeds) for variant in VARIANTS]
    for variant, seed in tqdm([each for each in wanted if (each[0].name, each[1], options.minutes) not in done]):
        record["rows"].append(measure(variant, seed, options.minutes))
        write_text(options.json, json.dumps(record, indent=1) + "\n")


def measure(variant: Variant, seed: int, minutes: float) -> dict[str, Any]:
    """Train, and play."""
    settings = sac.Settings(**{**COMMON, **variant.settings})
    learner = sac.Sac(make(TASK, ENVS, device="cpu", threads=1), settings, seed)
    training = train(learner, math.inf, 60.0 * minutes, settings.steps, Progress(None, {}), time.process_time)
    found = evaluate(learner.policy, TASK, {}, "cpu")
    chosen = np.linspace(0, len(training.steps) - 1, POINTS + 1).round().astype(int)[1:]
    curve = {
        "steps": training.steps[chosen].tolist(),
        "seconds": training.seconds[chosen].round(1).tolist(),
        "return": np.nan_to_num(training.figures["return"][chosen]).round(1).tolist(),
    }
    return {
        "variant": variant.name,
        "seed": seed,
        "minutes": minutes,
        "processor": machine()["processor"],
        **curve,
        "final": float(found["returns"].mean()),
        "deviation": float(found["returns"].std()),
        "length": float(found["lengths"].mean()),
    }


def section(record: dict[str, Any]) -> str:
    """A line for each training."""
    lines = [
        "| added to each step | seed | steps | seconds | return at a third, two thirds, the end "
        "| at equal steps | without randomness |",
        "|---|---|---|---|---|---|---|",
    ]
    order = [variant.name for variant in VARIANTS]
    rows = sorted(record["rows"], key=lambda row: (order.index(row["variant"]), row["seed"]))
    common = min(row["steps"][-1] for row in rows)
    for row in rows:
        steps, returns = np.array(row["steps"]), np.array(row["return"])
        at = ", ".join(f"{np.interp(share * steps[-1], steps, returns):.0f}" for share in (1 / 3, 2 / 3, 1.0))
        equal = f"{np.interp(common, steps, returns):.0f}"
        final = f"{row['final']:.0f} ± {row['deviation']:.0f}"
        lines.append(
            f"| {row['variant']} | {row['seed']} | {steps[-1]} | {row['seconds'][-1]:.0f} | {at} | {equal} | {final} |"
        )
    return f"{ABOUT}\n" + "\n".join(lines) + f"\n\nEqual steps are the {common} of the training with the fewest."


if __name__ == "__main__":
    main()
