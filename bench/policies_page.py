"""Records of ``bench.policies`` and ``bench.learning`` as text for the pages of results and of learning."""

from collections.abc import Callable, Sequence
from typing import Any

# Table 4 of Qiao et al.: largest return in training, mean and standard deviation of 10 trainings.
PAPER = {
    1: ("0.49 ± 0.01", "0.49 ± 0.01"),
    2: ("1.93 ± 0.08", "1.90 ± 0.02"),
    3: ("4.28 ± 0.25", "4.28 ± 0.22"),
    4: ("7.81 ± 0.19", "7.50 ± 0.57"),
    5: ("12.31 ± 0.16", "11.13 ± 0.99"),
    6: ("17.78 ± 0.24", "15.02 ± 1.45"),
    7: ("24.34 ± 0.11", "19.97 ± 2.33"),
}
GRADIENTS = {
    "none": "critic's",
    "jacobian": "stored derivatives",
    "near": "stored derivatives, weighted",
    "simulated": "simulated action",
}
NAMES = {**GRADIENTS, "unlimited": "SHAC, adjoint without limit"}
PENDULUMS = """\
These policies lift a pendulum of n links (the paper's table 4). The return is n² / 2 - 2 d², with d the distance from
the tip to its highest point at the end. The method is the gradient of whole episodes (`sim.learn.Apg`), which uses
more of the simulator's derivatives than the paper's policy enhancement.

The paper's numbers are the greatest returns during training, with one step of the simulation for each action. The
numbers here are returns of the final policy without randomness, with eight steps for each action: with one step, the
best motions of three links and more exploit the integration error. Seconds, here and below, are processor time with
one thread.
"""
SUBSTEPS = """\
### Smaller steps

The next table shows how much of a return is due to the size of the step. The same policies, which see the state after
each action, are replayed with a quarter of the step of their training.

- With one step for each action, as in the paper, all are trained to the best return, and from two links on no policy
  holds it: the policies use the energy that the integration error adds.
- With eight steps, little is lost up to four links.
- Seven links with one step for each action diverge in many early episodes, which are then left out of the gradient.

The miss is the distance from the tip to its highest point at the end. The greatest returns in training are means of 16
episodes with random actions.
"""
ENHANCED = """\
### Policy enhancement

The paper's policy enhancement (`sim.learn.Sac`) is compared with soft actor-critic in four ways:

- critic's: without gradients through the simulator;
- stored derivatives: with the derivatives of each step stored with it, as in the paper;
- stored derivatives, weighted: by equation 16, so that they count for actions near their own;
- simulated action: with the policy's own actions simulated.

Each trains for the same time on one core. Computing derivatives takes part of this time, so that enhanced policies see
fewer steps.

Per step, derivatives help. After 43,000 steps with two links, the largest mean returns in training are -0.4 to 0.6
without them, 0.4 to 1.7 with stored ones, 0.3 to 1.9 with weighted ones and 0.4 to 1.3 with simulated actions (of the
seeds whose curves were kept).

Per second they don't help. The table has the mean returns of five seeds, of one seed with four links. With two links
weighted derivatives are best, but half of the other trainings ran on slower processors. With three links each
enhanced method has seeds above 4.1 and seeds below 2.5; all seeds without derivatives are above 3.
"""
ROBOTS = """\
Cart-pole and gymnasium's robots learn by short-horizon actor-critic (SHAC, `sim.learn.Shac`) and, in the same
environments and with one core each, by PPO and SAC of Stable-Baselines3. Returns are those of policies without
randomness, here and, for the robots, of the same policy in MuJoCo.

- **HalfCheetah**: gradients through contact help most. All five run at 5.9 to 7.1 m/s after less than three minutes of
  training; four of PPO's run at 4.9 m/s after five minutes.
- **Hopper**: all five hop within 100 s with gradients, and one forgets it at the end. With PPO three hop within 250 s.
- **Cart-pole and Ant**: PPO swings cart-poles up about as well and brings ants farther, with the many steps that it
  takes in the same time. How many depends on the machine, which other programs shared.
- SAC, with an update for each step, has seen too few steps.

Policies trained on hard contacts often don't carry over to MuJoCo's soft contacts. There ants fall after some 100
steps. HalfCheetahs trained with gradients hardly move, those of PPO run at 0.4 to 3.2 m/s. Three of the five hoppers
trained with gradients keep hopping.

Policies trained under MuJoCo's law (`law="mujoco"`, with Euler's method) carry over:

- **Hopper**: all five trained with gradients, in 100 to 160 seconds, hop through the 1000 steps of the real Hopper-v5,
  with its RK4, as far as here. Those of PPO, after 300 seconds, fall after 350 to 730 steps.
- **Ant**: all five by PPO run in the real Ant-v5, at 1.9 to 3.3 m/s. Gradients are harder to use on soft contacts than
  on hard ones: no ant by SHAC walks far there.
- **HalfCheetah**: both methods come about as far, except one training by PPO, which found how to run at 6 m/s.
"""
CURVES = """\
The curves show returns during training on hard contacts, with the random actions of each method's training, five
trainings each. All episodes of HalfCheetah end at the same time, so that its curves have steps.

![Returns of hoppers and HalfCheetahs over the seconds of their trainings by SHAC, PPO and SAC](policies.png)
"""
CARTPOLE = """\
Each training runs until the mean return of the last episodes, with the random actions of the training, reaches -550.
Gradients through the simulator and PPO learn from 64 environments, SAC with an update for each step of its 8. A
training that doesn't reach this return is listed with its last return.
"""


