"""Train a policy on a task: one of sim.envs by its name, or a class of your own in a Python file.

The folder --out gets policy.pt (sim.learn.load_policy), training.npz with the figures of each iteration, and files for
TensorBoard in tensorboard, if it is installed. An interrupted training goes on when the command is repeated.
"""

import argparse
import ast
import importlib.util
import math
from pathlib import Path
from typing import Any

from sim.cli.files import UsageError
from sim.learn import ALGORITHMS, export_policy, load_task, train, write_animation
from sim.learn.policy_files import EXPORTS, check_export

EXAMPLES = """examples:
  backswing train my_task.py:MyTask --algorithm ppo
  backswing train Ant --algorithm shac --minutes 10 --out out/ant
  backswing train CartpoleSwingup --goal -550 --export policy.onnx --film
  backswing train Ant --envs 512 --set horizon=24 --option law=mujoco
  torchrun --nproc-per-node 2 -m sim train Ant
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("task", metavar="TASK", help="FILE.py:CLASS, or a name such as Ant or Pendulum-2")
    about = "ppo (default), sac, or with gradients through the simulator shac or apg"
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="ppo", help=about)
    parser.add_argument("--out", type=Path, default=Path("out/train"), help="folder for the results (out/train)")
    parser.add_argument("--iterations", type=int, default=300, help="maximum number of iterations (300)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="maximum time")
    parser.add_argument("--goal", type=float, default=math.inf, help="stop at this mean return of the last episodes")
    parser.add_argument(
        "--patience", type=float, default=math.inf, metavar="N", help="stop after N iterations without a better return"
    )
    parser.add_argument("--envs", type=int, help="environments in each process (default: of algorithm and task)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers (0)")
    parser.add_argument("--device", help='"cpu" or "cuda:0" (default: chosen by Warp)')
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE",
        help="setting of the algorithm, such as horizon=64; may be repeated, and a wrong name lists all",
    )  # fmt: skip
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="argument of the task's class, such as law=mujoco; may be repeated",
    )  # fmt: skip
    parser.add_argument("--restart", action="store_true", help="start from the beginning, not from an interrupted run")
    parser.add_argument(
        "--export", type=Path, action="append", default=[], metavar="FILE",
        help="also write the policy with its normalisation as TorchScript (.ts) or ONNX (.onnx); may be repeated",
    )  # fmt: skip
    parser.add_argument("--film", action="store_true", help="also write policy.gif, an animation of an episode")


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    for name in ("iterations", "minutes", "patience", "envs"):
        value = getattr(given, name)
        if value is not None and not value > 0:
            raise UsageError(f"--{name} is {value}; it must be positive")
    if math.isnan(given.goal):
        raise UsageError("--goal is nan; it must be a number")
    for file in given.export:
        if file.suffix.lower() not in EXPORTS:
            raise UsageError(f"--export {file}: write TorchScript (.ts) or ONNX (.onnx)")
        if file.parent != given.out:  # the training makes that folder
            check_export(file)
    chosen, options = _values("--set", given.set), _values("--option", given.option)
    if given.envs is not None:
        if "envs" in chosen:
            raise UsageError("--envs and --set envs are the same; remove either")
        chosen["envs"] = given.envs
    training = train(
        given.task, given.algorithm, iterations=given.iterations, minutes=given.minutes, goal=given.goal,
        patience=given.patience, seed=given.seed, device=given.device, folder=given.out, restart=given.restart,
        task_options=options, **chosen,
    )  # fmt: skip
    found = training.evaluation
    if found is None:  # the first process does the rest
        return 0
    print(f"{found}, after {training.steps[-1]} environment steps in {training.seconds[-1]:.0f} s")
    written = [given.out / "policy.pt", given.out / "training.npz", *given.export]
    for file in given.export:
        export_policy(file, training.policy)
    if given.film:
        task = load_task(given.task, **options)
        written.append(given.out / "policy.gif")
        write_animation(written[-1], task.model(), found.q, task.step_dt, device=given.device)
    print(f"wrote {', '.join(map(str, written))}")
    if not importlib.util.find_spec("tensorboard"):
        print("no files for TensorBoard: it isn't installed; pip install 'backswing[learn]'")
    return 0


def _values(option: str, pairs: list[str]) -> dict[str, Any]:
    """Return the values of NAME=VALUE: Python's numbers, tuples and so on, and otherwise texts."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name.isidentifier() and equals):
            raise UsageError(f"{option} {pair}: give NAME=VALUE")
        if name in found:
            raise UsageError(f"{option} {pair}: {name} is given twice; remove either")
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = text
    return found
