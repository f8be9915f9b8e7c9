"""The tasks that :func:`sim.envs.make` knows."""
