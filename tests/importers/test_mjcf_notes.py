"""What of an MJCF file moves or reads otherwise than in MuJoCo: the warning names it, with its lines."""

import mujoco
import numpy as np
import pytest
import torch

import sim
from tests.importers.mjcf_steps import difference, load_noting

ARM = """<mujoco><option timestep="0.005" {option}>{flag}</option>{asset}<worldbody>
<geom name="floor" type="plane" size="5 5 1" {floor}/>
<body name="a" pos="0 0 1"><joint name="h" axis="0 1 0" {joint}/>
<geom name="g" type="capsule" size=".03 .1" pos=".1 0 0" mass="1" {geom}/><site name="s" pos=".2 0 0"/>{inside}
<body name="b" pos=".3 0 0"><joint name="k" axis="0 1 0"/><geom name="e" size=".05" pos=".1 0 0"/><site name="t"/>
</body></body>{world}</worldbody>{after}</mujoco>"""
PARTS = ("option", "flag", "asset", "floor", "joint", "geom", "inside", "world", "after")


@pytest.fixture
def write(tmp_path):
    """A function from the parts of the arm's file to its path."""

    def of(**parts):
        path = tmp_path / "arm.xml"
        path.write_text(ARM.format(**dict.fromkeys(PARTS, "") | parts))
        return path

    return of


def flag(text):
    return {"flag": f"<flag {text}/>"}


