"""Short-horizon actor-critic, with gradients through the simulator.

The algorithm is that of Xu et al., *Accelerated Policy Learning with Parallel Differentiable Simulation* (ICLR 2022).
All environments take some steps. The gradient of the rewards, and of the value that a critic predicts after them, is
propagated through the simulator to the policy. The critic learns from TD(λ) targets, and its target network follows it.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sim.envs import VectorEnv
from sim.learn import processes
from sim.learn.learner import ActorCriticSettings, Learner, Watched, group, seeded
from sim.learn.networks import Policy, Value


@dataclass(frozen=True)
class ShacSettings(ActorCriticSettings):
    """Settings of :class:`Shac`: those of :class:`ActorCriticSettings`, and more.

    Both learning rates fall to a tenth.

    Attributes:
        target_share: fraction of the critic that the target network adopts per iteration.
        value_epochs: passes of the critic over the steps of an iteration.
        value_batches: batches of a pass.

    Example:
        >>> import sim.learn
        >>> settings = sim.learn.ShacSettings(horizon=16)
        >>> settings.horizon, settings.discount
        (16, 0.99)
    """

    policy_rate: float = 2e-3
    value_rate: float = 2e-3
    deviation: float = 0.3
    value_hidden: Sequence[int] = (64, 64)
    target_share: float = 0.8
    value_epochs: int = 16
    value_batches: int = 4


@dataclass
class Experience:
    """Steps of an iteration, without history [horizon, num_envs, ...].

    Attributes:
        observation: the policy's observation before each step.
        seen: the critic's observation before each step.
        reward: reward of each step.
        after: the critic's observation after each step, before any reset.
        final: mask of terminal steps.
        ended: mask of steps at which an episode ended.
    """

    observation: torch.Tensor
    seen: torch.Tensor
    reward: torch.Tensor
    after: torch.Tensor
    final: torch.Tensor
    ended: torch.Tensor


class Shac(Learner):
    """Short-horizon actor-critic.

    Args:
        env: differentiable environments that reset episodes within a step.
        settings: settings of the algorithm.
        iterations: number of iterations over which the learning rates fall.
        seed: seed of networks and random numbers.

    Example:
        >>> import sim.learn
        >>> env = sim.envs.make("CartpoleSwingup", num_envs=4, device="cpu", differentiable=True)
        >>> learner = sim.learn.Shac(env, sim.learn.ShacSettings(horizon=4), iterations=1)
        >>> learner.iterate()["gradient_norm"] > 0.0
        True
    """

    def __init__(self, env: VectorEnv, settings: ShacSettings, iterations: float, seed: int = 0):
        super().__init__(env, iterations, seed)
        self.settings = settings
        bounds = (env.action_low, env.action_high)
        with seeded(seed):
            policy = Policy(env.num_observations, *bounds, settings.hidden, settings.deviation)
            value = Value(group(self.observation, "critic").shape[1], settings.value_hidden)
        self.policy, self.value = policy.to(env.device, env.dtype), value.to(env.device, env.dtype)
        self.target = copy.deepcopy(self.value)
        rates, betas = (settings.policy_rate, settings.value_rate), (0.7, 0.95)
        self.policy_optimiser, self.value_optimiser = (
            torch.optim.Adam(network.parameters(), lr=rate, betas=betas, fused=True)
            for network, rate in zip((self.policy, self.value), rates, strict=True)
        )

    @property
    def horizon(self) -> int:
        """Steps of each environment in an iteration."""
        return self.settings.horizon

    def iterate(self) -> dict[str, float]:
        """Run one iteration: a gradient step of the policy, then the critic's.

        Returns:
            the mean return and length of the last ``num_envs`` episodes (NaN before the first has ended), the norm of
            the policy's gradient before it is clipped, and the figures of :class:`sim.learn.learner.Watched`.
        """
        share = 1.0 - 0.9 * min(self.iteration / max(self.iterations, 1), 1.0)
        for optimiser, rate in (
            (self.policy_optimiser, self.settings.policy_rate), (self.value_optimiser, self.settings.value_rate)
        ):  # fmt: skip
            optimiser.param_groups[0]["lr"] = share * rate
        objective, seen, watched = self._play()
        self.policy_optimiser.zero_grad()
        (-objective / (self.settings.horizon * self.env.num_envs)).backward()
        processes.average_gradients(self.policy.parameters())
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.settings.gradient_norm)
        if norm.isfinite():
            self.policy_optimiser.step()
        self._learn_value(seen)
        self.policy.normaliser.update(processes.of_all_processes(seen.observation))
        self.value.normaliser.update(processes.of_all_processes(seen.seen))
        with torch.no_grad():
            for target, value in zip(self.target.parameters(), self.value.parameters(), strict=True):
                target.lerp_(value, self.settings.target_share)
        self.target.normaliser.load_state_dict(self.value.normaliser.state_dict())
        self.iteration += 1
        return {**self.episode_figures(), "gradient_norm": float(norm), **watched.figures()}

    def parts(self) -> dict[str, Any]:
        """Return networks and optimisers."""
        names = ("policy", "value", "target", "policy_optimiser", "value_optimiser")
        return {name: getattr(self, name) for name in names}

    def _play(self) -> tuple[torch.Tensor, Experience, Watched]:
        """Act for a horizon. Returns the policy's objective, the steps, and the gradients in their actions."""
        settings, envs = self.settings, self.env.num_envs
        self.cut()
        watched = Watched(envs)
        weight = torch.ones(envs, dtype=self.env.dtype, device=self.env.device)
        objective = torch.zeros_like(weight)
        rows: list[tuple[torch.Tensor, ...]] = []
        for number in range(settings.horizon):
            before, seen = group(self.observation, "policy"), group(self.observation, "critic").detach()
            found = self.step(watched.action(self.policy.sample(before, self.generator)))
            objective = objective + weight * found.reward
            weight = weight * settings.discount
            last, after = number == settings.horizon - 1, group(found.after, "critic")
            if last or bool(found.ended.any()):
                expected = self.target(after).masked_fill(found.final, 0.0)
                objective = objective + torch.where(found.ended | last, weight * expected, 0.0)
            weight = torch.where(found.ended, 1.0, weight)
            rows.append((before.detach(), seen, found.reward.detach(), after.detach(), found.final, found.ended))
        experience = Experience(*(torch.stack(parts) for parts in zip(*rows, strict=True)))
        return objective.sum(), experience, watched

    def _learn_value(self, seen: Experience) -> None:
        """Fit the critic to the TD(λ) targets of the steps."""
        with torch.no_grad():
            observations = self.value.normaliser(seen.seen).flatten(0, 1)
            expected = self.target(seen.after).masked_fill(seen.final, 0.0)
            discount, trace = self.settings.discount, self.settings.trace
            targets = lambda_returns(seen.reward, expected, seen.ended, discount, trace).flatten()
        size = -(-len(targets) // self.settings.value_batches)
        for _ in range(self.settings.value_epochs):
            order = torch.randperm(len(targets), generator=self.generator, device=targets.device)
            for rows in order.split(size):
                loss = (self.value.network(observations[rows]).squeeze(-1) - targets[rows]).square().mean()
                self.value_optimiser.zero_grad()
                loss.backward()
                processes.average_gradients(self.value.parameters())
                torch.nn.utils.clip_grad_norm_(self.value.parameters(), self.settings.gradient_norm)
                self.value_optimiser.step()


def lambda_returns(
    reward: torch.Tensor, expected: torch.Tensor, ended: torch.Tensor, discount: float, trace: float
) -> torch.Tensor:
    """Compute TD(λ) targets of the critic [horizon, num_envs].

    Args:
        reward: reward of each step.
        expected: value of the state after each step, zero after terminal steps.
        ended: mask of steps at which an episode ended; the next step belongs to another one.
        discount: discount of rewards per step.
        trace: λ.
    """
    following = expected[-1]
    targets = torch.empty_like(reward)
    for step in reversed(range(len(reward))):
        mixed = (1.0 - trace) * expected[step] + trace * following
        following = reward[step] + discount * torch.where(ended[step], expected[step], mixed)
        targets[step] = following
    return targets
