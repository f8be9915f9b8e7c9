"""Common part of all algorithms: the policy in training, its random numbers, and what a checkpoint stores."""

import contextlib
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch

from sim.envs import VectorEnv
from sim.learn import processes
from sim.learn.networks import Policy


class Learner(ABC):
    """A policy in training.

    Args:
        env: the environments of this process.
        iterations: number of iterations over which learning rates fall; infinity if they stay.
        seed: seed of networks and random numbers.

    Attributes:
        policy: the policy.
        iteration: number of iterations so far.
        last_episodes: return and length of the last episodes that ended, the newest last.

    Example:
        >>> import sim.learn
        >>> task = sim.envs.make_task("CartpoleSwingup")
        >>> learner = sim.learn.make_learner(task, "shac", iterations=1, device="cpu", envs=4, horizon=4)
        >>> learner.iteration, learner.horizon, learner.env.num_actions
        (0, 4, 1)
    """

    policy: Policy
    numbers: ClassVar[tuple[str, ...]] = ("iteration", "last_episodes")  # attributes that a checkpoint stores

    def __init__(self, env: VectorEnv, iterations: float, seed: int):
        self.env, self.iterations, self.seed = env, iterations, seed
        self.generator = torch.Generator(env.device).manual_seed(processes.own_seed(seed) + 1)
        self.iteration = 0
        self.last_episodes: list[list[float]] = []
        env.reset(seed=processes.own_seed(seed))

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
        """Run one iteration; return figures, always the same ones. Those of episodes are NaN before the first end."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Return networks, optimisers and buffers by name: everything with ``state_dict`` and ``load_state_dict``."""

    def state(self) -> dict[str, Any]:
        """Return everything that determines the further training, for ``torch.save``."""
        parts = {name: part.state_dict() for name, part in self.parts().items()}
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
            self.env.reset(seed=processes.own_seed(self.seed) + self.iteration)

    def note_episodes(self, info: Mapping[str, torch.Tensor], count: int) -> None:
        """Note return and length of the episodes that ended in a step, and keep the last ``count`` of all."""
        ended = info["final_mask"]
        figures = torch.stack([info["episode_return"][ended], info["episode_length"][ended]], dim=1)
        self.last_episodes = [*self.last_episodes, *figures.tolist()][-count:]

    def episode_figures(self) -> dict[str, float]:
        """Return the mean return and length of the last episodes, over all processes."""
        found = torch.tensor(self.last_episodes or [[math.nan, math.nan]]).mean(dim=0).tolist()
        return {
            name: processes.mean_over_processes(value) for name, value in zip(("return", "length"), found, strict=True)
        }


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
