"""The modules of :mod:`sim.importers`."""
