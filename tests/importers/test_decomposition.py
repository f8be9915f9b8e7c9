"""Meshes that aren't convex as convex pieces, in every format: a ball falls into the notch that a hull would fill."""

import sys

import numpy as np
import pytest
import trimesh
from pxr import Gf, Usd, UsdGeom, UsdPhysics, Vt

import sim
from sim.importers.decomposition import convex_pieces
from sim.model.geometries import Mesh
from tests.errors import raises_naming

THICKNESS, VOLUME = 0.2, 0.102


def ell() -> Mesh:
    """An L, its arms 0.3 m wide and 1 m long, along x and y."""
    outline = np.array([(0, 0), (1, 0), (1, 0.3), (0.3, 0.3), (0.3, 1), (0, 1)])
    top = np.array([(0, 1, 2), (0, 2, 3), (0, 3, 5), (3, 4, 5)])
    k = np.arange(6)
    following = (k + 1) % 6
    sides = [np.stack([k, following, following + 6], axis=1), np.stack([k, following + 6, k + 6], axis=1)]
    vertices = np.concatenate([np.c_[outline, np.full(6, z)] for z in (0.0, THICKNESS)])
    return Mesh(vertices, np.concatenate([top[:, ::-1], top + 6, *sides]).astype(np.int32))


URDF = """<robot name="r"><link name="l"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
<collision><geometry><mesh filename="ell.obj"/></geometry></collision></link></robot>"""
MJCF = """<mujoco><asset><mesh name="ell" file="ell.obj"/></asset>
<worldbody><geom name="wall" type="box" size="0.1 0.1 0.1" pos="3 0 0"/>
<body name="l" mocap="true"><geom name="ell" type="mesh" mesh="ell"/></body>
<body name="b" pos="2 0 0"><freejoint/><geom name="other" size="0.1"/></body>
<body name="c" pos="4 0 0"><freejoint/><geom name="apart" size="0.1" contype="0" conaffinity="2"/></body></worldbody>
<contact><pair geom1="ell" geom2="other" friction="0.3 0.3" solref="0.05 1"/></contact></mujoco>"""


def usd(path) -> None:
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    mesh, prim = ell(), UsdGeom.Mesh.Define(stage, "/ell")
    prim.CreatePointsAttr(Vt.Vec3fArray([Gf.Vec3f(*point) for point in mesh.vertices.tolist()]))
    prim.CreateFaceVertexCountsAttr([3] * len(mesh.faces))
    prim.CreateFaceVertexIndicesAttr(mesh.faces.ravel().tolist())
    UsdPhysics.CollisionAPI.Apply(prim.GetPrim())
    stage.Save()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ell")
    mesh = ell()
    trimesh.Trimesh(mesh.vertices, mesh.faces).export(folder / "ell.obj")
    for name, text in (("r.urdf", URDF), ("r.xml", MJCF)):
        (folder / name).write_text(text)
    usd(folder / "r.usda")
    return folder


@pytest.mark.filterwarnings("ignore::sim.errors.MJCFWarning")
@pytest.mark.parametrize("name", ["r.urdf", "r.xml", "r.usda"])
def test_pieces_of_every_format(folder, name):
    builder = sim.ModelBuilder()
    getattr(builder, {"f": "add_urdf", "l": "add_mjcf", "a": "add_usd"}[name[-1]])(folder / name, decompose=True)
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.6, 0.6, 0.1), name="ball")
    model = builder.finalize("float64")
    pieces = [each for each in model.geometries if each.mesh is not None and each.collides]
    assert len(pieces) == 2
    volume = sum(trimesh.Trimesh(each.mesh.vertices * each.size, each.mesh.faces).volume for each in pieces)
    np.testing.assert_allclose(volume, VOLUME, rtol=0.01)
    # Inside the hull, 0.2 m away from both arms.
    simulator = sim.Simulator(model, 0.001)
    state = simulator.initial_state()
    assert not len(simulator.contacts(state).distance)


SDF = """<sdf version="1.9"><model name="r"><link name="l"><collision name="a"><geometry><mesh><uri>ell.obj</uri></mesh>
</geometry></collision></link></model></sdf>"""
TWICE = {
    "urdf": (URDF, "<collision>", "</collision>"),
    "xml": (MJCF, '<geom name="ell"', "/>"),
    "sdf": (SDF, "<collision", "</collision>"),
}


@pytest.mark.filterwarnings("ignore::sim.errors.MJCFWarning")
@pytest.mark.parametrize("kind", TWICE)
def test_a_mesh_is_taken_apart_once(folder, kind, monkeypatch):
    """That takes seconds to minutes, and robots use a mesh in several places."""
    import coacd

    text, begin, end = TWICE[kind]
    first = text.index(begin)
    last = text.index(end, first) + len(end)
    again = text[first:last].replace('name="ell"', 'name="again"').replace('name="a"', 'name="b"')
    (folder / f"twice.{kind}").write_text(text[:last] + again + text[last:])
    taken, run = [], coacd.run_coacd
    monkeypatch.setattr(coacd, "run_coacd", lambda *given, **options: taken.append(given) or run(*given, **options))
    model = sim.load(folder / f"twice.{kind}", decompose=True)
    assert sum(each.mesh is not None and each.collides for each in model.geometries) == 4
    assert len(taken) == 1


def test_what_the_file_says_of_pairs_is_of_every_piece(folder):
    model = sim.load(folder / "r.xml", decompose=0.05)
    names = [each.name for each in model.geometries]
    pieces = [names.index(f"ell/{number}") for number in range(2)]
    apart, other = names.index("apart"), names.index("other")
    stated = list(zip(model.pair_frictions, model.parameters["pair_friction"].tolist(), strict=True))
    for piece in pieces:
        assert (min(piece, apart), max(piece, apart)) in model.excluded_pairs
        assert any({pair.a, pair.b} == {piece, other} and slide == 0.3 for pair, slide in stated)
        assert any({pair.a, pair.b} == {piece, other} for pair in model.pair_softness)


def test_a_convex_mesh_stays_whole():
    box = trimesh.creation.box((1, 2, 3))
    (piece,) = convex_pieces(Mesh(np.array(box.vertices), np.array(box.faces)), 0.05)
    assert len(piece.vertices) == 8


def test_messages(folder, monkeypatch):
    for wrong in (0.001, 2.0, float("nan")):
        with raises_naming("True", "False", "CoACD"):
            sim.load(folder / "r.urdf", decompose=wrong)
    monkeypatch.setitem(sys.modules, "coacd", None)
    with raises_naming("r.urdf", "mesh 'ell.obj'", "coacd", error=sim.ImportFileError):
        sim.load(folder / "r.urdf", decompose=True)
