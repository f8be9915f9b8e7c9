"""Mesh files: where they are looked for, how they are read, and their hulls."""

import os

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose

import sim
from sim.importers.meshes import MeshLibrary
from sim.importers.transaction import folders_in
from tests.errors import raises_naming
from warp_kernels import types as codes

INERTIAL = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
ONE = np.ones(3)
PLY = """ply
format ascii 1.0
element vertex 4
property float x
property float y
property float z
element face 1
property list uchar int vertex_indices
end_header
0 0 0
2 0 0
2 3 0
0 3 0
4 0 1 2 3
"""


@pytest.fixture
def robot(tmp_path):
    """Folder of a robot file deep inside a tree of folders."""
    folder = tmp_path / "workspace/arm_description/urdf"
    folder.mkdir(parents=True)
    return folder


def ell() -> trimesh.Trimesh:
    """An L of two boxes: the mesh has a volume of 3, its hull of 3.5."""
    flat = trimesh.creation.box(bounds=((0, 0, 0), (2, 1, 1)))
    tall = trimesh.creation.box(bounds=((0, 0, 1), (1, 1, 2)))
    return trimesh.util.concatenate([flat, tall])


def put(path, mesh=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    (mesh or ell()).export(path)
    return path


class TestFind:
    def test_relative_and_absolute(self, robot):
        path = put(robot / "meshes/part.stl")
        library = MeshLibrary(robot)
        for name in ("meshes/part.stl", str(path), f"file://{path}", "file://meshes/part.stl"):
            assert library.find(name) == path

    def test_file_with_percent_signs(self, robot):
        path = put(robot / "my part.stl")
        assert MeshLibrary(robot).find(f"file://{str(path).replace(' ', '%20')}") == path

    def test_package_above_the_file(self, robot):
        path = put(robot.parent / "meshes/part.stl")
        assert MeshLibrary(robot).find("package://arm_description/meshes/part.stl") == path

    def test_package_beside_a_folder_above(self, robot):
        path = put(robot.parent.parent / "hand_description/part.stl")
        assert MeshLibrary(robot).find("package://hand_description/part.stl") == path

    def test_package_dirs_come_first(self, robot, tmp_path):
        put(robot.parent / "part.stl")
        inside, itself = put(tmp_path / "a/arm_description/part.stl"), put(tmp_path / "b/arm_description/part.stl")
        assert MeshLibrary(robot, [tmp_path / "a"]).find("package://arm_description/part.stl") == inside
        assert MeshLibrary(robot, folders_in(str(itself.parent))).find("package://arm_description/part.stl") == itself

    def test_ros_package_path(self, robot, tmp_path, monkeypatch):
        path = put(tmp_path / "ros/hand/part.stl")
        monkeypatch.setenv("ROS_PACKAGE_PATH", os.pathsep.join(("/nowhere", str(tmp_path / "ros"))))
        assert MeshLibrary(robot).find("package://hand/part.stl") == path

    def test_ament_prefix_path(self, robot, tmp_path, monkeypatch):
        path = put(tmp_path / "install/share/hand/part.stl")
        monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "install"))
        assert MeshLibrary(robot).find("package://hand/part.stl") == path

    def test_missing_package_names_the_places(self, robot, tmp_path):
        with pytest.raises(
            sim.ModelError, match=r"mesh 'package://hand/part\.stl' not found; searched .*; name the folder"
        ) as caught:
            MeshLibrary(robot, [tmp_path / "extra"]).find("package://hand/part.stl")
        assert str(tmp_path / "extra/hand/part.stl") in str(caught.value)
        assert str(robot.parent / "hand/part.stl") in str(caught.value)

    def test_unknown_scheme(self, robot):
        with raises_naming("mesh 'https://x/y.stl'", "'https://'", "supported"):
            MeshLibrary(robot).find("https://x/y.stl")


