"""Bodies on static triangle meshes: distances against coal, the same as on heightfields, gradients, special meshes."""

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

import sim
from sim.model.geometries import Mesh
from sim.model.shapes.triangles import MeshElements
from tests.collision.field_harness import random_field_bench
from tests.collision.field_oracle import (
    BODIES,
    MARGIN,
    POLE,
    coal_distance,
    core_distance,
    kinds_and_parts,
    least_distance,
    steady_rims,
    well_crossed,
)
from tests.collision.harness import OUTPUTS, assert_same_gradients
from tests.collision.mesh_harness import MeshBench, random_mesh_bench, tray
from tests.collision.test_gradients import differences
from warp_kernels.collision.field.grid import UPPER_TRIANGLE
from warp_kernels.types import BOX, CYLINDER, ELLIPSOID, MESH, SPHERE

WORLDS = 500


def torus() -> Mesh:
    made = trimesh.creation.torus(0.6, 0.25, major_sections=14, minor_sections=9)
    return Mesh(np.array(made.vertices), np.array(made.faces))


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("ground", [tray, torus])
def test_distances_are_those_of_coal(kind, ground):
    """Apart the least distance is exact, and negative where a body overlaps a triangle: thin walls have two sides."""
    bench = random_mesh_bench(kind, ground(), WORLDS, seed=kind, size=0.15)
    found = least_distance(bench.evaluate(bench.detect(MARGIN)))
    triangles, (position, turn) = bench.surface(), bench.in_field()
    outside = bench.signed_distance(position)
    if kind == SPHERE:
        expected = outside - bench.values["geometry_size"][:, 0, 0]
    else:
        expected = np.array([coal_distance(bench, w, triangles[w], position[w], turn[w])[0] for w in range(WORLDS)])
    apart, overlap = (outside > 0.0) & (expected > 1e-6), expected < -1e-6
    near = apart & (expected < MARGIN)
    assert min(near.sum(), overlap.sum()) > 100
    np.testing.assert_array_equal(np.isfinite(found[apart]), near[apart])
    # coal iterates between a curved shape and a triangle until the distance is right to 1e-7.
    np.testing.assert_allclose(found[near], expected[near], rtol=0.0, atol=1e-6)
    assert (found[overlap] < 0.0).all()


@pytest.mark.parametrize("kind", BODIES)
def test_a_heightfield_as_triangles_is_touched_like_the_heightfield(kind):
    field = random_field_bench(kind, 1500, seed=3, grid=(6, 7), roughness=0.05, fixed=1)
    field.values["height"][:] = field.values["height"][0]
    field.values["geometry_size"][:, 1] = 1.0, 0.9, 1.0
    triangles = field.surface()[0]
    ground = Mesh(triangles.reshape(-1, 3), np.arange(3 * len(triangles)).reshape(-1, 3))
    mesh = MeshBench((kind, MESH), field.num_worlds, mesh=field.mesh, ground=ground)
    mesh.values = {name: field.values[name].copy() for name in mesh.values}
    mesh.values["geometry_size"][:, 1] = 1.0
    one, other = (np.sort(np.nan_to_num(each.evaluate(each.detect(MARGIN))["distance"], nan=9.0), axis=0)
                  for each in (field, mesh))  # fmt: skip
    touching = one[0] < 9.0
    apart, shallow = touching & (one[0] > 1e-9), touching & (one[0] > -0.02)
    assert min(apart.sum(), (shallow & ~apart).sum()) > 30
    np.testing.assert_allclose(other[0, apart], one[0, apart], rtol=0.0, atol=1e-12)
    np.testing.assert_array_equal(other[0, ~touching & (one[0] > 0.0)], 9.0)
    # What spans most area is seen from above on a heightfield and along the normal on a mesh. What is deeper leaves a
    # heightfield upwards, and a mesh through the nearest triangle.
    assert (np.abs(one - other).max(axis=0)[apart] < 1e-12).mean() > 0.9
    assert (np.abs(one - other)[0, shallow] < 1e-12).mean() > 0.97


