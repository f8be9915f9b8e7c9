"""What single elements of an MJCF file become, and the warnings about what is left out."""

import re
import warnings

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim
from scenes import quadruped
from sim.model.poses import compose, inverse
from sim.simulation.stepping.collision import candidate_pairs
from sim.simulation.stepping.pair_friction import pair_friction
from sim.usd import write_usd
from tests.errors import strictly
from tests.importers.mjcf_zoo import compiled, frame_pose, load_quietly, random_state, write_zoo
from warp_kernels import types as codes

ARM = """<mujoco><compiler angle="radian"/>{before}<worldbody>
<body name="a"><joint name="j" axis="0 1 0" {joint}/><geom name="g" size="0.1 0.2" type="capsule" {geom}/>
<body name="b" pos="0 0 0.5"><joint name="k" axis="0 1 0" ref="0.3"/><geom name="h" size="0.1" {geom}/></body></body>
<body name="c" pos="1 0 0"><freejoint name="f"/><geom name="i" size="0.1"/></body>{world}</worldbody>{after}</mujoco>"""


@pytest.fixture
def read(tmp_path):
    """A function from the parts of the arm's file to its path."""

    def write(before="", joint="", geom="", world="", after=""):
        path = tmp_path / "arm.xml"
        path.write_text(ARM.format(before=before, joint=joint, geom=geom, world=world, after=after))
        return path

    return write


def test_a_mesh_collides_as_its_hull_and_is_drawn_as_it_is(tmp_path):
    model = load_quietly(write_zoo(tmp_path))
    hull, drawn = (model.geometries[model.geometry(name)] for name in ("panel", "panel/visual"))
    assert (hull.collides, hull.visible, drawn.collides, drawn.visible) == (True, False, False, True)
    assert drawn.rgba == (1.0, 0.0, 0.0, 1.0)
    corners = np.array([(0, 0, 0), (0.3, 0, 0), (0, 0.2, 0), (0, 0, 0.1), (0.3, 0, 0.1), (0, 0.2, 0.1)])
    frame = model.frame("panel/origin")
    for geometry in (hull, drawn):
        position = compose(inverse(frame.placement), geometry.placement)
        found = position[:3] + Rotation.from_quat(position[3:]).apply(geometry.mesh.vertices)
        distances = np.linalg.norm(found[:, None] - corners[None], axis=2)
        assert distances.min(axis=0).max() < 1e-6  # MuJoCo keeps vertices in single precision
        assert distances.min(axis=1).max() < 1e-6
    assert model.geometries[model.geometry("top")].rgba == pytest.approx((0.1, 0.2, 0.3, 1.0))


def test_heights_are_where_a_ray_of_mujoco_hits(tmp_path):
    path = write_zoo(tmp_path)
    field = load_quietly(path).geometries[1]
    peer = compiled(path)
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    rows, columns = field.heights.shape
    for row in range(rows):
        for column in range(columns):
            inside = 0.999  # a ray along the border may miss
            x = inside * field.size[0] * (2.0 * column / (columns - 1) - 1.0)
            y = inside * field.size[1] * (2.0 * row / (rows - 1) - 1.0)
            start = field.placement[:3] + np.array([x, y, 5.0])
            distance = mujoco.mj_rayHfield(peer, data, 1, start, np.array([0.0, 0.0, -1.0]), None)
            assert 5.0 - distance == pytest.approx(field.heights[row, column], abs=3e-3)


