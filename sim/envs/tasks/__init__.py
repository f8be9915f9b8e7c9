"""Tasks for :func:`sim.envs.make`."""
