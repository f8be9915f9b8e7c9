"""Analytic policy gradient: the gradient of whole episodes, without a critic.

Every iteration plays all environments from the start of their episodes to the end, and takes one step of Adam along
the gradient of the mean return. That suits short episodes; :mod:`sim.learn.shac` is for long ones.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from sim.envs import VectorEnv
from sim.errors import ModelError
from sim.learn import processes
from sim.learn.learner import Learner, Settings, Watched, group, seeded
from sim.learn.networks import Policy

NORM = 1.0  # maximum norm of the policy's gradient
WARM_UP = 50  # iterations in which the learning rate rises


@dataclass(frozen=True)
class ApgSettings(Settings):
    """Settings of :class:`Apg`.

    Attributes:
        rate: maximum learning rate; it falls to zero.
        deviation: standard deviation of the noise in the actions, before they are bounded; it falls with the learning
            rate.
        hidden: widths of the policy's layers.

    Example:
        >>> import sim.learn
        >>> settings = sim.learn.ApgSettings(rate=1e-3)
        >>> settings.rate, settings.deviation
        (0.001, 0.1)
    """

    rate: float = 2e-3
    deviation: float = 0.1
    hidden: Sequence[int] = (128, 128)


class Apg(Learner):
    """Analytic policy gradient: gradient ascent on the return of whole episodes.

    Args:
        env: differentiable environments, all of whose episodes have the same length.
        settings: settings of the algorithm.
        iterations: number of iterations over which the learning rate falls to zero.
        seed: seed of the network and of random numbers.

    Attributes:
        best: the policy of the best iteration.

    Example:
        >>> import sim.learn
        >>> env = sim.envs.make("Pendulum-1", num_envs=4, device="cpu", differentiable=True, substeps=1)
        >>> learner = sim.learn.Apg(env, sim.learn.ApgSettings(rate=1e-3), iterations=1)
        >>> learner.iterate()["lost"]
        0.0
    """

    numbers: ClassVar[tuple[str, ...]] = (*Learner.numbers, "best_return")

    def __init__(self, env: VectorEnv, settings: ApgSettings, iterations: float, seed: int = 0):
        if math.isinf(env.max_episode_length):
            raise ModelError("Apg plays whole episodes, but the task's max_episode_length is infinite: use shac")
        super().__init__(env, iterations, seed)
        self.settings = settings
        with seeded(seed):
            policy = Policy(env.num_observations, env.action_low, env.action_high, settings.hidden, settings.deviation)
        self.policy = policy.to(env.device, env.dtype)
        self.policy.log_deviation.requires_grad_(False)
        self.optimiser = torch.optim.Adam(self.policy.parameters(), lr=settings.rate, betas=(0.9, 0.95))
        self.best, self.best_return = copy.deepcopy(self.policy), -math.inf

    @property
    def horizon(self) -> int:
        """Steps of each environment in an iteration: a whole episode."""
        return self.env.max_episode_length

    @property
    def result(self) -> Policy:
        """The policy of the best iteration."""
        return self.best

    def iterate(self) -> dict[str, float]:
        """Run one iteration.

        Lost episodes, whose states diverge, as those of long pendulums with large steps may, add nothing to the
        gradient, and their observations are ignored. An iteration with one doesn't count as the best.

        Returns:
            The mean return of the episodes that weren't lost, the norm of the policy's gradient before it is clipped,
            the fraction of lost ones, and the figures of :class:`sim.learn.learner.Watched`.
        """
        progress = self.iteration / max(self.iterations, 1)
        share = 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0))) * min((self.iteration + 1) / WARM_UP, 1.0)
        self.optimiser.param_groups[0]["lr"] = share * self.settings.rate
        self.policy.log_deviation.fill_(math.log(max(share, 1e-3) * self.settings.deviation))
        before = copy.deepcopy(self.policy.state_dict())
        returns, lost, observations, watched = self._play()
        self.optimiser.zero_grad()
        (-returns.mean()).backward()
        processes.average_gradients(self.policy.parameters())
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
        return {"return": mean, "gradient_norm": float(norm), "lost": mean_lost, **watched.figures()}

    def _play(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Watched]:
        """Play whole episodes; return their returns [num_envs] (0 if lost), the mask of lost ones, the observations,
        and the gradients in the actions.
        """
        self.begin()
        watched = Watched(self.env.num_envs)
        total = torch.zeros(self.env.num_envs, dtype=self.env.dtype, device=self.env.device)
        lost = torch.zeros_like(total, dtype=torch.bool)
        seen = []
        for step in range(1, self.env.max_episode_length + 1):
            before = group(self.observation, "policy")
            seen.append(before.detach())
            found = self.step(watched.action(self.policy.sample(before, self.generator)))
            total = total + found.reward
            lost = lost | found.lost
            if bool((found.ended & ~lost).any()) and step < self.env.max_episode_length:
                raise ModelError(f"an episode ended after {step} steps; apg needs episodes of one length: use shac")
        return total.masked_fill(lost, 0.0), lost, torch.stack(seen), watched

    def parts(self) -> dict[str, Any]:
        """Return networks and optimiser."""
        return {"policy": self.policy, "optimiser": self.optimiser, "best": self.best}
