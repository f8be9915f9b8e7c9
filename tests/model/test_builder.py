"""ModelBuilder: what it refuses, how it orders and numbers, and what it merges."""

import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim
from sim.model.mass_properties import capsule_inertia
from sim.model.model import GEOMETRY_TYPE_NAMES, Mesh
from sim.model.specs import WORLD
from sim.render.shapes import tessellate
from tests.importers.reference import link_poses, matrix, random_coordinates
from warp_kernels import types as codes

UNIT = np.ones(3)


def chain(*types, mass=1.0):
    """Links l0, l1, ... each on the one before, by joints j0, j1, ... of these types."""
    builder = sim.ModelBuilder()
    for number, type in enumerate(types):
        builder.add_link(f"l{number}", mass=mass, inertia=UNIT)
        builder.add_joint(f"j{number}", type, parent=f"l{number - 1}" if number else WORLD, child=f"l{number}")
    return builder


class TestLinks:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"mass": -1.0}, "link 'a': mass is -1.0"),
            ({"mass": np.nan}, "link 'a': mass is nan"),
            ({"mass": np.inf}, "link 'a': mass is inf"),
            ({"mass": 1.0, "com": (0.0, np.nan, 0.0)}, "link 'a': com: .* is not finite"),
            ({"mass": 1.0, "com": (0.0, 0.0)}, r"link 'a': com: shape \(2,\), expected \(3,\)"),
            ({"mass": 1.0, "com": "left"}, "link 'a': com: 'left' is not an array of numbers"),
            ({"mass": 1.0, "inertia": (1.0, np.inf, 1.0)}, "link 'a': inertia must be nine"),
            ({"mass": 1.0, "inertia": np.eye(2)}, "link 'a': inertia must be nine"),
            ({"mass": 1.0, "inertia": [[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]}, "link 'a': inertia is not symmetric"),
            ({"mass": 1.0, "inertia": (1.0, 1.0, 2.1)}, r"link 'a': principal moments .*2\.1.* violate the triangle"),
            ({"mass": 1.0, "inertia": (1.0, 1.0, -0.1)}, r"link 'a': principal moments .*-0\.1.* are negative"),
        ],
    )
    def test_refused(self, options, message):
        builder = sim.ModelBuilder()
        with pytest.raises(sim.ModelError, match=message):
            builder.add_link("a", **options)
        assert not builder.links

    def test_triangle_inequality_in_oblique_axes(self):
        axes = Rotation.from_rotvec((0.3, 0.7, -0.2)).as_matrix()
        sim.ModelBuilder().add_link("a", mass=1.0, inertia=axes @ np.diag((1.0, 1.0, 2.0)) @ axes.T)
        with pytest.raises(sim.ModelError, match="link 'a': principal moments"):
            sim.ModelBuilder().add_link("a", mass=1.0, inertia=axes @ np.diag((1.0, 1.0, 2.1)) @ axes.T)

    def test_unphysical_inertia_on_request(self):
        builder = sim.ModelBuilder()
        builder.add_link("a", mass=1.0, inertia=(1.0, 1.0, 2.1), allow_unphysical=True)
        builder.add_joint("j", "free", child="a")
        assert_allclose(builder.finalize().parameters["inertia"][0], np.diag((1.0, 1.0, 2.1)))
        builder.add_link("b", mass=1.0, inertia=(1.0, 1.0, -0.1), allow_unphysical=True)
        builder.add_joint("k", "free", child="b")
        with pytest.raises(sim.ModelError, match="link 'b': with what is welded to it, its principal moments"):
            builder.finalize()

    def test_names(self):
        builder = chain("free")
        builder.add_frame("tip", "l0")
        with pytest.raises(sim.ModelError, match="link 'l0': a link of this name exists"):
            builder.add_link("l0")
        with pytest.raises(sim.ModelError, match="a link needs a name"):
            builder.add_link("")
        with pytest.raises(sim.ModelError, match="link 'world': this name is reserved for the world"):
            builder.add_link("world")
        with pytest.raises(sim.ModelError, match="link 'tip': a frame of this name exists"):
            builder.add_link("tip")

    def test_moving_link_without_mass(self):
        builder = chain("revolute", "revolute", mass=0.0)
        with pytest.raises(sim.ModelError, match="link 'l0' moves and has no mass, nor has anything it carries"):
            builder.finalize()

    def test_mass_further_out_is_enough(self):
        builder = chain("revolute", "revolute", mass=0.0)
        builder.links["l1"].mass = 1.0
        assert builder.finalize().massless_links == ()

    def test_armature_is_enough(self):
        builder = sim.ModelBuilder()
        builder.add_link("rotor", mass=0.0)
        builder.add_joint("shaft", "continuous", child="rotor", armature=0.1)
        assert builder.finalize().parameters["armature"].tolist() == [0.1]

    def test_links_without_inertial_data_are_listed(self):
        builder = chain("revolute", "fixed", "revolute", mass=None)
        assert builder.finalize().massless_links == ("l0", "l2")

    def test_link_without_joint(self):
        builder = chain("free")
        builder.add_link("loose", mass=1.0)
        with pytest.raises(sim.ModelError, match="link 'loose' has no joint; connect it with add_joint"):
            builder.finalize()


