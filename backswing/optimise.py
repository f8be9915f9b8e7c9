"""The names of :mod:`sim.optimise`."""

from sim.optimise import *
