"""The public names of :mod:`sim.envs.adapters.rsl_rl`."""

from sim.envs.adapters.rsl_rl import RslRlVecEnv as RslRlVecEnv
