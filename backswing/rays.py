"""The names of :mod:`sim.rays`."""

from sim.rays import *
