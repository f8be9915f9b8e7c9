"""Trains a policy by analytic policy gradients: the gradient of whole episodes, without a critic.

Every iteration plays all environments from the start of their episodes to the end, and takes one step of Adam along
the gradient of the mean return. That suits short episodes; examples.rl.shac is for long ones. The pendulums are those
of Qiao et al. (ICML 2021, table 4), whose return is at most n² / 2 for n links.

    python -m examples.rl.apg Pendulum-1
    python -m examples.rl.apg Pendulum-3 --minutes 10
    python -m examples.rl.apg Pendulum-3 --substeps 1      # the paper's time step

Files: curve.png, the mean return over the environment steps; apg.npz with these figures; policy.pt, the network with
its options; policy.gif, an animation of the policy.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch

from examples import processes
from examples.options import command, make_folder, parse_example
from examples.resume import Progress
from examples.rl.networks import Policy
from examples.rl.training import physics, train, training_parser, write_training
from sim.envs import VectorEnv, make
from sim.errors import ModelError

HIDDEN = (128, 128)
NORM = 1.0  # maximum norm of the policy's gradient
WARM_UP = 50  # iterations in which the learning rate rises


class AnalyticPolicyGradient:
    """Gradient ascent on the return of whole episodes.

    Args:
        env: a differentiable environment, all of whose episodes have the same length.
        iterations: number of iterations over which the learning rate falls to zero.
        rate: maximum learning rate.
        deviation: standard deviation of the noise in the actions, before they are bounded; it falls with the learning
            rate.
        seed: seed of the network and of random numbers.

    Attributes:
        best: the policy of the best iteration.
    """

    def __init__(self, env: VectorEnv, iterations: int, rate: float, deviation: float, seed: int = 0):
        self.env, self.iterations, self.rate, self.deviation = env, iterations, rate, deviation
        torch.manual_seed(seed)
        self.policy = Policy(env.num_observations, env.action_low, env.action_high, HIDDEN, deviation).to(env.device)
        self.policy.log_deviation.requires_grad_(False)
        self.optimiser = torch.optim.Adam(self.policy.parameters(), lr=rate, betas=(0.9, 0.95))
        self.seed = seed
        self.generator = torch.Generator(env.device).manual_seed(processes.own_seed(seed) + 1)
        self.iteration = 0
        self.best, self.best_return = copy.deepcopy(self.policy), -math.inf
        env.reset(seed=processes.own_seed(seed))

    def iterate(self) -> dict[str, float]:
        """Run one iteration.

        Lost episodes, whose states diverge, as those of long pendulums with large steps may, add nothing to the
        gradient, and their observations are ignored. An iteration with one doesn't count as the best.

        Returns:
            The mean return of the episodes that weren't lost, the norm of the gradient, and the fraction of lost ones.
        """
        progress = self.iteration / max(self.iterations, 1)
        share = 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0))) * min((self.iteration + 1) / WARM_UP, 1.0)
        self.optimiser.param_groups[0]["lr"] = share * self.rate
        self.policy.log_deviation.fill_(math.log(max(share, 1e-3) * self.deviation))
        before = copy.deepcopy(self.policy.state_dict())
        returns, lost, observations = self._play()
        self.optimiser.zero_grad()
        (-returns.mean()).backward()
        processes.average_gradients(self.policy)
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), NORM)
        mean_lost = processes.mean_over_processes(float(lost.double().mean()))
        total = processes.mean_over_processes(float(returns.detach().mean()))
        mean = total / (1.0 - mean_lost) if mean_lost < 1.0 else math.nan
        if mean_lost == 0.0 and mean > self.best_return:
            self.best.load_state_dict(before)
            self.best_return = mean
        if norm.isfinite():
            self.optimiser.step()
        if mean_lost == 0.0:
            self.policy.normaliser.update(processes.of_all_processes(observations))
        self.iteration += 1
        return {"return": mean, "gradient_norm": float(norm), "lost": mean_lost}

    def _play(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Play whole episodes; return their returns [num_envs] (0 if lost), the mask of lost ones, and the
        observations.
        """
        observation, _ = self.env.reset()
        total = torch.zeros(self.env.num_envs, dtype=self.env.dtype, device=self.env.device)
        lost = torch.zeros_like(total, dtype=torch.bool)
        seen = []
        for step in range(1, self.env.max_episode_length + 1):
            seen.append(observation.detach())
            observation, reward, terminated, truncated, info = self.env.step(
                self.policy.sample(observation, self.generator)
            )
            total = total + reward
            lost = lost | info["not_finite"]
            early = terminated | (truncated & (step < self.env.max_episode_length))
            if bool((early & ~lost).any()):
                raise ModelError(f"an episode ended after {step} steps; apg needs episodes of one length: use shac")
        return total.masked_fill(lost, 0.0), lost, torch.stack(seen)

    def state(self) -> dict[str, Any]:
        """Return everything that determines the further training."""
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        random, env = self.generator.get_state(), self.env.get_state()
        return {**parts, "random": random, "env": env, "iteration": self.iteration, "best_return": self.best_return}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`state`."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.iteration, self.best_return = state["iteration"], state["best_return"]
        if processes.number() == 0:
            self.generator.set_state(state["random"])
            self.env.set_state(state["env"])
        else:  # the state is that of the first process
            self.env.reset(seed=processes.own_seed(self.seed) + self.iteration)

    def _parts(self) -> dict[str, Any]:
        return {"policy": self.policy, "optimiser": self.optimiser, "best": self.best}


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
    make_folder(options.out)
    options.device = processes.join(options.device)
    file = options.out / "interrupted.npz" if processes.number() == 0 else None
    pendulum = {"noise": options.noise, "substeps": options.substeps} if options.task.startswith("Pendulum") else {}
    task = {**pendulum, **physics(options)}
    names = ("task", "seed", "envs", "iterations", "rate", "deviation", "noise", "substeps", "adjoint_clip")
    problem = {name: getattr(options, name) for name in names} | physics(options)
    with Progress(file, problem, options.restart) as kept:
        env = make(
            options.task, options.envs, device=options.device, differentiable=True, adjoint_clip=options.adjoint_clip,
            threads=processes.threads(), **task,
        )  # fmt: skip
        learner = AnalyticPolicyGradient(env, options.iterations, options.rate, options.deviation, options.seed)
        training = train(learner, options.iterations, 60.0 * options.minutes, env.max_episode_length, kept)
        learner.policy = learner.best
        if processes.number() == 0:
            write_training(options, "apg", learner, training, task)


if __name__ == "__main__":
    main()
