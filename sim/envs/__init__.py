"""Batched, differentiable reinforcement-learning environments in PyTorch; see docs/learning.md."""

from sim.envs.catalogue import TASKS, make, make_task
from sim.envs.state import NewEpisodes, TaskState
from sim.envs.task import Task
from sim.envs.vector_env import VectorEnv

__all__ = ["TASKS", "NewEpisodes", "Task", "TaskState", "VectorEnv", "make", "make_task"]
