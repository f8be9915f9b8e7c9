"""The names of :mod:`sim.envs`."""

from sim.envs import *
