"""VectorEnv: a batch of environments of one task, stepped together, with gradients through the steps."""

import functools
import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from sim.arrays.host_memory import as_warp
from sim.dynamics.kinematics import forward_kinematics
from sim.envs import returned
from sim.envs.checkpoint import restored, saved
from sim.envs.readings import Readings, measured
from sim.envs.reports import named_results, summed
from sim.envs.spaces import action_box, observation_space
from sim.envs.state import Episodes, NewEpisodes, TaskState, carried_on
from sim.envs.task import Task, TensorOrNamed
from sim.envs.view import View
from sim.errors import ModelError, NotFiniteWarning
from sim.model.checks import is_whole, items_of, number, require_choice, require_flags, require_type
from sim.render.frames import render_frames
from sim.render.view import check_size
from sim.simulation.simulator import Simulator
from sim.torch.arrays import TORCH_DTYPES, require_dense
from sim.torch.autograd import step as simulate
from sim.torch.modes import in_own_precision, outside_inference

if TYPE_CHECKING:
    import gymnasium

AUTORESET_MODES = ("same_step", "next_step", "disabled")
Transition = tuple[TensorOrNamed, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]


class VectorEnv:
    """``num_envs`` environments of a task, in the worlds of one simulator.

    :meth:`step` returns tensors on the simulator's device. With ``differentiable`` they carry gradients with respect to
    actions and earlier states, until :meth:`detach` cuts them. No gradient crosses a reset. Observations are a tensor
    [num_envs, num_observations], or a dictionary of tensors [num_envs, ...] if the task has groups of observations.

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
            see :func:`sim.torch.clip_adjoint`, that of the task's data and readings included. The gradient of a step's
            reward in the state after it isn't clipped. Biased. Default: off.
        threads: CPU threads. Default: the number of cores that the process may use.

    Attributes:
        task: as given.
        simulator: the simulator with all worlds.
        num_observations, num_actions: sizes of observations (of the group "policy") and actions.
        observation_groups: shape of one environment's observations in each group, by name; a task without groups has
            "policy" alone.
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
        require_choice("autoreset_mode", autoreset_mode, AUTORESET_MODES)
        if not number("VectorEnv", "adjoint_clip", adjoint_clip) > 0.0:
            raise ModelError(f"adjoint_clip is {adjoint_clip!r}; it must be positive")
        require_flags("VectorEnv", differentiable=differentiable)
        self.task = task
        self.num_envs = int(num_envs)
        self.autoreset_mode = autoreset_mode
        self.adjoint_clip = float(adjoint_clip)
        self.differentiable = differentiable
        self.simulator = Simulator(
            model := task.model(), task.dt, num_envs, device, task.contact(), threads=threads,
            integrator=task.integrator, contact_sensors=measured(task, model), state_limit=task.state_limit,
            threads_per_world=task.threads_per_world,
        )  # fmt: skip
        if self.simulator.model.dtype != task.dtype:
            raise ModelError(f"the task's dtype is {task.dtype}, but its model has {self.simulator.model.dtype}")
        self.generator = torch.Generator(self.device)
        self._seed(seed)
        self.num_actions = task.num_actions(self.simulator.model)
        returned.require_settings(task, self.num_actions)
        self.action_low, self.action_high = (
            returned.bound_of(task, name, self.num_actions, self.device) for name in ("action_low", "action_high")
        )
        if not bool((self.action_low <= self.action_high).all()):
            raise ModelError(
                f"{type(task).__name__}: action_low is {self.action_low.tolist()}, but action_high "
                f"{self.action_high.tolist()}; no entry of action_low may be greater"
            )
        self._readings = Readings(task, self.simulator) if task.sensors else None
        seen = self._trial()
        self.observation_groups, self._images = returned.groups_of(task, seen), returned.images_of(seen)
        self.num_observations = math.prod(self.observation_groups[returned.POLICY])
        self._has_groups = isinstance(seen, Mapping)
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
        return TORCH_DTYPES[self.task.dtype]

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
    def single_observation_space(self) -> "gymnasium.spaces.Box | gymnasium.spaces.Dict":
        """Gymnasium space of one environment's observations. Raises ModelError if gymnasium isn't installed."""
        return self.observation_space_of(self.task.dtype)

    def observation_space_of(self, dtype: str) -> "gymnasium.spaces.Box | gymnasium.spaces.Dict":
        """Return :attr:`single_observation_space` of a dtype: a box, or a dictionary of boxes for groups.

        Groups of uint8, such as the pictures of cameras, are boxes of bytes for any dtype.
        """
        try:
            kind = np.dtype(dtype)
        except (TypeError, ValueError):
            raise ModelError(f"observation_space_of: dtype is a {type(dtype).__name__}; it must name one") from None
        if kind.kind != "f":
            raise ModelError(f"observation_space_of: dtype is {kind}; it must be one of real numbers")
        only = None if self._has_groups else returned.POLICY
        return observation_space(self.observation_groups, self._images, kind, only)

    @functools.cached_property
    def single_action_space(self) -> "gymnasium.spaces.Box":
        """Gymnasium space of one environment's actions, likewise."""
        return action_box(self.action_low, self.action_high, np.dtype(self.task.dtype))

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
    ) -> tuple[TensorOrNamed, dict[str, Any]]:
        """Reset episodes.

        Args:
            seed: seed of all random numbers from here on. Default: continue the present sequence.
            options: ``{"reset_mask": mask}`` resets only those where the mask [num_envs] is true; the others stay bit
                for bit the same. There are no other options.

        Returns:
            observations of all environments and an empty dictionary.
        """
        require_type("reset: options", {} if options is None else options, Mapping, "a dictionary")
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
        afresh = self._state is None or (seed is not None and mask is None)
        if len(rows):
            new = (rows, self.generator) if afresh else (rows, self.generator, self._state, self._episodes)
            self._begin(NewEpisodes(*new))
        return self._handed(self._observe()), {}

    @outside_inference
    @in_own_precision
    def observe(self) -> TensorOrNamed:
        """Return the observations of the present state, with their history. Noise is drawn anew."""
        return self._handed(self._observe())

    @outside_inference
    def step(self, action: torch.Tensor) -> Transition:
        """Apply an action for ``frame_skip`` steps.

        Args:
            action: actions [num_envs, num_actions]. Actuator inputs are clamped to the bounds.

        Returns:
            observations, reward [num_envs], terminated and truncated [num_envs] and a dictionary: ``final_obs``, the
            observations before any reset; ``final_mask``, true for an ended episode; ``not_finite``, true if it ended
            because the state wasn't finite or exceeded the task's ``state_limit``; ``episode_return`` and
            ``episode_length`` so far, zero in a step that only resets. A bad environment keeps its last good state in
            ``final_obs``, gets a reward of zero, and adds nothing to any gradient.

            Names of a task's rewards and failures add ``reward_terms``, the sum of each term over the episode so far,
            and ``failures``, a mask for each reason [num_envs]. If an episode ended in this step, ``log`` has for each
            term "reward/NAME", the mean of these sums over the episodes that ended, and "end/NAME", the number of
            episodes that ended for this reason, with "end/time" and "end/not_finite". Names in the task's ``logged``
            add "data/NAME", the mean of these data over the episodes that ended.
        """
        with torch.set_grad_enabled(self.differentiable and torch.is_grad_enabled()):
            return self._step(self._checked(action))

    @outside_inference
    def detach(self) -> None:
        """Cut the history of the present state, and keep its numbers."""
        self._state = self.state.detach()

    def get_state(self) -> dict[str, Any]:
        """Return everything that determines the future, as tensors: states, episodes, parameters and random numbers."""
        return saved(self.state, self._episodes, self.generator)

    @outside_inference
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`get_state`, bit for bit; without history. Raises ModelError for anything
        else.
        """
        self._state, self._episodes = restored(
            state, self.num_envs, self.simulator.model, self._first_state, self.generator
        )
        self._random_parameters = dict(self._state.parameters)
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
        chosen = items_of("render: worlds", worlds, "a list of numbers")
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

    def _trial(self) -> TensorOrNamed:
        """Return the observation of a new episode, with separate random numbers, so that it doesn't affect a seed's
        episodes.
        """
        source, row = torch.Generator(self.device), torch.zeros(1, dtype=torch.int64, device=self.device)
        parameters = returned.parameters_of(self.task, 1, source)
        first = self._first(NewEpisodes(row, source), parameters)
        returned.require_logged(self.task, first)
        self._first_state = replace(first.detach(), generator=None)
        return self.task.observe(first)

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
        applied = action.clamp(self.action_low, self.action_high)
        after, bad = self._simulate(before, applied, lost)
        after = returned.advanced(self.task, before, applied, after, bad)
        reward, terms = returned.reward_of(self.task, before, action, after)
        reward = reward.masked_fill(bad | waiting, 0.0)
        failed, reasons = returned.failures_of(self.task, after)
        terminated = (failed | bad) & ~waiting
        truncated = (after.steps >= self.task.max_episode_length) & ~waiting
        ended, last = terminated | truncated, self._episodes
        returns = (last.returns + reward.detach()).masked_fill(waiting, 0.0)
        sums = summed(self.task, last.terms, terms, bad, waiting)
        if self.adjoint_clip < math.inf and after.q.requires_grad:
            after = after.clipped(self.adjoint_clip)
        self._state = returned.with_events(self.task, after)
        self._episodes = Episodes(ended, returns, sums)
        seen = self._observe()
        not_finite = bad & ~waiting
        reasons = {name: mask & ~bad & ~waiting for name, mask in reasons.items()}
        info = {
            "final_obs": seen if self._has_groups else seen[returned.POLICY],
            "final_mask": ended,
            "not_finite": not_finite,
            "episode_return": returns,
            "episode_length": after.steps.masked_fill(waiting, 0),
            **named_results(self.task, self._state, sums, reasons, not_finite, terminated, truncated),
        }
        if self.autoreset_mode == "same_step":
            seen = self._begin_where(ended, self._state, self._episodes, seen)
        elif self.autoreset_mode == "next_step":
            seen = self._begin_where(waiting, before, last, seen)
        return self._handed(seen), reward, terminated, truncated, info

    def _begin_where(
        self, mask: torch.Tensor, state: TaskState, episodes: Episodes, seen: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Begin episodes where a mask is true; return the observations of them, and those ``seen`` of the others.

        ``state`` and ``episodes`` are those at the end of the previous episodes.
        """
        rows = mask.nonzero()[:, 0]
        if not len(rows):
            return seen
        self._begin(NewEpisodes(rows, self.generator, state, episodes))
        first = self._observe()
        if len(rows) == self.num_envs:
            return first
        return {
            name: torch.where(mask.view(-1, *[1] * (value.dim() - 1)), value, seen[name])
            for name, value in first.items()
        }

    def _simulate(self, before: TaskState, action: torch.Tensor, lost: torch.Tensor) -> tuple[TaskState, torch.Tensor]:
        """Return the state after an action, and masks of bad worlds and of ``lost`` ones: those keep their state."""
        inputs, readings = returned.inputs_of(self.task, before, action), self._readings
        carried = self._carried(before)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotFiniteWarning)  # reported by terminated and info["not_finite"]
            found = simulate(
                self.simulator, before.q, before.qd, inputs.get("tau"), inputs.get("control"),
                hold=self.task.frame_skip, leave_out_bad_worlds=True, act=before.act,
                contact_forces=readings is not None and readings.measures_contact,
                sensors=None if readings is None else readings.sensors,
                kinematic_qd=inputs.get("kinematic_qd"), active=inputs.get("active"),
                broken=carried.get("broken"), q_low=carried.get("q_low"),
            )  # fmt: skip
        diverged = self.simulator.engine.reports.bad_state
        assert diverged is not None
        bad = lost | (wp.to_torch(as_warp(diverged)) >= 0)
        kept = before.detach()
        old, new = ([state.q, state.qd, *([] if state.act is None else [state.act])] for state in (kept, found))
        states = [torch.where(bad[:, None], a, b) for a, b in zip(old, new, strict=True)]
        after = replace(before.with_states(states, before.steps + 1), carried=carried_on(before, found, bad))
        if readings is not None:
            after = replace(after, readings=readings.of(found, before.readings, bad))
        return after, bad

    def _carried(self, state: TaskState) -> Mapping[str, torch.Tensor]:
        """Return the parts of a state without gradient, for the simulator."""
        model = self.simulator.model
        if not model.breaks or "broken" in state.carried:
            return state.carried
        return {**state.carried, "broken": state.q.new_zeros(self.num_envs, len(model.switch_names))}

    def _observe(self) -> dict[str, torch.Tensor]:
        """Return the groups of observations of the present state."""
        seen = self.task.observe(self.state)
        return returned.observations_of(self.task, seen, self.num_envs, self.observation_groups, self._images)

    def _handed(self, seen: Mapping[str, torch.Tensor]) -> TensorOrNamed:
        """Return observations as the caller gets them: copies, since the state or final_obs may be the same tensors."""
        copies = {name: value.clone() for name, value in seen.items()}
        return copies if self._has_groups else copies[returned.POLICY]

    def _begin(self, new: NewEpisodes) -> None:
        """Begin episodes."""
        rows, known = new.rows, self._random_parameters
        parameters = returned.parameters_of(self.task, len(rows), self.generator)
        if self._state is not None and parameters.keys() != known.keys():
            said = returned.said_of(self.task, "randomise")
            raise ModelError(f"{said} is {sorted(parameters)}, before {sorted(known)}; always return the same names")
        first = self._first(new, parameters)
        self._state = first if len(rows) == self.num_envs else self.state.with_rows(rows, first)
        self._episodes = Episodes(
            self._episodes.ended.index_fill(0, rows, False),
            self._episodes.returns.index_fill(0, rows, 0.0),
            {name: value.index_fill(0, rows, 0.0) for name, value in self._episodes.terms.items()},
        )
        if parameters:
            self._random_parameters = {
                name: known[name].index_copy(0, rows, value) if name in known else value
                for name, value in parameters.items()
            }
            try:
                self._set_parameters()
            except ModelError as error:
                raise ModelError(f"{type(self.task).__name__}.randomise: {error}") from None
        self._state = replace(self._state, parameters=self._random_parameters, generator=self.generator)

    def _first(self, new: NewEpisodes, parameters: Mapping[str, torch.Tensor]) -> TaskState:
        """Return initial states of new episodes, with all that a task may read."""
        first = returned.first_state(self.task, new, self.simulator.model)
        readings = {} if self._readings is None else self._readings.zeros(len(new), self.device)
        return replace(first, readings=readings, parameters=parameters, generator=new.generator)

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
        require_dense("action", action)
        if action.shape != (self.num_envs, self.num_actions):
            raise ModelError(f"action has shape {tuple(action.shape)}; expected {(self.num_envs, self.num_actions)}")
        if action.device != self.device:
            raise ModelError(f"action is on {action.device}, but the environment is on {self.device}; move one of them")
        return action.to(self.dtype)
