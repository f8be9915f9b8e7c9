"""Softness of geoms whose numbers are beyond MuJoCo's bounds: mixed first, then bounded, as in MuJoCo."""

import mujoco
import numpy as np
import pytest

import sim
from tests.importers.mjcf_steps import difference, load_noting

BALL = """<mujoco><option timestep=".002"/><worldbody><geom name="floor" type="plane" size="1 1 1" {floor}/>
<body pos="0 0 .099"><freejoint/><geom name="ball" size=".1" {ball}/></body>
<body pos="3 0 1"><freejoint/><geom name="other" size=".1"/></body></worldbody>{after}</mujoco>"""
MODERATE, BEYOND = 'solimp=".5 .6 .01 .5 2"', 'solimp="1.4 2 -.004 0 .2"'
CASES = {
    "impedance": (BEYOND, MODERATE),
    "of the body": (MODERATE, BEYOND),
    "of both": (BEYOND, 'solimp=".2 1 .003 -1 3"'),
    "weighted": (f'{BEYOND} solmix="3"', MODERATE),
    "no weight": (f'{BEYOND} solmix="0"', MODERATE),
    "no weights": (f'{BEYOND} solmix="0"', f'{MODERATE} solmix="0"'),
    "priority": (f'{BEYOND} priority="1"', MODERATE),
    "formats of both kinds": ('solref="-100 1"', 'solref="-400 -20"'),
    "formats that don't mix": ('solref="-100 1"', 'solref=".02 1"'),
}


@pytest.mark.parametrize(("floor", "ball"), CASES.values(), ids=CASES)
def test_moves_as_in_mujoco(tmp_path, floor, ball):
    path = tmp_path / "ball.xml"
    path.write_text(BALL.format(floor=floor, ball=ball, after=""))
    data = mujoco.MjData(peer := mujoco.MjModel.from_xml_path(str(path)))
    mujoco.mj_step(peer, data)
    assert data.ncon == 1
    assert difference(path, steps=50) < 1e-11


def test_margins_that_meet_between_the_limits(tmp_path):
    """Both limits of a joint bear at once, and the joint is held between them."""
    path = tmp_path / "cramped.xml"
    path.write_text("""<mujoco><worldbody><body><joint type="hinge" axis="0 1 0" range="-10 20" margin="16"/>
        <geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/><body pos=".5 0 0">
        <joint type="slide" axis="1 0 0" range="-.1 .1" margin=".15"/><geom size=".1"/></body></body></worldbody>
        </mujoco>""")
    assert difference(path, qpos=[0.1, 0.02], qvel=[1.0, -2.0], steps=50) < 1e-11


def test_a_listed_pair_has_its_own(tmp_path):
    pair = '<contact><pair geom1="floor" geom2="ball" solimp=".9 .95 .001 .5 2"/></contact>'
    path = tmp_path / "ball.xml"
    path.write_text(BALL.format(floor=BEYOND, ball=BEYOND, after=pair))
    model, _ = load_noting(path)
    names = [geometry.name for geometry in model.geometries]
    stated = {frozenset((names[pair.a], names[pair.b])): pair.softness for pair in model.pair_softness}
    assert stated[frozenset(("floor", "ball"))] == sim.Softness()
    assert difference(path, steps=50) < 1e-11


def test_nothing_is_stated_within_the_bounds(tmp_path):
    path = tmp_path / "ball.xml"
    path.write_text(BALL.format(floor=MODERATE, ball='solref="-100 -20"', after=""))
    assert not load_noting(path)[0].pair_softness


QUICK = """<mujoco><option timestep=".004"><flag refsafe="{safe}"/></option><worldbody>
<geom name="floor" type="plane" size="1 1 1" {floor}/><body pos="0 0 .0999"><freejoint/><geom size=".1" {ball}/></body>
<body pos="1 0 1"><joint name="h" axis="0 1 0" range="-1 1" frictionloss=".3" solreflimit=".006 1"
solreffriction=".005 1"/><geom size=".1" pos=".3 0 0"/></body>
<body pos="2 0 1"><joint name="k" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body>
<body pos="3 0 1"><joint name="l" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
<tendon><fixed name="t" limited="true" range="-.1 .1" frictionloss=".2" solreflimit=".0068 1"
solreffriction=".0067 1.2"><joint joint="l" coef="1"/></fixed></tendon>
<equality><joint joint1="k" joint2="h" solref=".0066 1"/></equality></mujoco>"""
RATES = {
    "of both": ('solref=".0064 1"', 'solref=".0064 1"'),
    "mixed": ('solref=".0062 1"', 'solref=".007 1.4" solmix="2"'),
    "with a slow one": ('solref=".005 1"', 'solref=".02 1"'),
    "with stiffness": ('solref=".005 1"', 'solref="-400 -20"'),
    "priority": ('solref=".006 1" priority="1"', ""),
}


@pytest.mark.parametrize(("floor", "ball"), RATES.values(), ids=RATES)
@pytest.mark.parametrize("safe", ["enable", "disable"])
def test_time_constants_below_two_steps(tmp_path, safe, floor, ball):
    path = tmp_path / "quick.xml"
    path.write_text(QUICK.format(safe=safe, floor=floor, ball=ball))
    assert load_noting(path)[1] == ""
    ends = [0.0, 0.0, 0.0999, 1.0, 0.0, 0.0, 0.0, 1.0001, 0.01, 0.1001]
    assert difference(path, ends, [0.0, 0.0, -0.01, 0.0, 0.0, 0.0, 0.02, 0.0, 0.01], steps=20) < 1e-10


HULL = """<mujoco><option timestep=".004"/><asset><mesh name="m" builtin="sphere" params="3" scale=".2 .15 .1" {most}/>
</asset><worldbody><geom type="plane" size="5 5 1"/><body name="b" pos="0 0 .5"><freejoint/>
<geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("turn", [(1.0, 0.0, 0.0, 0.0), (0.9, 0.2, 0.3, 0.1), (0.5, 0.5, -0.2, 0.4)])
def test_a_mesh_collides_as_the_hull_that_mujoco_bounds(tmp_path, turn):
    path = tmp_path / "mesh.xml"
    path.write_text(HULL.format(most='maxhullvert="12"'))
    model, notes = load_noting(path)
    hull = next(geometry for geometry in model.geometries if geometry.name == "b/geom_0")
    assert (len(hull.mesh.vertices), notes) == (12, "")
    data = mujoco.MjData(peer := mujoco.MjModel.from_xml_path(str(path)))
    turn = np.array(turn) / np.linalg.norm(turn)
    data.qpos = [0.0, 0.0, 1.0, *turn]
    mujoco.mj_forward(peer, data)
    turned = data.geom_xmat[1].reshape(3, 3) @ np.asarray(hull.mesh.vertices, dtype=np.float64).T
    height = -turned[2].min() + 1.0 - data.geom_xpos[1, 2]
    assert difference(path, [0.0, 0.0, height - 1e-3, *turn], np.zeros(6), steps=40) < 1e-9
    path.write_text(HULL.format(most=""))
    assert load_noting(path)[0].geometries[1].mesh.vertices.shape[0] > 100