TENDON = '<tendon><fixed name="t"><joint joint="h" coef="2"/><joint joint="k" coef="1"/></fixed></tendon>'
PULLED = TENDON.replace('name="t"', 'name="t" actuatorfrcrange="-2 3"')
LIMITED = {"joint": 'actuatorfrcrange="-1 5"'}
OF_SUMS = (
    "ignored: force limits of joints on the sum of several actuators, and on those of tendons, sites and bodies "
    "('h' (line 3)); each single actuator of such a joint is clamped to them"
)
CORNER = (
    'vertex="0 0 0 1 0 0 1 .2 0 .2 .2 0 .2 1 0 0 1 0 0 0 .1 1 0 .1 1 .2 .1 .2 .2 .1 .2 1 .1 0 1 .1" '
    'face="0 2 1 0 3 2 0 4 3 0 5 4 6 7 8 6 8 9 6 9 10 6 10 11 0 1 7 0 7 6 1 2 8 1 8 7 2 3 9 2 9 8 3 4 10 3 10 9 4 5 11 '
    '4 11 10 5 0 6 5 6 11"'
)
NOTES = {
    "two motors of a limited joint": (
        LIMITED | {"after": '<actuator><motor name="x" joint="h"/><motor name="y" joint="h"/></actuator>'}, OF_SUMS,
    ),
    "a sensor of a limited joint's motor": (
        LIMITED | {
            "after": '<actuator><motor name="x" joint="h"/><motor name="y" joint="k"/></actuator>'
            '<sensor><actuatorfrc name="r" actuator="x"/><actuatorfrc name="s" actuator="y"/></sensor>',
        },
        "sensors of actuators read forces within the actuatorfrcrange of their joints ('r' (line 6))",
    ),
    "a tendon's motor": (LIMITED | {"after": f'{TENDON}<actuator><motor tendon="t"/></actuator>'}, OF_SUMS),
    "a site's motor": (LIMITED | {"after": '<actuator><motor site="t" gear="0 0 1 0 0 0"/></actuator>'}, OF_SUMS),
    "adhesion": (LIMITED | {"after": '<actuator><adhesion body="b" ctrlrange="0 1"/></actuator>'}, OF_SUMS),
    "diagexact and speculative": (
        {"flag": '<flag diagexact="enable" speculative="enable"/>'}, "ignored: diagexact; speculative",
    ),
    "sleep": (flag('sleep="enable"'), "ignored: sleep"),
    "adhesion of a pair": (
        {"after": '<contact><pair geom1="floor" geom2="e" adhesion="1"/></contact>'},
        "ignored: adhesion of pairs (0 (line 6))",
    ),
    "friction loss of a free joint": (
        {"world": '<body><joint name="f" type="free" frictionloss="1"/><geom size=".1"/></body>'},
        "ignored: friction loss of free joints about the axes of the body ('f' (line 6)); "
        "it acts about the axes of the world",
    ),
    "a disabled group": (
        {
            "option": 'actuatorgroupdisable="1"',
            "after": '<actuator><motor name="x" joint="h" group="1"/><motor name="y" joint="h"/></actuator>',
        },
        "actuatorgroupdisable has no effect: these actuators stay active: 'x' (line 6)",
    ),
    "delayed and rare sensors": (
        {
            "after": '<sensor><jointpos name="p" joint="h" delay=".01" nsample="4"/>\n'
            '<jointvel name="v" joint="h" nsample="2" interval=".1"/><jointvel joint="h" nsample="2"/></sensor>'
        },
        "ignored: delay and interval of sensors ('p' (line 6), 'v' (line 7)); they read the present",
    ),
    "rays beside welded geoms": (
        {
            "inside": '<body pos="0 0 -.5"><geom size=".1"/></body>',
            "after": '<sensor><rangefinder name="r" site="s"/></sensor>',
        },
        "rangefinders pass through geoms of bodies that are fixed to theirs ('r' (line 6))",
    ),
    "rays at invisible geoms": (
        {
            "asset": '<asset><material name="clear" rgba="1 1 1 0"/><material name="full"/></asset>',
            "world": '<geom name="x" size=".1" rgba="1 1 1 0"/><geom name="y" size=".1" material="clear"/>'
            '<geom name="z" size=".1" material="full" rgba="1 1 1 0"/>',
            "after": '<sensor><rangefinder name="r" site="s"/></sensor>',
        },
        "rangefinders hit invisible geoms ('x' (line 6), 'y' (line 6))",
    ),
    "rays at the hull of a mesh": (
        {
            "asset": f'<asset><mesh name="m" {CORNER}/><mesh name="n" builtin="sphere" params="1"/></asset>',
            "world": '<geom name="x" type="mesh" mesh="m"/><geom name="y" type="mesh" mesh="n"/>',
            "after": '<sensor><rangefinder name="r" site="s"/></sensor>',
        },
        "rangefinders hit the hulls of meshes ('x' (line 6))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTES)
def test_what_is_otherwise_is_said(write, case):
    parts, note = NOTES[case]
    assert load_noting(write(**parts))[1] == note


ALIKE = {
    "a limited joint with one motor": (
        {"joint": 'actuatorfrcrange="-2 5"', "after": '<actuator><motor joint="h" gear="-2"/></actuator>'}, [-4.0],
    ),
    **{
        f"a limited tendon with one {kind} {law}, {control}": (
            {"after": f'{PULLED}<actuator><{kind} tendon="t" gear="-3" {law}/></actuator>'}, [control],
        )
        for kind, law in (("motor", ""), ("motor", 'forcerange="-1 9"'), ("position", 'kp="50" kv="0.01"'),
                          ("general", 'gainprm="-4"'), ("motor", 'forcerange="4 9"'))
        for control in (-4.0, 1.0, 7.0)
    },
    "two motors of a limited tendon": (
        {"after": f'{PULLED}<actuator><motor tendon="t" gear="-3"/><motor tendon="t" forcerange="-1 9"/></actuator>'},
        [4.0, -1.5],
    ),
    "a site's motor elsewhere": (
        {
            "joint": 'actuatorfrcrange="-2 5"',
            "after": '<actuator><motor name="x" joint="h"/><motor site="t" refsite="s" gear="0 0 0 0 1 0"/></actuator>',
        },
        [-4.0, 3.0],
    ),
    "damping without eulerdamp in RK4": (
        flag('eulerdamp="disable"') | {"option": 'integrator="RK4"', "joint": 'damping="2"'}, None,
    ),
    "no actuation": (
        flag('actuation="disable"') | {"after": '<actuator><motor joint="h" armature=".1"/></actuator>'}, None,
    ),
    "gravity compensation below zero alone": (
        {"inside": '<body gravcomp="-0.5"><geom size=".05" pos=".2 0 0"/></body>'}, None,
    ),
    "gravity compensation below zero and above": (
        {
            "inside": '<body gravcomp="-0.5"><geom size=".05" pos=".2 0 0"/></body>'
            '<body gravcomp="0.3"><geom size=".05" pos=".1 0 0"/></body>',
        },
        None,
    ),
    "a group that no actuator has": (
        {"option": 'actuatorgroupdisable="1"', "after": '<actuator><motor joint="h"/></actuator>'}, [1.0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ALIKE)
def test_what_is_alike_needs_no_words(write, case):
    parts, ctrl = ALIKE[case]
    path = write(**parts)
    assert load_noting(path)[1] == ""
    assert difference(path, qvel=[0.3, -0.5], ctrl=ctrl) < 1e-11


def test_an_actuator_of_a_plugin_is_left_out(write):
    plugin = '<extension><plugin plugin="mujoco.pid"/></extension>'
    actuator = '<actuator><plugin name="x" joint="h" plugin="mujoco.pid"/><motor name="y" joint="h"/></actuator>'
    model, notes = load_noting(write(asset=plugin, after=actuator))
    assert model.actuator_names == ("y",)
    assert "ignored: actuator 'x' (line 6), whose plugin mujoco.pid has no kp" in notes
    assert "ignored: 1 plugin" not in notes


@pytest.mark.parametrize("mode", ["track", "trackcom", 'targetbody" target="b', 'targetbodycom" target="b'])
def test_sensors_of_cameras_that_follow_are_left_out(write, mode):
    camera = f'<camera name="c" pos=".1 0 .2" mode="{mode}"/><camera name="d" resolution="2 2"/>'
    sensors = (
        '<framepos name="x" objtype="camera" objname="c"/><framepos name="y" objtype="site" objname="t" '
        'reftype="camera" refname="c"/><camprojection name="z" site="t" camera="c"/><rangefinder name="r" camera="c"/>'
        '<framepos name="w" objtype="camera" objname="d"/>'
    )
    model, notes = load_noting(write(inside=camera, after=f"<sensor>{sensors}</sensor>"))
    assert [sensor.name for sensor in model.sensors] == ["w"]
    follows = "of cameras that follow or turn to a body"
    assert f"sensor 'x' (line 6), sensor 'y' (line 6): there are no sensors of type framepos {follows}" in notes
    assert f"sensor 'z' (line 6): there are no sensors of type camprojection {follows}" in notes
    assert f"sensor 'r' (line 6): there are no sensors of type rangefinder {follows}" in notes


def test_an_integrator_that_is_not_supported_is_refused(write):
    with pytest.raises(sim.ImportFileError, match="<option>: integrator 'discrete' is not supported; choose one of "):
        sim.load(write(option='integrator="discrete"'))


def test_warnings_of_mujoco_are_told_apart(write):
    """They are about the file, not about what is missing here."""
    path = write(asset='<compiler settotalmass="3"/>')
    assert load_noting(path)[1].startswith("MuJoCo warns: ")
    notes = load_noting(write(asset='<compiler settotalmass="3"/>', flag='<flag override="enable" sleep="enable"/>'))[1]
    assert [line.split(": ")[0] for line in notes.splitlines()] == ["ignored", "MuJoCo warns"]


def test_rays_meet_what_only_other_groups_show(write):
    """Geoms of groups that aren't shown, as MuJoCo's rays do; without rangefinders these are left out."""
    parts = {
        "asset": '<asset><mesh name="m" builtin="sphere" params="1" scale=".1 .1 .1"/></asset>',
        "world": '<body pos=".2 0 2"><geom size=".1"/><geom name="x" size=".2" group="4" contype="0" conaffinity="0"/>'
        '</body><body pos=".4 .5 2"><geom pos="1 0 0" size=".1"/>'
        '<geom name="y" type="mesh" mesh="m" group="4" contype="0" conaffinity="0"/></body>',
    }
    without, _ = load_noting(write(**parts))
    sensors = '<rangefinder name="r" site="s"/><rangefinder name="q" site="u"/>'
    path = write(**parts, inside='<site name="u" pos=".42 .51 0"/>', after=f"<sensor>{sensors}</sensor>")
    model, notes = load_noting(path)
    assert notes == ""
    added = {geometry.name: geometry for geometry in model.geometries}
    assert added.keys() - {geometry.name for geometry in without.geometries} == {"x", "y"}
    assert not any(added[name].collides or added[name].visible for name in "xy")
    assert "x" not in [geometry.name for geometry in sim.load(path, visual=False).geometries]
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    sensors = sim.torch.Sensors(sim.Simulator(model, **sim.mujoco_settings(model), device="cpu"))
    states = torch.tensor(np.tile(model.q0, (2, 1, 1)))
    found = sensors(states, torch.zeros(2, 1, model.nv, dtype=states.dtype))[0, 0].numpy()
    assert 0.5 < data.sensordata.min() < data.sensordata.max() < 1.0
    np.testing.assert_allclose(found, data.sensordata, atol=1e-6)


def test_elements_that_are_included_have_no_line(tmp_path):
    body = '<body><joint name="h" axis="0 1 0"/><geom size="1"/></body>'
    unknown = '<actuator><general name="m" joint="h" dyntype="user"/></actuator>'
    (tmp_path / "part.xml").write_text(f"<mujoco>{unknown}</mujoco>")
    (tmp_path / "whole.xml").write_text(f'<mujoco><worldbody>{body}</worldbody><include file="part.xml"/></mujoco>')
    with pytest.warns(sim.MJCFWarning, match="ignored: actuator 'm', "):
        sim.load(tmp_path / "whole.xml")
