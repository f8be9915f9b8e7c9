"""Terrain for walking robots: tiles of stairs, slopes, rough ground and stones, from easy to hard, with seeds."""

from sim.terrain.kinds import Rough, Slope, Stairs, Stones
from sim.terrain.terrain import Terrain, generate
from sim.terrain.tile import Kind, Tile

__all__ = ["Kind", "Rough", "Slope", "Stairs", "Stones", "Terrain", "Tile", "generate"]
