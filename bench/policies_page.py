"""The records of ``bench.policies`` and ``bench.learning`` as text for the pages of results and of learning."""

from collections.abc import Sequence
from typing import Any

# Table 4 of Qiao et al.: greatest return in training, mean and standard deviation of 10 trainings.
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
Policies that lift a pendulum of n links (the paper's table 4; the return is n² / 2 - 2 d², d from the tip to its
highest point at the end). The paper's figures are the greatest returns during training, with one step of the simulation
for each action. Those here are returns without randomness of the policy that is kept, with eight steps for each action:
with one, the best motions of three links and more live on the error of the step. The method is the gradient of whole
episodes (`examples/rl/apg.py`), which uses more of the simulator's derivatives than the paper's policy enhancement.
Seconds, here and below, are those of the processor with one thread.
"""
SUBSTEPS = """\
How much of a return is owed to the size of the step: the same policies, which see the state after each action, played
with a quarter of the step that they were trained with. With one step for each action, as in the paper, all are trained
to the best return, and from two links on none holds it: they use the energy that the error of the step brings. With
eight, little is lost up to four links. Seven links with one step for each action go to infinity in many an early
episode, which is then left out of the gradient. The miss is the distance from the tip to its highest point at the end.
The greatest returns in training are means of 16 episodes with random actions.
"""
ENHANCED = """\
Policy enhancement itself (`examples/rl/sac.py`): soft actor-critic without gradients through the simulator; with the
derivatives of each step stored beside it, as in the paper; and with the policy's own actions simulated. Each trains for
the same time on one core, of which the derivatives take their part, so that the enhanced policies have seen fewer
steps. Seeds are five up to three links, one with four. By steps derivatives help: after 43,000 with two links, mean
returns in training have been at most -0.4 to 0.6 without them, 0.4 to 1.7 with stored ones, 0.3 to 1.9 with stored ones
that are weighted by equation 16, so that they count for actions near their own, and 0.4 to 1.3 with simulated actions
(of the seeds whose curves were kept). By time they don't. With one link all come within a tenth of the best return,
0.5. With two, weighted derivatives come nearest to 2, with 1.95 on average; but half of the others ran on slower
processors. Without derivatives it is 1.88, with stored ones 1.85, and with simulated actions, which take the most time,
1.39. With three, whose best return is 4.5, it is 3.97 without derivatives, 2.77 with stored ones, 2.53 with weighted
ones and 3.24 with simulated actions; each of these has seeds above 4.1 and seeds below 2.5. With four, whose best
return is 8, single seeds come to 7.64, 2.20, 5.81 and 4.45, in the same order.
"""
OTHERS = """\
Cart-pole and gymnasium's robots by short-horizon actor-critic (SHAC, `examples/rl/shac.py`) and, in the same
environments and with one core each, by PPO and SAC of Stable-Baselines3. Returns are without randomness, here and, for
the robots, of the same policy in MuJoCo. Gradients through contact help HalfCheetah most: all five run at 5.9 to 7.1
m/s after less than three minutes of training, four of PPO's at 4.9 after five. The five hoppers that gradients taught
all hop within 100 s, and one forgets it at the end; of PPO's three hop within 250 s. Cart-poles it brings about as far
and ants farther, with the many steps that it takes meanwhile. How many these are depends on the machine, which other
programs shared. SAC, with an update for each step, has seen too few of them.

What was trained on hard contacts often doesn't carry over to MuJoCo's soft ones. There ants fall after some 100 steps,
and HalfCheetahs that gradients taught hardly move, those of PPO at 0.4 to 3.2 m/s. Three of the five hoppers that
gradients taught hop on. What was trained under MuJoCo's law (`law="mujoco"`, by Euler's method) carries over. All five
hoppers that gradients taught in 100 to 160 seconds hop through the 1000 steps of the real Hopper-v5, by its RK4, as far
as here; those of PPO, after 300 seconds, fall after 350 to 730. All five ants by PPO run in the real Ant-v5, at 1.9 to
3.3 m/s. For gradients, Ant is harder on soft contacts than on hard ones: no ant by SHAC walks far there. HalfCheetah
comes about as far by either, but for one by PPO, which found how to run at 6 m/s.
"""
CURVES = """\
Returns on the way there, of hoppers and HalfCheetahs on hard contacts, with the random actions of each method's
training, five of each. All episodes of HalfCheetah end at the same time, so that its curves have steps:

