"""Algorithms and tasks by name, with settings that suit the task."""

import dataclasses
import importlib.util
import inspect
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

from sim.envs import Task, VectorEnv, make_task
from sim.envs.catalogue import SIMULATOR_OPTIONS, with_simulator_options
from sim.errors import ModelError
from sim.learn import processes
from sim.learn.apg import Apg, ApgSettings
from sim.learn.learner import Learner
from sim.learn.ppo import Ppo, PpoSettings
from sim.learn.sac import Sac, SacSettings
from sim.learn.shac import Shac, ShacSettings
from sim.model.checks import is_whole, require_choice, require_names, require_type
from sim.simulation.options import MujocoContact


class Algorithm(NamedTuple):
    """An algorithm: class of its learner, class of its settings, and how it uses environments.

    Attributes:
        learner: the class of the learner.
        settings: the class of its settings.
        envs: default number of environments in each process.
        differentiable: True if environments keep the history of their states.
    """

    learner: Any
    settings: Any
    envs: int
    differentiable: bool


ALGORITHMS = {
    "ppo": Algorithm(Ppo, PpoSettings, 64, False),
    "shac": Algorithm(Shac, ShacSettings, 64, True),
    "apg": Algorithm(Apg, ApgSettings, 16, True),
    "sac": Algorithm(Sac, SacSettings, 16, False),
}

# Settings of tasks that need other values than the defaults. Robots that walk need many environments with different
# contacts, and clipped adjoints; with more noise than this they fall before they learn. A hopper has to leave its
# standing pose, which takes more noise, a wider bound and a longer horizon. Legged robots with servos learn
# faster with near rewards, and if an update may change the policy more; those that get up find out how by noise that
# lasts.
WALKING: dict[str, Any] = {"envs": 256, "horizon": 16, "deviation": 0.1, "adjoint_clip": 3.0}
HOPPING = {**WALKING, "deviation": 0.3, "adjoint_clip": 30.0, "discount": 0.995}
HOPPING_ON_SOFT_GROUND = {**HOPPING, "deviation": 0.5, "adjoint_clip": 3.0}
SERVOS = {
    "envs": 512, "horizon": 24, "discount": 0.97, "trace": 0.9, "divergence": 0.04, "hidden": (128, 128),
    "value_hidden": (128, 128),
}  # fmt: skip
RISING = {**SERVOS, "deviation": 0.6, "discount": 0.98, "trace": 0.95, "divergence": 0.02, "entropy": 0.005}
GAIT = {
    **WALKING, "envs": 128, "horizon": 24, "deviation": 0.15, "discount": 0.97, "policy_rate": 1e-3, "value_rate": 1e-3,
}  # fmt: skip
PRESETS: dict[tuple[str, str], dict[str, Any]] = {
    ("shac", "Hopper"): HOPPING,
    ("shac", "Hopper mujoco"): HOPPING_ON_SOFT_GROUND,
    **{("shac", robot): WALKING for robot in ("Ant", "AntPaper", "HalfCheetah", "Humanoid")},
    ("ppo", "LeggedTask"): SERVOS,
    ("ppo", "GetUpTask"): RISING,
    ("ppo", "PickAndPlace"): {"envs": 128, "horizon": 24},
    ("shac", "LeggedTask"): {**WALKING, "deviation": 0.15, "discount": 0.97},
    ("shac", "GaitTask"): GAIT,
}


