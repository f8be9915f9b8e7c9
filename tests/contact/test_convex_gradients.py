"""Gradients through contacts of convex bodies with each other against finite differences."""

from typing import Any

import numpy as np
import pytest

import sim
from tests.collision.harness import pebble
from tests.simulation.differences import case, check, regimes
from warp_kernels.types import CAPSULE, CONVEX

BODY = ("mass", "com", "inertia", "gravity", "friction", "geometry_size", "geometry_placement")


def on_table(kind: str, height: float) -> sim.Model:
    """A body that hangs over the edge of a slab, in general position; the slab is light and lies on the ground."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0))
    builder.add_box(
        half_extents=(0.2, 0.3, 0.05),
        mass=0.5,
        position=(0.0, 0.0, 0.05),
        orientation=(0, 0, 0.1, 1),
        surface=sim.Surface(friction=0.9),
    )
    placed: dict[str, Any] = {"position": (0.16, 0.07, height), "orientation": (0.011, 0.016, 0.3, 1.0)}
    placed["surface"] = sim.Surface(friction=0.7)
    if kind == "box":
        builder.add_box(half_extents=(0.08, 0.1, 0.06), mass=0.4, **placed)
    elif kind == "cylinder":
        # Tilted so that the lowest point of its rim doesn't run around it within the difference.
        placed["orientation"] = (0.08, 0.1, 0.3, 1.0)
        builder.add_cylinder(radius=0.08, half_length=0.06, mass=0.4, **placed)
    elif kind == "ellipsoid":
        placed["orientation"] = (0.3, 0.2, 0.3, 1.0)
        builder.add_ellipsoid(semi_axes=(0.08, 0.06, 0.05), mass=0.4, **placed)
    else:
        turned = (0.02, 0.7, 0.1, 0.7) if kind == "capsule" else (0.3, 0.7, 0.1, 0.7)
        builder.add_link(kind, mass=0.4, inertia=(1e-3, 1.2e-3, 1.1e-3))
        builder.add_joint("free", "free", child=kind, position=placed["position"], orientation=turned)
        if kind == "capsule":
            builder.add_geometry(kind, CAPSULE, size=(0.05, 0.1, 0.0), surface=sim.Surface(friction=0.7))
        else:
            builder.add_geometry(
                kind, CONVEX, size=(0.07, 0.08, 0.06), mesh=pebble(), surface=sim.Surface(friction=0.7)
            )
    return builder.finalize("float64")


HEIGHT = {"box": 0.1625, "cylinder": 0.174, "capsule": 0.153, "stone": 0.165, "ellipsoid": 0.163}


@pytest.mark.parametrize("kind", HEIGHT)
def test_sliding_off_a_slab(kind):
    model = on_table(kind, HEIGHT[kind])
    qd = np.zeros(model.nv)
    qd[6:] = (1.0, 0.3, -0.6, 0.2, 0.1, 0.3)
    c = case(model, 8, qd=qd, contact=sim.PgsContact(sweeps=40))
    assert "slide" in regimes(c)
    check(c, BODY)
