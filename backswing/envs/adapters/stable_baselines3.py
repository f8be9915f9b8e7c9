"""The public names of :mod:`sim.envs.adapters.stable_baselines3`."""

from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv as StableBaselines3VecEnv
