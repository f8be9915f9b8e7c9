"""Soft actor-critic, with the policy's gradient enhanced by the simulator's derivatives on request.

The algorithm is that of Haarnoja et al., *Soft Actor-Critic Algorithms and Applications* (2018), without gradients
through the simulator. Policy enhancement is that of Qiao et al. (ICML 2021, equations 13 and 14): in place of the
critic's slope in the action, the policy follows that of the reward and of the value after the step,

    dr/da + γ ds'/da' dV/ds'.

With ``enhance="jacobian"`` the derivatives of each step are stored with it and reused for the policy's action, which
has changed by then; ``near`` weighs them by exp(-|a - a0|), the distance of both (equation 16). With
``enhance="simulated"`` the policy's own action is simulated from the stored state: one product, and nothing is stored.

Sample enhancement, from the same paper, adds transitions with actions near those that were taken. ``extras=9``
simulates nine of them from the same state; with ``first_order`` they follow from the step's derivatives instead
(:mod:`sim.learn.neighbours`).
"""

import contextlib
import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sim.envs import VectorEnv
from sim.errors import ModelError
from sim.learn import processes
from sim.learn.learner import Learner, Settings, group, seeded
from sim.learn.neighbours import Batch, FirstOrder, Simulated, beside, derivatives, simulate
from sim.learn.networks import Normaliser, Policy, layers
from sim.model.checks import require_choice

ENHANCEMENTS = ("none", "jacobian", "simulated")


@dataclass(frozen=True)
class SacSettings(Settings):
    """Settings of :class:`Sac`.

    Qiao et al. have layers of 256, a rate of 3e-4, batches of 256, 5 updates and an entropy of -0.01.

    Attributes:
        enhance: "none", "jacobian" or "simulated".
        near: reduce the weight of stored derivatives with the distance of the actions.
        extras: number of transitions added to each step of an environment.
        first_order: predict their states by the step's derivatives instead of simulating them.
        spread: maximum distance of their actions from the one taken, relative to half the range of actions.
        steps: steps of each environment in an iteration.
        updates: updates of the networks for each step of all environments.
        batch: transitions per update.
        capacity: capacity of the replay buffer, in transitions.
        random_steps: number of initial transitions with random actions.
        discount: discount of rewards per step. Default: 0.99, and 1 for tasks whose time is final.
        rate: learning rate.
        target_share: fraction of the critics that their targets adopt per update.
        entropy: target entropy of the policy, for each action.
        hidden: widths of the networks' layers.

    Example:
        >>> import sim.learn
        >>> settings = sim.learn.SacSettings(extras=9)
        >>> settings.extras, settings.enhance
        (9, 'none')
    """

    enhance: str = "none"
    near: bool = False
    extras: int = 0
    first_order: bool = False
    spread: float = 0.1
    steps: int = 25
    updates: int = 8
    batch: int = 128
    capacity: int = 200_000
    random_steps: int = 2000
    discount: float | None = None
    rate: float = 1e-3
    target_share: float = 0.005
    entropy: float = -1.0
    hidden: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("SacSettings: enhance", self.enhance, ENHANCEMENTS)
        if self.random_steps > self.capacity:  # updates would never begin
            raise ModelError(
                f"SacSettings: random_steps is {self.random_steps}; it must be at most the capacity, {self.capacity}"
            )


