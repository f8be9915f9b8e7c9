"""Tasks: model, initial states, observations, rewards and ends of episodes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch

from sim.envs.state import NewEpisodes, TaskState
from sim.errors import ModelError
from sim.model.model import Model
from sim.simulation.options import ContactMethod, ModelContact
from sim.torch.arrays import TORCH_DTYPES

# A tensor, or a mapping of tensors by name. A union would make each caller distinguish them.
TensorOrNamed: TypeAlias = Any


class Task(ABC):
    """A task for a batch of worlds. Derive from it for your own; docs/learning.md does it in 40 lines.

    All methods work on a batch of n environments, all of them or those being reset, and are plain PyTorch on the
    tensors' device: gradients pass through observation, reward, inputs and data by autograd. A step of the environment
    calls inputs, advance, reward, terminated, events and observe, in this order; an episode begins with randomise and
    begin.

    Args:
        dtype: "float32" or "float64".

    Attributes:
        dt: time step of the simulation [s].
        frame_skip: steps for each action.
        integrator: integrator of the simulator, see :class:`sim.Simulator`.
        state_limit: largest coordinate and velocity; an episode that exceeds it ends as not finite.
        threads_per_world: threads of a GPU that share out the work of one environment, see
            :class:`sim.Simulator`; an option of every task in :func:`sim.envs.make` and :func:`sim.learn.load_task`.
        max_episode_length: environment steps after which an episode is truncated.
        time_is_final: True if the end of an episode's time is terminal, such as with a reward at the end and an
            observed time. Otherwise the last state of a truncated episode has a value like any other.
        action_low: smallest action, one number or one for each entry.
        action_high: largest action, likewise. Actuator inputs are clamped between both.
        sensors: names of sensors of the model and of geometries, for :attr:`TaskState.readings`: the numbers of a
            sensor [n, numbers], the contact force on a geometry [n, 3] along world axes [N]. They are those of the last
            simulated step, see :func:`sim.torch.step`.
        logged: names of data, such as a level, of which a step's ``info["log"]`` has the mean.
        dtype: as given.

    Example:
        >>> import sim.envs
        >>> task = sim.envs.make_task("CartpoleSwingup")
        >>> isinstance(task, sim.envs.Task), task.dt, task.frame_skip
        (True, 0.004166666666666667, 4)
    """

    dt: float = 1 / 240
    frame_skip: int = 4
    integrator: str | None = None
    state_limit: Sequence[float] = (1e6, 1e4)
    threads_per_world: int = 1
    max_episode_length: int = 1000
    time_is_final: bool = False
    action_low: float | Sequence[float] = -1.0
    action_high: float | Sequence[float] = 1.0
    sensors: Sequence[str] = ()
    logged: Sequence[str] = ()

    def __init__(self, dtype: str = "float32"):
        if not isinstance(dtype, str) or dtype not in TORCH_DTYPES:
            raise ModelError(f"a task's dtype is {dtype!r}; it must be 'float32' or 'float64'")
        self.dtype = dtype

    @property
    def step_dt(self) -> float:
        """Duration of an action [s]."""
        return self.dt * self.frame_skip

    @abstractmethod
    def model(self) -> Model:
        """Return the model of one world, of this task's dtype. It is called once."""

    def contact(self) -> ContactMethod:
        """Return options of the contact solver."""
        return ModelContact()

    def num_actions(self, model: Model) -> int:
        """Return the size of an action. Default: one entry for each actuator."""
        return model.nu

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """Sample initial states of n episodes, with ``steps`` of zero, on the generator's device.

        The names, shapes and dtypes of their ``data`` are those of all states. Each task has this method or
        :meth:`begin`.
        """
        raise ModelError(f"{type(self).__name__} defines neither sample_state(n, generator) nor begin(new)")

    def begin(self, new: NewEpisodes) -> TaskState:
        """Return initial states of the episodes that begin. Default: those of :meth:`sample_state`.

        A curriculum finds the environments in ``new.rows``, and how their previous episodes ended in ``new.last``.
        """
        return self.sample_state(len(new), new.generator)

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the model's inputs for one action: ``tau`` [n, nv], ``control`` [n, nu], ``kinematic_qd`` [n, nk],
        ``active`` [n, number of ``model.switch_names``] (as of :func:`sim.torch.step`), or several of them.

        Args:
            state: the state before.
            action: actions [n, num_actions], clamped to ``action_low`` and ``action_high``, not to the actuators'
                ranges.
        """
        return {"control": action}

    def advance(self, before: TaskState, action: torch.Tensor, after: TaskState) -> Mapping[str, torch.Tensor]:
        """Return new values of ``data`` after a step, by name; what it leaves out stays. Default: nothing changes.

        This is a task's memory: last actions, delay lines, history, phase, the time since a foot touched the ground.

        Args:
            before: the state before.
            action: actions [n, num_actions], clamped to ``action_low`` and ``action_high``.
            after: the state after, with the data of the state before.
        """
        return {}

    @abstractmethod
    def observe(self, state: TaskState) -> TensorOrNamed:
        """Return a policy's observations [n, num_observations], or groups of observations [n, ...] by name.

        Of groups, "policy" is what a policy sees and "critic", if there is one, what a critic sees. Other groups of
        uint8, such as the pictures of :class:`sim.torch.Cameras`, stay so; all else gets the task's dtype. Noise is
        drawn from ``state.generator``.
        """

    @abstractmethod
    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> TensorOrNamed:
        """Return the reward of a step [n], or its terms [n] by name, whose sum it is.

        Args:
            before: the state before.
            action: actions [n, num_actions], as given: not clamped.
            after: the state after, with the data of :meth:`advance`; its ``steps`` are one more.
        """

    def terminated(self, state: TaskState) -> TensorOrNamed:
        """Return a mask of the episodes that have failed [n], bool, or masks by the reason's name.

        Non-finite states always count as failed.
        """
        return torch.zeros(len(state.q), dtype=torch.bool, device=state.q.device)

    def events(self, state: TaskState) -> Mapping[str, torch.Tensor]:
        """Return what changes between a step and the next, by name. Default: nothing changes.

        Pushes change ``qd`` (``q`` and ``act`` are possible, too), and a command changes the data that hold it. Reward
        and ``terminated`` see the state before, observations the one after. Random numbers come from
        ``state.generator``; ``state.steps % interval == 0`` is an interval.
        """
        return {}

    def is_final(self, terminated: torch.Tensor, truncated: torch.Tensor) -> torch.Tensor:
        """Return a mask of terminal steps [n]: failures, and ends by time if :attr:`time_is_final`."""
        return terminated | truncated if self.time_is_final else terminated

    def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Return parameters of the simulator for n new episodes, ``[n, count, ...]`` by name; always the same names.

        :data:`sim.model.parameters.PARAMETERS` lists them: mass, friction, damping, gravity, actuator_gear ...
        """
        return {}

    def episodes(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        data: Mapping[str, torch.Tensor] | None = None,
        act: torch.Tensor | None = None,
    ) -> TaskState:
        """Return the state of new episodes with these coordinates [n, nq], velocities [n, nv] and actuator states."""
        return TaskState(q, qd, torch.zeros(len(q), dtype=torch.int64, device=q.device), data or {}, act)

    def uniform(self, shape: Sequence[int], generator: torch.Generator | None, low: float, high: float) -> torch.Tensor:
        """Return uniform random numbers between two bounds, of the task's dtype, on the generator's device."""
        source = self._present(generator)
        numbers = torch.rand(*shape, generator=source, device=source.device, dtype=TORCH_DTYPES[self.dtype])
        return low + (high - low) * numbers

    def normal(self, shape: Sequence[int], generator: torch.Generator | None, deviation: float) -> torch.Tensor:
        """Return normally distributed random numbers about zero, likewise."""
        source = self._present(generator)
        numbers = torch.randn(*shape, generator=source, device=source.device, dtype=TORCH_DTYPES[self.dtype])
        return deviation * numbers

    def _present(self, generator: torch.Generator | None) -> torch.Generator:
        if generator is None:
            raise ModelError(f"{type(self).__name__}: the state has no generator; only those of a VectorEnv have one")
        return generator