class TestJoints:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"type": "hinge"}, "joint 'j': unknown type 'hinge'; known are fixed, revolute"),
            ({"type": "free", "parent": "base"}, "joint 'j': a free joint needs the world as parent, not 'base'"),
            ({"axis": (0.0, 0.0, 0.0)}, "joint 'j': the axis is zero"),
            ({"axis": (0.0, np.nan, 0.0)}, "joint 'j': axis: .* is not finite"),
            ({"lower": 1.0, "upper": -1.0}, "joint 'j': the lower limit 1.0 is above the upper limit -1.0"),
            ({"lower": np.nan}, "joint 'j': the lower limit nan is above"),
            ({"damping": -1.0}, "joint 'j': damping is -1.0"),
            ({"armature": np.nan}, "joint 'j': armature is nan"),
            ({"stiffness": np.inf}, "joint 'j': stiffness is inf"),
            ({"friction_loss": -1.0}, "joint 'j': friction_loss is -1.0"),
            ({"effort": -1.0}, "joint 'j': effort is -1.0; it must not be negative"),
            ({"velocity": np.nan}, "joint 'j': velocity is nan; it must not be negative"),
            ({"rest_position": np.inf}, "joint 'j': rest_position is inf"),
            (
                {"type": "spherical", "lower": 0.0},
                "joint 'j': limits and stiffness are for revolute and prismatic joints",
            ),
            (
                {"type": "free", "stiffness": 1.0},
                "joint 'j': limits and stiffness are for revolute and prismatic joints",
            ),
            ({"position": (0.0, np.inf, 0.0)}, "joint 'j': position: .* is not finite"),
            ({"orientation": (0.0, 0.0, 0.0, 0.0)}, "joint 'j': the orientation is the zero quaternion"),
            ({"q0": (0.0, 0.0)}, r"joint 'j': q0: shape \(2,\), expected \(1,\)"),
            ({"type": "spherical", "q0": (0.0, 0.0, 0.0, 0.0)}, "joint 'j': q0 holds the zero quaternion"),
        ],
    )
    def test_refused(self, options, message):
        builder = sim.ModelBuilder()
        options = {"type": "revolute", "child": "a", **options}
        with pytest.raises(sim.ModelError, match=message):
            builder.add_joint("j", options.pop("type"), **options)
        assert not builder.joints

    @pytest.mark.parametrize("size", [1e-6, 1.0, 1e200])
    def test_axes_and_quaternions_are_normalised(self, size):
        builder = sim.ModelBuilder()
        builder.add_link("a", mass=1.0, inertia=UNIT)
        axis, turn = size * np.array((3.0, 0.0, 4.0)), size * np.array((0.0, 0.6, 0.0, 0.8))
        builder.add_joint("j", "revolute", child="a", axis=axis, orientation=turn)
        model = builder.finalize("float64")
        assert_allclose(model.joint_axis[0], (0.6, 0.0, 0.8), rtol=1e-15)
        assert_allclose(model.parameters["joint_placement"][0, 3:], turn / size, rtol=1e-15)

    def test_duplicate_name(self):
        with pytest.raises(sim.ModelError, match="joint 'j0': a joint of this name exists"):
            chain("free").add_joint("j0", "fixed", child="l0")

    def test_unknown_ends(self):
        builder = chain("free")
        builder.add_joint("k", "fixed", parent="l0", child="gone")
        with pytest.raises(sim.ModelError, match="joint 'k': unknown child link 'gone'"):
            builder.finalize()
        builder = chain("free")
        builder.add_joint("k", "fixed", parent="gone", child="l0")
        with pytest.raises(sim.ModelError, match="joint 'k': unknown parent link 'gone'"):
            builder.finalize()

    def test_two_parents(self):
        builder = chain("free", "revolute")
        builder.add_joint("k", "fixed", child="l1")
        message = (
            "link 'l1' has two joints, 'j1' and 'k'; a link has one joint, close the loop with add_point_constraint"
        )
        with pytest.raises(sim.ModelError, match=message):
            builder.finalize()

    @pytest.mark.parametrize("length", [1, 2, 3])
    def test_cycle(self, length):
        builder = chain("free")
        for number in range(length):
            builder.add_link(f"c{number}", mass=1.0)
            builder.add_joint(f"k{number}", "revolute", parent=f"c{(number + 1) % length}", child=f"c{number}")
        with pytest.raises(sim.ModelError, match=r"links 'c0'.* form a cycle that never reaches the world"):
            builder.finalize()

    def test_initial_coordinates_stay_inside_the_limits(self):
        builder = sim.ModelBuilder()
        for number, limits in enumerate(((-1.0, 1.0), (0.5, 1.0), (-2.0, -1.5))):
            builder.add_link(f"l{number}", mass=1.0, inertia=UNIT)
            builder.add_joint(f"j{number}", "prismatic", child=f"l{number}", lower=limits[0], upper=limits[1])
        assert builder.finalize().q0.tolist() == [0.0, 0.5, -1.5]


