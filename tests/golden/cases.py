"""All golden cases, by name."""

from tests.golden import mechanisms, mujoco_law, plain
from tests.golden.case import CASES

__all__ = ["CASES", "mechanisms", "mujoco_law", "plain"]
