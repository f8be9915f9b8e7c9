"""The builder of models, one file for each subject; :class:`WorldBuilder` puts their methods together."""

from sim.model.builder.builder import WorldBuilder

__all__ = ["WorldBuilder"]
