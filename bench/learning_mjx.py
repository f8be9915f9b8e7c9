"""Time of MuJoCo's steps in a step of an environment in MJX, and of their gradient; for :mod:`bench.learning`.

Imports neither Backswing nor PyTorch, so that JAX may be in another environment.

Newton's method takes one iteration, the most that reverse mode supports, and the integrator is Euler's. The gradient is
that of the last velocities in all controls, through as many steps of the environment as in :mod:`bench.learning`.
"""

import json
import os
import sys
import time
from importlib.metadata import version
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

from bench.timing import pinned, time_call


def measure(file: str, frame_skip: int, envs: int, horizon: int, seconds: float) -> dict[str, Any]:
    """Measure times per environment and step of the environment [µs], in processor time on one core.

    Args:
        file: MJCF file.
        frame_skip: steps of MuJoCo per step of the environment.
        envs: number of environments.
        horizon: steps of the environment in the gradient.
        seconds: time for each figure.
    """
    model = mujoco.MjModel.from_xml_path(file)
    model.opt.solver, model.opt.integrator = mujoco.mjtSolver.mjSOL_NEWTON, mujoco.mjtIntegrator.mjINT_EULER
    model.opt.iterations, model.opt.ls_iterations = 1, 4
    on_device, first = mjx.put_model(model), mjx.put_data(model, mujoco.MjData(model))

    def physics(state: Any, control: Any) -> Any:
        after = mjx.step(on_device, first.replace(qpos=state[0], qvel=state[1], ctrl=control))
        return (after.qpos, after.qvel), None

    def step(state: Any, control: Any) -> Any:
        return jax.lax.scan(physics, state, jnp.tile(control, (frame_skip, 1)))

    def last_velocity(controls: Any, state: Any) -> Any:
        return jax.lax.scan(step, state, controls)[0][1].sum()

    state = tuple(jnp.tile(value, (envs, 1)) for value in (first.qpos, first.qvel))
    controls = jax.random.uniform(jax.random.key(0), (envs, horizon, model.nu), minval=-1.0, maxval=1.0)
    forward = jax.jit(jax.vmap(step))
    gradient = jax.jit(jax.vmap(jax.grad(last_velocity)))
    works = {
        "mjx_us": lambda: jax.block_until_ready(forward(state, controls[:, 0])),
        "mjx_gradient_us": lambda: jax.block_until_ready(gradient(controls, state)),
    }
    steps = {"mjx_us": 1, "mjx_gradient_us": horizon}
    with pinned(1):
        median = {
            name: time_call(work, seconds=seconds, clock=time.process_time).median for name, work in works.items()
        }
    found: dict[str, Any] = {name: 1e6 * value / envs / steps[name] for name, value in median.items()}
    return found | {"mjx": f"JAX {version('jax')}, MJX {version('mujoco-mjx')}"}


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
