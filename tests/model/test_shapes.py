"""ModelBuilder: shapes on links, free bodies, ground and terrain, pairs that never collide."""

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose

import sim
from sim.model.geometries import Mesh
from sim.model.model import GEOMETRY_TYPE_NAMES
from sim.model.shapes.geometry_types import capsule_inertia
from sim.model.specs import WORLD
from sim.render.tessellation import tessellate
from tests.errors import raises_naming, refuses
from tests.model.trees import UNIT, chain
from warp_kernels import types as codes


class TestGeometry:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"type": 99}, "geometry 'g': unknown geometry type 99; known are plane, sphere"),
            ({"type": "ball"}, "geometry 'g': unknown geometry type 'ball'; known are plane, sphere"),
            ({"size": (-1.0, 0.0, 0.0)}, "geometry 'g': size .* must be positive in its first 1 entries"),
            ({"size": (np.nan, 0.0, 0.0)}, "geometry 'g': size: .* is not finite"),
            ({"size": (1.0, 2.0)}, r"geometry 'g': size: shape \(2,\), expected \(1,\)"),
            ({"type": codes.BOX, "size": 1.0}, r"geometry 'g': size: shape \(1,\), expected \(3,\)"),
            ({"type": codes.BOX, "size": (1.0, 0.0, 1.0)}, "geometry 'g': size .* must be positive in its first 3"),
            ({"type": codes.CAPSULE, "size": (1.0, 0.0, 0.0)}, "geometry 'g': size .* must be positive in its first 2"),
            ({"type": "ellipsoid", "size": (1.0, 1.0, 0.0)}, "geometry 'g': size .* must be positive in its first 3"),
            ({"type": "cylinder", "size": (0.1, -0.2, 0.0)}, "geometry 'g': size .* must be positive in its first 2"),
            ({"type": codes.CONVEX}, "geometry 'g': a convex mesh needs mesh="),
            ({"rgba": (1.0, 0.0, 0.0)}, r"geometry 'g': rgba: shape \(3,\), expected \(4,\)"),
            (
                {"rgba": (255, 0, 0, 1)},
                r"geometry 'g': rgba is \[255.0, 0.0, 0.0, 1.0\]; numbers must lie between 0 and 1",
            ),
            ({"rgba": (0.0, -0.1, 0.0, 1.0)}, "geometry 'g': rgba is .*; numbers must lie between 0 and 1"),
            ({"position": (0.0,)}, "geometry 'g': position: shape"),
        ],
    )
    def test_refused(self, options, message):
        builder = chain("free")
        options = {"type": codes.SPHERE, "size": (1.0, 0.0, 0.0), **options}
        with pytest.raises(sim.ModelError, match=message):
            builder.add_geometry("l0", options.pop("type"), name="g", **options)
        assert not builder.geometries

    @pytest.mark.parametrize(
        ("type", "size", "whole"),
        [
            ("plane", (), (0.0, 0.0, 0.0)),
            ("sphere", 0.1, (0.1, 0.0, 0.0)),
            ("sphere", [0.1], (0.1, 0.0, 0.0)),
            ("capsule", (0.1, 0.2), (0.1, 0.2, 0.0)),
            ("cylinder", (0.1, 0.2, 0.0), (0.1, 0.2, 0.0)),
        ],
    )
    def test_sizes_that_a_shape_lacks_may_be_left_out(self, type, size, whole):
        builder = chain("free")
        builder.add_geometry("l0", type, name="g", size=size)
        assert_allclose(builder.geometries["g"].geometry.size, whole)

    def test_names(self):
        builder = chain("free")
        assert builder.add_geometry("l0", codes.SPHERE, size=(1.0, 0.0, 0.0)) == "l0/geometry_0"
        assert builder.add_geometry("l0", codes.SPHERE, size=(1.0, 0.0, 0.0)) == "l0/geometry_1"
        with raises_naming("geometry 'l0/geometry_0'", "geometry", "name", "exists"):
            builder.add_geometry("l0", codes.SPHERE, name="l0/geometry_0", size=(1.0, 0.0, 0.0))

    def test_unknown_link(self):
        builder = chain("free")
        builder.add_geometry("gone", codes.SPHERE, name="g", size=(1.0, 0.0, 0.0))
        with raises_naming("geometry 'g'", "unknown", "link 'gone'"):
            builder.finalize()


