"""The names of :mod:`sim.usd`."""

from sim.usd import *
