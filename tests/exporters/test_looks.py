"""Materials in written files, read by MuJoCo, by UsdShade and by our own importers."""

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Usd, UsdGeom, UsdShade

import sim
from sim.exporters import write_mjcf, write_urdf
from sim.usd import write_usd

MATERIALS = {"gold": (0.1, 1.0), "rubber": (0.9, 0.0), "plain": (0.5, 0.0)}
COLOURS = {"gold": (1.0, 0.7, 0.3, 1.0), "rubber": (0.5, 0.5, 0.5, 1.0), "plain": (0.1, 0.2, 0.3, 1.0)}
NO_LINKS = np.zeros((1, 0, 7))


def model(texture=None):
    """Balls of three materials, one of them with MuJoCo's default colour."""
    scene = sim.ModelBuilder()
    for x, (name, (roughness, metallic)) in enumerate(MATERIALS.items()):
        material = sim.Material(roughness, metallic, texture, (1.0, 1.0))
        scene.add_geometry(
            "world", "sphere", name=name, size=0.4, position=(x, 0.0, 0.0), rgba=COLOURS[name], material=material
        )
    return scene.finalize()


def reflections(read):
    return {g.name: (g.material.roughness, g.material.metallic) for g in read.geometries}


def colours(read):
    return {g.name: g.rgba for g in read.geometries}


def test_mjcf(tmp_path):
    path = write_mjcf(tmp_path / "balls.xml", model())
    theirs = mujoco.MjModel.from_xml_path(str(path))
    for name, (roughness, metallic) in MATERIALS.items():
        material = int(theirs.geom(name).matid[0])
        assert (material < 0) == (name == "plain")
        if material >= 0:
            assert_allclose((theirs.mat_roughness[material], theirs.mat_metallic[material]), (roughness, metallic))
    read = sim.load(path)
    assert_allclose(list(reflections(read).values()), list(MATERIALS.values()), atol=1e-7)
    assert_allclose(list(colours(read).values()), list(COLOURS.values()), atol=1e-7)


def test_usd(tmp_path):
    path = write_usd(tmp_path / "balls.usda", model(), NO_LINKS, fps=24)
    stage = Usd.Stage.Open(str(path))
    for name, (roughness, metallic) in MATERIALS.items():
        prim = stage.GetPrimAtPath(f"/World/Static/{name}")
        assert prim.IsA(UsdGeom.Mesh)
        shader = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0].ComputeSurfaceSource()[0]
        found = [shader.GetInput(each).Get() for each in ("roughness", "metallic")]
        assert_allclose(found, (roughness, metallic), rtol=1e-6)
    assert reflections(sim.load(path)) == MATERIALS


def test_what_is_not_written_is_named(tmp_path):
    textured = model(sim.Texture(np.zeros((2, 2, 3), dtype=np.uint8)))
    with pytest.warns(sim.MJCFWarning, match="not written: textures \\('gold', 'rubber', 'plain'\\)"):
        write_mjcf(tmp_path / "balls.xml", textured)
    with pytest.warns(sim.USDWarning, match="not written: textures of geometries \\('gold'"):
        write_usd(tmp_path / "balls.usda", textured, NO_LINKS, fps=24)
    scene = sim.ModelBuilder()
    scene.add_link("base", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("hinge", "revolute", child="base", limits=sim.Limits(-1.0, 1.0))
    scene.add_geometry("base", "sphere", name="gold", size=0.4, material=textured.geometries[0].material)
    lost = pytest.warns(sim.URDFWarning, match="roughness and metallic of materials \\('gold'\\)")
    with lost, pytest.warns(sim.URDFWarning, match="not written: textures \\('gold'\\)"):
        write_urdf(tmp_path / "ball.urdf", scene.finalize())