@pytest.mark.parametrize(
    ("xml", "kind", "expected"),
    [
        ('<motor joint="j" gear="3" ctrlrange="-2 2"/>', codes.TORQUE, (3.0, 0.0, 0.0, np.inf, -2.0, 2.0)),
        (
            '<motor joint="j" gear="3" ctrlrange="-2 3" forcerange="-1 1"/>',
            codes.TORQUE,
            (3.0, 0.0, 0.0, 1.0, -2.0, 3.0),
        ),
        ('<position joint="j" kp="5" ctrlrange="-1e10 4"/>', codes.POSITION, (1.0, 5.0, 0.0, np.inf, -np.inf, 4.0)),
        (
            '<general joint="j" gear="3" gainprm="5" forcerange="-10 10"/>',
            codes.AFFINE,
            (3.0, 0.0, 0.0, 10.0, -np.inf, np.inf),
        ),
        (
            '<position joint="j" kp="7" kv="2" gear="-2" forcerange="-4 4"/>',
            codes.POSITION,
            (-2.0, 7.0, 2.0, 4.0, -np.inf, np.inf),
        ),
        ('<velocity joint="j" kv="3" ctrlrange="0 9"/>', codes.VELOCITY, (1.0, 0.0, 3.0, np.inf, 0.0, 9.0)),
        ('<motor joint="j" gear="-2" forcerange="-1 3"/>', codes.TORQUE, (-2.0, 0.0, 0.0, 2.0, -np.inf, np.inf)),
        (
            '<general joint="j" gainprm="2" biastype="affine" biasprm="0 -3 0"/>',
            codes.AFFINE,
            (1.0, 3.0, 0.0, np.inf, -np.inf, np.inf),
        ),
        ('<damper joint="j" kv="3" ctrlrange="0 9"/>', codes.AFFINE, (1.0, 0.0, 0.0, np.inf, 0.0, 9.0)),
        (
            '<general joint="j" gainprm="6" biastype="affine" biasprm="0 -6 -1"/>',
            codes.POSITION,
            (1.0, 6.0, 1.0, np.inf, -np.inf, np.inf),
        ),
    ],
)  # fmt: skip
def test_actuators(read, xml, kind, expected):
    model = sim.load(read(after=f"<actuator>{xml}</actuator>"))
    assert model.actuator_names == ("j",)
    assert model.actuator_kind.tolist() == [kind]
    names = ("gear", "kp", "kd", "force_limit", "control_lower", "control_upper")
    assert [model.parameters[f"actuator_{name}"][0] for name in names] == list(expected)


def test_actuators_add_damping_and_armature_to_their_joint(read):
    path = read(
        joint='damping="1"', after='<actuator><motor joint="j" gear="2" armature="0.1" damping="0.3"/></actuator>'
    )
    model = sim.load(path)
    assert model.parameters["armature"][0] == pytest.approx(0.4)
    assert model.parameters["damping"][0] == pytest.approx(2.2)
    peer = compiled(path)
    data = mujoco.MjData(peer)
    data.qvel[0] = 1.0
    mujoco.mj_forward(peer, data)
    assert data.qfrc_passive[0] == pytest.approx(-2.2)


def test_equalities_ask_for_what_mujoco_asks_for(read):
    """The violation of a point, two welds and a coupling at a random state, here and there."""
    path = read(
        world='<site name="s" pos="0.1 0.2 0.3" euler="0.3 0 0"/><body name="d" pos="0 2 0"><freejoint name="g"/>'
        '<geom size="0.1"/><site name="t" pos="0 0.1 0" euler="0 0.4 0"/></body>',
        after="""<equality><connect name="p" body1="b" body2="c" anchor="0.1 0 0.2"/>
        <weld name="w" body1="b" body2="c" anchor="0.1 0.3 0" relpose="0.1 0.2 0.3 0.8 0.6 0 0"/>
        <weld name="v" site1="s" site2="t"/>
        <joint joint1="k" joint2="j" polycoef="0.2 -1.5 0 0 0"/></equality>""",
    )
    model, peer = load_quietly(path), compiled(path)
    q, _ = random_state(model, 1)
    data = mujoco.MjData(peer)
    data.qpos, _ = sim.to_mujoco(model, q, np.zeros(model.nv))
    mujoco.mj_forward(peer, data)
    equal = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    theirs = {peer.equality(number).name: data.efc_pos[equal & (data.efc_id == number)] for number in range(peer.neq)}
    poses = sim.forward_kinematics(model, q[None]).numpy()[0]
    for row, name in enumerate(model.equalities.anchor_names):
        a, b = (
            frame_pose(model, poses, int(getattr(model.equalities, f"anchor_link_{side}")[row]),
                       model.parameters[f"anchor_{side}"][row])
            for side in "ab"
        )  # fmt: skip
        assert_allclose(a[:3] - b[:3], theirs[name][:3], atol=1e-12)
        if name != "p":
            between = Rotation.from_quat(a[3:]).inv() * Rotation.from_quat(b[3:])
            sine = np.linalg.norm(theirs[name][3:])
            assert np.sin(between.magnitude() / 2.0) == pytest.approx(sine, abs=1e-9)
    j, k = q[model.q_slice("j")][0], q[model.q_slice("k")][0]
    ratio, offset = (model.parameters[f"coupling_{key}"][0] for key in ("ratio", "offset"))
    assert k - ratio * j - offset == pytest.approx(theirs[""][0], abs=1e-12)


