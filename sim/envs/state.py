"""States of episodes, and those that begin."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch

from sim.errors import ModelError
from sim.torch.adjoint_clip import clip_adjoint
from sim.torch.rollout_result import NextState

CARRIED = ("broken", "q_low")  # parts of the simulator's state without gradient


@dataclass(frozen=True)
class TaskState:
    """States of the episodes of n environments.

    Attributes:
        q: joint coordinates [n, nq].
        qd: joint velocities [n, nv].
        steps: age of each episode in environment steps [n], int64.
        data: a task's further data for each environment, such as a target or the last action, [n, ...] by name.
            :meth:`Task.advance` and :meth:`Task.events` change it.
        act: states of actuators that have one [n, na]; None without any, and for zeros in initial states.
        readings: numbers of the task's ``sensors`` in the last simulated step, [n, ...] by name; zeros where an episode
            begins.
        parameters: the present values of what :meth:`Task.randomise` returned, [n, ...] by name.
        generator: source of random numbers, saved with the environment; None outside an environment.
        carried: parts of the simulator's state without gradient, by name: ``broken`` and ``q_low`` of
            :class:`sim.torch.NextState` [n, ...]. What is missing is zero.

    Example:
        >>> import sim.envs
        >>> env = sim.envs.make("CartpoleSwingup", num_envs=4, device="cpu", seed=0)
        >>> _ = env.reset()
        >>> env.state.q.shape, env.state.steps.tolist()
        (torch.Size([4, 2]), [0, 0, 0, 0])
    """

    q: torch.Tensor
    qd: torch.Tensor
    steps: torch.Tensor
    data: Mapping[str, torch.Tensor] = field(default_factory=dict)
    act: torch.Tensor | None = None
    readings: Mapping[str, torch.Tensor] = field(default_factory=dict)
    parameters: Mapping[str, torch.Tensor] = field(default_factory=dict)
    generator: torch.Generator | None = None
    carried: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def detach(self) -> "TaskState":
        """Return the same values without their history."""
        return self._mapped(torch.Tensor.detach)

    def clone(self) -> "TaskState":
        """Return a copy in new memory, without history."""
        return self._mapped(lambda value: value.detach().clone())

    def rows(self, rows: torch.Tensor) -> "TaskState":
        """Return the states of these environments [k], without history."""
        chosen = self._mapped(lambda value: value.detach()[rows])
        return replace(chosen, parameters={name: value[rows] for name, value in self.parameters.items()})

    def with_states(self, states: Sequence[torch.Tensor], steps: torch.Tensor | None = None) -> "TaskState":
        """Return the state with other q, qd and, if actuators have states, act, and optionally another age."""
        q, qd = states[:2]
        act = states[2] if len(states) > 2 else None
        return replace(self, q=q, qd=qd, steps=self.steps if steps is None else steps, act=act)

    def with_rows(self, rows: torch.Tensor, others: "TaskState") -> "TaskState":
        """Return the state with these rows [k] replaced by the states of other environments, whose history ends
        here.
        """
        if self.data.keys() != others.data.keys():
            raise ModelError(f"a state has the data {sorted(others.data)}, but earlier ones had {sorted(self.data)}")
        data = {name: value.index_copy(0, rows, others.data[name]) for name, value in self.data.items()}
        readings = {name: value.index_copy(0, rows, others.readings[name]) for name, value in self.readings.items()}
        names = ["q", "qd", "steps"] if self.act is None else ["q", "qd", "steps", "act"]
        arrays = {name: getattr(self, name).index_copy(0, rows, getattr(others, name)) for name in names}
        carried = {name: value.index_fill(0, rows, 0.0) for name, value in self.carried.items()}
        for name, value in others.carried.items():
            whole = carried.get(name, value.new_zeros(len(self.q), value.shape[1]))
            carried[name] = whole.index_copy(0, rows, value)
        return replace(self, **arrays, data=data, readings=readings, carried=carried)

    def clipped(self, limit: float) -> "TaskState":
        """Return the state with a limit on the gradient of each environment, see :func:`sim.torch.clip_adjoint`."""
        further = [(x, k) for x in (self.data, self.readings) for k, value in x.items() if value.requires_grad]
        parts = ([] if self.act is None else [self.act]) + [x[k].reshape(len(x[k]), -1) for x, k in further]
        if not parts:
            return self.with_states(clip_adjoint(self.q, self.qd, limit))
        q, qd, joined = clip_adjoint(self.q, self.qd, limit, torch.cat(parts, dim=1))
        clipped = list(joined.split([part.shape[1] for part in parts], dim=1))
        act = None if self.act is None else clipped.pop(0)
        data, readings = dict(self.data), dict(self.readings)
        for (x, k), value in zip(further, clipped, strict=True):
            (data if x is self.data else readings)[k] = value.view_as(x[k])
        return replace(self, q=q, qd=qd, act=act, data=data, readings=readings)

    def _mapped(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "TaskState":
        """Return the state with a function applied to all of it but parameters."""
        return replace(
            self,
            q=change(self.q),
            qd=change(self.qd),
            steps=change(self.steps),
            data={name: change(value) for name, value in self.data.items()},
            act=None if self.act is None else change(self.act),
            readings={name: change(value) for name, value in self.readings.items()},
            carried={name: change(value) for name, value in self.carried.items()},
        )


def carried_on(before: TaskState, found: NextState, bad: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the parts of the next state without gradient; bad environments [n] keep theirs."""
    after = {name: value for name in CARRIED if (value := getattr(found, name)) is not None}
    return {
        name: torch.where(bad[:, None], before.carried.get(name, torch.zeros_like(value)), value)
        for name, value in after.items()
    }


