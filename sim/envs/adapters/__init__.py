"""Environments in the form that other libraries expect; each module needs its library."""
