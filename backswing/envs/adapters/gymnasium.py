"""The public names of :mod:`sim.envs.adapters.gymnasium`."""

from sim.envs.adapters.gymnasium import GymnasiumVectorEnv as GymnasiumVectorEnv
