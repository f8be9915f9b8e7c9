"""Adapter to the environments of skrl, a library of agents for PyTorch and Isaac Lab."""

from typing import Any

import gymnasium
import numpy as np
import torch
from skrl.envs.wrappers.torch import Wrapper

from sim.envs.adapters import require_same_step
from sim.envs.vector_env import VectorEnv


class SkrlEnv(Wrapper):
    """Environment for the trainers and agents of skrl, without gradients.

    Of a task's groups, observations are "policy", and states, which critics may see, are "critic", each in one row. The
    end of the time counts as a failure if it is final, see :attr:`sim.envs.Task.time_is_final`. ``info["episode"]`` is
    the log of :meth:`sim.envs.VectorEnv.step`, for skrl's own.

    Args:
        env: the environment; it must reset episodes within a step.

    Raises:
        ModelError: for another ``autoreset_mode``.

    Example:
        >>> import torch
        >>> import sim.envs
        >>> from sim.envs.adapters.skrl import SkrlEnv
        >>> envs = SkrlEnv(sim.envs.make("Pendulum-1", num_envs=4, device="cpu", seed=0))
        >>> observation, _ = envs.reset()
        >>> observation, reward, terminated, truncated, info = envs.step(torch.zeros(4, 1))
        >>> reward.shape, truncated.any().item()
        (torch.Size([4, 1]), False)
    """

    def __init__(self, env: VectorEnv):
        require_same_step("skrl", env)
        super().__init__(env)
        self._observation: Any = None

    @property
    def observation_space(self) -> gymnasium.spaces.Space:
        """Space of one environment's observations."""
        return self._space("policy")

    @property
    def state_space(self) -> gymnasium.spaces.Space | None:
        """Space of one environment's group "critic"; None without one."""
        return self._space("critic") if "critic" in self._env.observation_groups else None

    @property
    def action_space(self) -> gymnasium.spaces.Space:
        """Space of one environment's actions."""
        low, high = (bound.cpu().numpy() for bound in (self._env.action_low, self._env.action_high))
        return gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Reset all episodes at the first call; later ones return the present observations, as skrl expects."""
        if self._observation is None:
            self._observation, _ = self._env.reset()
        return self._rows("policy"), {}

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step, see :meth:`sim.envs.VectorEnv.step`; rewards and ends are columns [num_envs, 1]."""
        with torch.no_grad():
            self._observation, reward, terminated, truncated, found = self._env.step(actions)
        final = self._env.task.is_final(terminated, truncated)
        info = {"episode": {name: torch.as_tensor(value) for name, value in found.get("log", {}).items()}}
        columns = (each.view(-1, 1) for each in (reward.float(), final, truncated & ~final))
        return (self._rows("policy"), *columns, info)

    def state(self) -> torch.Tensor | None:
        """Return the group "critic" [num_envs, size]; None without one."""
        return self._rows("critic") if self.state_space is not None else None

    def render(self, *_: Any, **__: Any) -> Any:
        """Render an image of the first environment."""
        return self._env.render()

    def close(self) -> None:
        """Close nothing: no resource is open."""

    def _space(self, group: str) -> gymnasium.spaces.Space:
        space = self._env.observation_space_of("float32")
        if isinstance(space, gymnasium.spaces.Dict):
            return gymnasium.spaces.flatten_space(space[group])
        return space

    def _rows(self, group: str) -> torch.Tensor:
        seen = self._observation
        return (seen if isinstance(seen, torch.Tensor) else seen[group].reshape(len(seen[group]), -1)).float()