class TestGeometry:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"type": 99}, "geometry 'g': unknown geometry type 99; known are plane, sphere"),
            ({"type": "ball"}, "geometry 'g': unknown geometry type 'ball'; known are plane, sphere"),
            ({"size": (-1.0, 0.0, 0.0)}, "geometry 'g': size .* must be positive in its first 1 entries"),
            ({"size": (np.nan, 0.0, 0.0)}, "geometry 'g': size: .* is not finite"),
            ({"type": codes.BOX, "size": (1.0, 0.0, 1.0)}, "geometry 'g': size .* must be positive in its first 3"),
            ({"type": codes.CAPSULE, "size": (1.0, 0.0, 0.0)}, "geometry 'g': size .* must be positive in its first 2"),
            ({"type": "ellipsoid", "size": (1.0, 1.0, 0.0)}, "geometry 'g': size .* must be positive in its first 3"),
            ({"type": "cylinder", "size": (0.1, -0.2, 0.0)}, "geometry 'g': size .* must be positive in its first 2"),
            ({"type": codes.CONVEX}, "geometry 'g': a convex mesh needs mesh="),
            ({"friction": -0.1}, "geometry 'g': friction is -0.1"),
            ({"restitution": 1.1}, "geometry 'g': restitution is 1.1; it must lie between 0 and 1"),
            ({"restitution": np.nan}, "geometry 'g': restitution is nan"),
            ({"rgba": (1.0, 0.0, 0.0)}, r"geometry 'g': rgba: shape \(3,\), expected \(4,\)"),
            ({"position": (0.0,)}, "geometry 'g': position: shape"),
        ],
    )
    def test_refused(self, options, message):
        builder = chain("free")
        options = {"type": codes.SPHERE, "size": (1.0, 0.0, 0.0), **options}
        with pytest.raises(sim.ModelError, match=message):
            builder.add_geometry("l0", options.pop("type"), name="g", **options)
        assert not builder.geometries

    def test_names(self):
        builder = chain("free")
        assert builder.add_geometry("l0", codes.SPHERE, size=(1.0, 0.0, 0.0)) == "l0/geometry_0"
        assert builder.add_geometry("l0", codes.SPHERE, size=(1.0, 0.0, 0.0)) == "l0/geometry_1"
        with pytest.raises(sim.ModelError, match="geometry 'l0/geometry_0': a geometry of this name exists"):
            builder.add_geometry("l0", codes.SPHERE, name="l0/geometry_0", size=(1.0, 0.0, 0.0))

    def test_unknown_link(self):
        builder = chain("free")
        builder.add_geometry("gone", codes.SPHERE, name="g", size=(1.0, 0.0, 0.0))
        with pytest.raises(sim.ModelError, match="geometry 'g': unknown link 'gone'"):
            builder.finalize()


