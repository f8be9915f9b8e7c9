"""ModelBuilder: links, joints and frames, and what it refuses."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim
from sim.model.checks import free_name
from sim.model.specs import WORLD
from tests.errors import raises_naming, refuses
from tests.model.trees import UNIT, chain


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
        with raises_naming("link 'a'", "principal moments"):
            sim.ModelBuilder().add_link("a", mass=1.0, inertia=axes @ np.diag((1.0, 1.0, 2.1)) @ axes.T)

    def test_unphysical_inertia_on_request(self):
        builder = sim.ModelBuilder()
        builder.add_link("a", mass=1.0, inertia=(1.0, 1.0, 2.1), allow_unphysical=True)
        builder.add_joint("j", "free", child="a")
        assert_allclose(builder.finalize().parameters["inertia"][0], np.diag((1.0, 1.0, 2.1)))
        builder.add_link("b", mass=1.0, inertia=(1.0, 1.0, -0.1), allow_unphysical=True)
        builder.add_joint("k", "free", child="b")
        with raises_naming("link 'b'", "principal moments"):
            builder.finalize()

    def test_names(self):
        builder = chain("free")
        builder.add_frame("tip", "l0")
        refuses(lambda: builder.add_link("l0"), "link 'l0'", "link", "name", "exists")
        refuses(lambda: builder.add_link(""), "link", "name")
        refuses(lambda: builder.add_link(3), "link", "name 3", "'3'")
        refuses(lambda: builder.add_link("world"), "link 'world'", "name", "reserved", "world")
        refuses(lambda: builder.add_link("tip"), "link 'tip'", "frame", "name")

    def test_moving_link_without_mass(self):
        builder = chain("revolute", "revolute", mass=0.0)
        with raises_naming("link 'l0'", "mass"):
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
        with raises_naming("link 'loose'", "joint", "add_joint"):
            builder.finalize()


class TestJoints:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"type": "hinge"}, "joint 'j': unknown type 'hinge'; known are fixed, revolute"),
            ({"type": "free", "parent": "base"}, "joint 'j': a free joint .*'world'.*'base'"),
            ({"axis": (0.0, 0.0, 0.0)}, "joint 'j': the axis is zero"),
            ({"axis": (0.0, np.nan, 0.0)}, "joint 'j': axis: .* is not finite"),
            ({"armature": np.nan}, "joint 'j': armature is nan"),
            ({"friction_loss": -1.0}, "joint 'j': friction_loss is -1.0"),
            (
                {"type": "spherical", "limits": sim.Limits(lower=0.0)},
                "joint 'j': limits require a revolute or prismatic joint",
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
        with raises_naming("joint 'j0'", "joint", "name", "exists"):
            chain("free").add_joint("j0", "fixed", child="l0")

    def test_unknown_ends(self):
        builder = chain("free")
        builder.add_joint("k", "fixed", parent="l0", child="gone")
        refuses(lambda: builder.finalize(), "joint 'k'", "child", "link 'gone'")
        builder = chain("free")
        builder.add_joint("k", "fixed", parent="gone", child="l0")
        refuses(lambda: builder.finalize(), "joint 'k'", "parent", "link 'gone'")

    def test_two_parents(self):
        builder = chain("free", "revolute")
        builder.add_joint("k", "fixed", child="l1")
        message = "link 'l1' has two joints, 'j1' and 'k'; .*add_point_constraint"
        with pytest.raises(sim.ModelError, match=message):
            builder.finalize()

    @pytest.mark.parametrize("length", [1, 2, 3])
    def test_cycle(self, length):
        builder = chain("free")
        for number in range(length):
            builder.add_link(f"c{number}", mass=1.0)
            builder.add_joint(f"k{number}", "revolute", parent=f"c{(number + 1) % length}", child=f"c{number}")
        with raises_naming("links 'c0'", "cycle"):
            builder.finalize()

    @pytest.mark.parametrize("q0", [0.5, [0.5], np.float32(0.5)])
    def test_initial_coordinate_of_a_hinge_is_a_number(self, q0):
        builder = sim.ModelBuilder()
        builder.add_link("arm", mass=1.0, inertia=UNIT)
        builder.add_joint("hinge", "revolute", child="arm", q0=q0)
        assert builder.finalize().q0.tolist() == [0.5]

    def test_initial_coordinates_stay_inside_the_limits(self):
        builder = sim.ModelBuilder()
        for number, limits in enumerate(((-1.0, 1.0), (0.5, 1.0), (-2.0, -1.5))):
            builder.add_link(f"l{number}", mass=1.0, inertia=UNIT)
            builder.add_joint(f"j{number}", "prismatic", child=f"l{number}", limits=sim.Limits(limits[0], limits[1]))
        assert builder.finalize().q0.tolist() == [0.0, 0.5, -1.5]


class TestFrames:
    def test_names(self):
        builder = chain("free")
        builder.add_frame("tip", "l0")
        for name in ("tip", "l0"):
            with pytest.raises(sim.ModelError, match=f"frame '{name}': a frame or link of this name exists"):
                builder.add_frame(name, "l0")
        refuses(lambda: builder.add_frame("", "l0"), "frame", "name")
        refuses(lambda: builder.add_frame(3, "l0"), "frame", "name 3")

    def test_unknown_link(self):
        builder = chain("free")
        builder.add_frame("tip", "gone")
        with raises_naming("frame 'tip'", "unknown", "link 'gone'"):
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


def test_gravity():
    with raises_naming("gravity", "finite"):
        sim.ModelBuilder(gravity=(0.0, 0.0, np.nan))


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (
            lambda b: b.add_ground(surface=sim.Surface(friction=(1.0, 0.005, 0.0001))),
            r"^Surface: friction is \(1.0, 0.005, 0.0001\)",
        ),
        (lambda b: b.add_sphere(radius=0.1, mass="1"), "sphere 'sphere_0': mass is '1'; it must be one number"),
        (lambda b: b.add_sphere(radius=0.1, mass=np.ones(1)), r"mass is array\(\[1.\]\); it must be one number"),
        (lambda b: b.add_link("a", mass="heavy"), "link 'a': mass is 'heavy'; it must be one number"),
        (lambda b: b.add_link("a", mass=1.0, inertia="round"), "link 'a': inertia: 'round' is not an array of numbers"),
        (
            lambda b: b.add_joint("j", "revolute", child="a", spring=sim.Spring(damping=None)),
            "^Spring: damping is None; it must be",
        ),
        (
            lambda b: b.add_joint("j", "revolute", child="a", limits=sim.Limits(lower=(-1.0, 1.0))),
            r"^Limits: lower is \(-1.0, 1.0\); it",
        ),
        (
            lambda b: b.add_joint("j", "continuous", child="a", limits=sim.Limits(upper=1.0)),
            "a continuous joint .* 1.0; .*revolute",
        ),
        (
            lambda b: b.add_actuator(frame="a", gear="2"),
            "gear is '2'; it must be one number|force_axis and torque_axis",
        ),
        (
            lambda b: b.add_fixed_tendon("t", {"j": 1.0}, limits=2.0),
            "tendon 't': limits is 2.0; it must be two numbers",
        ),
        (lambda b: b.add_joint_coupling("j", "k", ratio="2"), "coupling .*: ratio is '2'; it must be one number"),
        (lambda b: b.add_sphere(radius=0.1, mass=torch.ones((), requires_grad=True)), "mass is .* requires a gradient"),
        (lambda b: b.add_link("a", com=torch.ones(3, requires_grad=True)), "link 'a': com is .* requires a gradient"),
        (lambda b: b.set_medium(density="air"), "set_medium: density is 'air'; it must be one number"),
        (lambda b: b.add_sphere(radius="0.1", mass=1.0), r"size: \('0.1', 0.0, 0.0\) is not an array of numbers"),
        (lambda b: b.add_box(half_extents=("1", "1", "1"), mass=1.0), "is not an array of numbers: it is text"),
        (
            lambda b: b.add_fixed_tendon("t", {"j": 1.0}, spring=sim.Spring(stiffness="3")),
            "stiffness: '3' is not an array of numbers",
        ),
        (lambda b: b.add_fixed_tendon("t", {"j": 1.0}, limits="12"), "limits is '12'; it must be two numbers"),
        (lambda b: b.add_actuator(adhesion="a", force_limit="3"), "force_limit is '3'; it must be one number"),
        (lambda b: b.add_sensor("s", "clock", lower=None), "sensor 's': lower is None; it must be one number"),
        (lambda b: b.add_sensor("s", "clock", upper="3"), "sensor 's': upper is '3'; it must be one number"),
        (lambda b: b.add_sensor("s", "magnetometer", "world", magnetic_field=1.0), "magnetic_field: shape"),
    ],
)
def test_what_is_no_number_is_named(add, message):
    with pytest.raises(sim.ModelError, match=message):
        add(sim.ModelBuilder())


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda b: b.add_geometry(["a"], "sphere"), r"add_geometry: link is \['a'\]; it must be a name"),
        (lambda b: b.add_geometry("a", ["sphere"]), r"unknown geometry type \['sphere'\]"),
        (lambda b: b.add_geometry("a", "sphere", size=(1, 1, 1), mesh="m"), "its type has no mesh"),
        (lambda b: b.add_geometry("a", "sphere", size=(1, 1, 1), heights=np.eye(2)), "its type has no heights"),
        (lambda b: b.add_geometry("a", "convex", mesh="m.obj"), "mesh is a str; it must be a Mesh"),
        (lambda b: b.add_joint("j", ["revolute"], child="a"), r"joint 'j': type is \['revolute'\]; it must be a name"),
        (lambda b: b.add_joint("j", "revolute", child=None), "joint 'j': child is None; it must be a name"),
        (lambda b: b.add_frame("f", b.add_sphere(radius=1.0, mass=1.0, name="ball")), "give its name, 'ball'"),
        (lambda b: b.add_frame("f", 3), "frame 'f': link is 3; it must be a name"),
        (lambda b: b.add_actuator(joint=["j", "k"], kind="torque"), r"joint is \['j', 'k'\]; it must be a name"),
        (lambda b: b.add_actuator(joint="j", kind=["torque"]), r"kind is \['torque'\]; it must be a name"),
        (lambda b: b.add_sensor("s", ["clock"]), r"sensor 's': kind is \['clock'\]; it must be a name"),
        (lambda b: b.add_sensor("s", "joint_position", ["j"]), r"target is \['j'\]; it must be a name"),
        (lambda b: b.add_sensor("s", "touch", "world", zone=["box"]), r"requires a frame|zone is \['box'\]"),
        (lambda b: b.add_joint_coupling(["j"], "k"), r"joint is \['j'\]; it must be a name"),
        (lambda b: b.add_point_constraint("p", 0, 1), "constraint 'p': link_a is 0; it must be a name"),
        (lambda b: b.add_fixed_tendon("t", "j"), "joints is a str; it must be a dictionary from names"),
        (lambda b: b.add_spatial_tendon("t", None), "path is a NoneType; it must be a list of points"),
        (lambda b: b.add_tendon_coupling("c", ["t"]), r"tendon is \['t'\]; it must be a name"),
        (lambda b: b.add_part("p", None, []), "part 'p': links is None; it must be a name, or a list of names"),
        (lambda b: b.exclude_group(None), "exclude_group: links is None; it must be a name, or a list of names"),
        (lambda b: b.exclude_collision("a", ["b"]), r"link_b is \['b'\]; it must be a name"),
        (lambda b: b.exclude_geometries("a", None), "geometry_b is None; it must be a name"),
        (lambda b: b.set_pair_friction(["a"], "b", friction=1.0), r"geometry_a is \['a'\]; it must be a name"),
        (lambda b: b.set_pair_softness("a", ["b"]), r"geometry_b is \['b'\]; it must be a name"),
        (lambda b: b.finalize(["float64"]), r"unknown dtype '\['float64'\]'"),
    ],
)
def test_what_is_no_name_is_refused(add, message):
    """What Python can't look up ended in a TypeError from within; other things were taken until finalize."""
    with pytest.raises(sim.ModelError, match=message):
        add(sim.ModelBuilder())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda b, p: b.add_ground(collides="false"),
            "geometry 'ground': collides is 'false'; it must be True or False",
        ),
        (lambda b, p: b.add_box(half_extents=(1, 1, 1), mass=1, visible=None), "visible is None"),
        (lambda b, p: b.add_link("a", allow_unphysical="no"), "link 'a': allow_unphysical is 'no'"),
        (lambda b, p: b.add_joint("j", "fixed", child="a", kinematic=2), "joint 'j': kinematic is 2"),
        (lambda b, p: b.finalize(collapse_fixed="False"), "finalize: collapse_fixed is 'False'"),
        (
            lambda b, p: sim.load(p, floating_base="false"),
            "add_urdf: floating_base is 'false'; it must be True or False",
        ),
        (
            lambda b, p: sim.load(p, decompose="true"),
            "decompose is 'true'; it must be True, False, or CoACD's threshold",
        ),
        (lambda b, p: sim.exporters.write_urdf("a.urdf", sim.load(p), lossy="n"), "a.urdf: lossy is 'n'"),
        (lambda b, p: sim.PgsContact(warm_start="off"), "PgsContact: warm_start is 'off'"),
        (lambda b, p: sim.Simulator(sim.load(p), 0.01, check_finite="0"), "Simulator: check_finite is '0'"),
    ],
)
def test_switches_are_true_or_false(call, message):
    """A text such as "false" would count as true."""
    with pytest.raises(sim.ModelError, match=message):
        call(sim.ModelBuilder(), "scenes/robots/manipulator.urdf")


def test_switches_may_be_of_numpy_or_one_and_zero():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0, collides=np.bool_(False), visible=1)
    assert not builder.finalize(collapse_fixed=0).geometries[0].collides


def test_gravity_set_later():
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0, inertia=UNIT)
    builder.add_joint("j", "free", child="a")
    builder.gravity = (0.0, 0.0, -1.62)
    assert_allclose(builder.finalize().parameters["gravity"], (0.0, 0.0, -1.62))
    builder.gravity = -1.62
    with raises_naming("gravity", "shape", "(3,)"):
        builder.finalize()


def test_names_of_many_things_of_one_name():
    """Names that are one underscore longer each would take minutes."""
    taken = {}
    for number in range(20_000):
        taken[free_name("sun", taken)] = number
    names = list(taken)
    assert (len(names), names[:3], names[8:10], len(names[-1])) == (
        20_000, ["sun", "sun_", "sun__"], ["sun________", "sun_9"], len("sun_19999"),
    )  # fmt: skip
    taken = {"a", *(f"a{count * '_'}" for count in range(1, 9)), "a_16", "a_12", "a_32"}
    assert free_name("a", taken) not in taken