@dataclass(frozen=True)
class Episodes:
    """Bookkeeping of an environment besides the state.

    Attributes:
        ended: mask of the episodes that are over and wait for a reset [num_envs].
        returns: sum of the rewards of each episode [num_envs], without history.
        terms: the same for each term of the reward, if it has terms, by name.
    """

    ended: torch.Tensor
    returns: torch.Tensor
    terms: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def clone(self) -> "Episodes":
        """Return a copy in new memory."""
        return Episodes(
            self.ended.clone(), self.returns.clone(), {name: value.clone() for name, value in self.terms.items()}
        )


@dataclass(frozen=True)
class NewEpisodes:
    """Episodes that begin, for :meth:`Task.begin`.

    Attributes:
        rows: indices of their environments [n], int64.
        generator: source of random numbers, on the environment's device.
        state: last state of all environments; None as for :attr:`last`.
        episodes: bookkeeping of all environments at that time.

    Example:
        >>> import torch
        >>> import sim.envs
        >>> task = sim.envs.make_task("CartpoleSwingup")
        >>> new = sim.envs.NewEpisodes(torch.arange(3), torch.Generator().manual_seed(0))
        >>> task.begin(new).q.shape, new.last is None
        (torch.Size([3, 2]), True)
    """

    rows: torch.Tensor
    generator: torch.Generator
    state: TaskState | None = None
    episodes: Episodes | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def last(self) -> TaskState | None:
        """Last states of the previous episodes of these environments [n], without history; None at the first reset and
        after a reset of all environments with a seed.
        """
        return None if self.state is None else self.state.rows(self.rows)

    @cached_property
    def returns(self) -> torch.Tensor | None:
        """Sums of the rewards of the previous episodes [n]; None as for :attr:`last`."""
        return None if self.episodes is None else self.episodes.returns[self.rows]

    @cached_property
    def terms(self) -> dict[str, torch.Tensor] | None:
        """The same for each term of the reward, by name; None as for :attr:`last`."""
        if self.episodes is None:
            return None
        return {name: value[self.rows] for name, value in self.episodes.terms.items()}
