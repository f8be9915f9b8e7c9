"""Scenes with a known answer, each with the quantities to measure: the fidelity suite of tests and benchmarks."""
