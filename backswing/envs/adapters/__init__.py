"""The modules of :mod:`sim.envs.adapters`."""
