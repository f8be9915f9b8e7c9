"""Evaluation of policies: whole episodes without randomness, and their motion as an animation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from tqdm import tqdm

from sim.dynamics.kinematics import forward_kinematics
from sim.envs import Task, VectorEnv
from sim.errors import ModelError
from sim.learn.learner import group
from sim.model.checks import as_numbers, is_positive, items_of, require_callable, require_type
from sim.model.model import Model
from sim.render import Marker, Renderer, fit_camera, write_gif
from sim.render.view import check_size

EPISODES = 64  # of an evaluation
LONGEST = 1000  # steps of an evaluated episode that has no time limit
FPS = 25  # frame rate of an animation
FILM_SECONDS = 10.0  # maximum length of an animation
FOLLOW_SECONDS = 0.5  # half-width of the smoothing of a camera's path
STAYS_ABOUT = 2.0  # motion that a camera doesn't follow [m]


class Actor(Protocol):
    """Deterministic policy."""

    @property
    def num_observations(self) -> int:
        """Number of observations."""

    def __call__(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the actions [..., actions] for observations [..., num_observations]."""


@dataclass(frozen=True)
class Evaluation:
    """Episodes of a deterministic policy.

    Attributes:
        returns: return of each episode [episodes].
        lengths: its length in environment steps [episodes].
        observation: its last observation, that of the policy [episodes, observations].
        q: coordinates of the episode with the median return [steps, nq], up to the length of an animation.

    Example:
        >>> import sim.learn
        >>> task = sim.envs.make_task("Pendulum-1", substeps=1)
        >>> env = sim.envs.VectorEnv(task, device="cpu")
        >>> policy = sim.learn.Policy(env.num_observations, env.action_low, env.action_high)
        >>> found = sim.learn.evaluate(policy, task, episodes=2, device="cpu")
        >>> found.q.shape
        (100, 1)
    """

    returns: np.ndarray
    lengths: np.ndarray
    observation: np.ndarray
    q: np.ndarray

    def __str__(self) -> str:
        mean, deviation = self.returns.mean(), self.returns.std()
        return f"return {mean:.4g} ± {deviation:.2g} over {len(self.returns)} episodes without randomness"


