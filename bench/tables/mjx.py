"""MuJoCo's MJX in JAX: a jitted step scanned over the rollout, and its reverse mode.

Imports neither Backswing nor PyTorch, so that JAX may be in another environment.
"""

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers import mujoco_standing

PROBLEM = "BACKSWING_MJX_PROBLEM"  # environment variable: path of the file written by write_problem in bench.tables


class Mjx:
    """Gradient by ``jax.vjp`` of one chunk of steps at a time, keeping the residuals of all chunks.

    A rollout is cut into chunks of equal length, so that one compilation serves every rollout.

    Args:
        robots: number of worlds in the batch, one robot each.
        checkpoint: wrap each step in ``jax.checkpoint``, which stores its state and recomputes it.
    """

    def __init__(self, robots: int, checkpoint: bool):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        try:
            import jax
            import mujoco
            from mujoco import mjx
        except ImportError as error:
            raise SystemExit(f"{error}: pip install backswing[bench], or name a Python with --jax-python") from error

        problem = json.loads(Path(os.environ[PROBLEM]).read_text())
        self.jax, self.chunk = jax, int(problem["chunk"])
        model = mujoco.MjModel.from_xml_string(problem["mjcf"])
        model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        model.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
        model.opt.iterations, model.opt.ls_iterations = 1, 4
        data = mujoco_standing(
            model, np.array(problem["pose"]), stiffness=problem["stiffness"], damping=problem["damping"]
        )
        on_device, at_rest = mjx.put_model(model), mjx.put_data(model, data)

        def step(state: Any, force: Any) -> Any:
            after = mjx.step(on_device, at_rest.replace(qpos=state[0], qvel=state[1], qfrc_applied=force))
            return (after.qpos, after.qvel), None

        def steps(state: Any, forces: Any) -> Any:
            return jax.lax.scan(jax.checkpoint(step) if checkpoint else step, state, forces)[0]

        batched = jax.vmap(steps, in_axes=(0, 1))
        self.pull = jax.jit(lambda state, forces: jax.vjp(batched, state, forces))
        self.push = jax.jit(lambda back, state_bar: back(state_bar))
        self.first = tuple(np.tile(np.float32(value), (robots, 1)) for value in (data.qpos, data.qvel))
        self.note = (
            f"float32, JAX {version('jax')}, MJX {version('mujoco-mjx')}: soft contacts, Newton's method with one "
            "iteration, the most that reverse mode supports; "
            + ("jax.checkpoint around each step" if checkpoint else "everything that reverse mode needs is kept")
            + "; several robots as a batch of worlds"
        )
        self.forces = np.zeros(0)
        self.last: Any = None
        self.backs: list[Any] = []

    def begin(self, steps: int) -> None:
        self.forces = np.zeros((steps, len(self.first[0]), self.first[1].shape[1]), dtype=np.float32)

    def forward(self, steps: int) -> None:
        self.last = self.first
        for start in range(0, steps, self.chunk):
            self.last, back = self.pull(self.last, self.forces[start : start + self.chunk])
            self.backs.append(back)
        self.jax.block_until_ready((self.last, self.backs))

    def backward(self) -> None:
        bar = tuple(np.full_like(value, one) for value, one in zip(self.first, (1.0, 0.0), strict=True))
        gradients = []
        while self.backs:
            bar, forces_bar = self.push(self.backs.pop(), bar)
            gradients.append(forces_bar)
        self.jax.block_until_ready((bar, gradients))

    def forget(self) -> None:
        if not np.isfinite(np.asarray(self.last[0])).all():
            raise RuntimeError("the state of the MJX robot is not finite")
        self.last, self.backs = None, []
