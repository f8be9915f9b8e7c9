"""Execution of simulated worlds: parameters, shards, threads, recordings and reports, independent of the physics."""