@torch.no_grad()
def evaluate(
    policy: Actor, task: Task, *, episodes: int = EPISODES, device: str | None = None, seed: int = 1000
) -> Evaluation:
    """Play whole episodes of a policy, without randomness in its actions.

    An episode without a time limit, of a task whose ``max_episode_length`` is infinite, is played for 1000 steps unless
    it fails before.

    Args:
        policy: the policy, such as a :class:`sim.learn.Policy`.
        task: the task.
        episodes: number of episodes, simulated side by side.
        device: "cpu" or "cuda:0". Default: Warp's current one.
        seed: seed of the task's random numbers.

    Example:
        >>> import sim.learn
        >>> task = sim.envs.make_task("Pendulum-1", substeps=1)
        >>> env = sim.envs.VectorEnv(task, device="cpu")
        >>> policy = sim.learn.Policy(env.num_observations, env.action_low, env.action_high)
        >>> found = sim.learn.evaluate(policy, task, episodes=2, device="cpu")
        >>> found.returns.shape, found.lengths.tolist()
        ((2,), [100.0, 100.0])
    """
    require_callable("evaluate: policy", policy)
    env = VectorEnv(task, episodes, device=device, seed=seed)
    observation, _ = env.reset()
    returns = torch.zeros(episodes, device=env.device, dtype=env.dtype)
    lengths = torch.zeros_like(returns)
    last = torch.zeros_like(group(observation, "policy"))
    running = torch.ones(episodes, dtype=torch.bool, device=env.device)
    seen = [env.state.q]
    limit = LONGEST if math.isinf(env.max_episode_length) else math.inf
    while bool(running.any()):
        observation, reward, terminated, truncated, info = env.step(policy(group(observation, "policy")))
        returns += reward.masked_fill(~running, 0.0)
        lengths += running
        ended = running & (terminated | truncated | (lengths >= limit))
        last = torch.where(ended[:, None], group(info["final_obs"], "policy"), last)
        running &= ~ended
        seen.append(env.state.q)
    shown = int(returns.argsort()[episodes // 2])
    count = min(int(lengths[shown]), int(FILM_SECONDS / env.step_dt))  # the next state belongs to another episode
    q = torch.stack([state[shown] for state in seen[:count]])
    return Evaluation(*(tensor.cpu().numpy() for tensor in (returns, lengths, last, q)))


def write_animation(
    path: str | Path,
    model: Model,
    q: np.ndarray,
    step_dt: float,
    *,
    size: tuple[int, int] = (640, 360),
    markers: Sequence[Marker] = (),
    device: str | None = None,
) -> None:
    """Write the motion of one world as an animated GIF; the camera follows a model that travels.

    Args:
        path: the file, .gif.
        model: the model.
        q: its coordinates [steps, nq].
        step_dt: time between them [s].
        size: width and height [pixels].
        markers: fixed balls, such as a target.
        device: device that draws. Default: Warp's current one.

    Example:
        >>> import numpy as np
        >>> import pathlib, tempfile
        >>> import sim.learn
        >>> model = sim.envs.make_task("Pendulum-1").model()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "fall.gif"
        ...     sim.learn.write_animation(file, model, np.array([[0.0], [0.1]]), 0.04, size=(32, 32), device="cpu")
        ...     file.stat().st_size > 100
        True
    """
    require_type("write_animation: model", model, Model, "a sim.Model")
    try:
        width, height = items_of("write_animation: size", size, "width and height [pixels]")
    except ValueError:
        raise ModelError(f"write_animation: size is {size!r}; it must be width and height [pixels]") from None
    check_size(width, height)
    if not is_positive(step_dt):
        raise ModelError(f"write_animation: step_dt is {step_dt!r}; it must be a positive number of seconds")
    step_dt = float(step_dt)
    q = as_numbers("write_animation: q", q)
    if q.ndim != 2 or not len(q) or q.shape[1] != model.nq:
        raise ModelError(f"write_animation: q has shape {q.shape}; expected [steps, {model.nq}]")
    stride = max(1, round(1.0 / (FPS * step_dt)))
    poses = forward_kinematics(model, q[::stride]).numpy()
    travel = travelled(poses, round(FOLLOW_SECONDS / (stride * step_dt)))
    beside = poses.copy()
    beside[:, :, :3] -= travel[:, None]
    camera = fit_camera(model, beside, aspect=width / height)
    renderer = Renderer(model, width=width, height=height, camera=camera, markers=markers, device=device)
    pictures = []
    for frame in tqdm(range(len(poses)), desc="rendering", unit="frame"):
        position, target = (tuple(np.add(point, travel[frame])) for point in (camera.position, camera.target))
        renderer.camera = replace(camera, position=position, target=target)
        pictures.append(renderer.draw(poses[frame], frame))
    write_gif(path, np.stack(pictures), fps=1.0 / (stride * step_dt))


def travelled(poses: np.ndarray, frames: int) -> np.ndarray:
    """Return the smoothed displacement of the links' centre [frames, 3]; zero if it stays nearby.

    Args:
        poses: poses of the links [frames, links, 7].
        frames: width of the mean.
    """
    middle = poses[:, :, :2].mean(axis=1)
    if np.ptp(middle, axis=0).max() < STAYS_ABOUT:
        return np.zeros((len(poses), 3))
    edges = np.concatenate([middle[:1]] * frames + [middle] + [middle[-1:]] * frames)
    kernel = np.full(2 * frames + 1, 1.0 / (2 * frames + 1))
    smooth = np.stack([np.convolve(column, kernel, mode="valid") for column in edges.T], axis=1)
    return np.concatenate([smooth - smooth[0], np.zeros((len(poses), 1))], axis=1)