class TestFrames:
    def test_names(self):
        builder = chain("free")
        builder.add_frame("tip", "l0")
        for name in ("tip", "l0"):
            with pytest.raises(sim.ModelError, match=f"frame '{name}': a frame or link of this name exists"):
                builder.add_frame(name, "l0")
        with pytest.raises(sim.ModelError, match="a frame needs a name"):
            builder.add_frame("", "l0")

    def test_unknown_link(self):
        builder = chain("free")
        builder.add_frame("tip", "gone")
        with pytest.raises(sim.ModelError, match="frame 'tip': unknown link 'gone'"):
            builder.finalize()

    def test_on_a_welded_link_and_on_the_world(self):
        builder = chain("free")
        turn = Rotation.from_rotvec((0.0, 0.0, np.pi / 2)).as_quat()
        builder.add_link("tool")
        builder.add_joint("weld", "fixed", parent="l0", child="tool", position=(1.0, 0.0, 0.0), orientation=turn)
        builder.add_frame("tip", "tool", position=(1.0, 0.0, 0.0))
        builder.add_frame("home", WORLD, position=(0.0, 0.0, 2.0))
        model = builder.finalize()
        assert (model.frame("tip").link, model.frame("home").link) == (0, -1)
        assert_allclose(model.frame("tip").placement, [1.0, 1.0, 0.0, *turn], atol=1e-15)
        assert_allclose(model.frame("home").placement, [0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0])


class TestBodies:
    def test_names_count_up_past_taken_ones(self):
        builder = sim.ModelBuilder()
        builder.add_sphere(radius=1.0, mass=1.0, name="sphere_1")
        names = [builder.add_sphere(radius=1.0, mass=1.0).name for _ in range(3)]
        assert len({*names, "sphere_1"}) == 4

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"radius": 1.0, "mass": 0.0}, "sphere 's': mass is 0.0; a free body needs a positive one"),
            ({"radius": 1.0, "mass": np.nan}, "sphere 's': mass is nan"),
            ({"radius": 1.0}, "sphere 's': give either its mass or its density"),
            ({"radius": 1.0, "mass": 1.0, "density": 1.0}, "sphere 's': give either its mass or its density"),
            ({"radius": 1.0, "density": -1.0}, "sphere 's': density is -1.0; a free body needs a positive one"),
            ({"radius": -1.0, "density": 1.0}, "geometry 's/geometry': size .* must be positive"),
            ({"radius": -1.0, "mass": 1.0}, "geometry 's/geometry': size .* must be positive"),
            ({"radius": 1.0, "mass": 1.0, "friction": -1.0}, "geometry 's/geometry': friction is -1.0"),
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
        with pytest.raises(sim.ModelError, match="joint 's_free': a joint of this name exists"):
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
            (np.zeros((2, 2)), {}, "give either spacing or half_extents"),
            (np.zeros((2, 2)), {"spacing": 0.1, "half_extents": (1.0, 1.0)}, "give either spacing or half_extents"),
            (np.zeros((2, 2)), {"spacing": 0.0}, "size .* must be positive in its first 3"),
            (np.zeros((2, 2)), {"spacing": (0.1, -0.1)}, "size .* must be positive in its first 3"),
            (np.zeros((2, 2)), {"spacing": (0.1, 0.1, 0.1)}, r"spacing: shape \(3,\), expected \(2,\)"),
            (np.zeros((2, 2)), {"spacing": np.inf}, "spacing: .* is not finite"),
            (np.zeros((2, 2)), {"half_extents": (1.0,)}, r"half_extents: shape \(1,\), expected \(2,\)"),
            (np.zeros((2, 2)), {"half_extents": (0.0, 1.0)}, "size .* must be positive in its first 3"),
            (np.zeros((2, 2)), {"spacing": 0.1, "friction": -1.0}, "friction is -1.0"),
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
            mesh = Mesh(np.eye(3), np.array([[0, 1, 2]])) if code == codes.CONVEX else None
            grid = np.zeros((2, 2)) if code == codes.HEIGHTFIELD else None
            builder.add_geometry("l0", name.split()[0], size=(1.0, 2.0, 3.0), mesh=mesh, heights=grid)
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


