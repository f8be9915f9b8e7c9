"""Trains a policy by analytic policy gradients: the gradient of whole episodes, without a critic.

Every iteration plays all environments from the start of their episodes to the end (:class:`sim.learn.Apg`). That suits
short episodes; examples.rl.shac is for long ones. The pendulums are those of Qiao et al. (ICML 2021, table 4), whose
return is at most n² / 2 for n links.

    python -m examples.rl.apg Pendulum-1
    python -m examples.rl.apg Pendulum-3 --minutes 10
    python -m examples.rl.apg Pendulum-3 --substeps 1      # the paper's time step

Files: curve.png, the mean return over the environment steps; training.npz with these figures; policy.pt, the
network with its options; policy.gif, an animation of the policy.
"""

import math

from examples.options import command, parse_example
from examples.rl.training import run_training, training_parser


@command
def main() -> None:
    """Train a policy and write the results."""
    parser = training_parser(__doc__, task="Pendulum-1", out="out/apg", iterations=300)
    parser.add_argument("--envs", type=int, default=16, help="environments in each process (16)")
    parser.add_argument("--rate", type=float, default=2e-3, help="maximum learning rate (0.002)")
    parser.add_argument("--deviation", type=float, default=0.1, help="initial standard deviation of actions (0.1)")
    parser.add_argument("--noise", type=float, default=0.0, help="of the first state of a pendulum [rad, rad/s] (0)")
    parser.add_argument("--substeps", type=int, default=8, help="steps of the simulation for each action (8)")
    parser.add_argument("--adjoint-clip", type=float, default=math.inf, help="see examples.rl.shac (no limit)")
    positive = ("iterations", "minutes", "envs", "rate", "deviation", "substeps", "adjoint_clip")
    options = parse_example(parser, counts=("noise",), finite=("rate", "deviation", "noise"), positive=positive)
    chosen = {name: getattr(options, name) for name in ("envs", "rate", "deviation", "adjoint_clip")}
    run_training(options, "apg", {"noise": options.noise, "substeps": options.substeps}, **chosen)


if __name__ == "__main__":
    main()
