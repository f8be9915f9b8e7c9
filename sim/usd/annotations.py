"""Values that UsdPhysics has no place for, or keeps in single precision: attributes ``backswing:...`` of a prim.

An annotation that belongs to a standard attribute counts only as long as the two agree (:func:`agreed`), so that a
value which another program has edited takes precedence.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pxr import Sdf, Usd, Vt

from sim.model.model import Model
from sim.model.parameters import PARAMETERS
from sim.model.softness import DEFAULT_SOFTNESS, Softness

NAMESPACE = "backswing:"
# How an infinite limit is kept, since what is kept is finite.
UNLIMITED = -1.0


def keep(prim: Usd.Prim, name: str, values: npt.ArrayLike) -> None:
    """Keep numbers of any shape, flat, in double precision."""
    flat = np.array(values, dtype=np.float64).reshape(-1)
    attribute = prim.CreateAttribute(NAMESPACE + name, Sdf.ValueTypeNames.DoubleArray, True)
    attribute.Set(Vt.DoubleArray.FromNumpy(flat))


def keep_text(prim: Usd.Prim, name: str, text: str) -> None:
    """Keep a text, such as a name that is not valid for a prim."""
    prim.CreateAttribute(NAMESPACE + name, Sdf.ValueTypeNames.String, True).Set(text)


def keep_texts(prim: Usd.Prim, name: str, texts: Sequence[str]) -> None:
    """Keep texts, such as the names of what an array of numbers is about; nothing where there are none."""
    if texts:
        attribute = prim.CreateAttribute(NAMESPACE + name, Sdf.ValueTypeNames.StringArray, True)
        attribute.Set(Vt.StringArray(list(texts)))


def keep_parameters(prim: Usd.Prim, model: Model, per: str, row: int) -> None:
    """Keep all parameters of one link, degree of freedom, geometry, anchor or actuator.

    Zeros and infinities are left out: readers assume them where nothing is kept.
    """
    for name, spec in PARAMETERS.items():
        if spec.per == per and name in model.parameters:
            value = np.asarray(model.parameters[name][row])
            if np.isfinite(value).all() and value.any():
                keep(prim, name, value)


def keep_softness(prim: Usd.Prim, name: str, softness: Softness) -> None:
    """Keep the softness of a constraint under MuJoCo's law, unless it is the default."""
    if softness != DEFAULT_SOFTNESS:
        keep(prim, name, [*softness.solref, *softness.solimp])


def kept_softness(prim: Usd.Prim, name: str) -> Softness:
    """The softness kept under a name; the default where there is none.

    Raises:
        ModelError: for numbers that have no meaning.
    """
    values = kept(prim, name, 7)
    if values is None:
        return DEFAULT_SOFTNESS
    time, ratio, *solimp = values.tolist()
    return Softness((time, ratio), tuple(solimp))


def kept(prim: Usd.Prim, name: str, count: int) -> np.ndarray | None:
    """The numbers kept under a name [count]; None if there are none, or not that many, or not all finite."""
    array = _kept_numbers(prim, name)
    return array if array is not None and len(array) == count else None


def kept_rows(prim: Usd.Prim, name: str, size: int) -> np.ndarray:
    """The rows kept under a name [n, size]; none if numbers are missing or not finite."""
    array = _kept_numbers(prim, name)
    return np.zeros((0, size)) if array is None or len(array) % size else array.reshape(-1, size)


def _kept_numbers(prim: Usd.Prim, name: str) -> np.ndarray | None:
    """The numbers kept under a name; None if there are none, or not all finite."""
    attribute = prim.GetAttribute(NAMESPACE + name)
    value = attribute.Get() if attribute else None
    if value is None or isinstance(value, str):
        return None
    array = np.array(value, dtype=np.float64).reshape(-1)
    return array if np.isfinite(array).all() else None


def kept_text(prim: Usd.Prim, name: str) -> str | None:
    """The text kept under a name."""
    attribute = prim.GetAttribute(NAMESPACE + name)
    value = attribute.Get() if attribute else None
    return value if isinstance(value, str) and value else None


def kept_texts(prim: Usd.Prim, name: str) -> tuple[str, ...]:
    """The texts kept under a name; none where there are none."""
    attribute = prim.GetAttribute(NAMESPACE + name)
    value = attribute.Get() if attribute else None
    return tuple(value) if isinstance(value, Vt.StringArray) else ()


def agreed(prim: Usd.Prim, name: str, stated: npt.ArrayLike) -> np.ndarray:
    """The value kept under a name if it agrees with the one that standard attributes state, otherwise the latter."""
    standard = np.array(stated, dtype=np.float64)
    exact = kept(prim, name, standard.size)
    if exact is None:
        return standard
    # The accuracy of positions, axes and moments after a rotation in single precision.
    scale = max(float(np.abs(standard).max()), float(np.abs(exact).max()), 1e-12)
    close = np.abs(exact.reshape(standard.shape) - standard).max() <= 2e-6 * scale
    return exact.reshape(standard.shape) if close else standard