def composite(model, q):
    """Mass, centre and inertia about the centre, in world axes, of all links together."""
    masses = model.parameters["mass"]
    poses = link_poses(model, q)
    centres = np.array(
        [pose[:3, :3] @ com + pose[:3, 3] for pose, com in zip(poses, model.parameters["com"], strict=True)]
    )
    centre = masses @ centres / masses.sum()
    inertia = np.zeros((3, 3))
    for pose, own, mass, at in zip(poses, model.parameters["inertia"], masses, centres, strict=True):
        arm = at - centre
        inertia += pose[:3, :3] @ own @ pose[:3, :3].T + mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return masses.sum(), centre, inertia


class TestWelding:
    def test_two_balls_on_a_massless_rod(self):
        """A dumbbell: 2 * (2/5 m r^2) along the rod, plus 2 m d^2 across it."""
        builder = sim.ModelBuilder()
        builder.add_link("rod")
        builder.add_joint("free", "free", child="rod")
        for name, side in (("left", -1.0), ("right", 1.0)):
            builder.add_link(name, mass=3.0, inertia=np.full(3, 0.4 * 3.0 * 0.2**2))
            builder.add_joint(name, "fixed", parent="rod", child=name, position=(0.0, side * 0.5, 0.0))
        ball, spread = 2.0 * 0.4 * 3.0 * 0.04, 2.0 * 3.0 * 0.25
        model = builder.finalize("float64")
        assert model.link_names == ("rod",)
        assert_allclose(model.parameters["inertia"][0], np.diag((ball + spread, ball, ball + spread)), atol=1e-15)
        loose = builder.finalize("float64", collapse_fixed=False)
        assert loose.link_names == ("rod", "left", "right")
        for got, expected in zip(composite(loose, loose.q0), composite(model, model.q0), strict=True):
            assert_allclose(got, expected, atol=1e-15)

    @given(seed=st.integers(0, 2**32 - 1))
    def test_collapsing_keeps_mass_inertia_and_frames(self, seed):
        rng = np.random.default_rng(seed)
        builder = random_tree(rng, 8, ("fixed", "fixed", "revolute", "spherical"))
        merged, loose = builder.finalize("float64"), builder.finalize("float64", collapse_fixed=False)
        assert (merged.nq, merged.nv) == (loose.nq, loose.nv)
        moving = [name for name in loose.joint_names if name in merged.joint_names]
        assert moving == list(merged.joint_names)
        q = random_coordinates(merged, rng)
        # The first link is free: everything moves, nothing is lost to the world.
        for got, expected in zip(composite(loose, q), composite(merged, q), strict=True):
            assert_allclose(got, expected, rtol=1e-10, atol=1e-10)
        poses = link_poses(merged, q), link_poses(loose, q)
        for frame in merged.frames:
            other = loose.frame(frame.name)
            here, there = (world[f.link] @ matrix(f.placement) for world, f in zip(poses, (frame, other), strict=True))
            assert_allclose(here, there, atol=1e-10)

    def test_what_is_welded_to_the_world_is_not_simulated(self):
        builder = chain("fixed", "revolute", "fixed")
        model = builder.finalize("float64")
        assert model.link_names == ("l1",)
        assert model.parameters["mass"].tolist() == [2.0]
        assert model.frame("l0").link == -1


