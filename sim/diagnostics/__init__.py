"""Is a gradient right, and have the sweeps converged?"""
