"""Plays a policy that follows velocities, here and in MuJoCo.

    torchrun --nproc-per-node 2 -m sim train QuadrupedVelocity --minutes 5 --iterations 100000 --out out/walk
    python -m examples.rl.walk out/walk/policy.pt

Prints the errors of the commanded velocities over 64 random commands of five seconds, without their first second: the
mean distance of the velocity from the command at each action, and that of the mean velocity. The robot, its servos and
the ground are written as MJCF for MuJoCo, whose contacts are soft. Writes walk.gif, a walk ahead, to the left, to the
right and in a circle.
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sim
from examples.options import SIZE, command, program
from sim.envs import TaskState, VelocityTask
from sim.errors import MJCFWarning, ModelError
from sim.exporters import write_mjcf
from sim.learn import load_policy, load_task, write_animation
from sim.learn.evaluation import Actor

COMMANDS, SECONDS, SETTLING = 64, 5.0, 1.0  # number of commands, duration of each and of its beginning [s]
TOUR = ((0.8, 0.0, 0.0), (0.0, 0.4, 0.0), (0.0, -0.4, 0.0), (0.6, 0.0, 1.0))  # commands of the animation
TOUR_SECONDS = 3.0  # of each
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


def here(task: VelocityTask) -> Engine:
    """Return this simulator."""
    simulators: dict[int, sim.Simulator] = {}

    def step(q: np.ndarray, qd: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if len(q) not in simulators:
            simulators[len(q)] = sim.Simulator(task.model(), task.dt, len(q), "cpu", task.contact())
        held = np.broadcast_to(targets, (task.frame_skip, *targets.shape))
        motion = simulators[len(q)].rollout(simulators[len(q)].state(q, qd), control=held)
        return motion.q.numpy()[-1], motion.qd.numpy()[-1]

    return step


def in_mujoco(task: VelocityTask) -> Engine:
    """Return MuJoCo, with robot and ground from a file of :func:`sim.exporters.write_mjcf`."""
    import mujoco

    model = task.model()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", MJCFWarning)  # MuJoCo doesn't enforce velocity limits
        loaded = mujoco.MjModel.from_xml_path(str(write_mjcf(Path(folder) / "robot.xml", model)))
    loaded.opt.timestep = task.dt
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
def follow(policy: Actor, task: VelocityTask, commands: torch.Tensor, engine: Engine, seconds: float) -> Walk:
    """Let robots follow commands, from the standing pose.

    Args:
        policy: the policy, which observes the state exactly.
        task: the task, on flat ground.
        commands: the commands of each robot, one after the other [commands, n, 3].
        engine: simulates the robots.
        seconds: duration of a command [s].

    Raises:
        ModelError: for servos with a delay.
    """
    if task.model().na:
        raise ModelError(f"{type(task).__name__} has servos with a delay, which aren't played")
    n, model, each = commands.shape[1], task.model(), round(seconds / task.step_dt)
    q, qd = np.tile(task.robot.q, (n, 1)), np.zeros((n, model.nv))
    action, steps = torch.zeros(n, model.nu), torch.zeros(n, dtype=torch.int64)
    errors, velocities, seen, fallen = [], [], [], torch.zeros(n, dtype=torch.bool)
    for k in range(each * len(commands)):
        data = {"command": commands[k // each], "action": action}
        state = TaskState(torch.tensor(q).float(), torch.tensor(qd).float(), steps + k, data)
        if k % each * task.step_dt >= SETTLING:
            errors.append(torch.stack(task.errors(state)))
            velocities.append(task.motion(state)[0][:, :2])
        fallen |= torch.stack(list(task.terminated(state).values())).any(dim=0)
        seen.append(q)
        action = policy(torch.cat(list(task.measurements(state).values()), dim=1))
        q, qd = engine(q, qd, task.inputs(state, action)["control"].numpy())
    speed, turn = torch.stack(errors).mean(dim=(0, 2)).tolist()
    velocity = torch.stack(velocities).unflatten(0, (len(commands), -1)).mean(dim=1)
    missed = float((velocity - commands[:, :, :2]).norm(dim=2).mean())
    return Walk(speed, missed, turn, int(fallen.sum()), velocity.numpy(), np.stack(seen))


def random_commands(task: VelocityTask, seed: int = 0) -> torch.Tensor:
    """Draw commands of a task for robots that follow one each [1, COMMANDS, 3]."""
    return task.command(COMMANDS, torch.Generator().manual_seed(seed)).float()[None]


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
    if not isinstance(task, VelocityTask):
        raise ModelError(f"{options.policy}: '{name}' follows no velocities; train a VelocityTask")
    for engine, simulate in (("here", here(task)), ("MuJoCo", in_mujoco(task))):
        print(f"{engine:7} {follow(policy, task, random_commands(task), simulate, SECONDS)}")
    if not options.no_render:
        folder = options.out or options.policy.parent
        q = follow(policy, task, torch.tensor(TOUR)[:, None], here(task), TOUR_SECONDS).q[:, 0]
        size = (options.size[0], options.size[1])
        write_animation(folder / "walk.gif", task.model(), q, task.step_dt, size=size)
        print(f"wrote {folder / 'walk.gif'}")


if __name__ == "__main__":
    main()
