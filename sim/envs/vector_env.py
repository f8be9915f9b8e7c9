"""VectorEnv: a batch of environments of one task, stepped together, with gradients through the steps."""

import functools
import importlib
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from sim.arrays.host_memory import as_warp
from sim.dynamics.kinematics import forward_kinematics
from sim.envs.task import DTYPES, Task, TaskState, bound_of, require_settings, require_state
from sim.envs.view import View
from sim.errors import ModelError, NotFiniteWarning
from sim.model.checks import is_whole, number, require_flags, require_type
from sim.render.frames import render_frames
from sim.render.view import check_size
from sim.simulation.simulator import Simulator
from sim.torch.adjoint_clip import clip_adjoint
from sim.torch.arrays import require_tensor
from sim.torch.autograd import step as simulate
from sim.torch.modes import in_own_precision, outside_inference

if TYPE_CHECKING:
    import gymnasium

AUTORESET_MODES = ("same_step", "next_step", "disabled")
INPUTS = ("tau", "control", "kinematic_qd", "active")  # a model's inputs
KEPT = ("q", "qd", "steps", "data", "ended", "returns", "parameters", "generator")  # of get_state
Transition = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]


@dataclass(frozen=True)
class Episodes:
    """Bookkeeping of an environment besides the state.

    Attributes:
        ended: mask of the episodes that are over and wait for a reset [num_envs].
        returns: sum of the rewards of each episode [num_envs], without history.
    """

    ended: torch.Tensor
    returns: torch.Tensor


