"""Benchmarks. Tests never assert their times. Run them from the checkout: ``python -m bench.step --help``."""
