"""Records of ``bench.sample_enhancement`` and ``bench.pretraining`` as text for the pages of results."""

from pathlib import Path
from typing import Any

import numpy as np

from examples.outputs import plot

METHODS = ("here", "MuJoCo", "MuJoCo, twice as long", "here, then MuJoCo")
PAPER = {"MuJoCo": "868 ± 77", "here, then MuJoCo": "1735 ± 1066"}
PRETRAINING = """\
The table shows ants in MuJoCo after training there alone, and after training in a simulator first (the paper's table 5:
868 ± 77 and 1735 ± 1066).

PPO of Stable-Baselines3 trains for the same time on one core in each simulator, with 64 environments: under MuJoCo's
law (Euler's method) here, and with gymnasium's Ant-v5 there. Training in MuJoCo continues with the networks, the
optimiser and the observation scale from here. Each policy is then played without randomness in both simulators, 20
episodes each. The paper's agent and its numbers of steps differ, so only comparisons within one table are valid.

- As in the paper, an ant that trained here first gets farther in MuJoCo with the same training time there. This holds
  for each of five seeds: 2136 to 3668, on average 2982, compared with 343.
- With four seeds, three minutes in MuJoCo alone don't teach the ant to stay on its feet.
- The control trains in MuJoCo for as long as both together: 993 on average, farther with no seed.
- A step here takes less than half the time of a step there.
- Transfer from MuJoCo to here is worse: ants that continued in MuJoCo, with its Runge-Kutta method, fall sooner here,
  with Euler's method.

Other programs took much of the machine during the first seed's training after pretraining, as its few steps show: it
took 230 s there. The other seeds ran on a slower machine.
"""
ENHANCEMENT = """\
The paper's sample enhancement adds nine transitions to each step, whose actions are within 0.01 of the one taken,
predicted by the derivatives of the step. Here its ant (`AntPaper`) learns by soft actor-critic (`sim.learn.Sac`)
in three ways:

- without added transitions;
- with transitions predicted by the whole derivative; rewards and ends of episodes follow from the predicted states;
- with nine simulated neighbours, which takes about as long.

All train for the same time, so that a slower method takes fewer steps. Returns are means of the last 64 episodes, with
the random actions of training, after one third, two thirds and all of the time. The last column is the policy without
randomness.

Per step, added transitions help. After 18,000 steps the returns are 11 to 164 with them and -13 to 21 without. After
30,400 steps the medians of five seeds are 154 to 215 with them and 86 without.

Per second they don't help: added transitions take more than a third of the time, in which SAC alone takes more steps.
At the end the median of SAC alone is 517; with added transitions it is 293, 244, 334 and 218, in the order of the
table. Without randomness it is 3360, compared with 2103, 1973, 2036 and 1952.

Derivatives are no better than simulated neighbours, which need no derivatives. Actions within 0.1 are no better than
within 0.01.
"""


def enhancement_section(record: dict[str, Any]) -> str:
    """Return a row for each training."""
    lines = [
        "| added to each step | seed | steps | seconds | return at a third, two thirds, the end "
        "| at equal steps | without randomness |",
        "|---|---|---|---|---|---|---|",
    ]
    order = list(dict.fromkeys(row["variant"] for row in record["rows"]))
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
    table = "\n".join(lines)
    processors = ", ".join(dict.fromkeys(row["processor"] for row in rows))
    return (
        f"{ENHANCEMENT}\n{table}\n\nEqual steps are the {common} of the training with the fewest. All on {processors}."
        "\n\n![Returns over steps and over seconds](sample_enhancement.png)"
    )


def plot_enhancement(path: Path, record: dict[str, Any]) -> None:
    """Plot returns in training over the steps and over the seconds."""
    names = list(dict.fromkeys(row["variant"] for row in record["rows"]))
    with plot(path, columns=2) as axes:
        for row in record["rows"]:
            style = {"color": f"C{names.index(row['variant'])}", "label": row["variant"] if row["seed"] == 0 else None}
            for each, along in zip(axes, ("steps", "seconds"), strict=True):
                each.plot(row[along], row["return"], marker=".", **style)
                each.set_xlabel(along)
        axes[0].set_ylabel("return, mean of the last episodes")
        axes[0].legend()


def pretraining_section(record: dict[str, Any]) -> str:
    """Return a row for each training."""
    lines = [
        "| trained | paper | seed | steps here | steps in MuJoCo | seconds | return, length, speed here "
        "| return, length, speed in MuJoCo |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(record["rows"], key=lambda row: (METHODS.index(row["method"]), row["seed"])):
        steps = [str(row["steps"].get(engine, "-")) for engine in ("here", "mujoco")]
        played = [_played(row[engine]) for engine in ("here", "mujoco")]
        head = [row["method"], PAPER.get(row["method"], ""), str(row["seed"]), *steps, f"{row['seconds']:.0f}"]
        lines.append(f"| {' | '.join([*head, *played])} |")
    processors = ", ".join(dict.fromkeys(row["processor"] for row in record["rows"]))
    return f"{PRETRAINING}\n" + "\n".join(lines) + f"\n\nAll on {processors}."


def _played(found: dict[str, list[float]]) -> str:
    (total, spread), (length, _), (speed, _) = (found[name] for name in ("return", "length", "speed"))
    return f"{total:.0f} ± {spread:.0f}, {length:.0f}, {speed:.2f} m/s"
