"""Static meshes that collide as their triangles: every reader and writer, rays and pictures."""

import pickle

import numpy as np
import pytest
import trimesh
from pxr import Usd, UsdPhysics

import sim
import sim.exporters
from sim.render.tessellation import tessellate
from sim.usd import write_usd
from tests.importers.test_decomposition import ell, usd
from warp_kernels.types import CONVEX, MESH

LINK = """<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
<collision><geometry><mesh filename="ell.obj"/></geometry></collision>"""
FILES = {
    "r.urdf": f"""<robot name="r"><link name="l">{LINK}</link><link name="m">{LINK}</link>
<joint name="j" type="prismatic"><parent link="l"/><child link="m"/><origin xyz="5 0 0"/><axis xyz="1 0 0"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>""",
    "r.xml": """<mujoco><asset><mesh name="ell" file="ell.obj"/></asset><worldbody><geom type="mesh" mesh="ell"/>
<body pos="5 0 0"><joint type="slide"/><geom type="mesh" mesh="ell"/></body></worldbody></mujoco>""",
    "r.sdf": """<sdf version="1.9"><world name="w"><model name="r"><static>true</static><link name="l">
<collision name="a"><geometry><mesh><uri>ell.obj</uri></mesh></geometry></collision></link></model>
<model name="s"><pose>5 0 0 0 0 0</pose>
<link name="l"><collision name="a"><geometry><mesh><uri>ell.obj</uri></mesh></geometry></collision></link></model>
</world></sdf>""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("meshes")
    trimesh.Trimesh(ell().vertices, ell().faces).export(folder / "ell.obj")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    usd(folder / "r.usda")
    return folder


def with_ball(folder, name: str, **options) -> sim.Model:
    """A ball in the notch that a hull would fill, 0.2 m away from both arms."""
    builder = sim.ModelBuilder()
    kind = {"urdf": "urdf", "xml": "mjcf", "sdf": "sdf", "usda": "usd"}[name.split(".")[1]]
    getattr(builder, f"add_{kind}")(folder / name, **options)
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.6, 0.6, 0.1), name="ball")
    return builder.finalize("float64")


@pytest.mark.filterwarnings("ignore::sim.errors.MJCFWarning")
@pytest.mark.parametrize("name", [*FILES, "r.usda"])
def test_what_does_not_move_collides_as_it_is(folder, name):
    model = with_ball(folder, name, **({} if name == "r.usda" else {"static_meshes": "triangles"}))
    colliding = [each for each in model.geometries if each.mesh is not None and each.collides]
    moving = [each for each in colliding if not model.is_static(each)]
    (still,) = [each for each in colliding if model.is_static(each)]
    assert still.type == MESH
    assert (len(still.mesh.vertices), len(still.mesh.faces)) == (12, 20)
    assert [each.type for each in moving] == ([] if name == "r.usda" else [CONVEX])
    simulator = sim.Simulator(model, 0.001, device="cpu")
    state = simulator.initial_state()
    assert not len(simulator.contacts(state).distance)
    # Between the arms it touches both, at a distance that the notch tells.
    q = state.q.numpy()[0]
    q[-7:-4] = 0.405, 0.402, 0.1
    found = simulator.contacts(simulator.state(q))
    np.testing.assert_allclose(np.sort(found.distance), [0.002, 0.005], atol=1e-7)
    np.testing.assert_allclose(np.sort(-found.normal[:, :2], axis=0), [[0, 0], [1, 1]], atol=1e-6)


@pytest.mark.filterwarnings("ignore::sim.errors.MJCFWarning")
@pytest.mark.parametrize("name", list(FILES))
def test_without_the_option_it_is_a_hull(folder, name):
    model = with_ball(folder, name)
    assert {each.type for each in model.geometries if each.mesh is not None} == {CONVEX}
    with pytest.raises(sim.ModelError, match=r"static_meshes is 'boxes'; it must be one of hulls, triangles"):
        with_ball(folder, name, static_meshes="boxes")


@pytest.mark.parametrize(("token", "type"), [("meshSimplification", MESH), ("none", MESH), ("convexHull", CONVEX)])
def test_usd_says_what_it_is(folder, tmp_path, token, type):
    usd(tmp_path / "a.usda")
    stage = Usd.Stage.Open(str(tmp_path / "a.usda"))
    UsdPhysics.MeshCollisionAPI.Apply(stage.GetPrimAtPath("/ell")).CreateApproximationAttr(token)
    stage.Save()
    assert {each.type for each in with_ball(tmp_path, "a.usda").geometries if each.collides and each.mesh} == {type}


@pytest.mark.parametrize("name", ["r.urdf", "r.usda"])
def test_a_mesh_that_is_wrong_is_named(tmp_path, name):
    mesh = ell()
    faces = mesh.faces.copy()
    faces[0] = faces[0, ::-1]
    if name == "r.urdf":
        (tmp_path / name).write_text(FILES[name])
        trimesh.Trimesh(mesh.vertices, faces, process=False).export(tmp_path / "ell.obj")
        options = {"static_meshes": "triangles"}
    else:
        usd(tmp_path / name)
        stage = Usd.Stage.Open(str(tmp_path / name))
        stage.GetPrimAtPath("/ell").GetAttribute("faceVertexIndices").Set(faces.ravel().tolist())
        stage.Save()
        options = {}
    with pytest.raises(sim.ImportFileError, match="opposite orientations"):
        with_ball(tmp_path, name, **options)


def scene() -> sim.Model:
    """An ell, scaled and turned, and a flat sheet, which has no hull, below a ball."""
    builder = sim.ModelBuilder()
    mesh = ell()
    builder.add_static_mesh(
        mesh.vertices, mesh.faces, scale=(1.0, 0.8, 1.5), position=(0.1, 0.2, 0.3), orientation=(0.1, 0.2, 0.3, 0.9),
        name="ell", surface=sim.Surface(friction=0.7, group=3), rgba=(0.1, 0.2, 0.3, 1.0),
    )  # fmt: skip
    sheet = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0.0]])
    builder.add_static_mesh(sheet, [[0, 1, 2]], name="sheet")
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.6, 0.6, 2.0), name="ball")
    return builder.finalize("float64")


def test_usd_files_hold_them(tmp_path):
    model = scene()
    write_usd(tmp_path / "a.usda", model, still(model), fps=24)
    again = sim.load(tmp_path / "a.usda", dtype="float64")
    for name in ("ell", "sheet"):
        one, other = (each.geometries[each.geometry(name)] for each in (model, again))
        assert (other.type, other.group) == (MESH, one.group)
        placed = [
            trimesh.transform_points(each.mesh.vertices * each.size, matrix(each.placement))[each.mesh.faces]
            for each in (one, other)
        ]
        np.testing.assert_allclose(*(np.sort(each.reshape(-1, 9), axis=0) for each in placed), atol=1e-6)
    np.testing.assert_allclose(*(each.parameters["friction"][each.geometry("ell")] for each in (model, again)))


def still(model: sim.Model) -> np.ndarray:
    """Poses of the links in one frame [1, links, 7]."""
    return sim.forward_kinematics(model, model.q0[None]).numpy()


def matrix(placement: np.ndarray) -> np.ndarray:
    found = trimesh.transformations.quaternion_matrix(np.roll(placement[3:], 1))
    found[:3, 3] = placement[:3]
    return found


def test_pickles_and_other_processes_keep_them(tmp_path):
    model = scene()
    write_usd(tmp_path / "a.usda", model, still(model), fps=24)
    kept = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(*(each.geometries[0].mesh.faces for each in (model, kept)))
    far = sim.load(tmp_path / "a.usda", untrusted=True)
    assert far.geometries[far.geometry("ell")].type == MESH


def test_formats_of_hulls_say_what_they_lose(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_static_mesh(ell().vertices, ell().faces, name="ell")
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    model = builder.finalize()
    with pytest.raises(sim.ModelError, match=r"triangle meshes, except as their convex hulls.*ell"):
        sim.exporters.write_mjcf(tmp_path / "a.xml", model)
    with pytest.warns(sim.MJCFWarning, match="triangle meshes"):
        sim.exporters.write_mjcf(tmp_path / "a.xml", model, lossy=True)


def test_rays_meet_the_triangles():
    model = scene()
    geometry = model.geometries[0]
    solid = trimesh.Trimesh(geometry.mesh.vertices * geometry.size, geometry.mesh.faces)
    solid.apply_transform(matrix(geometry.placement))
    rng = np.random.default_rng(0)
    origin = rng.uniform(-1.0, 1.0, (300, 3)) * 3.0
    direction = solid.centroid + 0.3 * rng.normal(size=(300, 3)) - origin
    hits = sim.cast_rays(
        model, model.q0[None], origin[None], direction[None], sim.RayTargets(exclude=["ball"], groups=2)
    )
    found = hits.distance.numpy()[0]
    unit = direction / np.linalg.norm(direction, axis=1)[:, None]
    a, b, c = np.moveaxis(solid.triangles, 1, 0)
    expected = np.array([nearest(a, b, c, o, d) for o, d in zip(origin, unit, strict=True)])
    assert 50 < np.isfinite(expected).sum() < 300
    np.testing.assert_allclose(found, expected, atol=1e-9)


def nearest(a: np.ndarray, b: np.ndarray, c: np.ndarray, origin: np.ndarray, direction: np.ndarray) -> float:
    """Distance of the first triangle that a ray meets, by solving for its place in each."""
    system = np.stack([b - a, c - a, np.broadcast_to(-direction, a.shape)], axis=-1)
    u, v, t = np.linalg.solve(system, (origin - a)[..., None])[..., 0].T
    return float(np.min(np.where((u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0), t, np.inf)))


def test_pictures_show_the_mesh_itself():
    geometry = scene().geometries[0]
    drawn = tessellate(geometry)
    np.testing.assert_allclose(drawn.vertices, geometry.mesh.vertices * geometry.size)
    assert len(drawn.faces) == 20
