"""What the URDF importer makes of each element, against closed forms."""

import math

import mujoco
import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim
from sim.errors import URDFWarning
from tests.errors import strictly
from tests.importers.reference import frame_poses
from warp_kernels import types as codes

INERTIAL = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"


@pytest.fixture
def write(tmp_path):
    """Write the inside of a <robot> to a file and return its path."""

    def write(inside, name="robot.urdf"):
        path = tmp_path / name
        path.write_text(f"<robot name='tester'>\n{inside}\n</robot>")
        return path

    return write


def link(name, inside=INERTIAL):
    return f"<link name='{name}'>{inside}</link>"


def joint(name, type, parent, child, inside=""):
    return f"<joint name='{name}' type='{type}'><parent link='{parent}'/><child link='{child}'/>{inside}</joint>"


def arm(inside="", type="revolute", limit="<limit lower='-1' upper='2' effort='3' velocity='4'/>"):
    return link("base") + link("tip") + joint("elbow", type, "base", "tip", limit + inside)


def test_names_order_and_part(write):
    inside = link("tip_b") + link("root") + link("tip_a") + link("mid")
    inside += joint("r_m", "continuous", "root", "mid") + joint("r_b", "continuous", "root", "tip_b")
    inside += joint("m_a", "continuous", "mid", "tip_a")
    builder = sim.ModelBuilder()
    part = builder.add_urdf(write(inside))
    assert part == sim.Part("tester", ("tip_b", "root", "tip_a", "mid"), ("root_fixed", "r_m", "r_b", "m_a"))
    model = builder.finalize("float64")
    assert model.joint_names == ("r_m", "m_a", "r_b")
    assert {frame.name for frame in model.frames} == set(part.links)


def test_two_copies_with_names(write):
    path = write(arm())
    builder = sim.ModelBuilder()
    left = builder.add_urdf(path, name="left", position=(0.0, 1.0, 0.0))
    right = builder.add_urdf(path, name="right", floating_base=True)
    model = builder.finalize("float64")
    assert left == sim.Part("left", ("left/base", "left/tip"), ("left/base_fixed", "left/elbow"))
    assert right.joints == ("right/base_free", "right/elbow")
    assert (model.q_slice(left), model.q_slice(right)) == (slice(0, 1), slice(1, 9))
    assert (model.qd_slice(left), model.qd_slice(right)) == (slice(0, 1), slice(1, 8))


def test_same_robot_twice_without_names(write):
    path = write(arm())
    builder = sim.ModelBuilder()
    builder.add_urdf(path)
    with pytest.raises(sim.ImportFileError, match=r"robot\.urdf: link 'base' \(line 2\): a link of this name exists"):
        builder.add_urdf(path)


def test_placement_of_the_base(write):
    turn = Rotation.from_euler("z", 90.0, degrees=True).as_quat()
    options = {"position": (1.0, 2.0, 3.0), "orientation": 2.0 * turn}
    fixed = sim.load(write(arm("<origin xyz='1 0 0'/>")), dtype="float64", **options)
    assert_allclose(frame_poses(fixed, fixed.q0)["tip"][:3, 3], (1.0, 3.0, 3.0), atol=1e-15)
    free = sim.load(write(arm("<origin xyz='1 0 0'/>")), dtype="float64", floating_base=True, **options)
    assert_allclose(free.q0[:7], [1.0, 2.0, 3.0, *turn], atol=1e-15)
    assert_allclose(frame_poses(free, free.q0)["tip"][:3, 3], (1.0, 3.0, 3.0), atol=1e-15)


def test_roll_pitch_yaw_about_fixed_axes(write):
    model = sim.load(write(arm("<origin rpy='0.3 -0.4 0.5'/>")), dtype="float64")
    about = [
        Rotation.from_rotvec(angle * axis).as_matrix() for angle, axis in zip((0.3, -0.4, 0.5), np.eye(3), strict=True)
    ]
    expected = about[2] @ about[1] @ about[0]
    assert_allclose(frame_poses(model, np.zeros(1))["tip"][:3, :3], expected, atol=1e-15)


