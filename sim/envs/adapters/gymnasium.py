"""Adapter to ``gymnasium.vector.VectorEnv``: NumPy arrays in and out."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector.utils import batch_space

from sim.envs.vector_env import VectorEnv

MODES = {
    "same_step": gymnasium.vector.AutoresetMode.SAME_STEP,
    "next_step": gymnasium.vector.AutoresetMode.NEXT_STEP,
    "disabled": gymnasium.vector.AutoresetMode.DISABLED,
}


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv):
    """Gymnasium vector environment of an environment, without gradients.

    With the mode "same_step" ``info["final_obs"]`` has the last observations of the episodes that ended in this step,
    where ``info["_final_obs"]`` is true, like gymnasium's. ``info["not_finite"]`` marks the environments whose episode
    ended because the state wasn't finite. Groups of observations are a space ``Dict``. Names of a task's rewards and
    failures add ``info["reward_terms"]`` and ``info["failures"]`` of the episodes that ended. Gymnasium's wrapper
    ``RecordEpisodeStatistics`` adds the returns and lengths of episodes.

    Args:
        env: the environment; its ``autoreset_mode`` is kept.

    Example:
        >>> import sim.envs
        >>> from sim.envs.adapters.gymnasium import GymnasiumVectorEnv
        >>> envs = GymnasiumVectorEnv(sim.envs.make("Pendulum-1", num_envs=4, device="cpu", seed=0))
        >>> observation, info = envs.reset(seed=1)
        >>> observation, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        >>> reward.shape
        (4,)
    """

    def __init__(self, env: VectorEnv):
        self.env = env
        self.num_envs = env.num_envs
        self.metadata = {
            "autoreset_mode": MODES[env.autoreset_mode],
            "render_modes": ["rgb_array"],
            "render_fps": round(1.0 / env.step_dt),
        }
        self.render_mode = "rgb_array"
        self.single_observation_space = env.single_observation_space
        self.single_action_space = env.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset, see :meth:`sim.envs.VectorEnv.reset`; of several seeds the first is used, for all environments."""
        first: Any = seed[0] if isinstance(seed, Sequence) and len(seed) else seed
        observation, _ = self.env.reset(first, options)
        return _numpy(observation), {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step, see :meth:`sim.envs.VectorEnv.step`."""
        action = torch.as_tensor(np.asarray(actions), dtype=self.env.dtype, device=self.env.device)
        with torch.no_grad():
            observation, reward, terminated, truncated, found = self.env.step(action)
        info: dict[str, Any] = {}
        ended = _numpy(found["final_mask"])
        if self.env.autoreset_mode == "same_step" and ended.any():
            last = _numpy(found["final_obs"])
            info = {"final_obs": self._by_environment(last, ended) if isinstance(last, dict) else last}
            info["_final_obs"] = ended
        bad = _numpy(found["not_finite"])
        if bad.any():
            info |= {"not_finite": bad, "_not_finite": bad}
        for name in ("reward_terms", "failures"):
            if found.get(name) and ended.any():
                values = _numpy(found[name])
                info |= {name: {**values, **{f"_{each}": ended for each in values}}, f"_{name}": ended}
        return _numpy(observation), _numpy(reward), _numpy(terminated), _numpy(truncated), info

    def _by_environment(self, values: dict[str, np.ndarray], chosen: np.ndarray) -> np.ndarray:
        """Return an array of objects, with a dictionary of values for each of the chosen environments, else None."""
        found = np.full(self.num_envs, None, dtype=object)
        for row in np.flatnonzero(chosen):
            found[row] = {name: value[row] for name, value in values.items()}
        return found

    def render(self) -> tuple[np.ndarray, ...]:
        """Render an image of each of the first four environments."""
        return tuple(self.env.render(worlds=(world,)) for world in range(min(4, self.num_envs)))


def _numpy(tensor: torch.Tensor | dict[str, torch.Tensor]) -> Any:
    """Copy a tensor, or those of a dictionary, to NumPy: the environment's own tensors are reused."""
    if isinstance(tensor, dict):
        return {name: _numpy(value) for name, value in tensor.items()}
    return np.array(tensor.detach().cpu().numpy())
