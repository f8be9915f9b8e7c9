"""Trains a policy by soft actor-critic, with the policy's gradient enhanced by the simulator's derivatives on request.

:class:`sim.learn.Sac` has the algorithm (Haarnoja et al., 2018) and both enhancements of Qiao et al. (ICML 2021):
`--enhance` those of the policy's gradient, `--extras` transitions with actions near those that were taken.

    python -m examples.rl.sac Pendulum-1 --enhance simulated
    python -m examples.rl.sac Pendulum-2 --enhance jacobian --minutes 10
    python -m examples.rl.sac Pendulum-1 --extras 9

Files: curve.png, the return of episodes over the environment steps; training.npz with these figures; policy.pt, the
network with its options; policy.gif, an animation of the policy.
"""

from examples.options import command, parse_example
from examples.rl.training import run_training, training_parser
from sim.learn import SacSettings
from sim.learn.sac import ENHANCEMENTS

CHOSEN = ("envs", "enhance", "near", "extras", "first_order", "spread", "updates", "discount")


@command
def main() -> None:
    """Train a policy and write the results."""
    parser = training_parser(__doc__, task="Pendulum-1", out="out/sac", iterations=400)
    spread, updates = SacSettings.spread, SacSettings.updates
    parser.add_argument("--envs", type=int, default=16, help="number of environments (16)")
    parser.add_argument("--enhance", choices=ENHANCEMENTS, default="none", help="the policy's gradient (none)")
    parser.add_argument("--near", action="store_true", help="weigh stored derivatives by exp(-|a - a0|)")
    parser.add_argument("--extras", type=int, default=0, help="transitions added to each, with actions nearby (0)")
    parser.add_argument("--first-order", action="store_true", help="extras by derivatives, not by simulation")
    parser.add_argument("--spread", type=float, default=spread, help=f"of extras' actions ({spread})")
    parser.add_argument("--updates", type=int, default=updates, help=f"after each step ({updates})")
    discount = "of a later reward (1 for pendulums, whose episodes end by their time; otherwise 0.99)"
    parser.add_argument("--discount", type=float, default=None, help=discount)
    parser.add_argument("--substeps", type=int, default=8, help="of a pendulum, for each action (8)")
    positive = ("iterations", "minutes", "envs", "substeps", "spread")
    options = parse_example(parser, counts=("updates", "extras"), finite=("spread",), positive=positive)
    if options.discount is not None and not 0.0 <= options.discount <= 1.0:
        parser.error(f"--discount {options.discount}: the number must lie between 0 and 1")
    chosen = {name: getattr(options, name) for name in CHOSEN}
    run_training(options, "sac", {"substeps": options.substeps}, **chosen)


if __name__ == "__main__":
    main()