def pendulum_section(record: dict[str, Any]) -> str:
    """Return the trainings of pendulums, with the paper's returns."""
    rows = [row for row in record["rows"] if row["task"].startswith("Pendulum")]
    parts = [PENDULUMS, pendulum_table(rows), SUBSTEPS, substep_table(rows), ENHANCED, mean_table(rows)]
    parts += [folded("All trainings of policy enhancement", enhanced_table(rows)), processors(rows)]
    return "\n\n".join(part.strip() for part in parts)


def robot_section(record: dict[str, Any]) -> str:
    """Return the trainings of all other tasks."""
    rows = [row for row in record["rows"] if not row["task"].startswith("Pendulum")]
    parts = [ROBOTS, range_table(rows), CURVES, folded("All trainings", other_table(rows)), processors(rows)]
    return "\n\n".join(part.strip() for part in parts)


def folded(title: str, table: str) -> str:
    """Return a table that the reader unfolds."""
    return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"


def cartpole_section(record: dict[str, Any]) -> str:
    """Return a row for each training until the cart-pole swings up."""
    lines = ["| method | seed | steps | seconds | return |", "|---|---|---|---|---|"]
    for row in record["rows"]:
        total = "no episode has ended" if row["return"] is None else f"{row['return']:.0f}"
        total += "" if row["reached"] else ", not reached"
        lines.append(f"| {row['method'].upper()} | {row['seed']} | {row['steps']} | {row['seconds']:.0f} | {total} |")
    return f"{CARTPOLE}\n" + "\n".join(lines)