class TestBodies:
    def test_names_count_up_past_taken_ones(self):
        builder = sim.ModelBuilder()
        builder.add_sphere(radius=1.0, mass=1.0, name="sphere_1")
        names = [builder.add_sphere(radius=1.0, mass=1.0).name for _ in range(3)]
        assert len({*names, "sphere_1"}) == 4

    @pytest.mark.parametrize("name", [0, 3])
    def test_names_are_text(self, name):
        builder = sim.ModelBuilder()
        with pytest.raises(sim.ModelError, match=f"a link has the name {name}; names are text"):
            builder.add_sphere(name=name, radius=1.0, mass=1.0)
        with pytest.raises(sim.ModelError, match=f"a geometry has the name {name}; names are text"):
            builder.add_ground(name=name)
        assert not builder.links
        assert not builder.joints

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"radius": 1.0, "mass": 0.0}, "sphere 's': mass is 0.0"),
            ({"radius": 1.0, "mass": np.nan}, "sphere 's': mass is nan"),
            ({"radius": 1.0}, "sphere 's': .*mass and density"),
            ({"radius": 1.0, "mass": 1.0, "density": 1.0}, "sphere 's': .*mass and density"),
            ({"radius": 1.0, "density": -1.0}, "sphere 's': density is -1.0"),
            ({"radius": -1.0, "density": 1.0}, "geometry 's/geometry': size .* must be positive"),
            ({"radius": -1.0, "mass": 1.0}, "geometry 's/geometry': size .* must be positive"),
            (
                {"radius": 1.0, "mass": 1.0, "surface": 0.5},
                "geometry 's/geometry': surface is a float; it must be a sim.Surface",
            ),
            ({"radius": 1.0, "mass": 1.0, "position": (0.0, 0.0)}, "joint 's_free': position: shape"),
        ],
    )
    def test_failure_leaves_nothing_behind(self, options, message):
        builder = sim.ModelBuilder()
        with pytest.raises(sim.ModelError, match=message):
            builder.add_sphere(name="s", **options)
        assert [*builder.links, *builder.joints, *builder.geometries, *builder.parts] == []

    def test_failure_keeps_what_was_there(self):
        builder = sim.ModelBuilder()
        builder.add_link("a", mass=1.0, inertia=UNIT)
        builder.add_joint("s_free", "free", child="a")
        with raises_naming("joint 's_free'", "joint", "name", "exists"):
            builder.add_sphere(radius=1.0, mass=1.0, name="s")
        assert (list(builder.links), list(builder.joints)) == (["a"], ["s_free"])

    def test_inertias(self):
        builder = sim.ModelBuilder()
        builder.add_sphere(radius=0.5, mass=2.0)
        builder.add_box(half_extents=(0.5, 1.0, 1.5), mass=3.0)
        builder.add_capsule(radius=0.3, half_length=0.7, mass=1.5)
        inertia = builder.finalize("float64").parameters["inertia"]
        assert_allclose(inertia[0], np.eye(3) * 0.4 * 2.0 * 0.25)
        assert_allclose(inertia[1], np.diag((4.0 + 9.0, 1.0 + 9.0, 1.0 + 4.0)) * 3.0 / 12.0)
        assert_allclose(np.diag(inertia[2]), sampled_capsule_inertia(0.3, 0.7, 1.5), rtol=1e-3)

    @pytest.mark.parametrize(
        ("kind", "size"),
        [
            ("sphere", {"radius": 0.3}),
            ("box", {"half_extents": (0.1, 0.2, 0.3)}),
            ("capsule", {"radius": 0.2, "half_length": 0.3}),
            ("cylinder", {"radius": 0.2, "half_length": 0.3}),
            ("ellipsoid", {"semi_axes": (0.1, 0.2, 0.3)}),
        ],
    )
    def test_density_gives_mass_and_inertia_of_the_solid(self, kind, size):
        """Against those of the polyhedron that is drawn, which lacks up to (2 pi / 256)^2 of the volume."""
        builder = sim.ModelBuilder()
        getattr(builder, f"add_{kind}")(density=500.0, **size)
        getattr(builder, f"add_{kind}")(mass=2.0, **size)
        model = builder.finalize("float64")
        shape = tessellate(model.geometries[0], segments=256)
        solid = trimesh.Trimesh(shape.vertices, shape.faces, process=False)
        solid.density = 500.0
        mass, inertia = model.parameters["mass"], model.parameters["inertia"]
        assert_allclose(mass[0], solid.mass, rtol=6e-4)
        assert_allclose(inertia[0], solid.moment_inertia, rtol=1.2e-3, atol=1e-12)
        assert_allclose(inertia[1] / mass[1], inertia[0] / mass[0], rtol=1e-14)
        assert mass[1] == 2.0

    @pytest.mark.parametrize(
        ("heights", "options", "message"),
        [
            ([[1.0, 2.0]], {"spacing": 0.1}, r"heights have shape \(1, 2\); expected \[rows, columns\]"),
            (np.zeros(4), {"spacing": 0.1}, r"heights have shape \(4,\); expected \[rows, columns\]"),
            (np.zeros((2, 2, 2)), {"spacing": 0.1}, r"heights have shape \(2, 2, 2\)"),
            (np.zeros((4000, 3000)), {"spacing": 0.1}, "12000000 heights; at most 10000000 are supported"),
            ([[1.0, np.nan], [0.0, 0.0]], {"spacing": 0.1}, "heights: .* is not finite"),
            ([["a", "b"], ["c", "d"]], {"spacing": 0.1}, "heights: .* is not an array of numbers"),
            (None, {"spacing": 0.1}, "a heightfield needs heights="),
            ([[1.0, 2.0], [3.0]], {"spacing": 0.1}, "the rows of heights differ in length"),
            (np.zeros((2, 2)), {}, "give either spacing or half_extents"),
            (np.zeros((2, 2)), {"spacing": 0.1, "half_extents": (1.0, 1.0)}, "give either spacing or half_extents"),
            (np.zeros((2, 2)), {"spacing": 0.0}, "size .* must be positive in its first 3"),
            (np.zeros((2, 2)), {"spacing": (0.1, -0.1)}, "size .* must be positive in its first 3"),
            (np.zeros((2, 2)), {"spacing": (0.1, 0.1, 0.1)}, r"spacing: shape \(3,\), expected \(2,\)"),
            (np.zeros((2, 2)), {"spacing": np.inf}, "spacing: .* is not finite"),
            (np.zeros((2, 2)), {"half_extents": (1.0,)}, r"half_extents: shape \(1,\), expected \(2,\)"),
            (np.zeros((2, 2)), {"half_extents": (0.0, 1.0)}, "size .* must be positive in its first 3"),
        ],
    )
    def test_heightfield_that_is_refused(self, heights, options, message):
        builder = sim.ModelBuilder()
        with pytest.raises(sim.ModelError, match=f"geometry 'heightfield': {message}"):
            builder.add_heightfield(heights, **options)
        assert not builder.geometries

    def test_heightfield(self):
        builder = sim.ModelBuilder()
        heights = np.arange(6.0).reshape(2, 3)
        assert builder.add_heightfield(heights, spacing=(0.5, 0.25), position=(1.0, 2.0, 3.0)) == "heightfield"
        builder.add_heightfield(heights.tolist(), half_extents=(2.0, 1.0), name="second", collides=False)
        heights[:] = 0.0
        first, second = builder.finalize().geometries
        assert (first.type, first.link) == (codes.HEIGHTFIELD, -1)
        assert_allclose(first.size, (0.5, 0.125, 1.0))
        assert_allclose(second.size, (2.0, 1.0, 1.0))
        assert_allclose(first.placement[:3], (1.0, 2.0, 3.0))
        for geometry in (first, second):
            assert_allclose(geometry.heights, np.arange(6.0).reshape(2, 3))

    def test_names_of_geometry_types(self):
        builder = chain("free")
        for code, name in GEOMETRY_TYPE_NAMES.items():
            mesh = Mesh(np.eye(3), np.array([[0, 1, 2]])) if code in (codes.CONVEX, codes.MESH) else None
            grid = np.zeros((2, 2)) if code == codes.HEIGHTFIELD else None
            word = "mesh" if code == codes.MESH else name.split()[0]
            builder.add_geometry("l0", word, size=(1.0, 2.0, 3.0), mesh=mesh, heights=grid)
        types = [spec.geometry.type for spec in builder.geometries.values()]
        assert types == list(GEOMETRY_TYPE_NAMES)

    def test_capsule_inertia_in_its_limits(self):
        assert_allclose(capsule_inertia(0.5, 0.0, 2.0), np.full(3, 0.4 * 2.0 * 0.25))
        thin = capsule_inertia(1e-6, 1.0, 3.0)
        assert_allclose(thin[:2], 3.0 * 2.0**2 / 12.0, rtol=1e-5)


