"""Common part of all algorithms: the policy in training, its random numbers, and what a checkpoint stores."""

import contextlib
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, TypeAlias

import torch

from sim.envs import VectorEnv
from sim.envs.adapters import require_same_step
from sim.errors import ModelError
from sim.learn import processes
from sim.learn.networks import Policy
from sim.model.checks import is_whole, number, require_flags

# Observations of all environments [num_envs, ...]: a tensor, or groups by name.
Observation: TypeAlias = Any


FRACTIONS = ("discount", "trace", "target_share")  # settings between zero and one
MAY_BE_ZERO = ("extras", "random_steps")  # counts
MAY_BE_NEGATIVE = ("entropy",)


@dataclass(frozen=True)
class Settings:
    """Settings of an algorithm.

    Raises:
        ModelError: for a value out of range or of another type than the default, naming the setting.
    """

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not (value is None and each.default is None):
                _require_setting(type(self).__name__, each.name, value, each.default)


@dataclass(frozen=True)
class ActorCriticSettings(Settings):
    """Settings that :class:`sim.learn.Ppo` and :class:`sim.learn.Shac` have in common.

    Attributes:
        horizon: steps of each environment in an iteration; the gradients of SHAC pass through them.
        discount: discount of rewards per step.
        trace: λ of advantages and of the critic's targets.
        policy_rate: initial learning rate of the policy.
        value_rate: initial learning rate of the critic.
        gradient_norm: maximum norm of a network's gradient.
        deviation: initial standard deviation of the policy's actions, before they are bounded.
        hidden: widths of the policy's layers.
        value_hidden: widths of the critic's layers.

    Example:
        >>> import sim.learn
        >>> issubclass(sim.learn.PpoSettings, sim.learn.ActorCriticSettings)
        True
    """

    horizon: int = 32
    discount: float = 0.99
    trace: float = 0.95
    policy_rate: float = 1e-3
    value_rate: float = 1e-3
    gradient_norm: float = 1.0
    deviation: float = 0.5
    hidden: Sequence[int] = (128, 64, 32)
    value_hidden: Sequence[int] = (128, 64, 32)


def _require_setting(where: str, name: str, value: Any, default: object) -> None:
    said = f"{where}: {name} is {value!r}; it must be"
    if isinstance(default, bool):
        require_flags(where, **{name: value})
    elif isinstance(default, int):
        least = 0 if name in MAY_BE_ZERO else 1
        if not is_whole(value, least):
            raise ModelError(f"{said} a whole number of at least {least}")
    elif isinstance(default, tuple):
        if not isinstance(value, list | tuple) or not all(is_whole(width, 1) for width in value):
            raise ModelError(f"{said} the widths of layers, such as (64, 64)")
    elif not isinstance(default, str):
        found = number(where, name, value)
        if name in FRACTIONS and not 0.0 <= found <= 1.0:
            raise ModelError(f"{said} between 0 and 1")
        if name not in (*FRACTIONS, *MAY_BE_NEGATIVE) and not found > 0.0:
            raise ModelError(f"{said} positive")


def require_limit(where: str, name: str, value: Any) -> float:
    """Return a limit of a training, which may be infinite. Raises ModelError unless it is a number of at least 0."""
    if not (found := number(where, name, value)) >= 0.0:
        raise ModelError(f"{where}: {name} is {value!r}; it must be at least 0")
    return found


class Step(NamedTuple):
    """Result of a step of the environments.

    Attributes:
        reward: reward [num_envs]; zero where it or the observation isn't finite.
        after: observations after the step, before any reset.
        final: mask of terminal steps: an episode failed, or its time is over and that is final.
        ended: mask of steps at which an episode ended.
        lost: mask of episodes that ended because a state, a reward or an observation wasn't finite.
    """

    reward: torch.Tensor
    after: Observation
    final: torch.Tensor
    ended: torch.Tensor
    lost: torch.Tensor


