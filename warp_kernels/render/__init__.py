"""The ray tracer."""