def pendulum_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each number of links."""
    lines = [
        "| links | most possible | policy enhancement (paper) | MBPO (paper) | here, for each seed | steps | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for links, (enhanced, mbpo) in PAPER.items():
        found = [row for row in of_pendulum(rows, links) if row.get("substeps", 8) == 8]
        if found:
            cells = [", ".join(figure(row[name]) for row in found) for name in ("return", "steps", "seconds")]
            lines.append(f"| {links} | {links**2 / 2:g} | {enhanced} | {mbpo} | {' | '.join(cells)} |")
    return "\n".join(lines)


def substep_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each number of links and of steps for an action, of trainings replayed with smaller steps."""
    lines = [
        "| links | steps for an action | greatest in training, for each seed | return | with a quarter of the step "
        "| miss [m] | miss with a quarter of the step [m] |",
        "|---|---|---|---|---|---|---|",
    ]
    for links in PAPER:
        for substeps in (1, 8):
            found = [
                row
                for row in of_pendulum(rows, links)
                if "return_with_quarter_steps" in row and row["substeps"] == substeps
            ]
            if not found:
                continue
            returns = [[row[name] for row in found] for name in ("return", "return_with_quarter_steps")]
            misses = [[(max(0.5 * links**2 - value, 0.0) / 2.0) ** 0.5 for value in each] for each in returns]
            greatest = [row["greatest"] for row in found]
            cells = [", ".join(map(figure, each)) for each in (greatest, *returns)]
            cells += [", ".join(f"{value:.2f}" for value in each) for each in misses]
            lines.append(f"| {links} | {substeps} | {' | '.join(cells)} |")
    return "\n".join(lines)


def of_pendulum(rows: Sequence[dict[str, Any]], links: int) -> list[dict[str, Any]]:
    """Return the trainings of a pendulum by the gradient of whole episodes."""
    return [row for row in rows if (row["task"], row["method"]) == (f"Pendulum-{links}", "apg")]


