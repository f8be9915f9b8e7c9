"""Plays a policy of a legged robot, here and in MuJoCo.

    torchrun --nproc-per-node 2 -m sim train QuadrupedVelocity --envs 256 --minutes 2 --iterations 1000 --out out/walk
    python -m examples.rl.walk out/walk/policy.pt

Prints the errors of the commanded velocities over 64 random commands of five seconds, without their first second: the
mean distance of the velocity from the command at each action, and that of the mean velocity. The robot, its servos and
the ground are written as MJCF for MuJoCo, whose contacts are soft. Writes walk.gif, a walk ahead, to the left, to the
right and in a circle. Of a policy that gets up (QuadrupedGetUp) it prints how many of 64 robots stand after a fall, and
shows three of them.
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sim
from examples.options import SIZE, command, make_folder, program
from sim.envs import GetUpTask, LeggedTask, TaskState, VelocityTask
from sim.errors import MJCFWarning, ModelError
from sim.exporters import write_mjcf
from sim.learn import load_policy, load_task, write_animation
from sim.learn.evaluation import Actor

COMMANDS, SECONDS, SETTLING = 64, 5.0, 1.0  # number of commands, duration of each and of its beginning [s]
TOUR = ((0.8, 0.0, 0.0), (0.0, 0.4, 0.0), (0.0, -0.4, 0.0), (0.6, 0.0, 1.0))  # largest commands of the animation
TOUR_SECONDS = 3.0  # of each
FALLS = slice(3)  # robots of the animation that get up
# Simulates an action of all robots from q [n, nq], qd [n, nv] and servo targets [n, nu].
Engine = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Walk:
    """Motion of robots that follow commands.

    Attributes:
        speed_error: mean distance of the horizontal velocity from the command, over all actions [m/s].
        mean_speed_error: mean distance of the mean velocity of each robot from its command [m/s].
        turn_error: mean distance of the rate about the vertical from the command [rad/s].
        falls: number of robots that fell.
        velocity: mean velocity of each robot during each command, ahead and to the left [commands, n, 2], m/s.
        q: coordinates [steps, n, nq].
    """

    speed_error: float
    mean_speed_error: float
    turn_error: float
    falls: int
    velocity: np.ndarray
    q: np.ndarray

    def __str__(self) -> str:
        return (
            f"error of the velocity {self.speed_error:.3f} m/s, of its mean {self.mean_speed_error:.3f} m/s, "
            f"of the rate {self.turn_error:.3f} rad/s; {self.falls} of {self.velocity.shape[1]} fell"
        )


def here(task: LeggedTask) -> Engine:
    """Return this simulator."""
    simulators: dict[int, sim.Simulator] = {}

    def step(q: np.ndarray, qd: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if len(q) not in simulators:
            simulators[len(q)] = sim.Simulator(
                task.model(), task.dt, len(q), "cpu", task.contact(), integrator=task.integrator
            )
        held = np.broadcast_to(targets, (task.frame_skip, *targets.shape))
        motion = simulators[len(q)].rollout(simulators[len(q)].state(q, qd), control=held)
        return motion.q.numpy()[-1], motion.qd.numpy()[-1]

    return step


def in_mujoco(task: LeggedTask) -> Engine:
    """Return MuJoCo, with robot and ground from a file of :func:`sim.exporters.write_mjcf`."""
    import mujoco

    model = task.model()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", MJCFWarning)  # MuJoCo doesn't enforce velocity limits
        loaded = mujoco.MjModel.from_xml_path(str(write_mjcf(Path(folder) / "robot.xml", model)))
    loaded.opt.timestep = task.dt
    if task.model().mujoco is None:
        loaded.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # stable with the gains of servos
    robots: list[Any] = []

    def step(q: np.ndarray, qd: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        robots.extend(mujoco.MjData(loaded) for _ in range(len(q) - len(robots)))
        after = []
        for data, *state, target in zip(robots, q, qd, targets, strict=False):
            data.qpos, data.qvel = sim.to_mujoco(model, *state)
            data.ctrl = target
            mujoco.mj_step(loaded, data, task.frame_skip)
            after.append(sim.from_mujoco(model, data.qpos.copy(), data.qvel.copy()))
        return np.stack([each for each, _ in after]), np.stack([each for _, each in after])

    return step


@torch.no_grad()
def play(
    policy: Actor,
    task: LeggedTask,
    q: np.ndarray,
    qd: np.ndarray,
    engine: Engine,
    data: Sequence[Mapping[str, torch.Tensor]],
) -> Iterator[TaskState]:
    """Play robots with a policy that observes the state exactly.

    Args:
        policy: the policy.
        task: the task.
        q: initial coordinates [n, nq].
        qd: initial velocities [n, nv].
        engine: simulates the robots.
        data: further data of each step, such as a command.

    Yields:
        the state before each step.

    Raises:
        ModelError: for servos with a delay.
    """
    if task.model().na:
        raise ModelError(f"{type(task).__name__} has servos with a delay, which aren't played")
    action = torch.zeros(len(q), task.model().nu)
    for k, each in enumerate(data):
        steps = torch.full((len(q),), k)
        now = torch.tensor(q).float()
        heights = {} if task.robot.terrain is None else {"heights": task.scan(now)}
        state = TaskState(now, torch.tensor(qd).float(), steps, {**each, **heights, "action": action})
        yield state
        action = policy(torch.cat(list(task.measurements(state).values()), dim=1))
        q, qd = engine(q, qd, task.inputs(state, action)["control"].numpy())


def follow(policy: Actor, task: VelocityTask, commands: torch.Tensor, engine: Engine, seconds: float) -> Walk:
    """Let robots follow commands, from the standing pose, on terrain from the middles of all its tiles; see
    :func:`play`.

    Args:
        policy: the policy.
        task: the task.
        commands: the commands of each robot, one after the other [commands, n, 3].
        engine: simulates the robots.
        seconds: duration of a command [s].
    """
    n, each = commands.shape[1], round(seconds / task.step_dt)
    q, qd = on_tiles(task, np.tile(task.robot.q, (n, 1))), np.zeros((n, task.model().nv))
    data = [{"command": command} for command in commands for _ in range(each)]
    states = list(play(policy, task, q, qd, engine, data))
    settled = [state for k, state in enumerate(states) if k % each * task.step_dt >= SETTLING]
    speed, turn = torch.stack([torch.stack(task.errors(state)) for state in settled]).mean(dim=(0, 2)).tolist()
    velocity = torch.stack([task.motion(state)[0][:, :2] for state in settled])
    velocity = velocity.unflatten(0, (len(commands), -1)).mean(dim=1)
    missed = float((velocity - commands[:, :, :2]).norm(dim=2).mean())
    fallen = torch.stack([torch.stack(list(task.terminated(state).values())).any(dim=0) for state in states])
    q = np.stack([state.q.numpy() for state in states])
    return Walk(speed, missed, turn, int(fallen.any(dim=0).sum()), velocity.numpy(), q)


def on_tiles(task: LeggedTask, q: np.ndarray) -> np.ndarray:
    """Return coordinates of robots [n, nq] moved from the origin to the tiles of a terrain, if there is one."""
    if task.robot.terrain is None:
        return q
    origins = task.robot.terrain.origins.reshape(-1, 3)
    moved = q.copy()
    moved[:, :3] += origins[np.arange(len(q)) % len(origins)]
    return moved


def rise(policy: Actor, task: GetUpTask, engine: Engine, robots: int = COMMANDS) -> tuple[float, np.ndarray]:
    """Let robots fall from random orientations; return the fraction that stand at the end of an episode, and the motion
    [actions + 1, robots, nq].
    """
    q, qd = (value.numpy() for value in task.starts(robots, torch.Generator().manual_seed(0)))
    states = list(play(policy, task, on_tiles(task, q), qd, engine, [{}] * (task.max_episode_length + 1)))
    return float(task.standing(states[-1]).float().mean()), np.stack([state.q.numpy() for state in states])


def random_commands(task: VelocityTask, seed: int = 0) -> torch.Tensor:
    """Draw commands of a task for robots that follow one each [1, COMMANDS, 3]."""
    return task.command(COMMANDS, torch.Generator().manual_seed(seed)).float()[None]


def tour(task: VelocityTask) -> torch.Tensor:
    """Return the commands of the animation, as far as the task has such commands [commands, 1, 3]."""
    low, high = torch.tensor(task.commands).unbind(dim=1)
    return torch.tensor(TOUR).clamp(low, high)[:, None]


@command
def main() -> None:
    """Play a policy, print the errors and write the animation."""
    parser = argparse.ArgumentParser(
        prog=program(), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policy", type=Path, help="policy.pt of a training")
    parser.add_argument("--out", type=Path, help="folder of the animation (that of the policy)")
    parser.add_argument("--no-render", action="store_true", help="write no animation")
    parser.add_argument("--size", type=int, nargs=2, default=SIZE, help="width and height of the animation (640 360)")
    options = parser.parse_args()
    policy, name, task_options = load_policy(options.policy)
    task = load_task(name, **task_options)
    if not isinstance(task, VelocityTask | GetUpTask):
        raise ModelError(f"{options.policy}: '{name}' follows no velocities and gets up from no fall")
    folder = options.out or options.policy.parent
    if not options.no_render:
        make_folder(folder)
    motions = []
    for engine, make in {"here": here, "MuJoCo": in_mujoco}.items():
        if isinstance(task, GetUpTask):
            share, motion = rise(policy, task, make(task))
            print(f"{engine:7} {share:.0%} stand")
            motions.append(np.concatenate(motion[:, FALLS].swapaxes(0, 1)))
        else:
            print(f"{engine:7} {follow(policy, task, random_commands(task), make(task), SECONDS)}")
    if not options.no_render:
        if isinstance(task, VelocityTask):
            motions.append(follow(policy, task, tour(task), here(task), TOUR_SECONDS).q[:, 0])
        size = (options.size[0], options.size[1])
        write_animation(folder / "walk.gif", task.model(), motions[0], task.step_dt, size=size)
        print(f"wrote {folder / 'walk.gif'}")


if __name__ == "__main__":
    main()