def random_tree(rng, count, types):
    """Links in a random tree below a free root, their names in a random order of appearance."""
    builder = sim.ModelBuilder()
    for name in rng.permutation(count):
        axes = Rotation.random(rng=rng).as_matrix()
        inertia = axes @ np.diag(rng.uniform(1.0, 1.9, 3)) @ axes.T
        builder.add_link(f"l{name}", mass=rng.uniform(0.5, 2.0), com=rng.normal(size=3), inertia=inertia)
    builder.add_joint("j0", "free", child="l0")
    for name in rng.permutation(np.arange(1, count)):
        builder.add_joint(
            f"j{name}",
            str(rng.choice(types)),
            parent=f"l{rng.integers(0, name)}",
            child=f"l{name}",
            position=rng.normal(size=3),
            orientation=Rotation.random(rng=rng).as_quat(),
            axis=rng.normal(size=3),
        )
    return builder


class TestOrder:
    @given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12))
    def test_random_trees(self, seed, count):
        builder = random_tree(np.random.default_rng(seed), count, ("revolute", "prismatic", "spherical", "fixed"))
        builder.add_sphere(radius=1.0, mass=1.0, name="ball")
        model = builder.finalize()
        check_depth_first(model)
        check_degrees_of_freedom(model)

    def test_children_in_the_order_of_their_joints(self):
        builder = sim.ModelBuilder()
        for name in "dcba":
            builder.add_link(name, mass=1.0, inertia=UNIT)
        builder.add_joint("a", "free", child="a")
        builder.add_joint("d", "revolute", parent="a", child="d")
        builder.add_joint("b", "revolute", parent="a", child="b")
        builder.add_joint("c", "revolute", parent="d", child="c")
        assert builder.finalize().link_names == ("a", "d", "c", "b")

    def test_trees_in_the_order_of_their_roots(self):
        builder = sim.ModelBuilder()
        for name in "ab":
            builder.add_link(name, mass=1.0, inertia=UNIT)
        for name in "ba":
            builder.add_joint(name, "free", child=name)
        model = builder.finalize()
        assert model.link_names == ("a", "b")
        assert model.link_tree.tolist() == [0, 1]
        assert model.tree_link_start.tolist() == [0, 1, 2]

    def test_empty_world(self):
        model = sim.ModelBuilder().finalize()
        assert (model.num_links, model.num_trees, model.nq, model.nv, model.max_depth) == (0, 0, 0, 0, 0)

    def test_unknown_dtype(self):
        with pytest.raises(sim.ModelError, match="unknown dtype 'float16'; known are float32, float64"):
            sim.ModelBuilder().finalize("float16")


def check_depth_first(model):
    """Every subtree is a run of links, children after their parent, trees one after the other."""
    parent = model.link_parent
    for link in range(model.num_links):
        assert parent[link] < link
        subtree = [link]
        for other in range(link + 1, model.num_links):
            if parent[other] in subtree:
                subtree.append(other)
        assert subtree == list(range(link, link + len(subtree)))
    assert np.flatnonzero(parent < 0).tolist() == model.tree_link_start[:-1].tolist()
    assert model.tree_link_start[-1] == model.num_links
    for tree in range(model.num_trees):
        assert set(model.link_tree[model.tree_link_start[tree] : model.tree_link_start[tree + 1]]) == {tree}


