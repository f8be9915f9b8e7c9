"""Batched, differentiable reinforcement-learning environments in PyTorch; see docs/learning.md."""

from sim.envs.catalogue import TASKS, make, make_task
from sim.envs.task import Task, TaskState
from sim.envs.vector_env import VectorEnv

__all__ = ["TASKS", "Task", "TaskState", "VectorEnv", "make", "make_task"]
