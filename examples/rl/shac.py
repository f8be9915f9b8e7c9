"""Trains a policy by short-horizon actor-critic, with gradients through the simulator (:class:`sim.learn.Shac`).

All environments take some steps. The gradient of the rewards, and of the value that a critic predicts after them, is
propagated through the simulator to the policy (Xu et al., ICLR 2022).

    python -m examples.rl.shac CartpoleSwingup
    python -m examples.rl.shac Ant --minutes 10
    torchrun --nproc-per-node 2 -m examples.rl.shac Ant      # several processes, see sim.learn.processes

Files: curve.png, the return of episodes over the environment steps; training.npz with these figures; policy.pt, the
network with its options, for `python -m examples.rl.transfer`; policy.gif, an animation of the policy.
"""

import math
from dataclasses import asdict

from examples.options import command, parse_example
from examples.rl.training import run_training, training_parser
from sim.learn import ALGORITHMS, ShacSettings
from sim.learn.algorithms import WALKING

ABOUT = {
    "envs": "environments in each process",
    "horizon": "steps with gradient",
    "policy_rate": "initial learning rate of the policy",
    "deviation": "initial standard deviation of actions, before they are bounded",
    "adjoint_clip": "maximum norm of the gradient propagated from a step of an environment to the previous one",
}


@command
def main() -> None:
    """Train a policy and write the results."""
    defaults = {**asdict(ShacSettings()), "envs": ALGORITHMS["shac"].envs, "adjoint_clip": math.inf}
    parser = training_parser(__doc__, task="CartpoleSwingup", out="out/shac", iterations=300)
    for name, text in ABOUT.items():
        shown = f"{text} ({defaults[name]:g}; for robots that walk {WALKING.get(name, defaults[name]):g})"
        kind = int if name in ("envs", "horizon") else float
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=None, help=shown)
    options = parse_example(parser, finite=("policy_rate", "deviation"), positive=("iterations", "minutes", *ABOUT))
    chosen = {name: value for name in ABOUT if (value := getattr(options, name)) is not None}
    run_training(options, "shac", {}, **chosen)


if __name__ == "__main__":
    main()
