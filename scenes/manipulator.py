"""A seven-joint manipulator whose links are offset from their joint axes, bolted to the ground."""

from pathlib import Path

MANIPULATOR_URDF = Path(__file__).parent / "robots" / "manipulator.urdf"
