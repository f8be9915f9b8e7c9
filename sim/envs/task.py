"""Tasks: model, initial states, observations, rewards and ends of episodes; with checks of these."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from sim.errors import ModelError
from sim.model.checks import is_whole, number, require_type
from sim.model.model import Model
from sim.simulation.options import ContactMethod, ModelContact

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class TaskState:
    """States of the episodes of n environments.

    Attributes:
        q: joint coordinates [n, nq].
        qd: joint velocities [n, nv].
        steps: age of each episode in environment steps [n], int64.
        data: a task's further data for each environment, such as a target, [n, ...] by name.
        act: states of actuators that have one [n, na]; None without any, and for zeros in initial states.

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

    def detach(self) -> "TaskState":
        """Return the same values without their history."""
        data = {name: value.detach() for name, value in self.data.items()}
        act = None if self.act is None else self.act.detach()
        return TaskState(self.q.detach(), self.qd.detach(), self.steps, data, act)

    def clone(self) -> "TaskState":
        """Return a copy in new memory, without history."""
        cut = self.detach()
        data = {name: value.clone() for name, value in cut.data.items()}
        act = None if cut.act is None else cut.act.clone()
        return TaskState(cut.q.clone(), cut.qd.clone(), cut.steps.clone(), data, act)

    def with_states(self, states: Sequence[torch.Tensor], steps: torch.Tensor | None = None) -> "TaskState":
        """Return the state with other q, qd and, if actuators have states, act, and optionally another age."""
        q, qd = states[:2]
        act = states[2] if len(states) > 2 else None
        return TaskState(q, qd, self.steps if steps is None else steps, self.data, act)

    def with_rows(self, rows: torch.Tensor, others: "TaskState") -> "TaskState":
        """Return the state with these rows [k] replaced by the states of other environments, whose history ends
        here.
        """
        if self.data.keys() != others.data.keys():
            raise ModelError(f"a state has the data {sorted(others.data)}, but earlier ones had {sorted(self.data)}")
        data = {name: value.index_copy(0, rows, others.data[name]) for name, value in self.data.items()}
        names = ["q", "qd", "steps"] if self.act is None else ["q", "qd", "steps", "act"]
        arrays = {name: getattr(self, name).index_copy(0, rows, getattr(others, name)) for name in names}
        return replace(self, **arrays, data=data)


class Task(ABC):
    """A task for a batch of worlds. Derive from it for your own; docs/learning.md does it in 40 lines.

    All methods work on a batch of n environments, all of them or those being reset, and are plain PyTorch on the
    tensors' device: gradients pass through observation, reward and inputs by autograd.

    Args:
        dtype: "float32" or "float64".

    Attributes:
        dt: time step of the simulation [s].
        frame_skip: steps for each action.
        integrator: integrator of the simulator, see :class:`sim.Simulator`.
        state_limit: largest coordinate and velocity; an episode that exceeds it ends as not finite.
        max_episode_length: environment steps after which an episode is truncated.
        time_is_final: True if the end of an episode's time is terminal, such as with a reward at the end and an
            observed time. Otherwise the last state of a truncated episode has a value like any other.
        action_low: smallest action, one number or one for each entry.
        action_high: largest action, likewise. Actuator inputs are clamped between both.
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
    max_episode_length: int = 1000
    time_is_final: bool = False
    action_low: float | Sequence[float] = -1.0
    action_high: float | Sequence[float] = 1.0

    def __init__(self, dtype: str = "float32"):
        if not isinstance(dtype, str) or dtype not in DTYPES:
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

    @abstractmethod
    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """Sample initial states of n episodes, with ``steps`` of zero, on the generator's device."""

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the model's inputs for one action: ``tau`` [n, nv], ``control`` [n, nu], ``kinematic_qd`` [n, nk],
        ``active`` [n, number of ``model.switch_names``] (as of :func:`sim.torch.step`), or several of them.

        Args:
            state: the state before.
            action: actions [n, num_actions], clamped to ``action_low`` and ``action_high``, not to the actuators'
                ranges.
        """
        return {"control": action}

    @abstractmethod
    def observe(self, state: TaskState) -> torch.Tensor:
        """Return a policy's observations [n, num_observations]."""

    @abstractmethod
    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        """Return the reward of a step [n].

        Args:
            before: the state before.
            action: actions [n, num_actions], as given: not clamped.
            after: the state after; its ``steps`` are one more.
        """

    def terminated(self, state: TaskState) -> torch.Tensor:
        """Return a mask of the episodes that have failed [n], bool. Non-finite states always count as failed."""
        return torch.zeros(len(state.q), dtype=torch.bool, device=state.q.device)

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

    def uniform(self, shape: Sequence[int], generator: torch.Generator, low: float, high: float) -> torch.Tensor:
        """Return uniform random numbers between two bounds, of the task's dtype, on the generator's device."""
        numbers = torch.rand(*shape, generator=generator, device=generator.device, dtype=DTYPES[self.dtype])
        return low + (high - low) * numbers

    def normal(self, shape: Sequence[int], generator: torch.Generator, deviation: float) -> torch.Tensor:
        """Return normally distributed random numbers about zero, likewise."""
        numbers = torch.randn(*shape, generator=generator, device=generator.device, dtype=DTYPES[self.dtype])
        return deviation * numbers


