"""The builder of models, one file for each subject; :class:`ModelBuilder` puts their methods together."""

from sim.model.builder.builder import ModelBuilder

__all__ = ["ModelBuilder"]