def enhanced_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each training by soft actor-critic."""
    lines = ["| links | policy's gradient | seed | steps | seconds | return |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row["method"] in GRADIENTS:
            kind, links = GRADIENTS[row["method"]], row["task"].removeprefix("Pendulum-")
            cells = f"{row['seed']} | {row['steps']} | {row['seconds']:.0f} | {figure(row['return'])}"
            lines.append(f"| {links} | {kind} | {cells} |")
    return "\n".join(lines)


def mean_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each number of links: mean returns of all seeds, by soft actor-critic."""
    lines = [f"| links | best return | {' | '.join(GRADIENTS.values())} |", f"|---|---|{'---|' * len(GRADIENTS)}"]
    for links in PAPER:
        cells = []
        for kind in GRADIENTS:
            found = [row["return"] for row in rows if (row["task"], row["method"]) == (f"Pendulum-{links}", kind)]
            cells.append(f"{sum(found) / len(found):.2f}" if found else "-")
        if set(cells) != {"-"}:
            lines.append(f"| {links} | {links**2 / 2:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def range_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each task and method: smallest and largest values of all seeds."""
    lines = [
        "| task | method | seeds | seconds | return | speed [m/s] | length in MuJoCo | speed in MuJoCo [m/s] |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, name in dict.fromkeys((row["task"], method(row)) for row in rows):
        found = [row for row in rows if (row["task"], method(row)) == (task, name)]
        here, there = ([row[engine] for row in found if engine in row] for engine in ("here", "mujoco"))
        cells = [
            span([row[key] for row in found], written)
            for key, written in (("seconds", "{:.0f}".format), ("return", figure))
        ]
        cells += [span([each["speed"] for each in here], "{:.2f}".format)]
        cells += [span([each["length"] for each in there], "{:.0f}".format)]
        cells += [span([each["speed"] for each in there], "{:.2f}".format)]
        lines.append(f"| {task} | {name} | {len(found)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def span(values: Sequence[float], written: Callable[[float], str]) -> str:
    """Return the smallest and the largest value; a dash if there are none."""
    if not values:
        return "-"
    least, most = written(min(values)), written(max(values))
    return least if least == most else f"{least} to {most}"


def other_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each training."""
    lines = [
        "| task | method | seed | steps | seconds | return | length | speed | in MuJoCo: return, length, speed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        upright = f", {row['upright']:.0%} upright at the end" if "upright" in row else ""
        speed = f"{row['here']['speed']:.2f} m/s" if "here" in row else "-"
        theirs = "-"
        if "mujoco" in row:
            found = row["mujoco"]
            theirs = f"{figure(found['return'])}, {figure(found['length'])}, {found['speed']:.2f} m/s"
        spread = f"{figure(row['return'])} ± {figure(row['deviation'])}{upright}"
        first = f"{row['task']} | {method(row)} | {row['seed']} | {row['steps']} | {row['seconds']:.0f}"
        lines.append(f"| {first} | {spread} | {figure(row['length'])} | {speed} | {theirs} |")
    return "\n".join(lines)


def method(row: dict[str, Any]) -> str:
    """Return the name of a training, with its contact law unless that is the hard one, and a pendulum's single step."""
    name = NAMES.get(row["method"], row["method"].upper())
    if row.get("substeps") == 1:
        return f"{name}, one step for an action"
    return f"{name}, MuJoCo's law" if row.get("law") == "mujoco" else name


def processors(rows: Sequence[dict[str, Any]]) -> str:
    """Return the processors of the trainings; a table to unfold if they differ."""
    names = sorted({row["processor"] for row in rows})
    if len(names) == 1:
        return f"All on {names[0]}."
    seeds: dict[str, dict[str, list[str]]] = {}  # by title and processor
    for row in rows:
        of_title = seeds.setdefault(f"{row['task']} ({method(row)})", {})
        of_title.setdefault(row["processor"], []).append(str(row["seed"]))
    lines = [f"| training | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for title, found in seeds.items():
        cells = [", ".join(sorted(found.get(name, []))) for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return folded("Seeds by processor, whose speeds differ", "\n".join(lines))


def times(records: Sequence[dict[str, Any]]) -> str:
    """Return times of a step of the environments, compared with gymnasium and MuJoCo."""
    lines = [
        "| task | forward [µs] | of it kernels, PyTorch, Python | with gradient | gymnasium's step "
        "| MuJoCo's steps in it | MJX: forward, with gradient |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        if "mujoco_us" not in record:
            continue
        names = ("forward_us", "kernels_us", "torch_us", "gradient_us", "gymnasium_us", "mujoco_us")
        forward, kernels, own, gradient, gymnasium, mujoco = (record[name] for name in names)
        shares = ", ".join(f"{part / forward:.0%}" for part in (kernels, own, forward - kernels - own))
        mjx = f"{record['mjx_us']:.0f}, {record['mjx_gradient_us']:.0f}" if "mjx_us" in record else "-"
        cells = (f"{forward:.0f}", shares, f"{gradient:.0f}", f"{gymnasium:.0f}", f"{mujoco:.0f}", mjx)
        lines.append(f"| {record['task']} | {' | '.join(cells)} |")
    machine = records[0]["machine"]
    versions = "".join(f" {record['mjx']}." for record in records if "mjx" in record)
    lines += ["", f"On one core of {machine['processor']}, load average {machine['load']} beforehand.{versions}"]
    return "\n".join(lines)


def single_step(records: Sequence[dict[str, Any]]) -> str:
    """Return the time of a call for one world with one link."""
    (record,) = (each for each in records if each["task"] == "one link")
    return f"{record['forward_us']:.0f} µs, {record['gradient_us']:.0f} with a loss and its gradient"


def arm_times(records: Sequence[dict[str, Any]]) -> str:
    """Return the parts of the time of a step of PandaReach."""
    (record,) = (each for each in records if each["task"] == "PandaReach")
    whole, law, kernels = (record[name] for name in ("forward_us", "control_us", "kernels_us"))
    return (
        f"{whole:.0f} µs in {record['envs']} environments, of which {law / whole:.0%} go to the control and "
        f"{kernels / whole:.0%} to the simulator's kernels; {record['gradient_us']:.0f} µs with gradient"
    )


def solver_times(records: Sequence[dict[str, Any]]) -> str:
    """Return times of a step of Ant with each solver."""
    lines = ["| solver | forward [µs] | with gradient [µs] |", "|---|---|---|"]
    lines += [
        f"| {record['solver']} | {record['forward_us']:.0f} | {record['gradient_us']:.0f} |"
        for record in records
        if "solver" in record
    ]
    return "\n".join(lines)


def figure(value: float) -> str:
    """Format with four digits, whole numbers from a thousand on."""
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"
