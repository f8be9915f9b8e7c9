"""Environments by name."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from sim.envs.task import Task
from sim.envs.tasks.cartpole import CartpoleSwingup
from sim.envs.tasks.gymnasium_robots import Ant, AntPaper, HalfCheetah, Hopper, Humanoid
from sim.envs.tasks.locomotion.legged_task import LeggedTask
from sim.envs.tasks.locomotion.robots import G1Velocity, Go2GetUp, Go2Velocity, QuadrupedGetUp, QuadrupedVelocity
from sim.envs.tasks.panda_reach import PandaReach
from sim.envs.tasks.pendulum import Pendulum
from sim.envs.tasks.pick import PickAndPlace
from sim.envs.vector_env import VectorEnv
from sim.errors import ModelError
from sim.model.checks import require_type

TASKS: dict[str, type[Task]] = {
    "Pendulum": Pendulum,
    "CartpoleSwingup": CartpoleSwingup,
    "Ant": Ant,
    "AntPaper": AntPaper,
    "Hopper": Hopper,
    "HalfCheetah": HalfCheetah,
    "Humanoid": Humanoid,
    "PandaReach": PandaReach,
    "QuadrupedVelocity": QuadrupedVelocity,
    "QuadrupedGetUp": QuadrupedGetUp,
    "Go2Velocity": Go2Velocity,
    "Go2GetUp": Go2GetUp,
    "G1Velocity": G1Velocity,
    "PickAndPlace": PickAndPlace,
}

# Attributes of a task for its simulator that are options of every task.
SIMULATOR_OPTIONS = ("threads_per_world",)


def make_task(name: str, **options: Any) -> Task:
    """Make a task by its name, see :func:`make`.

    Args:
        name: one of :data:`TASKS`; "Pendulum-3" is a pendulum with three links.
        **options: options of the task's class, and ``threads_per_world`` (:class:`sim.envs.Task`).

    Raises:
        ModelError: for an unknown name or option.

    Example:
        >>> import sim.envs
        >>> task = sim.envs.make_task("Pendulum-3")
        >>> type(task).__name__, task.max_episode_length
        ('Pendulum', 100)
    """
    require_type("name", name, str, "the name of an environment, such as 'Ant'")
    pendulum = re.fullmatch(r"Pendulum-(\d+)", name)
    given = {"links": int(pendulum[1]), **options} if pendulum else options
    kind = "Pendulum" if pendulum else name
    if kind not in TASKS:
        raise ModelError(f"unknown environment '{name}'; known are Pendulum-1, Pendulum-2 ... and {', '.join(TASKS)}")
    known = option_names(TASKS[kind])
    for option in given:
        if option not in known:
            raise ModelError(f"the environment '{name}' has no option '{option}'; it has {', '.join(known)}")
    return with_simulator_options(TASKS[kind], given)


def option_names(kind: type[Task]) -> tuple[str, ...]:
    """Return the names of all options of a task's class."""
    arguments = inspect.signature(kind).parameters.values()
    names = [each.name for each in arguments if each.kind is not each.VAR_KEYWORD]
    settings = kind.setting_names() if issubclass(kind, LeggedTask) and len(names) < len(arguments) else ()
    return (*names, *settings, *SIMULATOR_OPTIONS)


def with_simulator_options(kind: Callable[..., Task], options: Mapping[str, Any]) -> Task:
    """Make a task of a class whose options may include :data:`SIMULATOR_OPTIONS`."""
    task = kind(**{name: value for name, value in options.items() if name not in SIMULATOR_OPTIONS})
    for name in SIMULATOR_OPTIONS:
        if name in options:
            setattr(task, name, options[name])
    return task


def make(
    name: str,
    num_envs: int = 1,
    *,
    device: str | None = None,
    seed: int | None = None,
    differentiable: bool = False,
    autoreset_mode: str = "same_step",
    adjoint_clip: float = float("inf"),
    threads: int | None = None,
    **options: Any,
) -> VectorEnv:
    """Make a batch of environments of a task by its name; see :class:`sim.envs.VectorEnv` for the arguments.

    Args:
        name: see :func:`make_task`; ``sim.envs.TASKS`` lists the tasks.
        num_envs: number of environments.
        device: "cpu" or "cuda:0".
        seed: seed of all random numbers.
        differentiable: keep the history of states, so that rewards have gradients.
        autoreset_mode: "same_step", "next_step" or "disabled".
        adjoint_clip: maximum norm of the gradient propagated from a step to the previous step.
        threads: CPU threads.
        **options: options of the task, such as ``dtype``.

    Raises:
        ModelError: for an unknown name or options out of range.

    Example:
        >>> import torch
        >>> import sim.envs
        >>> env = sim.envs.make("CartpoleSwingup", num_envs=4, device="cpu", seed=0, differentiable=True)
        >>> observation, info = env.reset()
        >>> action = torch.zeros(4, env.num_actions, requires_grad=True)
        >>> observation, reward, terminated, truncated, info = env.step(action)
        >>> reward.sum().backward()
        >>> reward.shape, action.grad.shape
        (torch.Size([4]), torch.Size([4, 1]))
    """
    return VectorEnv(
        make_task(name, **options), num_envs, device=device, seed=seed, differentiable=differentiable,
        autoreset_mode=autoreset_mode, adjoint_clip=adjoint_clip, threads=threads,
    )  # fmt: skip
