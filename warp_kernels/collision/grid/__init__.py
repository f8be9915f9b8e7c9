"""Broad phase for many bodies: a grid of cells, in time linear in the number of bodies."""
