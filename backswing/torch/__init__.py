"""The names of :mod:`sim.torch`."""

from sim.torch import *