def require_settings(task: Task, num_actions: object) -> None:
    """Raise ModelError for invalid or out-of-range settings of a task, including action bounds."""
    name = type(task).__name__
    for what, value in (("frame_skip", task.frame_skip), ("num_actions", num_actions)):
        if not is_whole(value, 1):
            raise ModelError(f"{name}: {what} is {value!r}; it must be a whole number of at least 1")
    if not number(name, "max_episode_length", task.max_episode_length) >= 1.0:
        raise ModelError(f"{name}: max_episode_length is {task.max_episode_length!r}; it must be at least 1")


def bound_of(task: Task, what: str, num_actions: int, device: torch.device) -> torch.Tensor:
    """Return a bound of actions [num_actions]. Raises ModelError for anything else."""
    name, given = type(task).__name__, getattr(task, what)
    try:
        bound = torch.as_tensor(given, dtype=DTYPES[task.dtype], device=device)
    except (TypeError, ValueError, RuntimeError):
        raise ModelError(f"{name}: {what} is {given!r}; it must be a number, or one for each entry") from None
    if bound.shape not in ((), (num_actions,)):
        raise ModelError(f"{name}: {what} has shape {tuple(bound.shape)}; expected one number, or {num_actions}")
    return bound.expand(num_actions).clone()


def require_state(said: str, state: TaskState, count: int, model: Model) -> None:
    """Raise ModelError, starting with ``said``, for a state that isn't one of this number of environments."""
    given = {"q": state.q, "qd": state.qd, "act": state.act}
    expected = {"q": (count, model.nq), "qd": (count, model.nv), "act": (count, model.na) if model.na else None}
    require_type(f"what {said} as data", state.data, Mapping, "a dictionary")
    for name, value in (given | {"steps": state.steps, **state.data}).items():
        if not isinstance(value, torch.Tensor | None):
            raise ModelError(f"{said} {name} as a {type(value).__name__}; expected a torch.Tensor")
    for name, value in given.items():
        shape = None if value is None else tuple(value.shape)
        if shape != expected[name]:
            raise ModelError(f"{said} {name} {shape}; expected {expected[name]}")
        if value is not None and value.dtype != DTYPES[model.dtype]:
            raise ModelError(f"{said} {name} of {value.dtype}; expected {DTYPES[model.dtype]}")
    if state.steps.shape != (count,):
        raise ModelError(f"{said} steps {tuple(state.steps.shape)}; expected ({count},)")
    for name, value in state.data.items():
        if value.shape[:1] != (count,):
            raise ModelError(f"{said} data '{name}' {tuple(value.shape)}; expected ({count}, ...)")
