"""Lights of MJCF files, read and written, compared with MuJoCo's."""

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import sim
from sim.exporters import write_mjcf
from sim.render.mounted import mounted_pose

SCENE = """<mujoco><visual><headlight diffuse="0.3 0.2 0.1" ambient="0.1 0.1 0.2" specular="0 0 0"/></visual><worldbody>
<light name="sun" directional="true" dir="1 0 -2" diffuse="0.9 0.8 0.7" specular="0.36 0.32 0.28" ambient="0.05 0 0"/>
<light pos="1 2 3" dir="0 0 1" cutoff="30" exponent="4" attenuation="1 0.5 0.25" castshadow="false"/>
<light name="off" active="false"/>
<body name="b" pos="0.1 0.2 0.5" euler="10 20 30"><freejoint/><geom size="0.1" mass="2"/><geom size="0.1" pos="0 0 1"/>
<light name="track" mode="track" pos="0 0 1" dir="1 1 -1"/>
<light name="com" mode="trackcom" pos="1 0 0" specular="0.1 0.1 0.1"/>
<body name="k" pos="0.2 0 0"><joint type="hinge" axis="0 1 0" pos="0.02 0 0"/><geom size=".03"/>
<light name="hand" pos="0.1 0 0" dir="1 0 0" cutoff="180" exponent="0" bulbradius="0.05"/></body></body>
</worldbody></mujoco>"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "scene.xml").write_text(SCENE)
    return tmp_path / "scene.xml"


def names_in(path):
    """Return MuJoCo's model, and the names of its lights that are on."""
    theirs = mujoco.MjModel.from_xml_path(str(path))
    return theirs, {theirs.light(k).name or f"light_{k}": k for k in range(theirs.nlight) if theirs.light_active[k]}


def test_lights_are_where_those_of_mujoco_are(path, tmp_path):
    """Positions and directions at random states, of the file and of what is written."""
    with pytest.warns(sim.MJCFWarning, match="skipped: lights that are off: off"):
        model = sim.load(path, dtype="float64")
    for file in (path, write_mjcf(tmp_path / "written.xml", model)):
        theirs, names = names_in(file)
        data, random = mujoco.MjData(theirs), np.random.default_rng(0)
        placed = [one for one in model.lights if one.light.type not in ("sky", "headlight")]
        assert [one.name for one in placed] == list(names)
        for _ in range(3):
            turn = random.normal(size=4)
            data.qpos[:] = [*random.normal(size=3), *turn / np.linalg.norm(turn), random.normal()]
            mujoco.mj_forward(theirs, data)
            q, _ = sim.from_mujoco(model, data.qpos[None], np.zeros((1, theirs.nv)))
            poses = sim.forward_kinematics(model, q).numpy()[0]
            for one in placed:
                seen = mounted_pose(model, one, poses)
                axis = -sim_matrix(seen[3:])[:, 2]
                if one.light.type != "directional":
                    assert_allclose(seen[:3], data.light_xpos[names[one.name]], atol=1e-9)
                assert_allclose(axis, data.light_xdir[names[one.name]], atol=1e-9)


def sim_matrix(quaternion):
    """Return the rotation matrix of a quaternion xyzw, by MuJoCo."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quaternion[[3, 0, 1, 2]])
    return matrix.reshape(3, 3)


@pytest.mark.filterwarnings("ignore:.*lights that are off")
def test_lights_are_written_as_they_were(path, tmp_path):
    """Every array of MuJoCo's lights and headlight, but for ambient light, which is that of the headlight."""
    ours, again = names_in(path), names_in(write_mjcf(tmp_path / "written.xml", sim.load(path)))
    for array in ("diffuse", "attenuation", "cutoff", "exponent", "castshadow", "type", "specular", "bulbradius"):
        values = [getattr(theirs, f"light_{array}")[list(names.values())] for theirs, names in (ours, again)]
        if array in ("attenuation", "cutoff", "exponent", "bulbradius"):
            values = [each[1:] for each in values]  # the first one is directional
        assert_allclose(*values, rtol=1e-6, atol=1e-7, err_msg=array)
    heads = [theirs.vis.headlight for theirs, _ in (ours, again)]
    for name in ("diffuse", "specular"):
        assert_allclose(*(getattr(head, name) for head in heads), atol=1e-7)
    assert_allclose(heads[1].ambient, (0.15, 0.1, 0.2), atol=1e-7)
    assert not again[0].light_ambient.any()
    twice = names_in(write_mjcf(tmp_path / "twice.xml", sim.load(tmp_path / "written.xml")))
    assert_allclose(twice[0].light_diffuse, again[0].light_diffuse, rtol=1e-6)
    assert_allclose(twice[0].vis.headlight.ambient, heads[1].ambient, rtol=1e-6)


def test_a_light_that_turns_to_a_body_keeps_its_first_direction(path):
    turning = '<light name="looks" mode="targetbody" target="k" pos="0 0 1"/><geom size="0.1" mass="2"/>'
    path.write_text(SCENE.replace('<geom size="0.1" mass="2"/>', turning))
    with pytest.warns(sim.MJCFWarning, match="keep their direction in the link: looks"):
        model = sim.load(path, dtype="float64")
    theirs, names = names_in(path)
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    (looks,) = (one for one in model.lights if one.name == "looks")
    seen = mounted_pose(model, looks, sim.forward_kinematics(model, model.q0[None]).numpy()[0])
    assert_allclose(-sim_matrix(seen[3:])[:, 2], data.light_xdir[names["looks"]], atol=1e-7)
    assert_allclose(seen[:3], data.light_xpos[names["looks"]], atol=1e-9)


def test_a_file_without_lights_has_none(path):
    """Its headlight is MuJoCo's for lack of others."""
    path.write_text("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
    assert not sim.load(path).lights


def test_what_mujoco_lacks_is_named(tmp_path):
    scene = sim.ModelBuilder()
    scene.add_sphere(radius=0.1, mass=1.0)
    scene.add_light("window", sim.Light("area", size=(1.0, 2.0)))
    scene.add_light("lamp", sim.Light("point", cone=120.0, softness=0.5))
    scene.add_light("sun", sim.Light("directional", (5e4, 5e4, 5e4), size=(0.5,)))
    scene.add_light("dome", sim.Light("sky", (100.0, 100.0, 100.0)))
    with pytest.warns(sim.MJCFWarning) as found:
        path = write_mjcf(tmp_path / "scene.xml", scene.finalize())
    said = " ".join(str(each.message) for each in found)
    for words in (
        "areas of lights ('window')", "soft borders of spotlights ('lamp')", "above 90 degrees ('lamp')",
        "diameters of directional lights ('sun')", "names of sky lights ('dome')", "times darker",
    ):  # fmt: skip
        assert words in said
    assert 0.9 < mujoco.MjModel.from_xml_path(str(path)).light_diffuse.max() < 1.2
    (lamp,) = (one for one in sim.load(path).lights if one.name == "lamp")
    assert lamp.light.size == ()  # not MuJoCo's default
