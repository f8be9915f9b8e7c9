"""Proximal policy optimisation, without gradients through the simulator.

The algorithm is that of Schulman et al., *Proximal Policy Optimization Algorithms* (2017), with advantages by TD(λ)
(Schulman et al., 2016) and a learning rate that follows the divergence of old and new policy, as rsl_rl has it (Rudin
et al., 2022). Values are learnt in units of the returns' mean and deviation, so that rewards need no scaling. Steps at
an episode's time limit are bootstrapped, unless the task's time is final.
"""

from dataclasses import dataclass
from typing import Any

import torch

from sim.envs import VectorEnv
from sim.learn import processes
from sim.learn.learner import ActorCriticSettings, Learner, group, seeded
from sim.learn.networks import Normaliser, Policy, Value
from sim.learn.shac import lambda_returns

LOWEST_RATE, HIGHEST_RATE = 1e-5, 1e-2  # of the policy
Rows = dict[str, torch.Tensor]


@dataclass(frozen=True)
class PpoSettings(ActorCriticSettings):
    """Settings of :class:`Ppo`: those of :class:`ActorCriticSettings`, and more.

    The policy's learning rate follows its change, that of the critic stays.

    Attributes:
        clip: the ratio of new and old probability of an action has no effect beyond 1 ± clip.
        divergence: Kullback-Leibler divergence of old and new policy that the learning rate aims at.
        epochs: passes over the steps of an iteration.
        batches: batches of a pass.
        entropy: weight of the policy's entropy.

    Example:
        >>> import sim.learn
        >>> settings = sim.learn.PpoSettings(horizon=64)
        >>> settings.horizon, settings.clip
        (64, 0.2)
    """

    clip: float = 0.2
    divergence: float = 0.01
    epochs: int = 5
    batches: int = 4
    entropy: float = 0.0


