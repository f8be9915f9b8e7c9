"""Adapters of environments to other libraries; each module needs its library."""