@pytest.mark.parametrize("kind", BODIES)
def test_gradients_match_central_differences(kind, device):
    """In poses and sizes, the mesh's scale included, away from where directions turn fast."""
    bench = random_mesh_bench(kind, torus(), 1500, seed=4, size=0.2, device=device)
    if kind == ELLIPSOID:
        bench.values["geometry_size"][:, 0] = 0.5 * (bench.values["geometry_size"][:, 0] + 0.25)
    slots = bench.detect(2.0 * MARGIN)
    out = bench.evaluate(slots)
    cotangents = {name: np.random.default_rng(5).normal(size=value.shape) for name, value in out.items()}
    element, part, active = kinds_and_parts(bench, slots)
    near = (core_distance(bench, element, part, out["distance"]) < 0.1) & (element > UPPER_TRIANGLE)
    good = ~(active & near)
    good &= ~(active & (np.linalg.norm(out["frame"][:, :, 0] - POLE, axis=-1) < 0.4))
    good &= well_crossed(bench, slots) | ~active
    if kind == CYLINDER:
        good &= steady_rims(bench, slots, out) | ~active
    good = good.all(axis=0)
    touched = good & active.any(axis=0)
    assert touched.sum() > 100
    expected = differences(bench, slots, cotangents)
    assert_same_gradients(bench, slots, cotangents, expected, bench.values, good)
    slopes = expected["distance"]["geometry_size"][touched]
    assert np.abs(slopes[:, 1]).max() > 1e-2


@pytest.mark.parametrize("kind", BODIES)
def test_single_precision_finds_the_same(kind):
    exact, single = (
        least_distance(bench.evaluate(bench.detect(MARGIN)))
        for dtype in ("float64", "float32")
        for bench in [random_mesh_bench(kind, torus(), 1500, seed=7, size=0.15, dtype=dtype)]
    )
    both = np.isfinite(exact) & np.isfinite(single)
    assert (np.isfinite(exact) != np.isfinite(single)).sum() <= 1
    # Rounding may choose another way out of a mesh that a body is deep inside of.
    same = np.isclose(single[both], exact[both], rtol=0.0, atol=1e-5)
    assert same.mean() > 0.99
    assert same[exact[both] > -1e-3].all()


def resting(kind: int, position: tuple[float, float, float], mesh: Mesh, size: float = 0.05) -> np.ndarray:
    """Distances of the contacts of a body at a place [n]."""
    bench = MeshBench((kind, MESH), 1, ground=mesh)
    bench.values["geometry_size"][:, 0] = size
    bench.values["pose"][0, :, :3] = position
    slots = bench.detect(0.01)
    out = bench.evaluate(slots)
    assert all(np.isfinite(out[name][: slots.count.numpy()[0]]).all() for name in OUTPUTS)
    return out["distance"][: slots.count.numpy()[0], 0]


SHEET = Mesh(
    np.array([[-0.1, -0.1, 0], [0.1, -0.1, 0], [0.1, 0.1, 0], [-0.1, 0.1, 0]]), np.array([[0, 1, 2], [0, 2, 3]])
)


def test_an_open_mesh_bears_from_outside_alone():
    """A sheet: on it, beside it, over its border and under it, also exactly over its diagonal and its corners."""
    for x, y, count in ((0.03, 0.01, 1), (0.02, 0.02, 1), (0.1, 0.1, 1), (0.12, 0.0, 1), (0.16, 0.0, 0)):
        found = resting(SPHERE, (x, y, 0.049), SHEET)
        assert len(np.unique(np.round(found, 12))) == count, (x, y)
        if count:
            np.testing.assert_allclose(found.min(), np.hypot(max(x - 0.1, 0.0), 0.049) - 0.05, atol=1e-15)
    np.testing.assert_allclose(resting(SPHERE, (0.03, 0.0, -0.01), SHEET).min(), -0.06, atol=1e-15)
    for position in ((0.13, 0.0, -0.02), (0.03, 0.0, -0.2)):
        assert not len(resting(SPHERE, position, SHEET))
    for x, count in ((0.0, 4), (0.1, 4), (0.16, 0)):
        assert len(resting(BOX, (x, 0.0, 0.05), SHEET)) == count


