"""The names of :mod:`sim.learn`."""

from sim.learn import *
