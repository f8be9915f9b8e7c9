"""Methods that solve a problem, and their shared parts."""
