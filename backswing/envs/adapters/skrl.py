"""The public names of :mod:`sim.envs.adapters.skrl`."""

from sim.envs.adapters.skrl import SkrlEnv as SkrlEnv