class TestRead:
    @pytest.mark.parametrize("suffix", ["stl", "obj", "ply", "dae", "STL", "glb", "gltf"])
    def test_formats(self, robot, suffix):
        if suffix == "gltf":  # several files, which trimesh would leave open
            for name, data in trimesh.exchange.gltf.export_gltf(ell().scene()).items():
                (robot / name.replace("model.gltf", "part.gltf")).write_bytes(data)
        else:
            put(robot / f"part.{suffix.lower()}").rename(robot / f"part.{suffix}")
        mesh = MeshLibrary(robot).surface(f"part.{suffix}", ONE)
        assert_allclose(trimesh.Trimesh(mesh.vertices, mesh.faces).volume, 3.0, rtol=1e-6)
        assert_allclose((mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)), ((0, 0, 0), (2, 1, 2)), atol=1e-6)

    def test_colours_and_polygons_of_a_ply_file(self, robot, capfd):
        colour = "property uchar red\nproperty uchar green\nproperty uchar blue\n"
        text = PLY.replace("element face", f"{colour}element face").replace(" 0\n", " 0 0 255 0\n")
        (robot / "a.ply").write_text(text.replace("1.0\n", "1.0\ncomment TextureFile wood.png\n", 1))
        (piece,) = MeshLibrary(robot).pieces("a.ply", ONE)
        assert piece.rgba == (0.0, 1.0, 0.0, 1.0)
        assert_allclose(trimesh.Trimesh(piece.mesh.vertices, piece.mesh.faces).area, 6.0)
        assert not capfd.readouterr().err

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (("4 0 1 2 3\n", ""), "5 lines.* 4;"),
            (("4 0 1 2 3", "4 0 1 2 -1"), "vertex -1"),
            (("4 0 1 2 3", "4 0 1 2 4"), "index 4 is out of bounds"),
            (("2 0 0", "nan 0 0"), "vertex 1 is not finite"),
            (("4 0 1 2 3", "2 0 1"), "contains no triangles"),
            (("ply\n", ""), "Not a ply file"),
        ],
    )
    def test_broken_ply(self, robot, change, message):
        (robot / "a.ply").write_text(PLY.replace(*change, 1))
        with pytest.raises(sim.ModelError, match=message):
            MeshLibrary(robot).surface("a.ply", ONE)

    def test_parts_of_a_gltf_file_stand_where_its_nodes_put_them(self, robot):
        scene = trimesh.Scene()
        red, blue = (trimesh.creation.box() for _ in range(2))
        for box, rgba in ((red, (1.0, 0.0, 0.0, 1.0)), (blue, (0.0, 0.0, 1.0, 1.0))):
            material = trimesh.visual.material.PBRMaterial(baseColorFactor=rgba)
            box.visual = trimesh.visual.TextureVisuals(material=material)
        scene.add_geometry(red)
        scene.add_geometry(blue, transform=trimesh.transformations.translation_matrix((3.0, 0.0, 0.0)))
        scene.export(robot / "part.glb")
        pieces = MeshLibrary(robot).pieces("part.glb", ONE)
        assert {piece.rgba: piece.mesh.vertices.mean(axis=0).tolist() for piece in pieces} == {
            (1.0, 0.0, 0.0, 1.0): [0.0, 0.0, 0.0],
            (0.0, 0.0, 1.0, 1.0): [3.0, 0.0, 0.0],
        }

    @pytest.mark.parametrize(
        ("name", "data", "message"),
        [
            ("a.gltf", b'{"accessors": [{"count": 1000000000000, "type": "VEC3"}]}', "accessor 0 has no bufferView"),
            ("a.gltf", b'{"accessors": 3}', "'accessors'"),
            ("a.gltf", b'{"buffers": [{"uri": "/dev/zero"}]}', r"buffers\[0\]: .*'/dev/zero'"),
            ("a.gltf", b'{"nodes": [{"children": [1]}, {"children": [0]}]}', "node 0 .*ancestor"),
            ("a.gltf", b'{"nodes": [{"children": [7]}]}', "node 0 .* 7"),
            ("a.gltf", b'{"nodes": [%s]}' % b",".join(200_000 * [b"{}"]), "200000 nodes; at most 10000"),
            (
                "a.gltf",
                b'{"nodes": [%s{}]}' % b"".join(b'{"children": [%d]},' % (k + 1) for k in range(2000)),
                "2001000 ancestors together; at most 200000",
            ),
            ("a.gltf", b"[]", "isn't a JSON object"),
            ("a.glb", b"glTF", "\\.glb"),
            ("a.glb", b"solid part" * 9, "\\.glb"),
            ("a.glb", b"glTF" + bytes(8) + (2**31).to_bytes(4, "little") + b"JSON{", "can't be read"),
        ],
    )
    def test_broken_gltf(self, robot, name, data, message):
        (robot / name).write_bytes(data)
        with pytest.raises(sim.ModelError, match=message):
            MeshLibrary(robot).surface(name, ONE)

    @pytest.mark.parametrize("scale", [(1.0, 2.0, 3.0), (-1.0, 1.0, 1.0), (-1.0, -2.0, 0.5), (-1.0, -1.0, -1.0)])
    def test_scale_keeps_the_outside_outside(self, robot, scale):
        put(robot / "part.stl")
        for mesh, volume in (
            (MeshLibrary(robot).surface("part.stl", np.array(scale)), 3.0),
            (MeshLibrary(robot).hull("part.stl", np.array(scale)), 3.5),
        ):
            result = trimesh.Trimesh(mesh.vertices, mesh.faces)
            # Signed volume: positive only where the triangles face outwards.
            assert_allclose(result.volume, volume * abs(np.prod(scale)), rtol=1e-6)
            ends = np.sort(np.outer((0.0, 1.0), np.multiply(scale, (2, 1, 2))), axis=0)
            assert_allclose((mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)), ends, atol=1e-6)

    def test_unit_of_a_collada_file(self, robot):
        path = put(robot / "part.dae")
        library = MeshLibrary(robot)
        metres = library.surface("part.dae", ONE).vertices
        text = path.read_text()
        inches = text.replace("</asset>", '<unit name="inch" meter="0.0254"/></asset>')
        assert inches != text
        (robot / "inches.dae").write_text(inches)
        assert_allclose(library.surface("inches.dae", ONE).vertices, 0.0254 * metres, rtol=1e-12)

    def test_collada_with_a_broken_material_keeps_its_shape(self, robot):
        path = put(robot / "part.dae")
        text = path.read_text()
        broken = text.replace('<instance_effect url="#', '<instance_effect url="#gone_')
        assert broken != text
        path.write_text(broken)
        assert_allclose(
            np.ptp(MeshLibrary(robot).surface("part.dae", ONE).vertices, axis=0), (2.0, 1.0, 2.0), atol=1e-6
        )

    def test_pieces_by_colour(self, robot):
        (robot / "part.mtl").write_text("newmtl red\nKd 1 0 0\nnewmtl blue\nKd 0 0 1\n")
        corners = "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 1) for z in (0, 1))
        (robot / "part.obj").write_text(
            f"mtllib part.mtl\n{corners}usemtl red\nf 1 2 3\nusemtl blue\nf 5 6 7\nf 6 8 7\n"
        )
        pieces = MeshLibrary(robot).pieces("part.obj", ONE)
        counts = {piece.rgba: len(piece.mesh.faces) for piece in pieces}
        assert counts == {(1.0, 0.0, 0.0, 1.0): 1, (0.0, 0.0, 1.0, 1.0): 2}

    @pytest.mark.parametrize(
        ("before", "after"), [("v ", "\ufeffv "), (" ", "\t"), ("\n", "\r\n"), ("\n", "\r"), ("f ", "o B\xe9\nf ")]
    )
    def test_an_obj_file_as_other_programs_write_it(self, robot, before, after):
        put(robot / "part.obj")
        text = (robot / "part.obj").read_text()
        text = text[text.index("v ") :].replace(before, after, 1 if after[0] == "\ufeff" else -1)
        (robot / "part.obj").write_bytes(text.encode("latin1" if "\xe9" in text else "utf-8"))
        mesh = MeshLibrary(robot).surface("part.obj", ONE)
        assert_allclose(trimesh.Trimesh(mesh.vertices, mesh.faces).volume, 3.0, rtol=1e-6)

    @pytest.mark.parametrize("face", ["f 0 1 2", "f 1/1 2/2 0/3", "f 2 0 1 # 3"])
    def test_an_obj_file_that_counts_from_zero(self, robot, face):
        (robot / "part.obj").write_text(f"v 0 0 0\nv 1 0 0\nv 0 1 0\n{face}\n")
        with pytest.raises(sim.ModelError, match=rf"the face '{face}' has a vertex 0"):
            MeshLibrary(robot).surface("part.obj", ONE)

    def test_an_stl_file_that_was_cut_off(self, robot):
        data = put(robot / "part.stl").read_bytes()
        (robot / "part.stl").write_bytes(data[:-20])
        with pytest.raises(sim.ModelError, match=rf"24 triangles.* {len(data)} .* {len(data) - 20};"):
            MeshLibrary(robot).surface("part.stl", ONE)

    @pytest.mark.parametrize("suffix", ["stl", "obj", "dae"])
    def test_rubbish(self, robot, suffix):
        (robot / f"part.{suffix}").write_bytes(b"\x00\x01rubbish" * 20)
        with pytest.raises(
            sim.ModelError, match=rf"mesh 'part\.{suffix}' \(.*\) (can't be read|contains no triangles)"
        ):
            MeshLibrary(robot).surface(f"part.{suffix}", ONE)

    def test_unknown_format(self, robot):
        (robot / "part.step").write_text("x")
        with raises_naming("mesh 'part.step'", "'.step'", "supported"):
            MeshLibrary(robot).surface("part.step", ONE)

    def test_flat_mesh_has_no_hull(self, robot):
        put(robot / "flat.stl", trimesh.Trimesh([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [(0, 1, 2)]))
        assert len(MeshLibrary(robot).surface("flat.stl", ONE).faces) == 1
        with raises_naming("mesh 'flat.stl'", "volume"):
            MeshLibrary(robot).hull("flat.stl", ONE)


def test_meshes_of_a_robot(robot):
    put(robot / "part.stl")
    mesh = "<geometry><mesh filename='part.stl' scale='1 1 -1'/></geometry>"
    (robot / "arm.urdf").write_text(
        f"<robot name='arm'><link name='a'>{INERTIAL}<visual>{mesh}</visual>"
        f"<collision><origin xyz='1 0 0'/>{mesh}</collision></link></robot>"
    )
    model = sim.load(robot / "arm.urdf", floating_base=True)
    visual, collision = model.geometries
    assert (visual.type, visual.visible, visual.collides) == (codes.CONVEX, True, False)
    assert (collision.type, collision.visible, collision.collides) == (codes.CONVEX, False, True)
    assert_allclose(collision.placement[:3], (1.0, 0.0, 0.0))
    assert_allclose(collision.size, ONE)
    assert visual.mesh is not None
    assert collision.mesh is not None
    assert_allclose(trimesh.Trimesh(visual.mesh.vertices, visual.mesh.faces).volume, 3.0, rtol=1e-6)
    assert_allclose(trimesh.Trimesh(collision.mesh.vertices, collision.mesh.faces).volume, 3.5, rtol=1e-6)


def test_meshes_are_not_read_without_geometry(robot):
    mesh = "<geometry><mesh filename='gone.stl'/></geometry>"
    (robot / "arm.urdf").write_text(
        f"<robot name='arm'><link name='a'>{INERTIAL}<visual>{mesh}</visual>"
        f"<collision>{mesh}</collision></link></robot>"
    )
    assert sim.load(robot / "arm.urdf", floating_base=True, visual=False, collision=False).num_geometries == 0
    for shown in ("visual", "collision"):
        options = {"visual": False, "collision": False, shown: True}
        message = r"arm\.urdf: link 'a', <mesh> .*'gone\.stl' not found; searched .*gone\.stl; .* pass visual=False "
        with pytest.raises(sim.ImportFileError, match=message):
            sim.load(robot / "arm.urdf", **options)