def test_pairs_touch_whatever_their_bits(read):
    path = read(
        geom='contype="0" conaffinity="0"', after='<contact><pair geom1="h" geom2="i" friction="0.4 0.4"/></contact>'
    )
    model = sim.load(path)
    touching = [(model.geometries[a].name, model.geometries[b].name) for a, b in pairs_of(model)]
    assert touching == [("h", "i")]
    assert pair_friction(model, pairs_of(model)).tolist() == [[0.4, 0.0, 0.0]]


def pairs_of(model):
    return list(zip(*candidate_pairs(model), strict=True))


def test_options_of_the_reader(read):
    path = read(world='<geom name="floor" type="plane" size="1 1 1"/>')
    both = sim.load(path, self_collision=False, friction=0.7)
    names = [{both.geometries[a].name, both.geometries[b].name} for a, b in pairs_of(both)]
    assert names == [{"floor", name} for name in ("h", "i", "g")]
    assert both.parameters["friction"].tolist() == [0.7] * 4
    assert "floor" not in [g.name for g in sim.load(path, world_geometry=False).geometries]
    assert not pairs_of(sim.load(path, collision=False))
    assert sim.load(path, gravity=(0.0, 0.0, -1.0)).parameters["gravity"].tolist() == [0.0, 0.0, -1.0]


def test_there_and_back(tmp_path):
    """The quadruped written as MJCF and read again: the same robot, standing on the same ground."""
    scene = quadruped.build("float64")
    (tmp_path / "quadruped.xml").write_text(quadruped.mjcf())
    model = load_quietly(tmp_path / "quadruped.xml")
    assert (model.joint_names, model.link_names) == (scene.model.joint_names, scene.model.link_names)
    masses = [sim.mass_matrix(one, scene.q0[None]).numpy() for one in (scene.model, model)]
    assert_allclose(*masses, rtol=0, atol=1e-12)

    def frictions(one):
        values = pair_friction(one, pairs_of(one))
        return {
            frozenset((one.geometries[a].name, one.geometries[b].name)): friction
            for (a, b), friction in zip(pairs_of(one), values[:, 0].tolist(), strict=True)
        }

    assert frictions(model) == pytest.approx(frictions(scene.model))
    for key in ("lower_limit", "upper_limit", "damping", "armature"):
        assert_allclose(model.parameters[key], scene.model.parameters[key])


def test_from_mjcf_to_usd(tmp_path):
    """Written as USD and read again: the same mass matrix, actuators and gravity."""
    model = load_quietly(write_zoo(tmp_path))
    poses = sim.forward_kinematics(model, model.q0[None]).numpy()
    again = sim.load(write_usd(tmp_path / "zoo.usdc", model, poses, fps=24.0), dtype="float64")
    masses = [sim.mass_matrix(one, model.q0[None]).numpy() for one in (model, again)]
    assert_allclose(*masses, rtol=0, atol=1e-12)
    assert sorted(again.actuator_names) == sorted(model.actuator_names)
    assert_allclose(again.parameters["gravity"], model.parameters["gravity"], atol=1e-12)