def test_elements_are_those_that_matter():
    """Of a box of two triangles a side: no diagonals; of a sheet: its border alone; each has one triangle."""
    made = trimesh.creation.box()
    elements = MeshElements()
    elements.add(Mesh(np.array(made.vertices), np.array(made.faces)))
    elements.add(SHEET)
    assert elements.extent == [(0, 12, 12), (12 + 12 + 8, 2, 4)]
    corner = elements.corner[0]
    assert (corner[24:] == corner[24:, :1]).all()
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(elements.outward), axis=1), 1.0)
    for owned in elements.owned:
        assert sorted(owned) == list(range(len(owned)))
    ends = made.vertices[corner[12:24, :2]]
    np.testing.assert_allclose(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1), 1.0)
    np.testing.assert_allclose(elements.outward[0][12:24], ends.mean(axis=1) / np.sqrt(0.5), atol=1e-12)
    for number, point in enumerate(corner[24:, 0]):
        start, end = elements.beside[0][24 + number]
        among = {tuple(corner[k, :2]) for k in range(12, 24)} | {tuple(corner[k, 1::-1]) for k in range(12, 24)}
        assert len({(point, other) for other in elements.neighbour[0][start:end]} & among) == 3


def test_files_that_repeat_vertices_are_one_surface():
    triangles = SHEET.vertices[SHEET.faces]
    builder = sim.ModelBuilder()
    flat = np.concatenate([np.arange(6).reshape(2, 3), [[0, 0, 1], [0, 1, 1]]])
    builder.add_static_mesh(triangles.reshape(-1, 3), flat, scale=(2.0, 1.0, 1.0))
    (geometry,) = builder.finalize().geometries
    assert geometry.mesh.vertices.shape == (4, 3)
    assert geometry.mesh.faces.shape == (2, 3)


CROSS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1.0]])  # an edge and places around it


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        ([[0, 0, np.nan], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], "vertex 0 is .*not finite"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 3]], "faces name vertices from 0 to 3 of 3"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0.0, 1.0, 2.0]], "whole numbers"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1]], r"faces \(1, 2\)"),
        ([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]], "no triangle with an area"),
        ([[0, 0, 0]], np.zeros((0, 3), dtype=int), "no triangle with an area"),
        (CROSS, [[0, 1, 2], [0, 1, 3]], r"edge at \[0.5, 0.0, 0.0\] have opposite"),
        (CROSS, [[0, 1, 2], [1, 0, 3], [1, 0, 4]], r"more than two triangles share the edge at \[0.5, 0.0, 0.0\]"),
    ],
)
def test_what_is_refused(vertices, faces, message):
    with pytest.raises(sim.ModelError, match=f"geometry 'rock': .*{message}"):
        sim.ModelBuilder().add_static_mesh(vertices, faces, name="rock")


def test_a_mesh_on_a_link_that_moves_is_refused():
    builder = sim.ModelBuilder()
    builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("free", "free", child="body")
    builder.add_geometry("body", "mesh", size=(1.0, 1.0, 1.0), mesh=SHEET, name="sheet")
    with pytest.raises(sim.ModelError, match="geometry 'sheet' of link 'body': a triangle mesh can't move"):
        builder.finalize()
    turned = Rotation.from_euler("x", 0.3).as_quat()
    fixed = sim.ModelBuilder()
    fixed.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    fixed.add_joint("weld", "fixed", child="body", orientation=turned)
    fixed.add_geometry("body", "mesh", size=(1.0, 1.0, 1.0), mesh=SHEET)
    fixed.finalize()
