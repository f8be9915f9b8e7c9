"""The names of :mod:`sim.render`."""

from sim.render import *
