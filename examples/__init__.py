"""Runnable examples, one file per use: ``python -m examples.throw``."""