def test_a_quaternion_instead_of_angles(write):
    """As of version 1.1 of URDF; Pinocchio reads the same."""
    quaternion = np.array([0.1, -0.2, 0.3, 0.5])
    model = sim.load(write(arm("<origin xyz='1 2 3' quat_xyzw='0.1 -0.2 0.3 0.5'/>")), dtype="float64")
    expected = Rotation.from_quat(quaternion).as_matrix()
    assert_allclose(frame_poses(model, np.zeros(1))["tip"][:3, :3], expected, atol=1e-15)


def test_inertia_is_turned_into_link_axes(write):
    inertial = (
        "<inertial><origin xyz='1 2 3' rpy='0 0 1.5707963267948966'/><mass value='2'/>"
        "<inertia ixx='3' iyy='4' izz='5' ixy='0.1' ixz='0.2' iyz='0.3'/></inertial>"
    )
    model = sim.load(write(link("body", inertial)), floating_base=True, dtype="float64")
    assert_allclose(model.parameters["mass"], [2.0])
    assert_allclose(model.parameters["com"], [[1.0, 2.0, 3.0]])
    # A quarter turn about z takes x to y and y to -x.
    expected = [[4.0, -0.1, -0.3], [-0.1, 3.0, 0.2], [-0.3, 0.2, 5.0]]
    assert_allclose(model.parameters["inertia"][0], expected, atol=1e-15)


def test_oblique_axis_is_normalised(write):
    model = sim.load(write(arm("<axis xyz='3 0 -4'/>")), dtype="float64")
    assert_allclose(model.joint_axis[0], (0.6, 0.0, -0.8), atol=1e-15)