def sampled_capsule_inertia(radius, half_length, mass):
    """Principal moments of a capsule from slices across its axis."""
    z = np.linspace(-half_length - radius, half_length + radius, 20001)
    past_the_end = np.maximum(np.abs(z) - half_length, 0.0)
    area = np.pi * np.maximum(radius**2 - past_the_end**2, 0.0)
    weight = area / area.sum() * mass
    disc = area / np.pi
    return np.array([*[(weight * (disc / 4.0 + z**2)).sum()] * 2, (weight * disc / 2.0).sum()])


class TestExclusions:
    def world(self, *types):
        builder = chain(*types)
        for link in builder.links:
            builder.add_geometry(link, codes.SPHERE, size=(1.0, 0.0, 0.0))
        builder.add_ground()
        return builder

    def test_neighbours_never_touch(self):
        assert self.world("free", "revolute", "revolute").finalize().excluded_pairs == {(0, 1), (1, 2)}

    @pytest.mark.parametrize("collapse_fixed", [True, False])
    def test_welded_links_count_as_one(self, collapse_fixed):
        model = self.world("free", "fixed", "revolute", "revolute").finalize(collapse_fixed=collapse_fixed)
        assert model.excluded_pairs == {(0, 1), (0, 2), (1, 2), (2, 3)}

    def test_base_welded_to_the_world(self):
        """The base is the neighbour of the next link; the ground is nobody's."""
        assert self.world("fixed", "revolute", "revolute").finalize().excluded_pairs == {(0, 1), (1, 2)}

    def test_by_name(self):
        builder = self.world("free", "revolute", "revolute")
        builder.exclude_collision("l2", "l0")
        assert builder.finalize().excluded_pairs == {(0, 1), (1, 2), (0, 2)}

    def test_single_geometries(self):
        builder = self.world("free", "revolute", "revolute")
        builder.exclude_geometries("ground", "l2/geometry_0")
        assert builder.finalize().excluded_pairs == {(0, 1), (1, 2), (2, 3)}
        refuses(lambda: builder.exclude_geometries("ground", "ground"), "ground", "two")
        builder.exclude_geometries("ground", "gone")
        refuses(lambda: builder.finalize(), "exclude_geometries", "unknown", "geometry 'gone'")

    def test_group_of_what_is_no_names(self):
        builder = self.world("free")
        with raises_naming("exclude_group", "links", "Part"):
            builder.exclude_group(builder.add_sphere(radius=1.0, mass=1.0))

    def test_with_the_world(self):
        builder = self.world("free")
        builder.exclude_collision("l0", WORLD)
        assert builder.finalize().excluded_pairs == {(0, 1)}

    def test_unknown_link(self):
        builder = self.world("free")
        builder.exclude_collision("l0", "gone")
        with raises_naming("exclude_collision", "unknown", "link 'gone'"):
            builder.finalize()

    def test_visual_geometry_is_not_listed(self):
        builder = chain("free", "revolute")
        for link in builder.links:
            builder.add_geometry(link, codes.SPHERE, size=(1.0, 0.0, 0.0), collides=False)
        assert builder.finalize().excluded_pairs == frozenset()
