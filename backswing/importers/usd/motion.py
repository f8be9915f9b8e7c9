"""The public names of :mod:`sim.importers.usd.motion`."""

from sim.importers.usd.motion import read_motion as read_motion
