"""Tendons, the shapes that they wrap around, and muscles."""
