"""Shapes and joints that a format, or the renderer, has no name for: an error that names them, and no file."""

from dataclasses import replace

import numpy as np
import pytest

import sim
from sim.exporters import write_mjcf, write_urdf
from sim.model.joint_types import JOINT_TYPES
from sim.render import fit_camera
from sim.usd import write_usd
from tests.errors import naming
from warp_kernels.types import NUM_GEOMETRY_TYPES, REVOLUTE

POSES = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (1, 2, 1))
WRITERS = {
    "urdf": lambda path, model: write_urdf(path / "a.urdf", model),
    "mjcf": lambda path, model: write_mjcf(path / "a.xml", model),
    "usd": lambda path, model: write_usd(path / "a.usda", model, POSES, fps=25.0),
}


def arm():
    builder = sim.ModelBuilder()
    for link, parent in (("upper", "world"), ("lower", "upper")):
        builder.add_link(link, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"{link}_hinge", "revolute", parent=parent, child=link, limits=sim.Limits(-1.0, 1.0))
        builder.add_geometry(link, "sphere", name=f"{link}_ball", size=(0.1, 0.0, 0.0))
    return builder.finalize("float64")


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("names", ["none", "no entry"])
def test_a_joint_type_without_a_name(form, names, monkeypatch, tmp_path):
    model = arm()
    if names == "none":
        nameless = replace(JOINT_TYPES[REVOLUTE], urdf=(), mjcf=None, usd=None)
        monkeypatch.setitem(JOINT_TYPES, REVOLUTE, nameless)
        match = f"joint 'upper_hinge' has type 'revolute', .*{form.upper()}"
    else:
        monkeypatch.delitem(JOINT_TYPES, REVOLUTE)
        match = f"joint 'upper_hinge' has the unknown type {REVOLUTE}, .*{form.upper()}"
    with pytest.raises(sim.ModelError, match=match):
        WRITERS[form](tmp_path, model)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", WRITERS)
def test_a_shape_of_an_unknown_type(form, tmp_path):
    model = arm()
    model.geometries[1].__dict__["type"] = NUM_GEOMETRY_TYPES
    with pytest.raises(sim.ModelError, match="geometry 'lower_ball'"):
        WRITERS[form](tmp_path, model)
    assert list(tmp_path.iterdir()) == []


def test_a_shape_of_an_unknown_type_is_not_drawn():
    model = arm()
    model.geometries[1].__dict__["type"] = NUM_GEOMETRY_TYPES
    with pytest.raises(sim.ModelError, match=naming("geometry 'lower_ball'", NUM_GEOMETRY_TYPES)):
        fit_camera(model, POSES)
