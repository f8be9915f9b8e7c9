"""Batched, differentiable reinforcement-learning environments in PyTorch; see docs/learning.md."""

from sim.envs.catalogue import TASKS, make, make_task
from sim.envs.state import NewEpisodes, TaskState
from sim.envs.task import Task
from sim.envs.tasks.locomotion.gait import GaitTask
from sim.envs.tasks.locomotion.get_up import GetUpTask
from sim.envs.tasks.locomotion.legged_robot import LeggedRobot, legged_robot
from sim.envs.tasks.locomotion.legged_task import LeggedTask
from sim.envs.tasks.locomotion.velocity import VelocityTask
from sim.envs.vector_env import VectorEnv

__all__ = [
    "TASKS", "GaitTask", "GetUpTask", "LeggedRobot", "LeggedTask", "NewEpisodes", "Task", "TaskState", "VectorEnv",
    "VelocityTask", "legged_robot", "make", "make_task",
]  # fmt: skip