def check_degrees_of_freedom(model):
    """The path of every degree of freedom to the root is that of its link's ancestors."""
    path: dict[int, list[int]] = {-1: []}
    for link in range(model.num_links):
        own = np.flatnonzero(model.dof_link == link).tolist()
        path[link] = path[int(model.link_parent[link])] + own
        assert model.link_tail_dof[link] == (path[link][-1] if path[link] else -1)
        for k in own:
            before = path[link][: path[link].index(k)]
            assert model.dof_depth[k] == len(before)
            assert model.dof_parent[k] == (before[-1] if before else -1)
            scalar = model.joint_type[link] in (codes.REVOLUTE, codes.PRISMATIC)
            assert model.dof_q[k] == (model.joint_q_start[link] if scalar else -1)
    assert model.dof_row_start.tolist() == np.concatenate([[0], np.cumsum(model.dof_depth)])[:-1].astype(int).tolist()
    assert model.max_depth == (max(len(dofs) for dofs in path.values()))


class TestSlices:
    def builder(self):
        builder = chain("free", "spherical", "fixed", "revolute")
        self.arm = builder.add_part("arm", ["l0", "l1", "l2", "l3"], ["j0", "j1", "j2", "j3"])
        self.ball = builder.add_sphere(radius=1.0, mass=1.0)
        return builder

    def test_parts_and_joints(self):
        model = self.builder().finalize()
        assert (model.nq, model.nv) == (19, 16)
        assert (model.q_slice(self.arm), model.qd_slice(self.arm)) == (slice(0, 12), slice(0, 10))
        assert (model.q_slice(self.ball), model.qd_slice(self.ball)) == (slice(12, 19), slice(10, 16))
        assert (model.q_slice("j1"), model.qd_slice("j1")) == (slice(7, 11), slice(6, 9))
        assert (model.q_slice("j3"), model.qd_slice("j3")) == (slice(11, 12), slice(9, 10))

    def test_part_of_welded_links_is_empty(self):
        builder = self.builder()
        part = builder.add_part("weld", ["l2"], ["j2"])
        assert builder.finalize().q_slice(part) == slice(0, 0)

    def test_part_that_is_not_one_run_of_coordinates(self):
        builder = self.builder()
        part = builder.add_part("ends", ["l0", "l3"], ["j0", "j3"])
        with pytest.raises(sim.ModelError, match="part 'ends': its joints are not next to each other, so no slice"):
            builder.finalize().q_slice(part)

    def test_unknown_names(self):
        model = self.builder().finalize()
        calls = {"joint": model.joint, "link": model.link, "frame": model.frame, "geometry": model.geometry}
        for what, call in (*calls.items(), ("joint", model.q_slice)):
            with pytest.raises(sim.ModelError, match=f"no {what} named 'gone'; there are"):
                call("gone")


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
        with pytest.raises(sim.ModelError, match="geometry 'ground': it can't collide with itself"):
            builder.exclude_geometries("ground", "ground")
        builder.exclude_geometries("ground", "gone")
        with pytest.raises(sim.ModelError, match="exclude_geometries: unknown geometry 'gone'"):
            builder.finalize()

    def test_with_the_world(self):
        builder = self.world("free")
        builder.exclude_collision("l0", WORLD)
        assert builder.finalize().excluded_pairs == {(0, 1)}

    def test_unknown_link(self):
        builder = self.world("free")
        builder.exclude_collision("l0", "gone")
        with pytest.raises(sim.ModelError, match="exclude_collision: unknown link 'gone'"):
            builder.finalize()

    def test_visual_geometry_is_not_listed(self):
        builder = chain("free", "revolute")
        for link in builder.links:
            builder.add_geometry(link, codes.SPHERE, size=(1.0, 0.0, 0.0), collides=False)
        assert builder.finalize().excluded_pairs == frozenset()


def test_gravity():
    with pytest.raises(sim.ModelError, match="gravity: .* is not finite"):
        sim.ModelBuilder(gravity=(0.0, 0.0, np.nan))


def test_models_of_one_builder_are_independent():
    builder = chain("free", "revolute")
    first = builder.finalize("float64")
    builder.add_sphere(radius=1.0, mass=1.0)
    second = builder.finalize("float64")
    second.parameters["mass"][:] = 0.0
    assert (first.num_links, second.num_links) == (2, 3)
    assert first.parameters["mass"].tolist() == [1.0, 1.0]
    assert builder.finalize().parameters["mass"].tolist()[:2] == [1.0, 1.0]