def test_two_copies_and_another_robot_in_one_scene(read):
    path = read()
    builder = sim.ModelBuilder()
    builder.add_ground()
    parts = [builder.add_mjcf(path, name=name, position=(2.0 * number, 0.0, 1.0)) for number, name in enumerate("xy")]
    with pytest.raises(sim.ModelError, match=r"body 'a' \(line 2\): a link of this name exists"):
        builder.add_mjcf(path, name="x")
    model = builder.finalize()
    assert (model.nv, model.q_slice(parts[1])) == (16, slice(9, 18))
    # A default geom of the file touches the ground and the other copy, as in MuJoCo.
    assert len(pairs_of(model)) == 2 * (3 + 2) + 9


def test_gravity_of_the_file_is_that_of_the_world(read):
    path = read(before='<option gravity="0 0 -1.6"/>')
    builder = sim.ModelBuilder()
    builder.add_mjcf(path, name="first")
    assert builder.gravity.tolist() == [0.0, 0.0, -1.6]
    builder.add_mjcf(path, name="second")
    other = sim.ModelBuilder()
    other.add_sphere(radius=1.0, mass=1.0)
    with pytest.warns(
        sim.MJCFWarning, match=r"gravity of the world becomes \[0.0, 0.0, -1.6\], it was \[0.0, 0.0, -9.81\]"
    ):
        other.add_mjcf(path)
    moon = sim.ModelBuilder(gravity=(0.0, 0.0, -1.62))
    moon.add_mjcf(read(), name="default")
    assert moon.gravity.tolist() == [0.0, 0.0, -1.62]
    weightless = sim.load(read(before='<option><flag gravity="disable"/></option>'))
    assert not weightless.parameters["gravity"].any()


def test_disabled_features_are_zero(read):
    flags = '<option><flag limit="disable" spring="disable" damper="disable" contact="disable"/></option>'
    model = sim.load(read(before=flags, joint='range="-1 1" stiffness="3" damping="2"'))
    parameters = model.parameters
    assert np.isinf(parameters["upper_limit"]).all()
    assert not parameters["stiffness"].any()
    assert not parameters["damping"].any()
    assert not pairs_of(model)


NOTES = {
    "several things": (
        {
            "world": '<body><joint name="q" type="ball" stiffness="2 3"/><geom size="1" adhesion="1"/></body>',
            "before": '<option><flag override="enable"/></option>',
        },
        r"3 things are not as in MuJoCo:\n  - ignored: polynomial s.*\n  - ignored: adhesion .*\n  - ignored: o_margin",
    ),
    "actuator of a body": (
        {"after": '<actuator><motor joint="f" gear="0 0 1 0 0 0"/></actuator>'},
        "on a free joint",
    ),
    "dynamics of a callback": (
        {"after": '<actuator><general joint="j" dyntype="user"/></actuator>'},
        r"\(dyntype user\)",
    ),
    "gain": (
        {"after": '<actuator><general joint="j" gainprm="2" biastype="affine" biasprm="0 3 0"/></actuator>'},
        r"whose force grows with length or velocity \(stiffness -3, damping 0\)",
    ),
    "law": (
        {"after": '<actuator><general joint="j" gaintype="user"/></actuator>'},
        r"whose force law \(gaintype user\) ",
    ),
    "sensor": (
        {"after": '<sensor><user dim="1"/></sensor>'},
        "ignored: sensor 0 .*: there are no sensors of type",
    ),
    "flag": (
        {"before": '<option><flag filterparent="disable"/></option>'},
        "filterparent",
    ),
    "curved coupling": (
        {"after": '<equality><joint joint1="j" joint2="k" polycoef="0 1 2 0 0"/></equality>'},
        "polynomial",
    ),
    "held joint": ({"after": '<equality><joint joint1="j"/></equality>'}, "joint's limits"),
    "pair of neighbours": (
        {"after": '<contact><pair geom1="g" geom2="h"/></contact>'},
        "links joined by a joint never collide",
    ),
    "polynomial spring of a ball": (
        {"world": '<body><joint name="q" type="ball" stiffness="2 3 4"/><geom size="1"/></body>'},
        r"ignored: polynomial springs of ball and free joints \('q' \(line \d+\)\); their linear part is kept",
    ),
    "limited gravity compensation": (
        {
            "world": '<body gravcomp="1"><joint name="z" actuatorgravcomp="true" actuatorfrcrange="-1 1"/>'
            '<geom size="1"/></body>'
        },
        r"force limits of joints for gravity compensation \('z' \(line \d+\)\); they only limit actuators",
    ),
    "sensor of what bears weight": (
        {
            "world": '<body gravcomp="1"><joint name="z" actuatorgravcomp="true"/><geom size="1"/></body>',
            "after": '<sensor><jointactuatorfrc name="s" joint="z"/></sensor>',
        },
        r"ignored: sensor 's' \(line \d+\): there are no sensors of type jointactfrc",
    ),
    "old attribute": ({"before": '<compiler settotalmass="3"/>'}, "settotalmass"),
}


