"""Adapter to ``VecEnv`` of rsl_rl, the library with which Isaac Lab trains legged robots."""

from typing import Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from sim.envs.adapters import require_same_step
from sim.envs.vector_env import VectorEnv


class RslRlVecEnv(VecEnv):
    """Environment for the runners of rsl_rl, without gradients.

    Observations have the task's groups, "policy" alone if it has none; a runner's ``obs_groups`` chooses from them.

    Args:
        env: the environment; it must reset episodes within a step. It is reset here, since a runner doesn't.

    Attributes:
        cfg: settings that a runner logs in addition to its own.

    Raises:
        ModelError: for another ``autoreset_mode``.

    Example:
        >>> import torch
        >>> import sim.envs
        >>> from sim.envs.adapters.rsl_rl import RslRlVecEnv
        >>> envs = RslRlVecEnv(sim.envs.make("Pendulum-1", num_envs=4, device="cpu", seed=0))
        >>> observations, reward, ended, extras = envs.step(torch.zeros(4, envs.num_actions))
        >>> observations["policy"].shape == (4, envs.env.num_observations), extras["time_outs"].any().item()
        (True, False)
    """

    def __init__(self, env: VectorEnv):
        require_same_step("rsl_rl", env)
        self.env = env
        self.num_envs, self.num_actions, self.device = env.num_envs, env.num_actions, env.device
        self.max_episode_length = env.max_episode_length
        self.cfg: dict[str, Any] = {"task": type(env.task).__name__, "num_envs": env.num_envs}
        self._observation, _ = env.reset()

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Age of each episode in steps [num_envs]; a runner may set random ones."""
        return self.env.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, steps: torch.Tensor) -> None:
        self.env.episode_length_buf = steps

    def get_observations(self) -> TensorDict:
        """Return the present observations [num_envs, ...] by group."""
        seen = self._observation if isinstance(self._observation, dict) else {"policy": self._observation}
        return TensorDict({name: value.float() for name, value in seen.items()}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step; ``extras["time_outs"]`` marks the episodes that ended only by their length.

        It is false if the end of the time is final, see :attr:`sim.envs.Task.time_is_final`. ``extras["log"]`` is that
        of :meth:`sim.envs.VectorEnv.step`, for the runner's log.
        """
        with torch.no_grad():
            self._observation, reward, terminated, truncated, found = self.env.step(actions)
        extras: dict[str, Any] = {"time_outs": truncated & ~self.env.task.is_final(terminated, truncated)}
        if "log" in found:
            extras["log"] = found["log"]
        return self.get_observations(), reward.float(), terminated | truncated, extras