class Ppo(Learner):
    """Proximal policy optimisation.

    Args:
        env: environments that reset episodes within a step.
        settings: settings of the algorithm.
        iterations: number of iterations; the learning rate follows the policy's change instead.
        seed: seed of networks and random numbers.

    Example:
        >>> import sim.learn
        >>> env = sim.envs.make("CartpoleSwingup", num_envs=4, device="cpu")
        >>> learner = sim.learn.Ppo(env, sim.learn.PpoSettings(horizon=8), iterations=1)
        >>> sorted(learner.iterate())
        ['deviation', 'divergence', 'length', 'policy_rate', 'return', 'value_loss']
    """

    def __init__(self, env: VectorEnv, settings: PpoSettings, iterations: float, seed: int = 0):
        super().__init__(env, iterations, seed)
        self.settings = settings
        bounds = (env.action_low, env.action_high)
        with seeded(seed):
            policy = Policy(env.num_observations, *bounds, settings.hidden, settings.deviation)
            value = Value(group(self.observation, "critic").shape[1], settings.value_hidden)
        self.policy, self.value = policy.to(env.device, env.dtype), value.to(env.device, env.dtype)
        self.returns = Normaliser(1).to(env.device, env.dtype)
        rates = (settings.policy_rate, settings.value_rate)
        self.policy_optimiser, self.value_optimiser = (
            torch.optim.Adam(network.parameters(), lr=rate, fused=True)
            for network, rate in zip((self.policy, self.value), rates, strict=True)
        )

    @property
    def horizon(self) -> int:
        """Steps of each environment in an iteration."""
        return self.settings.horizon

    def parts(self) -> dict[str, Any]:
        """Return networks and optimisers."""
        names = ("policy", "value", "returns", "policy_optimiser", "value_optimiser")
        return {name: getattr(self, name) for name in names}

    def iterate(self) -> dict[str, float]:
        """Run one iteration: act for a horizon, and learn from its steps.

        Returns:
            the mean return and length of the last ``num_envs`` episodes (NaN before the first has ended), the
            divergence of old and new policy, the policy's learning rate and deviation, and the critic's loss.
        """
        rows = self._play()
        self._add_targets(rows)
        flat = {name: value.flatten(0, 1) for name, value in rows.items()}
        figures = self._learn(flat)
        self.policy.normaliser.update(processes.of_all_processes(flat["observation"]))
        self.value.normaliser.update(processes.of_all_processes(flat["seen"]))
        self.iteration += 1
        return {**self.episode_figures(), **figures}

    @torch.no_grad()
    def _play(self) -> Rows:
        """Act for a horizon; return observations, values before they are bounded and their means, rewards and ends
        [horizon, num_envs, ...].
        """
        steps: list[Rows] = []
        for _ in range(self.settings.horizon):
            before, seen = group(self.observation, "policy"), group(self.observation, "critic")
            value, mean = self.policy.sample_unbounded(before, self.generator)
            found = self.step(self.policy.bounded(value))
            rows = {"observation": before, "seen": seen, "value": value, "mean": mean, "reward": found.reward}
            steps.append({**rows, "after": group(found.after, "critic"), "final": found.final, "ended": found.ended})
        return {name: torch.stack([step[name] for step in steps]) for name in steps[0]}

    @torch.no_grad()
    def _add_targets(self, rows: Rows) -> None:
        """Add the critic's targets in units of the returns, and the advantages of the actions."""
        discount, trace = self.settings.discount, self.settings.trace
        expected = self._worth(rows["after"]).masked_fill(rows["final"], 0.0)
        targets = lambda_returns(rows["reward"], expected, rows["ended"], discount, trace)
        advantage = targets - self._worth(rows["seen"])
        self.returns.update(processes.of_all_processes(targets.flatten()[:, None]))
        rows["target"] = (targets - self.returns.mean) / self._unit
        rows["advantage"] = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)

    @property
    def _unit(self) -> torch.Tensor:
        return self.returns.variance.clamp(min=1e-8).sqrt()

    def _worth(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the expected return from the critic's observations on [...]."""
        return self.returns.mean[0] + self._unit[0] * self.value(seen)

    def _learn(self, rows: Rows) -> dict[str, float]:
        """Improve policy and critic by the steps of an iteration [n, ...]."""
        settings, count = self.settings, len(rows["value"])
        observations = self.policy.normaliser(rows["observation"])
        seen = self.value.normaliser(rows["seen"])
        old = self.policy.log_deviation.detach().clone()
        before = normal_log_density(rows["value"], rows["mean"], old)
        divergences, losses = [], []
        for _ in range(settings.epochs):
            order = torch.randperm(count, generator=self.generator, device=observations.device)
            for chosen in order.split(-(-count // settings.batches)):
                mean, deviation = self.policy.mean(observations[chosen]), self.policy.log_deviation
                with torch.no_grad():
                    divergence = normal_divergence(rows["mean"][chosen], old, mean, deviation).mean()
                divergences.append(processes.mean_over_processes(float(divergence)))
                self._follow(divergences[-1])
                ratio = (normal_log_density(rows["value"][chosen], mean, deviation) - before[chosen]).exp()
                clipped = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
                advantage = rows["advantage"][chosen]
                gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
                self._descend("policy", -gain - settings.entropy * deviation.sum())
                loss = (self.value.network(seen[chosen]).squeeze(-1) - rows["target"][chosen]).square().mean()
                self._descend("value", loss)
                losses.append(float(loss.detach()))
        return {
            "divergence": sum(divergences) / len(divergences),
            "value_loss": processes.mean_over_processes(sum(losses) / len(losses)),
            "policy_rate": self.policy_optimiser.param_groups[0]["lr"],
            "deviation": float(self.policy.log_deviation.detach().exp().mean()),
        }

    def _follow(self, divergence: float) -> None:
        """Lower the policy's learning rate if it has changed too much, and raise it if too little."""
        settings, options = self.settings.divergence, self.policy_optimiser.param_groups[0]
        if divergence > 2.0 * settings:
            options["lr"] = max(options["lr"] / 1.5, LOWEST_RATE)
        elif 0.0 < divergence < 0.5 * settings:
            options["lr"] = min(options["lr"] * 1.5, HIGHEST_RATE)

    def _descend(self, name: str, loss: torch.Tensor) -> None:
        """Take one step of an optimiser; a gradient that isn't finite is left out."""
        network, optimiser = getattr(self, name), getattr(self, f"{name}_optimiser")
        optimiser.zero_grad()
        loss.backward()
        processes.average_gradients(network.parameters())
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), self.settings.gradient_norm)
        if norm.isfinite():
            optimiser.step()


def normal_log_density(value: torch.Tensor, mean: torch.Tensor, log_deviation: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of a normal distribution's density, up to a constant [...], for values [..., actions]."""
    return (-0.5 * ((value - mean) / log_deviation.exp()).square() - log_deviation).sum(dim=-1)


def normal_divergence(
    mean: torch.Tensor, log_deviation: torch.Tensor, other: torch.Tensor, other_log_deviation: torch.Tensor
) -> torch.Tensor:
    """Return the Kullback-Leibler divergence of a second normal distribution from a first [...]."""
    ratio = (2.0 * (log_deviation - other_log_deviation)).exp()
    apart = ((mean - other) / other_log_deviation.exp()).square()
    return 0.5 * (ratio + apart - 1.0 + 2.0 * (other_log_deviation - log_deviation)).sum(dim=-1)
