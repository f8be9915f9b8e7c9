"""The names of :mod:`sim.identify`."""

from sim.identify import *