class VectorEnv:
    """``num_envs`` environments of a task, in the worlds of one simulator.

    :meth:`step` returns tensors on the simulator's device. With ``differentiable`` they carry gradients with respect to
    actions and earlier states, until :meth:`detach` cuts them. No gradient crosses a reset.

    Args:
        task: the task.
        num_envs: number of environments.
        device: "cpu" or "cuda:0". Default: Warp's current one.
        seed: seed of all random numbers. Default: a random one.
        differentiable: keep the history of states, so that rewards have gradients.
        autoreset_mode: gymnasium's modes at an episode's end. "same_step": it is reset within the step, whose
            observation is the first of the next episode; ``info["final_obs"]`` is the last of the one that ended.
            "next_step": the next step resets it, ignores its action and gives a reward of zero. "disabled": call
            :meth:`reset` with a ``reset_mask``.
        adjoint_clip: maximum norm of the gradient that each environment propagates from one step to the previous step,
            see :func:`sim.torch.clip_adjoint`. The gradient of a step's reward in the state after it isn't clipped.
            Biased. Default: off.
        threads: CPU threads. Default: the number of cores that the process may use.

    Attributes:
        task: as given.
        simulator: the simulator with all worlds.
        num_observations, num_actions: sizes of observations and actions.
        action_low, action_high: bounds of actions [num_actions].
        generator: the source of all random numbers.
        differentiable: as given; may be set.

    Raises:
        ModelError: for options out of range, and in the methods for wrong shapes and a step before a reset.

    Example:
        >>> import torch
        >>> import sim.envs
        >>> env = sim.envs.VectorEnv(sim.envs.make_task("CartpoleSwingup"), num_envs=4, device="cpu", seed=0)
        >>> observation, info = env.reset()
        >>> observation, reward, terminated, truncated, info = env.step(torch.zeros(4, env.num_actions))
        >>> observation.shape == (4, env.num_observations), reward.shape
        (True, torch.Size([4]))
    """

    @outside_inference
    def __init__(
        self,
        task: Task,
        num_envs: int = 1,
        *,
        device: str | None = None,
        seed: int | None = None,
        differentiable: bool = False,
        autoreset_mode: str = "same_step",
        adjoint_clip: float = float("inf"),
        threads: int | None = None,
    ):
        if not isinstance(task, Task):
            raise ModelError(f"task is a {type(task).__name__}; it must be a sim.envs.Task")
        if not is_whole(num_envs, 1):
            raise ModelError(f"num_envs is {num_envs!r}; it must be a whole number of at least 1")
        if autoreset_mode not in AUTORESET_MODES:
            raise ModelError(f"autoreset_mode is {autoreset_mode!r}; it must be one of {', '.join(AUTORESET_MODES)}")
        if not number("VectorEnv", "adjoint_clip", adjoint_clip) > 0.0:
            raise ModelError(f"adjoint_clip is {adjoint_clip!r}; it must be positive")
        require_flags("VectorEnv", differentiable=differentiable)
        self.task = task
        self.num_envs = int(num_envs)
        self.autoreset_mode = autoreset_mode
        self.adjoint_clip = float(adjoint_clip)
        self.differentiable = differentiable
        self.simulator = Simulator(
            task.model(), task.dt, num_envs, device, task.contact(), threads=threads, integrator=task.integrator,
            state_limit=task.state_limit,
        )  # fmt: skip
        if self.simulator.model.dtype != task.dtype:
            raise ModelError(f"the task's dtype is {task.dtype}, but its model has {self.simulator.model.dtype}")
        self.generator = torch.Generator(self.device)
        self._seed(seed)
        self.num_actions = task.num_actions(self.simulator.model)
        require_settings(task, self.num_actions)
        self.action_low, self.action_high = (
            bound_of(task, name, self.num_actions, self.device) for name in ("action_low", "action_high")
        )
        if not bool((self.action_low <= self.action_high).all()):
            raise ModelError(
                f"{type(task).__name__}: action_low is {self.action_low.tolist()}, but action_high "
                f"{self.action_high.tolist()}; no entry of action_low may be greater"
            )
        # A trial of the task, with separate random numbers, so that it doesn't affect a seed's episodes.
        probe = self._first_states(1, torch.Generator(self.device))
        seen = task.observe(probe)
        self.num_observations = int(seen.shape[-1]) if isinstance(seen, torch.Tensor) and seen.dim() else 0
        self._returned("observe", seen, (1, self.num_observations))
        self._state: TaskState | None = None
        self._episodes = Episodes(self._flags(False), torch.zeros(num_envs, dtype=self.dtype, device=self.device))
        self._random_parameters: dict[str, torch.Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the content of a copy or pickle: the present state without its history, which PyTorch can't copy."""
        return {**self.__dict__, "_state": self._state and self._state.detach()}

    def __repr__(self) -> str:
        return f"VectorEnv({type(self.task).__name__}, num_envs={self.num_envs}, {self.simulator!r})"

    @property
    def device(self) -> torch.device:
        """Device of all tensors."""
        device = self.simulator.device
        return torch.device("cpu") if device.is_cpu else torch.device(f"cuda:{device.ordinal}")

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of all numbers."""
        return DTYPES[self.task.dtype]

    @property
    def max_episode_length(self) -> int:
        """Environment steps after which an episode is truncated."""
        return self.task.max_episode_length

    @property
    def step_dt(self) -> float:
        """Duration of a step of the environment [s]."""
        return self.task.step_dt

    @property
    def frame_skip(self) -> int:
        """Steps of the simulator per step of the environment."""
        return self.task.frame_skip

    @functools.cached_property
    def single_observation_space(self) -> "gymnasium.spaces.Box":
        """Gymnasium space of one environment's observations. Raises ModelError if gymnasium isn't installed."""
        spaces = _gymnasium_spaces("single_observation_space")
        return spaces.Box(-np.inf, np.inf, (self.num_observations,), np.dtype(self.task.dtype))

    @functools.cached_property
    def single_action_space(self) -> "gymnasium.spaces.Box":
        """Gymnasium space of one environment's actions, likewise."""
        dtype = np.dtype(self.task.dtype)
        low, high = (bound.cpu().numpy().astype(dtype) for bound in (self.action_low, self.action_high))
        return _gymnasium_spaces("single_action_space").Box(low, high, dtype=dtype)

    @property
    def state(self) -> TaskState:
        """The present state, with its history. Raises ModelError before the first reset."""
        if self._state is None:
            raise ModelError("the environment has no state yet; call reset() first")
        return self._state

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Age of each episode in steps [num_envs]; may be set, so that episodes don't all end in the same step."""
        return self.state.steps

    @episode_length_buf.setter
    @outside_inference
    def episode_length_buf(self, steps: torch.Tensor) -> None:
        steps = torch.as_tensor(steps)
        if steps.shape != (self.num_envs,):
            raise ModelError(f"episode_length_buf has shape {tuple(steps.shape)}; expected ({self.num_envs},)")
        if steps.is_floating_point() or steps.is_complex() or bool((steps < 0).any()):
            raise ModelError("episode_length_buf counts steps; its entries must be whole numbers, not negative")
        self._state = replace(self.state, steps=steps.to(self.state.steps))

    # ---- episodes ------------------------------------------------------------------------------------------------

    @outside_inference
    @in_own_precision
    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Reset episodes.

        Args:
            seed: seed of all random numbers from here on. Default: continue the present sequence.
            options: ``{"reset_mask": mask}`` resets only those where the mask [num_envs] is true; the others stay bit
                for bit the same. There are no other options.

        Returns:
            observations of all environments [num_envs, num_observations] and an empty dictionary.
        """
        require_type("reset: options", options or {}, Mapping, "a dictionary")
        for name in options or {}:
            if name != "reset_mask":
                raise ModelError(f"reset: unknown option '{name}'; the only option is reset_mask")
        if seed is not None:
            self._seed(seed)
        mask = (options or {}).get("reset_mask")
        rows = torch.arange(self.num_envs, device=self.device)
        if mask is not None:
            try:
                mask = torch.as_tensor(mask, device=self.device)
            except (TypeError, ValueError, RuntimeError):
                raise ModelError(f"reset_mask is {mask!r}; expected {self.num_envs} booleans") from None
            if mask.shape != (self.num_envs,) or mask.dtype != torch.bool:
                raise ModelError(
                    f"reset_mask has shape {tuple(mask.shape)} and dtype {mask.dtype}; expected ({self.num_envs},) "
                    "and torch.bool"
                )
            rows = rows[mask]
        if self._state is None and len(rows) < self.num_envs:
            raise ModelError("reset_mask excludes environments that were never reset; call reset() without it first")
        if len(rows):
            self._begin(rows)
        return self._observe().clone(), {}

    @outside_inference
    def step(self, action: torch.Tensor) -> Transition:
        """Apply an action for ``frame_skip`` steps.

        Args:
            action: actions [num_envs, num_actions]. Actuator inputs are clamped to the bounds.

        Returns:
            observation [num_envs, num_observations], reward [num_envs], terminated and truncated [num_envs] and a
            dictionary: ``final_obs``, the observation before any reset; ``final_mask``, true for an ended episode;
            ``not_finite``, true if it ended because the state wasn't finite or exceeded the task's ``state_limit``;
            ``episode_return`` and ``episode_length`` so far, zero in a step that only resets. A bad environment keeps
            its last good state in ``final_obs``, gets a reward of zero, and adds nothing to any gradient.
        """
        with torch.set_grad_enabled(self.differentiable and torch.is_grad_enabled()):
            return self._step(self._checked(action))

    @outside_inference
    def detach(self) -> None:
        """Cut the history of the present state, and keep its numbers."""
        self._state = self.state.detach()

    def get_state(self) -> dict[str, Any]:
        """Return everything that determines the future, as tensors: states, episodes, parameters and random numbers."""
        state = self.state.clone()
        return {
            "q": state.q,
            "qd": state.qd,
            "act": state.act,
            "steps": state.steps,
            "data": dict(state.data),
            "ended": self._episodes.ended.clone(),
            "returns": self._episodes.returns.clone(),
            "parameters": {name: value.clone() for name, value in self._random_parameters.items()},
            "generator": self.generator.get_state(),
        }

    @outside_inference
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`get_state`, bit for bit; without history. Raises ModelError for anything
        else.
        """
        require_type("set_state: state", state, Mapping, "the result of get_state")
        if missing := [name for name in KEPT if name not in state]:
            raise ModelError(f"set_state: the state lacks '{missing[0]}'; give the result of get_state")
        given = TaskState(state["q"], state["qd"], state["steps"], state["data"], state.get("act"))
        said, episodes = "set_state: the state has", Episodes(state["ended"], state["returns"])
        require_state(said, given, self.num_envs, self.simulator.model)
        for name, dtype in (("ended", torch.bool), ("returns", self.dtype)):
            require_tensor(f"set_state: '{name}'", getattr(episodes, name), (self.num_envs,), dtype)
        try:
            self.generator.set_state(state["generator"].cpu())  # torch.load may have mapped it to a GPU with the rest
        except (AttributeError, TypeError, RuntimeError) as error:
            raise ModelError(f"{said} another generator: {error}") from None
        self._state, self._episodes = given.clone(), Episodes(episodes.ended.clone(), episodes.returns.clone())
        self._random_parameters = {name: value.clone() for name, value in state["parameters"].items()}
        self._set_parameters()

    def render(self, worlds: tuple[int, ...] = (0,), width: int = 640, height: int = 480, **options: Any) -> np.ndarray:
        """Render an image of some worlds next to each other, uint8 [height, width, 3].

        The camera stays fixed between images, and follows only what leaves its view.

        Args:
            worlds: indices of the worlds.
            width: width of the image [pixels].
            height: height of the image [pixels].
            **options: options of :func:`sim.render.render_frames`, such as a ``camera``.
        """
        model = self.simulator.model
        require_type("render: worlds", worlds, Iterable, "a list of numbers")
        chosen = list(worlds)
        if not chosen:
            raise ModelError("render: worlds is empty; name at least one")
        for world in chosen:
            if not (is_whole(world, 0) and world < self.num_envs):
                raise ModelError(f"render: world {world!r} is out of range; worlds go from 0 to {self.num_envs - 1}")
        q = self.state.q.detach()[chosen].cpu().numpy()
        poses = forward_kinematics(model, wp.array(q, dtype=model.scalar, device="cpu")).numpy()
        check_size(width, height)
        camera, spacing = self._view.camera(poses, width / height)
        return render_frames(
            model, poses[None], width=width, height=height, **{"camera": camera, "spacing": spacing, **options}
        )[0]

    @functools.cached_property
    def _view(self) -> View:
        return View(self.simulator.model)

    # ---- inside --------------------------------------------------------------------------------------------------

    @in_own_precision
    def _step(self, action: torch.Tensor) -> Transition:
        before = self.state
        waiting = self._episodes.ended
        if self.autoreset_mode == "disabled" and bool(waiting.any()):
            row = int(waiting.nonzero()[0, 0])
            raise ModelError(
                f'environment {row} has ended, and autoreset_mode is "disabled"; reset it with '
                'reset(options={"reset_mask": mask})'
            )
        lost = action.isnan().any(dim=1)
        action = action.masked_fill(lost[:, None], 0.0)  # a NaN in a reward would be one in its gradient
        after, bad = self._simulate(before, action, lost)
        every = (self.num_envs,)
        reward = self._returned("reward", self.task.reward(before, action, after), every).to(self.dtype)
        reward = reward.masked_fill(bad | waiting, 0.0)
        failed = self._returned("terminated", self.task.terminated(after), every, torch.bool)
        terminated = (failed | bad) & ~waiting
        truncated = (after.steps >= self.task.max_episode_length) & ~waiting
        ended = terminated | truncated
        returns = (self._episodes.returns + reward.detach()).masked_fill(waiting, 0.0)
        if self.adjoint_clip < math.inf and after.q.requires_grad:
            after = after.with_states(clip_adjoint(after.q, after.qd, self.adjoint_clip, after.act))
        self._state, self._episodes = after, Episodes(ended, returns)
        observation = self._observe()
        info = {
            "final_obs": observation,
            "final_mask": ended,
            "not_finite": bad & ~waiting,
            "episode_return": returns,
            "episode_length": after.steps.masked_fill(waiting, 0),
        }
        begins = {"same_step": ended, "next_step": waiting, "disabled": torch.zeros_like(ended)}[self.autoreset_mode]
        if bool(begins.any()):
            self._begin(begins.nonzero()[:, 0])
            observation = self._observe()
        return observation.clone(), reward, terminated, truncated, info  # final_obs may be the same tensor

    def _simulate(self, before: TaskState, action: torch.Tensor, lost: torch.Tensor) -> tuple[TaskState, torch.Tensor]:
        """Return the state after an action, and masks of bad worlds and of ``lost`` ones: those keep their state."""
        inputs = self.task.inputs(before, action.clamp(self.action_low, self.action_high))
        if not isinstance(inputs, Mapping) or not set(inputs).issubset(INPUTS):
            said = ", ".join(map(repr, inputs)) if isinstance(inputs, Mapping) else f"a {type(inputs).__name__}"
            raise ModelError(
                f"{type(self.task).__name__}.inputs returned {said}; expected {', '.join(map(repr, INPUTS))}"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotFiniteWarning)  # reported by terminated and info["not_finite"]
            found = simulate(
                self.simulator, before.q, before.qd, inputs.get("tau"), inputs.get("control"),
                hold=self.task.frame_skip, leave_out_bad_worlds=True, act=before.act,
                kinematic_qd=inputs.get("kinematic_qd"), active=inputs.get("active"),
            )  # fmt: skip
        diverged = self.simulator.engine.reports.bad_state
        assert diverged is not None
        bad = lost | (wp.to_torch(as_warp(diverged)) >= 0)
        kept = before.detach()
        old = (kept.q, kept.qd) if kept.act is None else (kept.q, kept.qd, kept.act)
        states = [torch.where(bad[:, None], a, b) for a, b in zip(old, found, strict=True)]
        return before.with_states(states, before.steps + 1), bad

    def _observe(self) -> torch.Tensor:
        """Return the observation of the present state."""
        seen = self._returned("observe", self.task.observe(self.state), (self.num_envs, self.num_observations))
        return seen.to(self.dtype)

    def _returned(
        self, method: str, value: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """Return a task method's result; raises ModelError if it has a wrong type or shape."""
        require_tensor(f"what {type(self.task).__name__}.{method} returned", value, shape, dtype)
        return value

    def _begin(self, rows: torch.Tensor) -> None:
        """Reset the episodes of these environments [k]."""
        count = len(rows)
        parameters, known = self.task.randomise(count, self.generator), self._random_parameters
        said = f"what {type(self.task).__name__}.randomise returned"
        require_type(said, parameters, Mapping, "a dictionary")
        for name, value in parameters.items():
            require_tensor(f"{said} for '{name}'", value, (count, *getattr(value, "shape", ())[1:]))
        if self._state is not None and parameters.keys() != known.keys():
            raise ModelError(f"{said} is {sorted(parameters)}, before {sorted(known)}; always return the same names")
        first = self._first_states(count, self.generator)
        self._state = first if count == self.num_envs else self.state.with_rows(rows, first)
        self._episodes = Episodes(
            self._episodes.ended.index_fill(0, rows, False), self._episodes.returns.index_fill(0, rows, 0.0)
        )
        if parameters:
            self._random_parameters = {
                name: known[name].index_copy(0, rows, value) if name in known else value
                for name, value in parameters.items()
            }
            self._set_parameters()

    def _first_states(self, count: int, generator: torch.Generator) -> TaskState:
        """Return initial states, with states of actuators, which are zero unless the task sets them."""
        first = self.task.sample_state(count, generator)
        require_type(
            f"what {type(self.task).__name__}.sample_state returned",
            first,
            TaskState,
            "a TaskState, as self.episodes(q, qd) makes one",
        )
        if first.act is None and self.simulator.model.na:
            first = replace(first, act=first.qd.new_zeros(count, self.simulator.model.na))
        require_state("sample_state returned", first, count, self.simulator.model)
        return first

    def _set_parameters(self) -> None:
        self.simulator.parameters.update(self._random_parameters)

    def _seed(self, seed: int | None) -> None:
        if seed is None:
            self.generator.seed()
        elif is_whole(seed, -(2**63)) and int(seed) < 2**64:
            self.generator.manual_seed(int(seed))
        else:
            raise ModelError(f"seed is {seed!r}; it must be a whole number of up to 64 bits")

    def _flags(self, value: bool) -> torch.Tensor:
        return torch.full((self.num_envs,), value, dtype=torch.bool, device=self.device)

    def _checked(self, action: torch.Tensor) -> torch.Tensor:
        if not isinstance(action, torch.Tensor):
            raise ModelError(f"action is a {type(action).__name__}; expected a torch.Tensor")
        if action.shape != (self.num_envs, self.num_actions):
            raise ModelError(f"action has shape {tuple(action.shape)}; expected {(self.num_envs, self.num_actions)}")
        if action.device != self.device:
            raise ModelError(f"action is on {action.device}, but the environment is on {self.device}; move one of them")
        return action.to(self.dtype)


def _gymnasium_spaces(asked: str) -> Any:
    """Return gymnasium's module of spaces."""
    try:
        return importlib.import_module("gymnasium.spaces")
    except ModuleNotFoundError:
        raise ModelError(f"{asked} is a space of the package gymnasium: pip install 'backswing[rl]'") from None
