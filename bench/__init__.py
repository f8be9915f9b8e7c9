"""Measurements; never asserted in tests. Run them from the checkout: ``python -m bench.step --help``."""
