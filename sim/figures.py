"""Figures by matplotlib, which the extra ``plot`` installs."""

from typing import Any

from sim.errors import ModelError

BLUE, GREY = "#26639e", "#9aa3ab"


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of matplotlib [in]. Raises ModelError without that package."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ModelError("plots need the package matplotlib: pip install 'backswing[plot]'") from None
    return Figure(figsize=(width, height), constrained_layout=True)