class Watched:
    """Gradients of an objective in the actions of each environment.

    A gradient that isn't finite counts as zero, so that one environment doesn't end the training of all others.

    Args:
        envs: number of environments.
    """

    def __init__(self, envs: int):
        self._envs = envs
        self._squares: list[torch.Tensor] = []
        self._lost: list[torch.Tensor] = []

    def action(self, action: torch.Tensor) -> torch.Tensor:
        """Return actions [envs, actions] whose gradient is watched."""
        action.register_hook(self._note)
        return action

    def figures(self) -> dict[str, float]:
        """Return the median and the largest norm of an environment's gradient, and the fraction of environments with
        one that wasn't finite, after the backward pass; the gradient is that of the environment's own objective.
        """
        norms = self._envs * torch.stack(self._squares).sum(dim=0).sqrt()
        lost = torch.stack(self._lost).any(dim=0).double().mean()
        found = {"gradient_median": norms.median(), "gradient_maximum": norms.max(), "gradient_lost": lost}
        return {name: processes.mean_over_processes(float(value)) for name, value in found.items()}

    def _note(self, gradient: torch.Tensor) -> torch.Tensor:
        good = gradient.isfinite().all(dim=1)
        gradient = gradient.masked_fill(~good[:, None], 0.0)
        self._squares.append(gradient.square().sum(dim=1))
        self._lost.append(~good)
        return gradient