def test_default_axis_is_x(write):
    assert_allclose(sim.load(write(arm())).joint_axis[0], (1.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("type", "code", "nq", "nv"),
    [
        ("revolute", codes.REVOLUTE, 1, 1),
        ("continuous", codes.REVOLUTE, 1, 1),
        ("prismatic", codes.PRISMATIC, 1, 1),
        ("spherical", codes.SPHERICAL, 4, 3),
        ("ball", codes.SPHERICAL, 4, 3),
        ("floating", codes.FREE, 7, 6),
    ],
)
def test_joint_types(write, type, code, nq, nv):
    model = sim.load(
        write(
            arm(
                type=type,
                limit="<limit lower='-1' upper='2'/>" if code == codes.PRISMATIC or type == "revolute" else "",
            )
        )
    )
    assert (int(model.joint_type[0]), model.nq, model.nv) == (code, nq, nv)


def test_limits_and_dynamics(write):
    model = sim.load(write(arm("<dynamics damping='0.5' friction='0.25'/>")), dtype="float64")
    values = {
        name: model.parameters[name].tolist() for name in ("lower_limit", "upper_limit", "damping", "friction_loss")
    }
    assert values == {"lower_limit": [-1.0], "upper_limit": [2.0], "damping": [0.5], "friction_loss": [0.25]}
    assert (model.effort_limit.tolist(), model.velocity_limit.tolist()) == ([3.0], [4.0])


def test_dynamics_of_a_spherical_joint(write):
    model = sim.load(write(arm("<dynamics damping='0.5'/>", type="ball", limit="")), dtype="float64")
    assert model.parameters["damping"].tolist() == [0.5] * 3


def test_continuous_joint_has_no_position_limits(write):
    model = sim.load(write(arm(type="continuous")), dtype="float64")
    assert model.parameters["lower_limit"].tolist() == [-np.inf]
    assert model.effort_limit.tolist() == [3.0]


def test_one_sided_limit_is_zero_on_the_other_side(write):
    model = sim.load(write(arm(limit="<limit upper='1'/>")), dtype="float64")
    assert (model.parameters["lower_limit"].tolist(), model.parameters["upper_limit"].tolist()) == ([0.0], [1.0])
    assert (model.effort_limit.tolist(), model.velocity_limit.tolist()) == ([np.inf], [np.inf])


def test_limit_without_bounds_warns(write):
    with pytest.warns(URDFWarning, match=r"robot\.urdf: joints 'elbow': <limit> gives neither lower nor upper"):
        model = sim.load(write(arm(limit="<limit effort='1' velocity='1'/>")), dtype="float64")
    assert model.parameters["lower_limit"].tolist() == [-np.inf]


def test_limits_of_a_spherical_joint_warn(write):
    with pytest.warns(URDFWarning, match="spherical joint 'elbow' are ignored"):
        sim.load(write(arm(type="spherical")))


def test_floating_joint_starts_at_its_origin(write):
    inside = link("base") + link("mount") + link("ball")
    inside += joint("weld", "fixed", "base", "mount", "<origin xyz='0 0 1'/>")
    inside += joint("loose", "floating", "mount", "ball", "<origin xyz='1 0 0'/>")
    model = sim.load(write(inside), dtype="float64", position=(0.0, 5.0, 0.0))
    assert_allclose(model.q0, [1.0, 5.0, 1.0, 0.0, 0.0, 0.0, 1.0])


def test_links_behind_fixed_joints_are_frames(write):
    inside = arm() + link("tool") + joint("weld", "fixed", "tip", "tool", "<origin xyz='0 0 0.5'/>")
    model = sim.load(write(inside), dtype="float64")
    assert model.link_names == ("tip",)
    assert model.frame("tool").link == 0
    assert_allclose(model.frame("tool").placement[:3], (0.0, 0.0, 0.5))
    assert_allclose(model.parameters["mass"], [2.0])
    assert sim.load(write(inside), collapse_fixed=False).link_names == ("base", "tip", "tool")


def test_link_called_world_is_renamed(write):
    inside = (
        link("world", "") + link("body") + joint("slide", "prismatic", "world", "body", "<limit lower='0' upper='1'/>")
    )
    model = sim.load(write(inside), position=(0.0, 0.0, 2.0), dtype="float64")
    assert {frame.name for frame in model.frames} == {"tester/world", "body"}
    assert_allclose(frame_poses(model, np.zeros(1))["tester/world"][:3, 3], (0.0, 0.0, 2.0))


def test_base_joint_does_not_take_a_name_of_the_file(write):
    inside = link("base") + link("tip") + joint("base_fixed", "continuous", "base", "tip")
    builder = sim.ModelBuilder()
    assert builder.add_urdf(write(inside)).joints == ("base_fixed_base", "base_fixed")


def test_robot_without_a_name_is_called_as_its_file(tmp_path):
    path = tmp_path / "nameless.urdf"
    path.write_text(f"<robot>{link('a')}</robot>")
    assert sim.ModelBuilder().add_urdf(path).name == "nameless"


class TestMissingInertials:
    def test_moving_link_warns(self, write):
        with pytest.warns(URDFWarning, match="no inertial data on moving links 'tip'") as caught:
            model = sim.load(write(link("base", "") + link("tip", "") + joint("hinge", "continuous", "base", "tip")))
        assert len(caught) == 1
        assert model.massless_links == ("tip",)

    def test_welded_links_do_not(self, write):
        inside = link("base", "") + link("tip", "") + link("tool") + link("flange", "")
        inside += joint("hinge", "continuous", "base", "tip") + joint("weld", "fixed", "tip", "tool")
        inside += joint("weld_2", "fixed", "base", "flange")
        assert sim.load(write(inside)).massless_links == ()

    def test_floating_base_moves(self, write):
        with pytest.warns(URDFWarning, match="moving links 'base'"):
            sim.load(write(link("base", "")), floating_base=True)


class TestUnphysicalInertias:
    THIN = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='3'/></inertial>"
    NEGATIVE = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='-0.5'/></inertial>"

    def test_kept_with_a_warning(self, write):
        with pytest.warns(
            URDFWarning, match="inertia of links 'body': negative principal moments or ones that violate"
        ):
            model = sim.load(write(link("body", self.THIN)), floating_base=True)
        assert_allclose(model.parameters["inertia"][0], np.diag([1.0, 1.0, 3.0]))

    def test_refused_where_the_body_is_left_with_a_negative_moment(self, write):
        builder = sim.ModelBuilder()
        with pytest.warns(URDFWarning, match="'body'"):
            builder.add_urdf(write(link("body", self.NEGATIVE)), floating_base=True)
        with pytest.raises(sim.ModelError, match=r"link 'body': .* principal moments of inertia are .*-0.5"):
            builder.finalize()

    def test_accepted_where_a_welded_link_makes_up_for_it(self, write):
        inside = link("body") + link("antenna", self.NEGATIVE) + joint("weld", "fixed", "body", "antenna")
        with pytest.warns(URDFWarning, match="'antenna'"):
            model = sim.load(write(inside), floating_base=True)
        assert_allclose(model.parameters["inertia"][0], np.diag([2.0, 2.0, 0.5]))


def test_ignored_elements_warn_once(write):
    inside = arm("<safety_controller/>") + "<gazebo/><transmission/><gazebo reference='tip'/>"
    with pytest.warns(URDFWarning) as caught:
        sim.load(write(inside))
    assert [str(item.message).partition(": ")[2] for item in caught] == [
        "ignored elements: <gazebo> (2), <transmission> (1), <safety_controller> (1)"
    ]


class TestMimic:
    INSIDE = arm() + link("finger") + joint("follower", "continuous", "tip", "finger", "<mimic joint='elbow'/>")

    def test_is_a_coupling(self, write):
        """Chains of them, in any order; the initial coordinates fit."""
        first = "<mimic joint='follower' multiplier='-2' offset='0.1'/>"
        inside = link("nail") + joint("second", "continuous", "finger", "nail", first) + self.INSIDE
        model = sim.load(write(inside.replace("joint='elbow'", "joint='elbow' offset='0.3'")), name="r")
        names = model.joint_names
        e = model.equalities
        couplings = [
            (names[model.dof_link[a]], names[model.dof_link[b]])
            for a, b in zip(e.coupling_dof, e.coupling_other, strict=True)
        ]
        assert couplings == [("r/second", "r/follower"), ("r/follower", "r/elbow")]
        assert_allclose(model.parameters["coupling_ratio"], [-2.0, 1.0])
        assert_allclose(model.parameters["coupling_offset"], [0.1, 0.3])
        q0 = [float(model.q0[model.q_slice(f"r/{name}")][0]) for name in ("elbow", "follower", "second")]
        assert_allclose(q0, [0.0, 0.3, -0.5])

    @pytest.mark.parametrize(
        ("mimic", "message"),
        [
            ("<mimic joint='nothing'/>", "joint 'follower' .*: mimics joint 'nothing', which doesn't exist"),
            ("<mimic joint='weld'/>", "mimics joint 'weld', but 'weld' is fixed; only revolute"),
            ("<mimic joint='follower'/>", "<mimic> .*: a joint can't follow itself"),
            ("<mimic/>", "<mimic> .*joint"),
        ],
    )
    def test_broken(self, write, mimic, message):
        inside = self.INSIDE.replace("<mimic joint='elbow'/>", mimic) + link("x") + joint("weld", "fixed", "tip", "x")
        with pytest.raises(sim.ImportFileError, match=message):
            sim.load(write(inside))

    def test_ring(self, write):
        ring = arm("<mimic joint='follower'/>") + self.INSIDE.removeprefix(arm())
        with pytest.raises(sim.ModelError, match="joints 'elbow', 'follower'"):
            sim.load(write(ring))

    def test_can_be_read_as_independent(self, write):
        with pytest.warns(URDFWarning, match="joint 'follower' mimics 'elbow'.*mimic='free'"):
            model = sim.load(write(self.INSIDE), mimic="free")
        assert model.nv == 2

    def test_unknown_choice(self, write):
        with pytest.raises(sim.ModelError, match="mimic is 'error'"):
            sim.load(write(self.INSIDE), mimic="error")


class TestGeometry:
    SHAPES = (
        "<collision><origin xyz='1 0 0' rpy='0 0 1.5707963267948966'/>"
        "<geometry><box size='2 4 6'/></geometry></collision>"
        "<collision><geometry><sphere radius='0.5'/></geometry></collision>"
        "<collision><geometry><cylinder radius='0.1' length='3'/></geometry></collision>"
        "<collision><geometry><capsule radius='0.2' length='1'/></geometry></collision>"
    )

    def test_primitives(self, write):
        model = sim.load(write(link("body", INERTIAL + self.SHAPES)), floating_base=True, friction=0.4, restitution=0.3)
        shapes = [(item.name, item.type, item.size.tolist()) for item in model.geometries]
        assert shapes == [
            ("body/collision_0", codes.BOX, [1.0, 2.0, 3.0]),
            ("body/collision_1", codes.SPHERE, [0.5, 0.0, 0.0]),
            ("body/collision_2", codes.CYLINDER, [0.1, 1.5, 0.0]),
            ("body/collision_3", codes.CAPSULE, [0.2, 0.5, 0.0]),
        ]
        half = math.sqrt(0.5)
        assert_allclose(model.geometries[0].placement, [1.0, 0.0, 0.0, 0.0, 0.0, half, half], atol=1e-15)
        assert all(item.collides and item.visible for item in model.geometries)
        assert set(model.parameters["friction"]) == {0.4}
        assert set(model.parameters["restitution"]) == {0.3}

    def test_visuals_hide_collision_geometry(self, write):
        visual = "<visual><geometry><sphere radius='1'/></geometry></visual>"
        path = write(link("body", INERTIAL + visual + self.SHAPES))
        flags = [(item.visible, item.collides) for item in sim.load(path, floating_base=True).geometries]
        assert flags == [(True, False)] + [(False, True)] * 4
        model = sim.load(path, floating_base=True, visual=False)
        assert all(item.visible and item.collides for item in model.geometries)
        model = sim.load(path, floating_base=True, collision=False)
        assert [item.name for item in model.geometries] == ["body/visual_0"]

    def test_visual_of_size_zero_is_not_drawn(self, write):
        visual = "<visual><geometry><sphere radius='0'/></geometry></visual>"
        assert sim.load(write(link("body", INERTIAL + visual)), floating_base=True).num_geometries == 0

    def test_collision_of_size_zero_is_left_out(self, write):
        shapes = "".join(
            f"<collision><geometry><sphere radius='{radius}'/></geometry></collision>" for radius in (0.1, 0.0, 0.2)
        )
        path = write(link("body", INERTIAL + shapes))
        with pytest.warns(sim.URDFWarning, match="ignored: collision 1 of link 'body', which has no volume"):
            model = sim.load(path, floating_base=True)
        assert [item.name for item in model.geometries] == ["body/collision_0", "body/collision_2"]

    def test_one_number_scales_a_mesh_along_all_axes(self, write, tmp_path):
        trimesh.creation.box((1.0, 2.0, 3.0)).export(tmp_path / "a.stl")
        mesh = "<collision><geometry><mesh filename='a.stl' scale='0.01'/></geometry></collision>"
        model = sim.load(write(link("body", INERTIAL + mesh)), floating_base=True)
        assert_allclose(np.ptp(model.geometries[0].mesh.vertices, axis=0), (0.01, 0.02, 0.03), rtol=1e-6)

    def test_the_first_of_several_materials_counts(self, write):
        materials = "<material name='a'><color rgba='1 0 0 1'/></material><material name='b'/>"
        visual = f"<visual><geometry><sphere radius='1'/></geometry>{materials}</visual>"
        model = sim.load(write(link("body", INERTIAL + visual)), floating_base=True)
        assert model.geometries[0].rgba == (1.0, 0.0, 0.0, 1.0)

    def test_colours(self, write):
        def visual(material):
            return f"<visual><geometry><sphere radius='1'/></geometry>{material}</visual>"

        inside = "<material name='blue'><color rgba='0 0 1 0.5'/></material>" + link(
            "body",
            INERTIAL
            + visual("<material name='blue'/>")
            + visual("<material name='own'><color rgba='1 0 0 1'/></material>")
            + visual("<material name='own'/>")
            + visual(""),
        )
        model = sim.load(write(inside), floating_base=True)
        assert [item.rgba for item in model.geometries] == [
            (0.0, 0.0, 1.0, 0.5),
            (1.0, 0.0, 0.0, 1.0),
            (1.0, 0.0, 0.0, 1.0),
            (0.7, 0.7, 0.7, 1.0),
        ]

    def test_self_collision(self, write):
        ball = "<collision><geometry><sphere radius='0.1'/></geometry></collision>"
        inside = "".join(link(name, INERTIAL + ball) for name in "abc")
        inside += joint("ab", "continuous", "a", "b") + joint("bc", "continuous", "b", "c")
        assert sim.load(write(inside)).excluded_pairs == {(0, 1), (0, 2), (1, 2)}
        assert sim.load(write(inside), self_collision=True).excluded_pairs == {(0, 1), (1, 2)}

    def test_copies_of_a_robot_touch_each_other(self, write):
        path = write(link("body", INERTIAL + "<collision><geometry><sphere radius='0.1'/></geometry></collision>"))
        builder = sim.ModelBuilder()
        for name in ("left", "right"):
            builder.add_urdf(path, name=name, floating_base=True)
        assert builder.finalize().excluded_pairs == frozenset()


def test_nothing_is_silent_about_a_clean_file(write):
    strictly(sim.load, write(arm()))


def test_load_refuses_other_files(tmp_path):
    with pytest.raises(
        sim.ModelError, match=r"robot\.step: files of type '\.step' are not supported; supported are \.urdf"
    ):
        sim.load(tmp_path / "robot.step")
    with pytest.raises(sim.ModelError, match="expand it with xacro first"):
        sim.load(tmp_path / "robot.urdf.xacro")


def test_load_passes_gravity_on(write):
    assert sim.load(write(arm()), gravity=(0.0, 0.0, -1.6)).parameters["gravity"].tolist() == [0.0, 0.0, -1.6]


def test_crossed_limits_are_none(write):
    """As in MuJoCo, which doesn't say so."""
    path = write(arm(limit="<limit lower='1' upper='-1' effort='3' velocity='4'/>"))
    with pytest.warns(sim.URDFWarning, match="its lower limit 1 is above its upper limit -1; it has no"):
        model = sim.load(path)
    assert model.parameters["lower_limit"].tolist() == [-np.inf]
    assert model.parameters["upper_limit"].tolist() == [np.inf]
    text = path.read_text().replace("izz='1'", "izz='1' ixy='0' ixz='0' iyz='0'")  # which MuJoCo asks for
    assert mujoco.MjModel.from_xml_string(text).jnt_limited.tolist() == [False]


def test_colours_above_one_are_cut(tmp_path):
    """As of files that count to 255."""
    path = tmp_path / "r.urdf"
    path.write_text("""<robot name="r"><link name="a"><visual><geometry><sphere radius="1"/></geometry>
<material name="m"><color rgba="255 255 0 1"/></material></visual></link></robot>""")
    (geometry,) = sim.load(path).geometries
    assert geometry.rgba == (1.0, 1.0, 0.0, 1.0)


def test_a_density_gives_the_mass_of_the_colliders(tmp_path):
    """Two boxes that make one of 0.2 x 0.2 x 0.4 m, beside a cylinder on its side."""
    half = '<collision><origin xyz="0 0 {z}"/><geometry><box size="0.2 0.2 0.2"/></geometry></collision>'
    rod = (
        '<collision><origin xyz="1 0 0" rpy="1.5707963267948966 0 0"/>'
        '<geometry><cylinder radius="0.1" length="0.3"/></geometry></collision>'
    )
    inertial = '<inertial><density value="500"/></inertial>'
    path = tmp_path / "solid.urdf"
    for shapes, mass, com, moments in (
        (half.format(z=0.4) + half.format(z=0.6), 8.0, (0, 0, 0.5), [8.0 / 12 * each for each in (0.2, 0.2, 0.08)]),
        (rod, 1.5 * np.pi, (1, 0, 0), [1.5 * np.pi * each for each in (0.01, 0.005, 0.01)]),
    ):
        path.write_text(f'<robot name="r"><link name="b">{inertial}{shapes}</link></robot>')
        model = sim.load(path, floating_base=True, dtype="float64")
        assert model.parameters["mass"][0] == pytest.approx(mass)
        np.testing.assert_allclose(model.parameters["com"][0], com, atol=1e-12)
        np.testing.assert_allclose(model.parameters["inertia"][0], np.diag(moments), atol=1e-12)
