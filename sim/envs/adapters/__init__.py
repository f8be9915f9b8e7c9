"""Adapters of environments to other libraries; each module needs its library."""

from sim.envs.vector_env import VectorEnv
from sim.errors import ModelError


def require_same_step(library: str, env: VectorEnv) -> None:
    """Raise ModelError unless the environment resets episodes within a step, as the library expects."""
    if env.autoreset_mode != "same_step":
        raise ModelError(f'{library} needs autoreset_mode="same_step"; it is "{env.autoreset_mode}"')
