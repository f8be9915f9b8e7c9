"""Runnable examples, one file per use: ``python -m examples.throw``."""

from examples.ahead import compile_shared

# Before PyTorch is imported, which takes as long.
compile_shared()
