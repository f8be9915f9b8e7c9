"""Builder of models, one file per subject; :class:`WorldBuilder` combines them."""

from sim.model.builder.builder import WorldBuilder

__all__ = ["WorldBuilder"]
