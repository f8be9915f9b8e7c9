"""Annotations: attributes ``backswing:...`` of a prim for values that UsdPhysics lacks or keeps in single precision.

An annotation of a standard attribute is ignored unless the two agree (:func:`agreed`), so that a value that another
program has edited takes precedence.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pxr import Sdf, Usd, Vt

from sim.model.model import Model
from sim.model.parameters import PARAMETERS
from sim.model.softness import DEFAULT_SOFTNESS, Softness

NAMESPACE = "backswing:"
# Stored value of an infinite limit, since stored values must be finite.
UNLIMITED = -1.0


def keep(prim: Usd.Prim, name: str, values: npt.ArrayLike) -> None:
    """Store numbers of any shape, flattened, in double precision."""
    flat = np.array(values, dtype=np.float64).reshape(-1)
    attribute = prim.CreateAttribute(NAMESPACE + name, Sdf.ValueTypeNames.DoubleArray, True)
    attribute.Set(Vt.DoubleArray.FromNumpy(flat))


def keep_text(prim: Usd.Prim, name: str, text: str) -> None:
    """Store a text, such as a name that is not valid for a prim."""
    prim.CreateAttribute(NAMESPACE + name, Sdf.ValueTypeNames.String, True).Set(text)


def keep_texts(prim: Usd.Prim, name: str, texts: Sequence[str]) -> None:
    """Store texts, such as the labels of an array's entries; store nothing if there are none."""
    if texts:
        attribute = prim.CreateAttribute(NAMESPACE + name, Sdf.ValueTypeNames.StringArray, True)
        attribute.Set(Vt.StringArray(list(texts)))


def keep_parameters(prim: Usd.Prim, model: Model, per: str, row: int) -> None:
    """Store all parameters of one link, degree of freedom, geometry, anchor or actuator.

    Zeros and infinities are omitted: readers assume them where nothing is stored.
    """
    for name, spec in PARAMETERS.items():
        if spec.per == per and name in model.parameters:
            value = np.asarray(model.parameters[name][row])
            if np.isfinite(value).all() and value.any():
                keep(prim, name, value)


def keep_softness(prim: Usd.Prim, name: str, softness: Softness) -> None:
    """Store the softness (solref, solimp) of a constraint under MuJoCo's law, unless it is the default."""
    if softness != DEFAULT_SOFTNESS:
        keep(prim, name, [*softness.solref, *softness.solimp])


def kept_softness(prim: Usd.Prim, name: str) -> Softness:
    """Return the softness (solref, solimp) stored under a name; default: MuJoCo's.

    Raises:
        ModelError: for invalid numbers.
    """
    values = kept(prim, name, 7)
    if values is None:
        return DEFAULT_SOFTNESS
    time, ratio, *solimp = values.tolist()
    return Softness((time, ratio), tuple(solimp))


def kept(prim: Usd.Prim, name: str, count: int) -> np.ndarray | None:
    """Return the numbers stored under a name [count], or None if missing, of another count, or not all finite."""
    array = _kept_numbers(prim, name)
    return array if array is not None and len(array) == count else None


def kept_switch(prim: Usd.Prim, name: str) -> bool | None:
    """Return whether a constraint is on at first; None if nothing is stored."""
    found = kept(prim, name, 1)
    return None if found is None else bool(found[0] > 0.5)


def kept_rows(prim: Usd.Prim, name: str, size: int) -> np.ndarray:
    """Return the rows stored under a name [n, size]; empty if numbers are missing or not finite."""
    array = _kept_numbers(prim, name)
    return np.zeros((0, size)) if array is None or len(array) % size else array.reshape(-1, size)


def _kept_numbers(prim: Usd.Prim, name: str) -> np.ndarray | None:
    """Return the numbers stored under a name, or None if missing or not all finite."""
    attribute = prim.GetAttribute(NAMESPACE + name)
    value = attribute.Get() if attribute else None
    if value is None or isinstance(value, str):
        return None
    array = np.array(value, dtype=np.float64).reshape(-1)
    return array if np.isfinite(array).all() else None


def kept_text(prim: Usd.Prim, name: str) -> str | None:
    """Return the text stored under a name."""
    attribute = prim.GetAttribute(NAMESPACE + name)
    value = attribute.Get() if attribute else None
    return value if isinstance(value, str) and value else None


def kept_texts(prim: Usd.Prim, name: str) -> tuple[str, ...]:
    """Return the texts stored under a name; empty if missing."""
    attribute = prim.GetAttribute(NAMESPACE + name)
    value = attribute.Get() if attribute else None
    return tuple(value) if isinstance(value, Vt.StringArray) else ()


def agreed(prim: Usd.Prim, name: str, stated: npt.ArrayLike) -> np.ndarray:
    """Return the value stored under a name if it agrees with that of the standard attributes, otherwise the latter."""
    standard = np.array(stated, dtype=np.float64)
    exact = kept(prim, name, standard.size)
    if exact is None:
        return standard
    # Accuracy of positions, axes and moments after a rotation in single precision
    scale = max(float(np.abs(standard).max()), float(np.abs(exact).max()), 1e-12)
    close = np.abs(exact.reshape(standard.shape) - standard).max() <= 2e-6 * scale
    return exact.reshape(standard.shape) if close else standard
