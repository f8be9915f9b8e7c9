"""The names of :mod:`sim.torch.drm`."""

from sim.torch.drm import *