class Replay:
    """Replay buffer: the last transitions, each a row of every tensor."""

    def __init__(self, capacity: int):
        self.capacity, self.size, self._next = capacity, 0, 0
        self.rows: Batch = {}

    def add(self, rows: Batch) -> None:
        """Add transitions [n, ...], replacing the oldest once the capacity is reached."""
        count = len(next(iter(rows.values())))
        slots = (self._next + torch.arange(count)) % self.capacity
        for name, value in rows.items():
            if name not in self.rows:
                self.rows[name] = value.new_zeros(self.capacity, *value.shape[1:])
            self.rows[name][slots] = value.detach()
        self._next = (self._next + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        """Draw random transitions [count, ...]."""
        slots = torch.randint(self.size, (count,), generator=generator, device=generator.device)
        return {name: value[slots] for name, value in self.rows.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state."""
        rows = {name: value[: self.size].clone() for name, value in self.rows.items()}
        return {"rows": rows, "size": self.size, "next": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`state_dict`."""
        self.rows, self.size = {}, 0
        self._next = 0
        if state["size"]:
            self.add(state["rows"])
        self._next = state["next"]


class Critic(nn.Module):
    """Two estimates of the return from a state and an action; the lower one counts."""

    def __init__(self, observations: int, actions: int, hidden: tuple[int, ...]):
        super().__init__()
        self.both = nn.ModuleList(layers((observations + actions, *hidden, 1)) for _ in range(2))

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Return both estimates [2, n] for normalised observations and actions between -1 and 1."""
        given = torch.cat([observation, action], dim=-1)
        return torch.stack([each(given).squeeze(-1) for each in self.both])


class Sac(Learner):
    """Soft actor-critic.

    Args:
        env: the environments.
        settings: settings of the algorithm.
        iterations: number of iterations; the learning rate stays the same.
        seed: seed of networks and random numbers.

    Raises:
        ModelError: if stored states can't be simulated again, for settings that need it; and for enhancements and
            extras with critics that have observations of their own.

    Example:
        >>> import sim.learn
        >>> env = sim.envs.make("CartpoleSwingup", num_envs=4, device="cpu", differentiable=False)
        >>> learner = sim.learn.Sac(env, sim.learn.SacSettings(steps=4), iterations=1)
        >>> sorted(learner.iterate())
        ['deviation', 'length', 'return']
    """

    def __init__(self, env: VectorEnv, settings: SacSettings, iterations: float = math.inf, seed: int = 0):
        super().__init__(env, iterations, seed)
        self.settings = settings
        default = 1.0 if env.task.time_is_final else 0.99
        self.discount = default if settings.discount is None else settings.discount
        bounds = (env.action_low, env.action_high)
        with seeded(seed):
            policy = Policy(env.num_observations, *bounds, settings.hidden, 1.0)
            critic = Critic(group(self.observation, "critic").shape[1], env.num_actions, settings.hidden)
        self.policy, self.critic = policy.to(env.device, env.dtype), critic.to(env.device, env.dtype)
        self.normaliser = self.policy.normaliser  # of the critics' observations
        self.sees_more = "critic" in env.observation_groups
        if self.sees_more:
            self.normaliser = Normaliser(group(self.observation, "critic").shape[1]).to(env.device, env.dtype)
            if settings.enhance != "none" or settings.extras:
                raise ModelError(
                    f"{type(env.task).__name__} has a group of observations for critics, for which SAC has neither "
                    "extras nor enhancements; leave out one of them"
                )
        self.target = copy.deepcopy(self.critic)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(0.1), device=env.device))
        self.temperature = nn.ParameterList([self.log_temperature])
        self.optimisers = {
            name: torch.optim.Adam(getattr(self, name).parameters(), lr=settings.rate, fused=True)
            for name in ("policy", "critic", "temperature")
        }
        self.replay = Replay(settings.capacity)
        self._again = beside(env, settings.batch, True) if settings.enhance == "simulated" else None
        self._neighbours: FirstOrder | Simulated | None = None
        if settings.extras:
            kind, worlds = (FirstOrder, 1) if settings.first_order else (Simulated, settings.extras)
            self._neighbours = kind(beside(env, worlds * env.num_envs, False))
        env.differentiable = settings.enhance == "jacobian"
        self.begin(processes.own_seed(seed))

    @property
    def horizon(self) -> int:
        """Steps of each environment in an iteration."""
        return self.settings.steps

    def iterate(self) -> dict[str, float]:
        """Take some steps of all environments, with updates after each. Returns the mean return and length of the last
        episodes (NaN before the first has ended), and the policy's deviation.
        """
        for _ in range(self.settings.steps):
            self._act()
            if self.replay.size >= self.settings.random_steps:
                for _ in range(self.settings.updates):
                    self._update(self.replay.draw(self.settings.batch, self.generator))
        self.iteration += 1
        return {**self.episode_figures(), "deviation": float(self.policy.log_deviation.detach().exp().mean())}

    def parts(self) -> dict[str, Any]:
        """Return networks, optimisers and the replay buffer."""
        names = ("policy", "critic", "target", "normaliser", "temperature", "replay")
        return {name: getattr(self, name) for name in names} | {
            f"{name} optimiser": optimiser for name, optimiser in self.optimisers.items()
        }

    def _act(self) -> None:
        """Take a step, and store it."""
        env = self.env
        self.cut()
        before, seen, observation = env.state, self.observation, group(self.observation, "policy")
        if self.replay.size < self.settings.random_steps:
            share = torch.rand(env.num_envs, env.num_actions, generator=self.generator, device=env.device)
            action = env.action_low + share * (env.action_high - env.action_low)
        else:
            with torch.no_grad():
                action = self.policy.sample(observation, self.generator)
        action.requires_grad_(env.differentiable)
        found = self.step(action)
        after = group(found.after, "policy")
        derivatives = step_derivatives(action, found.reward, after) if env.differentiable else {}
        self.policy.normaliser.update(processes.of_all_processes(observation))
        rows = {"observation": observation, "action": action, "reward": found.reward, "after": after}
        rows |= {"q": before.q, "qd": before.qd, "steps": before.steps, "final": found.final, **derivatives}
        if self.sees_more:
            rows |= {"seen": group(seen, "critic"), "seen_after": group(found.after, "critic")}
            self.normaliser.update(processes.of_all_processes(rows["seen"]))
        rows = {name: value.detach() for name, value in rows.items()}
        self.replay.add(rows)
        if self.settings.extras:
            self.replay.add(self.extras(rows))

    @property
    def noted_episodes(self) -> int:
        """Number of the last episodes whose return is reported."""
        return 4 * self.env.num_envs

    def extras(self, rows: Batch) -> Batch:
        """Return transitions with actions near those of others [n, ...], ``extras`` for each."""
        assert self._neighbours is not None, "only with extras"
        several = {name: value.repeat_interleave(self.settings.extras, dim=0) for name, value in rows.items()}
        low, high = self.env.action_low, self.env.action_high
        share = 2.0 * torch.rand(several["action"].shape, generator=self.generator, device=low.device) - 1.0
        action = several["action"] + 0.5 * self.settings.spread * (high - low) * share
        action = action.clamp(low, high)
        with torch.no_grad():
            reward, final, after = self._neighbours(rows, action)
        return {**several, "action": action, "reward": reward, "final": final, "after": after}

    def _update(self, batch: Batch) -> None:
        """Run one gradient step of critics, policy and temperature."""
        wanted = self.targets(batch)
        seen = self.normaliser(batch.get("seen", batch["observation"]))
        found = self.critic(seen, self._scaled(batch["action"]))
        self._descend("critic", (found - wanted).square().mean(dim=1).sum())
        action, density = self.policy.sample_with_density(batch["observation"], self.generator)
        temperature = self.log_temperature.detach().exp()
        self._descend("policy", (temperature * density - self.worth(batch, action)).mean())
        actions = self.env.num_actions
        excess = -density.detach() - self.settings.entropy * actions
        self._descend("temperature", (self.log_temperature.exp() * excess).mean())
        with torch.no_grad():
            for target, parameter in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                target.lerp_(parameter, self.settings.target_share)

    @torch.no_grad()
    def targets(self, batch: Batch) -> torch.Tensor:
        """Return the critics' targets for stored steps [n]."""
        following = self.value(batch["after"], self.target, batch.get("seen_after")).masked_fill(batch["final"], 0.0)
        return batch["reward"] + self.discount * following

    def worth(self, batch: Batch, action: torch.Tensor) -> torch.Tensor:
        """Return the objective of the policy's actions [n], up to terms that don't depend on them."""
        if self.settings.enhance == "jacobian":
            slope = self._enhanced_slope(batch)
            if self.settings.near:
                apart = (self._scaled(action) - self._scaled(batch["action"])).norm(dim=1, keepdim=True)
                slope = slope * torch.exp(-apart.detach())
            return (slope * action).sum(dim=1)
        if self.settings.enhance == "simulated":
            return self._simulated(batch, action)
        seen = batch.get("seen", batch["observation"])
        return self.critic(self.normaliser(seen), self._scaled(action)).amin(dim=0)

    def value(self, observation: torch.Tensor, critic: Critic, seen: torch.Tensor | None = None) -> torch.Tensor:
        """Return the expected return from observations on, entropy included [n].

        Args:
            observation: the policy's observations [n, ...].
            critic: the critics.
            seen: their observations [n, ...]. Default: those of the policy.
        """
        action, density = self.policy.sample_with_density(observation, self.generator)
        normal = self.normaliser(observation if seen is None else seen)
        found = critic(normal, self._scaled(action)).amin(dim=0)
        return found - self.log_temperature.detach().exp() * density

    def _enhanced_slope(self, batch: Batch) -> torch.Tensor:
        """Return the slope of reward and value in the stored action, by the stored derivatives [n, actions]."""
        after = batch["after"].clone().requires_grad_()
        value = self.value(after, self.critic).masked_fill(batch["final"], 0.0)
        (slope,) = torch.autograd.grad(value.sum(), after)
        return batch["reward_slope"] + self.discount * (slope[:, None] @ batch["after_slope"])[:, 0]

    def _simulated(self, batch: Batch, action: torch.Tensor) -> torch.Tensor:
        """Return reward and value of the policy's own actions, simulated from the stored states."""
        assert self._again is not None, "only with enhance='simulated'"
        reward, final, after = simulate(self._again, batch, action)
        with held(self.policy):  # afterwards the value of the present policy applies
            value = self.value(after, self.critic)
        return reward + self.discount * value.masked_fill(final, 0.0)

    def _scaled(self, action: torch.Tensor) -> torch.Tensor:
        """Scale actions to -1 to 1."""
        low, high = self.env.action_low, self.env.action_high
        return 2.0 * (action - low) / (high - low) - 1.0

    def _descend(self, name: str, loss: torch.Tensor) -> None:
        optimiser = self.optimisers[name]
        optimiser.zero_grad()
        loss.backward()
        processes.average_gradients(getattr(self, name).parameters())
        gradients = [each.grad for each in getattr(self, name).parameters() if each.grad is not None]
        if bool(torch.nn.utils.get_total_norm(gradients).isfinite()):
            optimiser.step()


@contextlib.contextmanager
def held(network: nn.Module) -> Iterator[None]:
    """Exclude a network's parameters from gradients in this context."""
    network.requires_grad_(False)
    try:
        yield
    finally:
        network.requires_grad_(True)


def step_derivatives(action: torch.Tensor, reward: torch.Tensor, after: torch.Tensor) -> Batch:
    """Compute a step's derivatives in its action: ``reward_slope`` [n, actions], ``after_slope`` [n, observations,
    actions].

    It takes one backward pass through the step for the reward and for each observation.
    """
    slopes = derivatives(torch.cat([reward[:, None], after], dim=1), action)
    return {"reward_slope": slopes[:, 0], "after_slope": slopes[:, 1:]}