class Learner(ABC):
    """A policy in training.

    Args:
        env: the environments of this process, which reset episodes within a step.
        iterations: number of iterations over which learning rates fall; infinity if they stay.
        seed: seed of networks and random numbers.

    Attributes:
        policy: the policy.
        iteration: number of iterations so far.
        observation: present observations, without history.
        last_episodes: return and length of the last episodes that ended, the newest last.

    Example:
        >>> import sim.learn
        >>> task = sim.envs.make_task("CartpoleSwingup")
        >>> learner = sim.learn.make_learner(task, "shac", iterations=1, device="cpu", envs=4, horizon=4)
        >>> learner.iteration, learner.horizon, learner.env.num_actions
        (0, 4, 1)

    Raises:
        ModelError: for environments with another ``autoreset_mode`` than "same_step", and iterations or a seed that
            aren't such numbers.
    """

    policy: Policy
    numbers: ClassVar[tuple[str, ...]] = (
        "iteration",
        "observation",
        "last_episodes",
    )  # attributes that a checkpoint stores

    def __init__(self, env: VectorEnv, iterations: float, seed: int):
        name = type(self).__name__
        require_same_step(name, env)
        require_limit(name, "iterations", iterations)
        if not (is_whole(seed, -(2**63)) and seed < 2**63):
            raise ModelError(f"{name}: seed is {seed!r}; it must be a whole number of up to 64 bits")
        self.env, self.iterations, self.seed = env, iterations, seed
        self.generator = torch.Generator(env.device).manual_seed(processes.own_seed(seed) + 1)
        self.iteration = 0
        self.last_episodes: list[list[float]] = []
        self._logs: list[tuple[int, dict[str, float]]] = []  # of steps in which episodes ended, and how many did
        self.observation: Observation
        self.begin(processes.own_seed(seed))

    @property
    @abstractmethod
    def horizon(self) -> int:
        """Steps of each environment in an iteration."""

    @property
    def result(self) -> Policy:
        """The policy to keep."""
        return self.policy

    @abstractmethod
    def iterate(self) -> dict[str, float]:
        """Run one iteration; return its figures, with "return", the mean of the last episodes (NaN before one ends)."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Return networks, optimisers and buffers by name: everything with ``state_dict`` and ``load_state_dict``."""

    def state(self) -> dict[str, Any]:
        """Return everything that determines the further training, for ``torch.save``."""
        parts = {name: part.state_dict() for name, part in self.parts().items()}
        self.cut()
        numbers = {name: getattr(self, name) for name in self.numbers}
        return {**parts, **numbers, "random": self.generator.get_state(), "env": self.env.get_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`state`. It is that of the first process; the others begin new episodes."""
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        for name in self.numbers:
            setattr(self, name, state[name])
        if processes.number() == 0:
            self.generator.set_state(state["random"])
            self.env.set_state(state["env"])
        else:
            self.begin(processes.own_seed(self.seed) + self.iteration)

    def begin(self, seed: int | None = None) -> None:
        """Begin new episodes in all environments, with this seed or with the present random numbers."""
        self.observation = finite(self.env.reset(seed=seed)[0])

    def cut(self) -> None:
        """Cut the history of states and observations."""
        self.env.detach()
        self.observation = each_group(self.observation, torch.Tensor.detach)

    def step(self, action: torch.Tensor) -> Step:
        """Step all environments, and note the episodes that end.

        A task's reward or observation that isn't finite ends the episode as failed, with a reward of zero and the
        observation before it. What an environment returns for states that diverge is finite.
        """
        before = self.observation
        self.observation, reward, terminated, truncated, info = self.env.step(action)
        after = info["final_obs"]
        lost = info["not_finite"]
        ended, final = terminated | truncated, self.env.task.is_final(terminated, truncated)
        if not all_finite(reward, after):
            bad = ~(reward.isfinite() & finite_rows(after))
            ended, final, lost = ended | bad, final | bad, lost | bad
            reward, after = reward.masked_fill(bad, 0.0), where_rows(bad, before, after)
            info["episode_return"] = info["episode_return"].masked_fill(bad, math.nan)
            begun = bad & ~(terminated | truncated)  # the others have been reset by the environment
            if bool(begun.any()):
                self.observation, _ = self.env.reset(options={"reset_mask": begun})
        if bool(ended.any()):
            self.observation = finite(self.observation)  # new episodes may begin with others
            if "log" in info:
                self._logs.append((int(ended.sum()), {name: float(value) for name, value in info["log"].items()}))
            figures = torch.stack([info["episode_return"][ended], info["episode_length"][ended]], dim=1)
            known = [row for row in figures.tolist() if math.isfinite(row[0])]
            self.last_episodes = [*self.last_episodes, *known][-self.noted_episodes :]
        return Step(reward, after, final, ended, lost)

    def log_figures(self) -> dict[str, float]:
        """Return what the task's rewards and ends with names were since the last call, in this process.

        "reward/NAME" is the mean sum of a term over an episode that ended, "end/NAME" the number of ends for a reason.
        """
        logs, self._logs = self._logs, []
        found: dict[str, float] = {}
        for name in dict.fromkeys(name for _, log in logs for name in log):
            rows = [(count, log[name]) for count, log in logs if name in log]
            if name.startswith("end/"):
                found[name] = sum(value for _, value in rows)
            else:
                found[name] = sum(count * value for count, value in rows) / sum(count for count, _ in rows)
        return found

    @property
    def noted_episodes(self) -> int:
        """Number of the last episodes whose return is reported."""
        return self.env.num_envs

    def episode_figures(self) -> dict[str, float]:
        """Return the mean return and length of the last episodes, over all processes."""
        found = torch.tensor(self.last_episodes or [[math.nan, math.nan]]).mean(dim=0).tolist()
        return {
            name: processes.mean_over_processes(value) for name, value in zip(("return", "length"), found, strict=True)
        }


def group(observation: Observation, name: str) -> torch.Tensor:
    """Return a group of observations [num_envs, size]; the policy's for a name that the task doesn't have."""
    if isinstance(observation, torch.Tensor):
        return observation
    value = observation.get(name, observation["policy"])
    return value.reshape(len(value), -1)


def each_group(observation: Observation, function: Callable[..., torch.Tensor], *others: Observation) -> Observation:
    """Apply a function of tensors to observations, group by group."""
    if isinstance(observation, torch.Tensor):
        return function(observation, *others)
    return {name: function(value, *(other[name] for other in others)) for name, value in observation.items()}


def finite(observation: Observation) -> Observation:
    """Return observations with zeros for those that aren't finite."""
    return each_group(observation, lambda value: value.nan_to_num(0.0, 0.0, 0.0))


@torch.no_grad()
def all_finite(reward: torch.Tensor, observation: Observation) -> bool:
    """Return whether the sum of rewards and observations is finite: if it is, all of them are."""
    groups = [observation] if isinstance(observation, torch.Tensor) else observation.values()
    return math.isfinite(float(sum((value.sum() for value in groups), reward.sum())))


def finite_rows(observation: Observation) -> torch.Tensor:
    """Return a mask of the environments all of whose observations are finite [num_envs]."""
    groups = [observation] if isinstance(observation, torch.Tensor) else list(observation.values())
    return torch.stack([value.reshape(len(value), -1).isfinite().all(dim=1) for value in groups]).all(dim=0)


def where_rows(mask: torch.Tensor, chosen: Observation, others: Observation) -> Observation:
    """Return the chosen observations where a mask of environments holds, and the others elsewhere."""
    return each_group(chosen, lambda one, two: torch.where(mask.view(-1, *[1] * (one.dim() - 1)), one, two), others)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Set the seed of PyTorch's random numbers in this context, and restore them at its end."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def stored(state: object) -> bytes:
    """Return the bytes that ``torch.save`` would write."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()
