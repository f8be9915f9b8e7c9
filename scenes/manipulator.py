"""A manipulator of seven joints whose links stand beside their axes, alone and bolted to the ground."""

from pathlib import Path

MANIPULATOR_URDF = Path(__file__).parent / "robots" / "manipulator.urdf"
