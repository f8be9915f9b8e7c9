"""The names of :mod:`sim.terrain`."""

from sim.terrain import *
