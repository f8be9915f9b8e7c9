"""Attributes ``backswing:...`` for values that UsdPhysics lacks or stores in single precision.

An annotation next to a standard attribute is used only if the two agree (:func:`agreed`), so that a value edited in
another program takes precedence.
"""

import numpy as np
import numpy.typing as npt
from pxr import Sdf, Usd, Vt

from sim.model.model import Model
from sim.model.parameters import PARAMETERS

NAMESPACE = "backswing:"


def keep(prim: Usd.Prim, name: str, values: npt.ArrayLike) -> None:
    """Store numbers of any shape, flattened, in double precision."""
    flat = np.array(values, dtype=np.float64).reshape(-1)
    attribute = prim.CreateAttribute(NAMESPACE + name, Sdf.ValueTypeNames.DoubleArray, True)
    attribute.Set(Vt.DoubleArray.FromNumpy(flat))


def keep_text(prim: Usd.Prim, name: str, text: str) -> None:
    """Store a text, such as a name that is not a valid prim name."""
    prim.CreateAttribute(NAMESPACE + name, Sdf.ValueTypeNames.String, True).Set(text)


def keep_parameters(prim: Usd.Prim, model: Model, per: str, row: int) -> None:
    """Store all parameters of one link, degree of freedom, geometry, anchor or actuator.

    Zeros and infinities are omitted, since readers use them as defaults.
    """
    for name, spec in PARAMETERS.items():
        if spec.per == per and name in model.parameters:
            value = np.asarray(model.parameters[name][row])
            if np.isfinite(value).all() and value.any():
                keep(prim, name, value)


def kept(prim: Usd.Prim, name: str, count: int) -> np.ndarray | None:
    """The numbers stored under a name [count]; None if missing, of another length, or not all finite."""
    attribute = prim.GetAttribute(NAMESPACE + name)
    value = attribute.Get() if attribute else None
    if value is None or isinstance(value, str):
        return None
    array = np.array(value, dtype=np.float64).reshape(-1)
    return array if len(array) == count and np.isfinite(array).all() else None


def kept_text(prim: Usd.Prim, name: str) -> str | None:
    """The text stored under a name, or None."""
    attribute = prim.GetAttribute(NAMESPACE + name)
    value = attribute.Get() if attribute else None
    return value if isinstance(value, str) and value else None


def agreed(prim: Usd.Prim, name: str, stated: npt.ArrayLike) -> np.ndarray:
    """The annotation with this name if it agrees with the standard value ``stated``, otherwise that value."""
    standard = np.array(stated, dtype=np.float64)
    exact = kept(prim, name, standard.size)
    if exact is None:
        return standard
    # Tolerance for single precision, and for the rotation of positions, axes and moments.
    scale = max(float(np.abs(standard).max()), float(np.abs(exact).max()), 1e-12)
    close = np.abs(exact.reshape(standard.shape) - standard).max() <= 2e-6 * scale
    return exact.reshape(standard.shape) if close else standard
