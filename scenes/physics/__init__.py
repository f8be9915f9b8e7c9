"""Scenes with a known answer, each with what is measured in it: the fidelity suite of tests and bench."""
