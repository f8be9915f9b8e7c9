"""A mass on a rail that is to stand at the middle: a task that each algorithm learns within seconds."""

import torch

import sim
from sim.envs import Task, TaskState


class Slider(Task):
    """Args: ``harm`` makes the reward infinite beyond that distance, and with ``blind`` the observation NaN there."""

    dt, frame_skip, max_episode_length = 0.1, 1, 20
    action_low, action_high = -3.0, 3.0

    def __init__(self, harm: float = float("inf"), blind: bool = False):
        super().__init__()
        self.harm, self.blind = harm, blind

    def model(self) -> sim.Model:
        builder = sim.ModelBuilder()
        builder.add_link("mass", mass=1.0, com=(0, 0, 0), inertia=(0.1, 0.1, 0.1))
        builder.add_joint("rail", "prismatic", child="mass", axis=(1, 0, 0))
        builder.add_actuator("rail")
        return builder.finalize(self.dtype)

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        return self.episodes(self.uniform((n, 1), generator, -1.0, 1.0), self.uniform((n, 1), generator, -1.0, 1.0))

    def observe(self, state: TaskState) -> torch.Tensor:
        seen = torch.cat([state.q, state.qd], dim=1)
        return seen.masked_fill(state.q.abs() > self.harm, torch.nan) if self.blind else seen

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        reward = -after.q[:, 0].square() - 0.1 * after.qd[:, 0].square()
        return reward if self.blind else reward.masked_fill(after.q[:, 0].abs() > self.harm, -torch.inf)