# What the law "hard" doesn't use.
OF_THE_SOFT_LAW = {
    "integrator": ({"before": '<option integrator="RK4"/>'}, r"mujoco_settings\(model\)\): integrator RK4"),
    "softness": ({"geom": 'solref="0.01 1"'}, "used with MuJoCo's law alone.*: solref and solimp"),
    "softness of equalities": (
        {"after": '<equality><connect body1="b" body2="c" anchor="0 0 0" solref="0.01 1"/></equality>'},
        "used with MuJoCo's law alone.*: solref and solimp",
    ),
    "margin": ({"geom": 'margin="0.01"'}, "alone.*: margin of geoms"),
    "impratio": ({"before": '<option impratio="3"/>'}, "alone.*: impratio 3$"),
    "noslip": ({"before": '<option noslip_iterations="3"/>'}, "alone.*: noslip_iterations 3$"),
}


@pytest.mark.parametrize("case", OF_THE_SOFT_LAW)
def test_what_a_hard_world_leaves_unused_is_reported(read, case):
    """A file alone moves by MuJoCo's law, which uses it."""
    parts, message = OF_THE_SOFT_LAW[case]
    path = read(**parts)
    strictly(sim.load, path)
    builder = sim.ModelBuilder()
    builder.add_mjcf(path)
    builder.add_sphere(radius=0.1, mass=1.0)
    with pytest.warns(sim.MJCFWarning, match=message) as said:
        builder.finalize()
    assert str(said[0].message).startswith(f"{path}: ")


@pytest.mark.parametrize("case", NOTES)
def test_what_is_skipped_is_reported(read, case):
    parts, message = NOTES[case]
    path = read(**parts)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        sim.load(path)
    texts = [str(warning.message) for warning in said if warning.category is sim.MJCFWarning]
    assert len(texts) == len(said)
    assert all(text.startswith(f"{path}: ") for text in texts)
    assert any(re.search(message, text) for text in texts), texts


def test_colours_above_one_are_cut(tmp_path):
    path = tmp_path / "r.xml"
    path.write_text("""<mujoco><asset><material name="m" rgba="0 2 -1 1"/></asset><worldbody>
<geom size="1" rgba="255 0 0 1"/><geom size="1" material="m"/></worldbody></mujoco>""")
    assert [geometry.rgba for geometry in sim.load(path).geometries] == [(1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 1.0)]


def test_meshes_that_change_between_two_readings(tmp_path):
    """MuJoCo keeps the meshes that it has read, and takes one that changes in the same second for the old one."""
    trimesh = pytest.importorskip("trimesh")
    path = tmp_path / "robot.xml"
    path.write_text("""<mujoco><asset><mesh name="m" file="m.stl"/></asset><worldbody><body><freejoint/>
        <geom type="mesh" mesh="m"/></body></worldbody></mujoco>""")
    for size in (1.0, 2.0, 3.0, 4.0):
        trimesh.creation.box((size, size, size)).export(tmp_path / "m.stl")
        assert sim.load(path).parameters["mass"].tolist() == pytest.approx([1000.0 * size**3])
