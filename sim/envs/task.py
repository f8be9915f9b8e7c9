"""A task: its model, where episodes begin, what is observed and rewarded, and when they end; with checks of these."""

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
    """Where the episodes of n environments are.

    Attributes:
        q: joint coordinates [n, nq].
        qd: joint velocities [n, nv].
        steps: how many environment steps each episode is old [n], int64.
        data: what else a task keeps for each environment, such as a target, [n, ...] by name.
        act: states of actuators that have one [n, na]; None for zeros where episodes begin, and where there are none.

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
        """The same numbers without their history."""
        data = {name: value.detach() for name, value in self.data.items()}
        act = None if self.act is None else self.act.detach()
        return TaskState(self.q.detach(), self.qd.detach(), self.steps, data, act)

    def clone(self) -> "TaskState":
        """The same numbers in memory of their own, without their history."""
        cut = self.detach()
        data = {name: value.clone() for name, value in cut.data.items()}
        act = None if cut.act is None else cut.act.clone()
        return TaskState(cut.q.clone(), cut.qd.clone(), cut.steps.clone(), data, act)

    def with_states(self, states: Sequence[torch.Tensor], steps: torch.Tensor | None = None) -> "TaskState":
        """With other q, qd and, where actuators have states, act, and perhaps another age."""
        q, qd = states[:2]
        act = states[2] if len(states) > 2 else None
        return TaskState(q, qd, self.steps if steps is None else steps, self.data, act)

    def with_rows(self, rows: torch.Tensor, others: "TaskState") -> "TaskState":
        """With the states of some environments in place of those at these rows [k], whose history ends here."""
        if self.data.keys() != others.data.keys():
            raise ModelError(f"a state has the data {sorted(others.data)}; those before had {sorted(self.data)}")
        data = {name: value.index_copy(0, rows, others.data[name]) for name, value in self.data.items()}
        names = ["q", "qd", "steps"] if self.act is None else ["q", "qd", "steps", "act"]
        arrays = {name: getattr(self, name).index_copy(0, rows, getattr(others, name)) for name in names}
        return replace(self, **arrays, data=data)


class Task(ABC):
    """A task for a batch of worlds. Derive from it for one of your own; docs/learning.md does it in 40 lines.

    All methods work on n environments at once, n being all of them or those that begin again, and are plain PyTorch on
    the tensors' device: gradients pass through observation, reward and inputs by autograd.

    Args:
        dtype: "float32" or "float64".

    Attributes:
        dt: time step of the simulation [s].
        frame_skip: steps for each action.
        integrator: of the simulator, see :class:`sim.Simulator`.
        state_limit: largest coordinate and velocity; an episode that goes beyond ends as one whose state isn't finite.
        max_episode_length: environment steps after which an episode is truncated.
        time_is_final: whether nothing follows an episode whose time is over, as where the reward comes at the end and
            the time is observed. Otherwise the last state of a truncated episode has a value like any other.
        action_low: least action, one number or one for each entry.
        action_high: greatest action, likewise. What an actuator gets is clamped between both.
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
        """Time of an action [s]."""
        return self.dt * self.frame_skip

    @abstractmethod
    def model(self) -> Model:
        """The model of one world, of this task's dtype. It is called once."""

    def contact(self) -> ContactMethod:
        """Options of the contact solver."""
        return ModelContact()

    def num_actions(self, model: Model) -> int:
        """How many numbers an action has; by default one for each actuator."""
        return model.nu

    @abstractmethod
    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """Where n episodes begin, with ``steps`` of zero, on the generator's device."""

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """What drives the model for one action, ``tau`` [n, nv] and ``control`` [n, nu], or one of them.

        Args:
            state: the state before.
            action: [n, num_actions], clamped to ``action_low`` and ``action_high``, not to the actuators' ranges.
        """
        return {"control": action}

    @abstractmethod
    def observe(self, state: TaskState) -> torch.Tensor:
        """What a policy sees [n, num_observations]."""

    @abstractmethod
    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        """Reward of a step [n].

        Args:
            before: the state before.
            action: [n, num_actions], as given: not clamped.
            after: the state after; its ``steps`` are one more.
        """

    def terminated(self, state: TaskState) -> torch.Tensor:
        """Which episodes have failed [n], bool. Those whose state isn't finite always have."""
        return torch.zeros(len(state.q), dtype=torch.bool, device=state.q.device)

    def is_final(self, terminated: torch.Tensor, truncated: torch.Tensor) -> torch.Tensor:
        """After which steps nothing follows [n]: failures, and ends by time where :attr:`time_is_final`."""
        return terminated | truncated if self.time_is_final else terminated

    def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Parameters of the simulator for n episodes that begin, ``[n, count, ...]`` by name; always the same names.

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
        """The state of episodes that begin with these coordinates [n, nq], velocities [n, nv] and actuator states."""
        return TaskState(q, qd, torch.zeros(len(q), dtype=torch.int64, device=q.device), data or {}, act)

    def uniform(self, shape: Sequence[int], generator: torch.Generator, low: float, high: float) -> torch.Tensor:
        """Random numbers between two, of the task's dtype, on the generator's device."""
        numbers = torch.rand(*shape, generator=generator, device=generator.device, dtype=DTYPES[self.dtype])
        return low + (high - low) * numbers

    def normal(self, shape: Sequence[int], generator: torch.Generator, deviation: float) -> torch.Tensor:
        """Normally distributed random numbers about zero, likewise."""
        numbers = torch.randn(*shape, generator=generator, device=generator.device, dtype=DTYPES[self.dtype])
        return deviation * numbers


def require_settings(task: Task, num_actions: object) -> None:
    """Raise ModelError for numbers of a task that are none, or out of range, and of actions."""
    name = type(task).__name__
    for what, value in (("frame_skip", task.frame_skip), ("num_actions", num_actions)):
        if not is_whole(value, 1):
            raise ModelError(f"{name}: {what} is {value!r}; it must be a whole number of at least 1")
    if not number(name, "max_episode_length", task.max_episode_length) >= 1.0:
        raise ModelError(f"{name}: max_episode_length is {task.max_episode_length!r}; it must be at least 1")


def bound_of(task: Task, what: str, num_actions: int, device: torch.device) -> torch.Tensor:
    """A bound of actions [num_actions]. Raises ModelError where it is something else."""
    name, given = type(task).__name__, getattr(task, what)
    try:
        bound = torch.as_tensor(given, dtype=DTYPES[task.dtype], device=device)
    except (TypeError, ValueError, RuntimeError):
        raise ModelError(f"{name}: {what} is {given!r}; it must be a number, or one for each entry") from None
    if bound.shape not in ((), (num_actions,)):
        raise ModelError(f"{name}: {what} has shape {tuple(bound.shape)}; expected one number, or {num_actions}")
    return bound.expand(num_actions).clone()


def require_state(said: str, state: TaskState, count: int, model: Model) -> None:
    """Raise ModelError, beginning with what is ``said``, for a state that isn't one of this many environments."""
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
