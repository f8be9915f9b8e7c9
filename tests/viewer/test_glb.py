"""Meshes with their material as .glb files, read by trimesh, and their nodes in the viewer."""

import io

import numpy as np
import trimesh
from numpy.testing import assert_allclose, assert_array_equal

import sim
from sim.render.colors import linear_light
from sim.render.tessellation import textured
from sim.viewer import Viewer
from sim.viewer.glb import METALLIC, WIDEST, glb_of

PIXELS = np.random.default_rng(1).integers(0, 255, (6, 4, 3), dtype=np.uint8)
COATED = sim.Material(0.25, 0.5, sim.Texture(PIXELS), (2.0, 3.0))


def model(**looks):
    """Return a box that a hinge turns, with a material."""
    scene = sim.ModelBuilder()
    scene.add_link("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("hinge", "revolute", child="arm", limits=sim.Limits(-1.0, 1.0))
    looks = {"rgba": (1.0, 0.5, 0.25, 1.0), "material": COATED} | looks
    scene.add_geometry("arm", "box", name="box", size=(0.3, 0.2, 0.1), **looks)
    scene.add_geometry(
        "world", "plane", name="ground", material=sim.Material(texture=COATED.texture, repeat=(1.0, 1.0))
    )
    return scene.finalize()


def read(geometry):
    """Return what trimesh reads of a geometry's file."""
    data = glb_of(textured(geometry), geometry.rgba, geometry.material)
    return trimesh.load(io.BytesIO(data), file_type="glb", process=False).dump()[0]


def test_a_file_is_read_as_it_was():
    box = model().geometries[0]
    mesh = read(box)
    material, triangles = mesh.visual.material, textured(box)
    assert_allclose(mesh.triangles, triangles.vertices[triangles.faces], atol=1e-7)
    assert_allclose(mesh.vertex_normals[mesh.faces], triangles.normals, atol=1e-3)
    assert_allclose(mesh.visual.uv[mesh.faces], triangles.uv, atol=1e-6)
    assert_array_equal(np.asarray(material.baseColorTexture.convert("RGB")), PIXELS)
    assert (material.roughnessFactor, material.metallicFactor) == (0.25, METALLIC * 0.5)
    expected = [*linear_light(np.array([1.0, 0.5, 0.25])), 1.0]
    assert_allclose(np.array(material.baseColorFactor) / 255.0, expected, atol=1 / 255)


def test_transparent_and_bare_materials():
    mesh = read(model(rgba=(1.0, 1.0, 1.0, 0.5), material=sim.Material(0.1)).geometries[0])
    assert mesh.visual.material.alphaMode == "BLEND"
    assert mesh.visual.material.baseColorTexture is None


def test_large_images_are_halved():
    wide = sim.Texture(np.zeros((2, WIDEST + 2, 3), dtype=np.uint8))
    image = read(
        model(material=sim.Material(texture=wide, repeat=(1.0, 1.0))).geometries[0]
    ).visual.material.baseColorTexture
    assert image.size == (WIDEST // 2 + 1, 1)


def test_materials_in_the_viewer():
    """A node with the material moves with its link, and gives way to a plain one that can be transparent."""
    with Viewer(model(), 1, port=0) as viewer:
        shapes = viewer._picture._visuals
        plain, coat = shapes._nodes[0], shapes._coats[0]
        assert (plain.visible, coat.visible) == (False, True)
        poses = np.zeros((1, 1, 7)) + np.array([1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0])
        shapes.update(poses)
        assert_allclose(coat.batched_positions, [[1.0, 2.0, 3.0]])
        assert_allclose(plain.batched_positions, [[1.0, 2.0, 3.0]])
        shapes.fade(0.5)
        assert (plain.visible, coat.visible) == (True, False)
        shapes.fade(1.0)
        assert (plain.visible, coat.visible) == (False, True)
