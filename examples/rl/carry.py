"""Plays a policy that carries boxes, here and in MuJoCo.

    backswing train PickAndPlace --iterations 300 --out out/carry
    python -m examples.rl.carry out/carry/policy.pt

Prints for 64 random boxes and targets how many boxes are held within 2 cm of their targets after four seconds, the
median distance, and the time from which they stay there. MuJoCo gets each box with its own mass and friction, in a file
of :func:`sim.exporters.write_mjcf`. Writes carry.gif, one of the boxes here, with a ball of 2 cm
around its target.
"""

import argparse
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sim
from examples.options import SIZE, command, make_folder, program
from sim.envs import Task, TaskState, VectorEnv
from sim.envs.tasks.pick import NEAR, PickAndPlace
from sim.errors import MJCFWarning, ModelError
from sim.exporters import write_mjcf
from sim.learn import load_policy, load_task, write_animation
from sim.learn.evaluation import Actor
from sim.render import Marker

BOXES = 64


@dataclass(frozen=True)
class Carried:
    """Motion of boxes.

    Attributes:
        distance: distance of each box to its target after each action [actions, boxes], m.
        q: coordinates of arms and boxes before each action [actions, boxes, nq].
        target: where the boxes should be [boxes, 3].
        step_dt: duration of an action [s].
    """

    distance: np.ndarray
    q: np.ndarray
    target: np.ndarray
    step_dt: float

    def __str__(self) -> str:
        inside = self.distance < NEAR
        held = inside[::-1].cumprod(axis=0).sum(axis=0)  # last actions with the box at its target
        said = (
            f"{int(inside[-1].sum())} of {inside.shape[1]} boxes at their targets, at a median distance of "
            f"{1e3 * np.median(self.distance[-1]):.1f} mm"
        )
        if not held.any():
            return said
        return f"{said}, from {self.step_dt * (len(inside) - np.median(held[held > 0])):.1f} s on"


def starts(task: Task, seed: int) -> VectorEnv:
    """Return environments with random boxes and targets."""
    env = VectorEnv(task, BOXES, device="cpu", seed=seed, autoreset_mode="next_step")
    env.reset()
    return env


@torch.no_grad()
def here(policy: Actor, task: PickAndPlace, seed: int) -> Carried:
    """Play in this simulator; a box that is lost counts as far away from then on."""
    env = starts(task, seed)
    lost, seen, rows = torch.zeros(BOXES, dtype=torch.bool), env.observe(), []
    target = env.state.data["target"].numpy().copy()
    for _ in range(task.max_episode_length):
        before = env.state.q
        seen, _, terminated, _, _ = env.step(policy(seen["policy"]))
        lost |= terminated
        rows.append((env.state.data["distance"].masked_fill(lost, torch.inf), before))
    distance, q = (torch.stack(parts).numpy() for parts in zip(*rows, strict=True))
    return Carried(distance, q, target, task.step_dt)


@torch.no_grad()
def in_mujoco(policy: Actor, task: PickAndPlace, seed: int) -> Carried:
    """Play in MuJoCo, from the same states and with the same boxes."""
    import mujoco

    state, rows = starts(task, seed).state, []
    target = state.data["target"].numpy()
    worlds = [in_its_format(task, state, row) for row in range(BOXES)]
    for _ in range(task.max_episode_length):
        before = state
        action = policy(task.observe(before)["policy"])
        for (loaded, data), control in zip(worlds, task.inputs(before, action)["control"].numpy(), strict=True):
            data.ctrl = control
            mujoco.mj_step(loaded, data, task.frame_skip)
        qpos, qvel = (np.stack([getattr(data, name) for _, data in worlds]) for name in ("qpos", "qvel"))
        states = [torch.as_tensor(each).to(before.q) for each in sim.from_mujoco(task.model(), qpos, qvel)]
        state = before.with_states(states, before.steps + 1)
        state = replace(state, data={**state.data, **task.advance(before, action, state)})
        rows.append((state.data["distance"], before.q))
    distance, q = (torch.stack(parts).numpy() for parts in zip(*rows, strict=True))
    return Carried(distance, q, target, task.step_dt)


def in_its_format(task: PickAndPlace, state: TaskState, row: int) -> tuple[Any, Any]:
    """Return MuJoCo's model and state of one environment, with its mass and friction."""
    import mujoco

    model = task.model()
    own = {name: value[row].double().numpy() for name, value in state.parameters.items()}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", MJCFWarning)
        file = write_mjcf(Path(folder) / "scene.xml", replace(model, parameters=model.parameters | own))
        loaded = mujoco.MjModel.from_xml_path(str(file))
    loaded.opt.timestep = task.dt
    loaded.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # stable with the gains of servos
    data = mujoco.MjData(loaded)
    data.qpos, data.qvel = sim.to_mujoco(model, state.q[row].numpy(), state.qd[row].numpy())
    return loaded, data


@command
def main() -> None:
    """Play a policy, print how it does, and write the animation."""
    parser = argparse.ArgumentParser(
        prog=program(), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policy", type=Path, help="policy.pt of a training")
    parser.add_argument("--seed", type=int, default=1000, help="of boxes and targets (1000)")
    parser.add_argument("--out", type=Path, help="folder of the animation (that of the policy)")
    parser.add_argument("--no-render", action="store_true", help="write no animation")
    parser.add_argument("--size", type=int, nargs=2, default=SIZE, help="width and height of the animation (640 360)")
    options = parser.parse_args()
    policy, name, task_options = load_policy(options.policy)
    task = load_task(name, **task_options)
    if not isinstance(task, PickAndPlace):
        raise ModelError(f"{options.policy}: '{name}' carries no boxes; train PickAndPlace")
    folder = options.out or options.policy.parent
    if not options.no_render:
        make_folder(folder)
    carried = here(policy, task, options.seed)
    print(f"here    {carried}")
    print(f"MuJoCo  {in_mujoco(policy, task, options.seed)}")
    if not options.no_render:
        file = folder / "carry.gif"
        size, target = (options.size[0], options.size[1]), Marker("target", tuple(carried.target[0]), radius=NEAR)
        write_animation(file, task.model(), carried.q[:, 0], task.step_dt, size=size, markers=[target])
        print(f"wrote {file}")


if __name__ == "__main__":
    main()
