"""The records of ``bench.sample_enhancement`` and ``bench.pretraining`` as text for the page of results."""

from pathlib import Path
from typing import Any

import numpy as np

from examples.outputs import plot

WAYS = ("here", "MuJoCo", "MuJoCo, twice as long", "here, then MuJoCo")
PAPER = {"MuJoCo": "868 ± 77", "here, then MuJoCo": "1735 ± 1066"}
PRETRAINING = """\
Ants in MuJoCo after training there alone, and after training in a simulator first (the paper's table 5: 868 ± 77 and
1735 ± 1066). Here PPO of Stable-Baselines3 trains for the same time on one core in each place, with 64 environments
under MuJoCo's law (Euler's method) here and 64 of gymnasium's Ant-v5 there, and goes on in MuJoCo with the networks,
their optimiser and the scale of observations that it had here. Each policy is played without randomness in both,
20 episodes. The paper's agent and its numbers of steps are others, so that only the comparison within a table counts.

As in the paper, an ant that trained here first gets farther in MuJoCo with the same time there, with each of five
seeds: to 2136 to 3668, on average 2982, beside 343. With four seeds three minutes in MuJoCo alone don't teach it to
stay on its feet. The control is training in MuJoCo for as long as both together: on average 993, farther with no seed.
A step here takes less than half the time of one there. The way back is another matter: ants that went on in MuJoCo, by
its Runge-Kutta method, fall sooner here, by Euler's. Other work on the machine took much of the first seed's training
after pretraining, as its few steps show; it took 230 s there. The other seeds are of a slower machine.
"""
ENHANCEMENT = """\
The paper's sample enhancement adds to each step nine transitions whose actions are within 0.01 of the one taken, by
the derivatives of the step. Here its ant (`AntPaper`) learns by soft actor-critic (`examples/rl/sac.py`) without them;
with them, by the whole derivative, and with rewards and ends of the states that it predicts; and with nine neighbours
that are simulated, which takes about as long. All train for the same time, so that what takes time comes with fewer
steps. The returns are means of the last 64 episodes, random as they are in training, at a third, two thirds and the
whole of the time; and then that of the policy without randomness.

By steps, what is added helps: after 18,000 of them the returns are 11 to 164 with it, and -13 to 21 without; after
30,400 the medians of five seeds are 154 to 215 with it, and 86 without. By time it does not: neighbours take more than
a third of the time, and SAC alone makes more of the steps that it takes instead. At the end its median is 517, and with
what is added, in the order of the table, 293, 244, 334 and 218; without randomness 3360, and 2103, 1973, 2036 and 1952.
Derivatives are no better than simulated neighbours, which need none, and actions within 0.1 no better than within 0.01.
"""


def enhancement_section(record: dict[str, Any]) -> str:
    """A line for each training."""
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
    """Returns in training over the steps and over the seconds."""
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
    """A line for each training."""
    lines = [
        "| trained | paper | seed | steps here | steps in MuJoCo | seconds | return, length, speed here "
        "| return, length, speed in MuJoCo |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(record["rows"], key=lambda row: (WAYS.index(row["way"]), row["seed"])):
        steps = [str(row["steps"].get(place, "-")) for place in ("here", "mujoco")]
        places = [_played(row[place]) for place in ("here", "mujoco")]
        head = [row["way"], PAPER.get(row["way"], ""), str(row["seed"]), *steps, f"{row['seconds']:.0f}"]
        lines.append(f"| {' | '.join([*head, *places])} |")
    processors = ", ".join(dict.fromkeys(row["processor"] for row in record["rows"]))
    return f"{PRETRAINING}\n" + "\n".join(lines) + f"\n\nAll on {processors}."


def _played(found: dict[str, list[float]]) -> str:
    (total, spread), (length, _), (speed, _) = (found[name] for name in ("return", "length", "speed"))
    return f"{total:.0f} ± {spread:.0f}, {length:.0f}, {speed:.2f} m/s"
