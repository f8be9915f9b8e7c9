"""Checks of gradients against finite differences, and of the convergence of the solver's sweeps."""
