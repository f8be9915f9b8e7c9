"""Roughness, metallic and opacity that aren't between 0 and 1 are replaced with a warning, in every format."""

from pathlib import Path

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose

import sim

USD = """#usda 1.0
(
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "part" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
{
    float physics:mass = 1
    def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"])
    {
        double radius = 0.1
        rel material:binding = </paint>
    }
}
def Material "paint"
{
    token outputs:surface.connect = </paint/shader.outputs:surface>
    def Shader "shader"
    {
        uniform token info:id = "UsdPreviewSurface"
        color3f inputs:diffuseColor = (0.5, 0.5, 0.5)
        INPUT
        token outputs:surface
    }
}
"""
MJCF = """<mujoco><asset><material name="paint" INPUT/></asset><worldbody><body><freejoint/>
<geom size="0.1" material="paint"/></body></worldbody></mujoco>"""
URDF = """<robot name="part"><link name="part"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><geometry><mesh filename="FILE"/></geometry></visual></link></robot>"""


def reflection(path: Path, text: str, said: str) -> list[float]:
    """Return roughness, metallic and opacity of the only geometry of a file that is read with a warning."""
    path.write_text(text)
    with pytest.warns(UserWarning, match=said):
        (geometry,) = sim.load(path).geometries
    return [geometry.material.roughness, geometry.material.metallic, geometry.rgba[3]]


@pytest.mark.parametrize(
    ("stated", "said", "expected"),
    [
        ("float inputs:roughness = nan", "roughness of material '/paint' is nan; .* and 0.5 is used", [0.5, 0.0, 1.0]),
        ("float inputs:roughness = 7", "roughness of material '/paint' is 7; .* and 1 is used", [1.0, 0.0, 1.0]),
        ("float inputs:metallic = -3", "metallic of material '/paint' is -3; .* and 0 is used", [0.5, 0.0, 1.0]),
        ("float inputs:metallic = inf", "metallic of material '/paint' is inf; .* and 1 is used", [0.5, 1.0, 1.0]),
        ("float inputs:opacity = -0.5", "opacity of material '/paint' is -0.5; .* and 0 is used", [0.5, 0.0, 0.0]),
        ('string inputs:roughness = "x"', "roughness of material '/paint', which is not a number", [0.5, 0.0, 1.0]),
    ],
)
def test_usd(tmp_path, stated, said, expected):
    assert reflection(tmp_path / "part.usda", USD.replace("INPUT", stated), said) == expected


def test_colours_of_usd_are_clamped(tmp_path):
    text = USD.replace("(0.5, 0.5, 0.5)", "(3, -1, 0.5)").replace("INPUT", "")
    reflection(tmp_path / "part.usda", text, "diffuseColor of material '/paint' isn't between 0 and 1; it is clamped")


def test_mjcf(tmp_path):
    said = "roughness of material 'paint' is 5; it must lie between 0 and 1, and 1 is used"
    assert reflection(tmp_path / "part.xml", MJCF.replace("INPUT", 'roughness="5"'), said)[0] == 1.0


@pytest.mark.parametrize("stated", ["nan", "-5", "inf"])
def test_obj(tmp_path, stated):
    points = "\n".join(f"v {x} {y} {z}" for x, y, z in np.vstack([np.zeros(3), np.eye(3)]).tolist())
    faces = "\n".join(f"f {face}" for face in ("1 3 2", "1 2 4", "1 4 3", "2 3 4"))
    (tmp_path / "part.obj").write_text(f"mtllib part.mtl\n{points}\nusemtl paint\n{faces}\n")
    (tmp_path / "part.mtl").write_text(f"newmtl paint\nKd 0.5 0.5 0.5\nNs {stated}\n")
    said = rf"shininess \(Ns\) {stated}, which must be finite"
    assert reflection(tmp_path / "part.urdf", URDF.replace("FILE", "part.obj"), said)[0] == 0.5


@pytest.mark.parametrize(("stated", "expected"), [(np.nan, [1.0, 0.0]), (-2.0, [0.0, 0.0])])
def test_gltf(tmp_path, stated, expected):
    box = trimesh.creation.box()
    material = trimesh.visual.material.PBRMaterial(roughnessFactor=stated, metallicFactor=0.0)
    box.visual = trimesh.visual.TextureVisuals(material=material, uv=np.zeros((8, 2)))
    box.export(tmp_path / "part.glb")
    found = reflection(tmp_path / "part.urdf", URDF.replace("FILE", "part.glb"), f"roughnessFactor is {stated:g}; ")
    assert_allclose(found[:2], expected)
