"""Numbers of looks that lie between 0 and 1."""

import numpy as np


def share(value: float, otherwise: float, what: str, notes: list[str]) -> float:
    """Return a number between 0 and 1; the nearest one, with a note, if it isn't between them.

    Args:
        value: the number in the file.
        otherwise: used instead of NaN.
        what: its name in the note.
        notes: added to.
    """
    if 0.0 <= value <= 1.0:
        return float(value)
    used = otherwise if np.isnan(value) else float(np.clip(value, 0.0, 1.0))
    notes.append(f"{what} is {value:g}; it must lie between 0 and 1, and {used:g} is used")
    return used
