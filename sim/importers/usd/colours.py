"""Colours of the prims of a USD file."""

import numpy as np
from pxr import Usd, UsdGeom, UsdShade

GREY = (0.7, 0.7, 0.7, 1.0)


def colour(prim: Usd.Prim) -> tuple[float, float, float, float]:
    """Colour of a prim in sRGB: that of its material, else its display colour, else grey."""
    material, _ = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()
    shader = material.ComputeSurfaceSource()[0] if material else None
    values = _inputs(shader) if shader else None
    if values is None and prim.IsA(UsdGeom.Gprim):
        shown = UsdGeom.Gprim(prim).GetDisplayColorAttr().Get(Usd.TimeCode.EarliestTime())
        values = (np.array(shown[0], dtype=np.float64), 1.0) if shown else None
    if values is None:
        return GREY
    red, green, blue = (float(value) for value in screen_colour(values[0]))
    return red, green, blue, min(max(values[1], 0.0), 1.0)


def screen_colour(linear: np.ndarray) -> np.ndarray:
    """sRGB colours of linear light; the inverse of :func:`sim.render.view.linear_light`."""
    c = np.clip(linear, 0.0, 1.0)
    return np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1.0 / 2.4) - 0.055)


def _inputs(shader: UsdShade.Shader) -> tuple[np.ndarray, float] | None:
    """Base colour and opacity of a surface; None if its colour is not a single value."""
    for name in ("diffuseColor", "diffuse_color_constant", "base_color", "baseColor"):
        source = shader.GetInput(name)
        value = source.Get() if source else None
        if value is not None and len(value) == 3:
            opacity = shader.GetInput("opacity")
            alpha = opacity.Get() if opacity else None
            return np.array(value, dtype=np.float64), float(alpha) if alpha is not None else 1.0
    return None