def load_task(name: str, **options: Any) -> Task:
    """Make a task by its name, or from a class in a Python file.

    Args:
        name: a name of :func:`sim.envs.make_task`, such as "Ant", or a file and a class, such as "my_task.py:MyTask".
        **options: arguments of the task's class, and ``threads_per_world`` (:class:`sim.envs.Task`).

    Raises:
        ModelError: for an unknown name, a file without that class, or options that it doesn't have.

    Example:
        >>> import sim.learn
        >>> task = sim.learn.load_task("Pendulum-2", substeps=1)
        >>> task.frame_skip
        1
    """
    require_names("load_task", name=name)
    file, found, kind = name.rpartition(":")
    if not found:
        if name.endswith(".py"):
            raise ModelError(f"{name}: name the class too, as {name}:MyTask")
        return make_task(name, **options)
    task_class = getattr(_module_of(Path(file)), kind, None)
    if not (inspect.isclass(task_class) and issubclass(task_class, Task)):
        raise ModelError(f"{name}: {file} has no class '{kind}' that derives from sim.envs.Task")
    try:
        inspect.signature(task_class).bind(**{name: options[name] for name in options.keys() - {*SIMULATOR_OPTIONS}})
    except TypeError as error:
        raise ModelError(f"{name}: {error}; options are arguments of the class") from None
    return with_simulator_options(task_class, options)


def _module_of(file: Path) -> Any:
    """Run a Python file as a module. Its own folder is searched for what it imports, as Python does for a program."""
    if file.suffix != ".py" or not file.is_file():
        raise ModelError(f"{file}: no such Python file; name a task as file.py:Class, or one of sim.envs.TASKS")
    name = f"_task_file_{file.stem}"  # never that of another module
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def make_learner(
    task: Task,
    algorithm: str,
    *,
    iterations: float,
    seed: int = 0,
    device: str | None = None,
    threads: int | None = None,
    **chosen: Any,
) -> Learner:
    """Make the learner of an algorithm, with the defaults of the task.

    Args:
        task: the task.
        algorithm: name of the algorithm, one of ``sim.learn.ALGORITHMS``.
        iterations: number of iterations over which learning rates fall.
        seed: seed of all random numbers.
        device: device of the environments, "cpu" or "cuda:0". Default: Warp's current one.
        threads: CPU threads. Default: this process's share of the cores.
        **chosen: values that differ from the defaults: settings of the algorithm, ``envs`` (number of environments in
            each process) and ``adjoint_clip`` (see :class:`sim.envs.VectorEnv`).

    Raises:
        ModelError: for an unknown algorithm or setting, and a value out of range.

    Example:
        >>> import sim.learn
        >>> task = sim.envs.make_task("Pendulum-1", substeps=1)
        >>> learner = sim.learn.make_learner(task, "apg", iterations=10, device="cpu", envs=2, rate=1e-3)
        >>> learner.env.num_envs, learner.settings.rate
        (2, 0.001)
    """
    require_choice("algorithm", algorithm, ALGORITHMS)
    require_type("task", task, Task, "a sim.envs.Task")
    if threads is not None and not is_whole(threads, 1):
        raise ModelError(f"threads is {threads!r}; it must be a whole number of at least 1")
    kind = ALGORITHMS[algorithm]
    known = [field.name for field in dataclasses.fields(kind.settings)]
    for name in chosen:
        if name not in (*known, "envs", "adjoint_clip"):
            raise ModelError(f"{algorithm} has no setting '{name}'; it has envs, adjoint_clip, {', '.join(known)}")
    options = {"envs": kind.envs, "adjoint_clip": math.inf, **_preset(task, algorithm), **chosen}
    env = VectorEnv(
        task, options.pop("envs"), device=device, differentiable=kind.differentiable,
        adjoint_clip=options.pop("adjoint_clip"), threads=threads or processes.threads(),
    )  # fmt: skip
    return kind.learner(env, kind.settings(**options), iterations, seed)


def _preset(task: Task, algorithm: str) -> dict[str, Any]:
    """Return settings for a task that differ from an algorithm's defaults: those of its class or of a base class."""
    soft = " mujoco" if isinstance(task.contact(), MujocoContact) else ""
    for kind in type(task).__mro__:
        if kind.__module__.startswith("sim.envs."):
            for name in (f"{kind.__name__}{soft}", kind.__name__):
                if (algorithm, name) in PRESETS:
                    return PRESETS[algorithm, name]
    return {}
