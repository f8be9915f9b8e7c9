"""Adapter to ``VecEnv`` of Stable-Baselines3."""

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv

from sim.envs.adapters import require_same_step
from sim.envs.vector_env import VectorEnv
from sim.errors import ModelError


class StableBaselines3VecEnv(VecEnv):
    """Environment for the algorithms of Stable-Baselines3, without gradients.

    Groups of observations are a space ``Dict``, for its "MultiInputPolicy", which sees all of them.

    Args:
        env: the environment; it must reset episodes within a step.

    Raises:
        ModelError: for another ``autoreset_mode``.

    Example:
        >>> import stable_baselines3
        >>> import sim.envs
        >>> from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv
        >>> envs = StableBaselines3VecEnv(sim.envs.make("Pendulum-1", num_envs=4, device="cpu", seed=0))
        >>> learner = stable_baselines3.PPO("MlpPolicy", envs, n_steps=16, batch_size=64, device="cpu", seed=0)
        >>> learner.learn(total_timesteps=64).num_timesteps
        64
    """

    def __init__(self, env: VectorEnv):
        require_same_step("Stable-Baselines3", env)
        self.env = env
        self.render_mode = "rgb_array"
        low, high = (bound.cpu().numpy().astype(np.float32) for bound in (env.action_low, env.action_high))
        super().__init__(
            env.num_envs, env.observation_space_of("float32"), gymnasium.spaces.Box(low, high, dtype=np.float32)
        )
        self._action = torch.zeros(env.num_envs, env.num_actions, dtype=env.dtype, device=env.device)

    def reset(self) -> Any:
        """Reset all episodes; :meth:`seed` before it sets the random numbers, and :meth:`set_options` the options.

        The first world's seed and options apply to all.
        """
        observation, _ = self.env.reset(self._seeds[0], self._options[0])
        self._reset_seeds()
        self._reset_options()
        return _float32(observation)

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions for :meth:`step_wait`."""
        self._action = torch.as_tensor(np.asarray(actions), dtype=self.env.dtype, device=self.env.device)

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step; ``terminal_observation``, ``TimeLimit.truncated`` and ``not_finite`` give the reason for an episode's
        end.

        ``TimeLimit.truncated`` is false if the end of the time is final, see :attr:`sim.envs.Task.time_is_final`. Names
        of a task's rewards and failures add ``reward_terms`` and ``failures``.
        """
        with torch.no_grad():
            observation, reward, terminated, truncated, found = self.env.step(self._action)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = (terminated | truncated).cpu().numpy()
        if ended.any():
            final = self.env.task.is_final(terminated, truncated)
            last, limit = _float32(found["final_obs"]), (truncated & ~final).cpu().numpy()
            returns, lengths, bad = (
                found[name].tolist() for name in ("episode_return", "episode_length", "not_finite")
            )
            for number in np.flatnonzero(ended):
                terminal = (
                    {name: each[number] for name, each in last.items()} if isinstance(last, dict) else last[number]
                )
                infos[number] = {
                    "terminal_observation": terminal,
                    "TimeLimit.truncated": bool(limit[number]),
                    "episode": {"r": returns[number], "l": lengths[number]},
                    "not_finite": bad[number],
                }
                for kind in ("reward_terms", "failures"):
                    if found.get(kind):
                        infos[number][kind] = {name: each[number].item() for name, each in found[kind].items()}
        return _float32(observation), _float32(reward), ended, infos

    def close(self) -> None:
        """Close nothing: no resource is open."""

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Render an image of each of the first four environments."""
        return [self.env.render(worlds=(world,)) for world in range(min(4, self.num_envs))]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the one environment for each of its worlds."""
        value = self.render_mode if attr_name == "render_mode" else getattr(self.env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of all worlds. Raises ModelError for a subset of them."""
        self._require_all(indices, attr_name)
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Call a method once, for all worlds. Raises ModelError for a subset of them."""
        self._require_all(indices, method_name)
        result = getattr(self.env, method_name)(*method_args, **method_kwargs)
        return [result for _ in range(self.num_envs)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Return False for each world: none is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def _require_all(self, indices: Any, name: str) -> None:
        chosen: Iterable[int] = self._get_indices(indices)
        if len(list(chosen)) != self.num_envs:
            raise ModelError(f"'{name}' is shared by all {self.num_envs} worlds; remove indices")


def _float32(tensor: torch.Tensor | dict[str, torch.Tensor]) -> Any:
    """Copy a tensor, or those of a dictionary, to NumPy in single precision; bytes of images stay so."""
    if isinstance(tensor, dict):
        return {name: _float32(value) for name, value in tensor.items()}
    return np.array(tensor.detach().cpu().numpy(), dtype=np.uint8 if tensor.dtype == torch.uint8 else np.float32)
