"""Viewer in the browser, based on viser (the extra ``view``)."""

from sim.viewer.arrows import force_gradients
from sim.viewer.viewer import Viewer

__all__ = ["Viewer", "force_gradients"]
