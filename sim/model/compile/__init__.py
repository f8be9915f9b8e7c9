"""Compilation of a world's description into a model, see :func:`sim.model.compile.compiler.compile_model`."""

from sim.model.compile.compiler import compile_model

__all__ = ["compile_model"]