![Returns of hoppers and HalfCheetahs over the seconds of their trainings by SHAC, PPO and SAC](policies.png)
"""
CARTPOLE = """\
Until the mean return of the last episodes, with the random actions of the training, reaches -550. Gradients through the
simulator and PPO learn from 64 environments, SAC with an update for each step of its 8. A training that doesn't get
there is listed with what it has when its time is over.
"""


def section(record: dict[str, Any]) -> str:
    """All trainings, the pendulums beside the paper's."""
    rows = record["rows"]
    enhanced = [ENHANCED.strip(), enhanced_table(rows)]
    others = [OTHERS.strip(), other_table(rows), CURVES.strip(), processors(rows)]
    pendulums = [PENDULUMS.strip(), pendulum_table(rows), SUBSTEPS.strip(), substep_table(rows)]
    return "\n\n".join([*pendulums, *enhanced, *others])


def cartpole_section(record: dict[str, Any]) -> str:
    """A line for each training until the cart-pole swings up."""
    lines = ["| method | seed | steps | seconds | return |", "|---|---|---|---|---|"]
    for row in record["rows"]:
        total = "no episode has ended" if row["return"] is None else f"{row['return']:.0f}"
        total += "" if row["reached"] else ", not reached"
        lines.append(f"| {row['method'].upper()} | {row['seed']} | {row['steps']} | {row['seconds']:.0f} | {total} |")
    return f"{CARTPOLE}\n" + "\n".join(lines)


def pendulum_table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each number of links."""
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
    """A line for each number of links and of steps for an action, of trainings that were played with smaller steps."""
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
    """The trainings of a pendulum by the gradient of whole episodes."""
    return [row for row in rows if (row["task"], row["method"]) == (f"Pendulum-{links}", "apg")]


def enhanced_table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each training by soft actor-critic."""
    lines = ["| links | policy's gradient | seed | steps | seconds | return |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row["method"] in GRADIENTS:
            kind, links = GRADIENTS[row["method"]], row["task"].removeprefix("Pendulum-")
            cells = f"{row['seed']} | {row['steps']} | {row['seconds']:.0f} | {figure(row['return'])}"
            lines.append(f"| {links} | {kind} | {cells} |")
    return "\n".join(lines)


def other_table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each training."""
    lines = [
        "| task | method | seed | steps | seconds | return | length | speed | in MuJoCo: return, length, speed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["task"].startswith("Pendulum"):
            continue
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
    """What a training is called, with its law of contact unless that is the hard one, and a pendulum's single step."""
    name = NAMES.get(row["method"], row["method"].upper())
    if row.get("substeps") == 1:
        return f"{name}, one step for an action"
    return f"{name}, MuJoCo's law" if row.get("law") == "mujoco" else name


def processors(rows: Sequence[dict[str, Any]]) -> str:
    """Which processor the trainings ran on; a table to unfold, where it wasn't always the same."""
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
    return "\n".join(
        ["<details><summary>Seeds by processor, whose speeds differ</summary>", "", *lines, "", "</details>"]
    )


def times(records: Sequence[dict[str, Any]]) -> str:
    """Times of a step of the environments, beside gymnasium's and MuJoCo's."""
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
    """What a call for one world with one link takes."""
    (record,) = (each for each in records if each["task"] == "one link")
    return f"{record['forward_us']:.0f} µs, {record['gradient_us']:.0f} with a loss and its gradient"


def arm_times(records: Sequence[dict[str, Any]]) -> str:
    """What a step of PandaReach is made of."""
    (record,) = (each for each in records if each["task"] == "PandaReach")
    whole, law, kernels = (record[name] for name in ("forward_us", "control_us", "kernels_us"))
    return (
        f"{whole:.0f} µs in {record['envs']} environments, of which {law / whole:.0%} go to the control and "
        f"{kernels / whole:.0%} to the simulator's kernels; {record['gradient_us']:.0f} µs with gradient"
    )


def solver_times(records: Sequence[dict[str, Any]]) -> str:
    """Times of a step of Ant with each solver."""
    lines = ["| solver | forward [µs] | with gradient [µs] |", "|---|---|---|"]
    lines += [
        f"| {record['solver']} | {record['forward_us']:.0f} | {record['gradient_us']:.0f} |"
        for record in records
        if "solver" in record
    ]
    return "\n".join(lines)


def figure(value: float) -> str:
    """Four digits, whole numbers from a thousand on."""
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"
