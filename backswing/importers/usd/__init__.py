"""The names of :mod:`sim.importers.usd`."""

from sim.importers.usd import *
