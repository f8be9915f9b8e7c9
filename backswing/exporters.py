"""The names of :mod:`sim.exporters`."""

from sim.exporters import *
