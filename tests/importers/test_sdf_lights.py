"""Lights of SDF files."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sim
from sim.render.colors import linear_light
from sim.render.mounted import mounted_pose
from tests.errors import refuses

SDF = """<sdf version="1.10"><world name="w"><scene><ambient>0.2 0.3 0.4 1</ambient></scene>
<light name="sun" type="directional"><pose>0 0 9 0 0 0</pose><diffuse>0.8 0.7 0.6 1</diffuse>
<specular>0 0 0 1</specular><direction>1 0 -1</direction><cast_shadows>1</cast_shadows></light>{more}
<model name="m"><pose>1 0 0 0 0 0</pose><link name="l"><pose>0 2 0 0 0 1.5707963267948966</pose>
<light name="lamp" type="spot"><pose>0.5 0 0 0 1.5707963267948966 0</pose><intensity>2</intensity>
<attenuation><constant>0.5</constant><linear>0.25</linear><quadratic>0.1</quadratic></attenuation>
<spot><inner_angle>0.6</inner_angle><outer_angle>0.8</outer_angle></spot></light>
</link></model></world></sdf>"""


def loaded(path, more=""):
    (path / "a.sdf").write_text(SDF.format(more=more))
    return sim.load(path / "a.sdf", dtype="float64")


def test_lights(tmp_path):
    model = loaded(tmp_path)
    sun, lamp, ambient = (
        next(one for one in model.lights if one.name == name) for name in ("sun", "l/lamp", "ambient")
    )
    assert (sun.light.type, lamp.light.type, ambient.light.type) == ("directional", "point", "sky")
    assert_allclose(sun.light.color, linear_light(np.array([0.8, 0.7, 0.6])))
    assert_allclose(ambient.light.color, linear_light(np.array([0.2, 0.3, 0.4])))
    assert_allclose(lamp.light.color, (2.0, 2.0, 2.0))
    assert lamp.light.attenuation == (0.5, 0.25, 0.1)
    assert_allclose((lamp.light.cone, lamp.light.softness), (np.degrees(0.4), 0.25))
    assert (sun.light.specular, sun.light.shadow, lamp.light.specular, lamp.light.shadow) == (0.0, True, 1.0, False)
    poses = sim.forward_kinematics(model, model.q0[None]).numpy()[0]
    seen = mounted_pose(model, lamp, poses)
    assert_allclose(seen[:3], (1.0, 2.5, 0.0), atol=1e-9)  # the link is turned by a quarter about z
    assert_allclose(axis(seen), (0.0, -1.0, 0.0), atol=1e-9)  # down, pitched by a quarter, then turned
    assert_allclose(axis(mounted_pose(model, sun, poses)), np.array([1.0, 0.0, -1.0]) / np.sqrt(2.0), atol=1e-9)


def axis(pose):
    """Return the direction that a light at a pose [7] shines in: minus the third column of its rotation."""
    x, y, z, w = pose[3:]
    return -np.array([2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('<light name="off" type="point"><light_on>false</light_on></light>', "skipped: light 'off', which is off"),
        ('<light name="far" type="point"><attenuation><range>3</range></attenuation></light>', "<attenuation><range>"),
        ('<light name="on m" type="point"><pose relative_to="m"/></light>', "ignored: light 'on m'"),
    ],
)
def test_what_is_left_out_is_named(tmp_path, more, said):
    with pytest.warns(sim.SDFWarning, match=said):
        loaded(tmp_path, more)


def test_invalid_lights(tmp_path):
    refuses(lambda: loaded(tmp_path, '<light name="a" type="laser"/>'), "'laser'", "spot", error=sim.ImportFileError)
    wrong = '<light name="a" type="spot"><direction>0 0 0</direction></light>'
    refuses(lambda: loaded(tmp_path, wrong), "direction", "zero", error=sim.ImportFileError)


def test_points_of_light_need_no_direction(tmp_path):
    model = loaded(tmp_path, '<light name="a" type="point"><direction>0 0 0</direction></light>')
    (one,) = (one for one in model.lights if one.name == "a")
    assert_allclose(one.placement, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
