"""The names of :mod:`sim.viewer`."""

from sim.viewer import *
