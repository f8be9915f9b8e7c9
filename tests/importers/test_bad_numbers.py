"""Numbers that aren't finite, or that nothing can be computed with: refused where they enter, by file and element."""

import subprocess
import sys

import numpy as np
import pytest

import sim
from tests.errors import raises_naming

INERTIAL = "<inertial><mass value='{mass}'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
FREE = '<body name="b"><freejoint/><geom name="g" size="1"/></body>'
BALL = FREE.replace("<freejoint/>", '<joint type="ball"/>')
HINGE = '<body name="b"><joint name="j"/><geom name="g" size="1"/></body>'
MOTOR = '<actuator><motor name="m" joint="j"/></actuator>'
CORNERS = ("0 0 0", "1 0 0", "0 1 0", "0 0 1")
FACES = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))


def mjcf(inside, after="", option=""):
    return f"<mujoco>{option}<worldbody>{inside}</worldbody>{after}</mujoco>"


def key(attributes):
    return f'<keyframe>\n<key name="k" {attributes}/></keyframe>'


MJCF = {
    "position": (mjcf(FREE, key('qpos="nan 0 0 1 0 0 0"')), r"key 'k'.*: qpos 0 is nan; it must be finite"),
    "velocity": (mjcf(FREE, key('qvel="0 inf 0 0 0 0"')), r"key 'k'.*: qvel 1 is inf"),
    "control": (mjcf(HINGE, MOTOR + key('ctrl="inf"')), r"key 'k'.*: ctrl 0 is inf"),
    "no number": (mjcf(HINGE, MOTOR + key('ctrl="nan"')), r"key 'k' \(line 2\): ctrl is nan; it must be finite"),
    "no number in a reference": (mjcf(FREE + '<site pos="1 &#78;aN 0"/>'), r"<site> \(line 1\): pos 1 is nan"),
    "free quaternion": (mjcf(FREE, key('qpos="1 2 3 0 0 0 0"')), "key 'k'.*: qpos holds the zero quaternion for joint"),
    "ball quaternion": (mjcf(BALL, key('qpos="0 0 0 0"')), "key 'k'.*: qpos holds the zero quaternion for joint"),
    "gravity": (mjcf(FREE, option='<option gravity="0 0 nan"/>'), r"<option> \(line 1\): gravity 2 is nan"),
    "infinite gravity": (mjcf(FREE, option='<option gravity="0 0 inf"/>'), r"<option>: gravity is \[0.0, 0.0, inf\]"),
    "large gravity": (mjcf(FREE, option='<option gravity="0 0 1e300"/>'), "<option>: gravity is"),
    "time step": (
        mjcf(FREE, option='<option timestep="nan"/>'),
        r"<option> \(line 1\): timestep is nan; it must",
    ),
    "no time step": (mjcf(FREE, option='<option timestep="-1"/>'), "<option>: timestep is -1.0; it must be positive"),
    "ratio": (
        mjcf(FREE, option='<option impratio="-1"/>'),
        "<option>: impratio is -1.0; it must be positive and",
    ),
    "infinite ratio": (mjcf(FREE, option='<option impratio="inf"/>'), "<option>: impratio is inf"),
    "margin": (
        mjcf(FREE.replace('"g"', '"g" margin="1e300"')),
        r"geom 'g' \(line 1\): its margin is 1e\+300, which is too",
    ),
    "torque scale": (
        mjcf(FREE, '<equality><weld body1="b" torquescale="1e300"/></equality>'),
        r"equality 0 \(line 1\): its data is",
    ),
    "softness": (mjcf(FREE.replace('"g"', '"g" solref="inf 1"')), r"geom 'g' \(line 1\): its solref is \[inf, 1.0\]"),
    "softness of a limit": (
        mjcf(HINGE.replace('"j"', '"j" range="-1 1" solreflimit="1e300 1"')),
        r"joint 'j' \(line 1\): its solreflimit is \[1e\+300, 1.0\]",
    ),
    "softness of friction": (
        mjcf(HINGE.replace('"j"', '"j" solimpfriction="0.9 0.95 inf"')),
        r"joint 'j' \(line 1\): its solimpfriction is \[",
    ),
    "softness of a tendon": (
        mjcf(HINGE, '<tendon><fixed name="t" solreflimit="0.02 inf"><joint joint="j" coef="1"/></fixed></tendon>'),
        r"tendon 't' \(line 1\): its solreflimit is \[0.02, inf\]",
    ),
    "softness of an equality": (
        mjcf(HINGE, '<equality><joint joint1="j" solref="inf 1"/></equality>'),
        r"equality 0 \(line 1\): its solref is \[inf, 1.0\]",
    ),
    "anchor": (
        mjcf(HINGE, '<equality><connect body1="b" anchor=" "/></equality>'),
        r"<connect> \(line 1\): anchor is empty",
    ),
    "reference": (mjcf(HINGE.replace('"j"', '"j" ref="inf"')), "joint 'j'.*: its ref is inf; it must be finite"),
}


@pytest.mark.parametrize("case", MJCF)
def test_mjcf(tmp_path, case):
    text, message = MJCF[case]
    path = tmp_path / "scene.xml"
    path.write_text(text)
    with pytest.raises(sim.ImportFileError, match=message):
        sim.load(path)


def test_names_may_be_nan(tmp_path):
    path = tmp_path / "scene.xml"
    path.write_text(mjcf(HINGE.replace('"j"', '"nan"'), MOTOR.replace('"j"', '"nan"')))
    assert sim.load(path).joint_names == ("nan",)


def test_nan_is_found_before_mujoco_reads_it(tmp_path):
    """Once an empty anchor has ended in an exception, MuJoCo 4 never returns from its warning of the next NaN."""
    code = """if True:
        import sys
        import sim
        for path in sys.argv[1:]:
            try:
                sim.load(path)
            except sim.ImportFileError as error:
                print(error)
    """
    paths = []
    for anchor in ("", "nan 1"):
        paths.append(tmp_path / f"{len(paths)}.xml")
        paths[-1].write_text(mjcf(HINGE, f'<equality><connect body1="b" anchor="{anchor}"/></equality>'))
    command = [sys.executable, "-c", code, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(map(str, paths))


def test_keyframes_that_are_right_are_read(tmp_path):
    path = tmp_path / "scene.xml"
    path.write_text(mjcf(FREE, key('qpos="1 2 3 0 0 0 2"') + '<keyframe><key name="other"/></keyframe>'))
    keyframes = sim.load(path).parts[0].keyframes
    np.testing.assert_allclose(keyframes["k"].q, [1.0, 2.0, 3.0, 0.0, 0.0, 1.0, 0.0])
    np.testing.assert_allclose(keyframes["other"].q, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def stl(corner="1 0 0"):
    corners = [corner if each == "1 0 0" else each for each in CORNERS]
    facets = []
    for face in FACES:
        vertices = "".join(f"vertex {corners[k]}\n" for k in face)
        facets.append(f"facet normal 0 0 1\nouter loop\n{vertices}endloop\nendfacet")
    return "\n".join(["solid a", *facets, "endsolid a"])


def obj(corner="1 0 0"):
    lines = [f"v {corner if each == '1 0 0' else each}" for each in CORNERS]
    return "\n".join(lines + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in FACES])


def dae(corner="1 0 0", unit="1", normal="0 0 1"):
    """Positions and normals; pycollada takes those that aren't numbers as zero."""
    positions = " ".join(corner if each == "1 0 0" else each for each in CORNERS)
    params = "".join(f'<param name="{axis}" type="float"/>' for axis in "XYZ")

    def source(name, text, count):
        return (
            f'<source id="{name}"><float_array id="{name}-a" count="{3 * count}">{text}</float_array><technique_common>'
            f'<accessor source="#{name}-a" count="{count}" stride="3">{params}</accessor></technique_common></source>'
        )

    corners = " ".join(f"{corner} 0" for face in FACES for corner in face)
    return (
        '<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">'
        f'<asset><unit meter="{unit}"/></asset><library_geometries><geometry id="g"><mesh>'
        f'{source("p", positions, 4)}{source("n", normal, 1)}<vertices id="v"><input semantic="POSITION" source="#p"/>'
        '</vertices><triangles count="4"><input semantic="VERTEX" source="#v" offset="0"/>'
        f'<input semantic="NORMAL" source="#n" offset="1"/><p>{corners}</p></triangles></mesh></geometry>'
        '</library_geometries><library_visual_scenes><visual_scene id="s"><node id="n0"><instance_geometry url="#g"/>'
        '</node></visual_scene></library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>'
    )


MESHES = {
    "stl": ("m.stl", stl("nan 0 0"), "1 1 1", r"can't be read: vertex \d is not finite"),
    "infinite stl": ("m.stl", stl("inf 0 0"), "1 1 1", r"can't be read: vertex \d is not finite"),
    "obj": ("m.obj", obj("nan 0 0"), "1 1 1", r"can't be read: vertex 1 is not finite"),
    "two coordinates": ("m.obj", "v 0 0\nv 1 0\nv 0 1\nf 1 2 3", "1 1 1", "don't have three coordinates each"),
    "dae": ("m.dae", dae("nan 0 0"), "1 1 1", "can't be read: a position in 'p' is not finite"),
    "infinite dae": ("m.dae", dae("0 -inf 0"), "1 1 1", "can't be read: a position in 'p' is not finite"),
    "unit zero": ("m.dae", dae(unit="0"), "1 1 1", "can't be read: its unit is 0.0 m; it must be finite and positive"),
    "negative unit": ("m.dae", dae(unit="-1"), "1 1 1", "can't be read: its unit is -1.0 m"),
    "unit nan": ("m.dae", dae(unit="nan"), "1 1 1", "can't be read: its unit is nan m"),
    "large": ("m.stl", stl("1e300 0 0"), "1 1 1", r"is 1e\+300 m wide with scale \[1.0, 1.0, 1.0\]"),
    "large scale": ("m.stl", stl(), "1 1e300 1", r"is 1e\+300 m wide with scale"),
    "product": ("m.stl", stl("1e300 0 0"), "1e300 1 1", r"is inf m wide"),
    "small scale": ("m.stl", stl(), "1e-300 1e-300 1e-300", r"is 1e-300 m wide"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["visual", "collision"])
@pytest.mark.parametrize("case", MESHES)
def test_mesh(tmp_path, case, kind):
    name, text, scale, message = MESHES[case]
    (tmp_path / name).write_text(text)
    path = tmp_path / "robot.urdf"
    shape = f"<{kind}><geometry><mesh filename='{name}' scale='{scale}'/></geometry></{kind}>"
    path.write_text(f"<robot name='r'><link name='a'>{INERTIAL.format(mass=1)}{shape}</link></robot>")
    with pytest.raises(sim.ImportFileError, match=rf"link 'a', <mesh> \(line 1\): mesh 'm\.\w+'.*{message}") as raised:
        sim.load(path)
    assert str(raised.value).count("mesh 'm.") == 1
    assert sim.load(path, visual=False, collision=False).num_links == 0


@pytest.mark.parametrize(("name", "text"), [("m.stl", stl()), ("m.obj", obj()), ("m.dae", dae(normal="nan nan nan"))])
def test_good_meshes_are_read(tmp_path, name, text):
    """Normals that aren't finite are frequent in published files; nothing here needs them."""
    (tmp_path / name).write_text(text)
    path = tmp_path / "robot.urdf"
    shape = f"<collision><geometry><mesh filename='{name}'/></geometry></collision>"
    path.write_text(f"<robot name='r'><link name='a'>{INERTIAL.format(mass=1)}{shape}</link></robot>")
    mesh = sim.load(path).geometries[0].mesh
    np.testing.assert_allclose(
        np.unique(mesh.vertices, axis=0), [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]], atol=1e-7
    )


def test_flat_hull(tmp_path):
    (tmp_path / "m.stl").write_text(stl())
    path = tmp_path / "robot.urdf"
    shape = "<collision><geometry><mesh filename='m.stl' scale='1e-300 1 1'/></geometry></collision>"
    path.write_text(f"<robot name='r'><link name='a'>{INERTIAL.format(mass=1)}{shape}</link></robot>")
    with pytest.warns(sim.URDFWarning, match="ignored: collision 0 of link 'a', which has no volume"):
        assert sim.load(path).num_geometries == 0


def test_mass_beyond_single_precision(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(f"<robot name='r'><link name='a'>{INERTIAL.format(mass='1e39')}</link></robot>")
    with raises_naming("link 'a'", "mass", "1e+39", "finite", "float32", "dtype", error=sim.ImportFileError):
        sim.load(path, floating_base=True)
    assert sim.load(path, floating_base=True, dtype="float64").parameters["mass"][0] == 1e39


def test_gravity_of_a_builder():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=1.0, mass=1.0)
    builder.gravity = np.array([0.0, np.nan, 0.0])
    with raises_naming("gravity", "finite"):
        builder.finalize()


def test_properties_are_named_by_their_owner():
    for add, message in (
        (lambda b: b.add_geometry("a", "box", name="g", size=(1e39, 1.0, 1.0)), "geometry 'g': geometry_size is 1e"),
        (lambda b: b.add_actuator("j", "torque", name="m", gear=1e39), "actuator 'm': actuator_gear is 1e"),
        (
            lambda b: b.add_point_constraint("c", "a", "world", position_a=(1e39, 0, 0)),
            "constraint 'c': anchor_a is 1e",
        ),
        (lambda b: setattr(b.joints["j"], "damping", 1e39), "joint 'j': damping is 1e"),
    ):
        builder = sim.ModelBuilder()
        builder.add_link("a", mass=1.0, inertia=np.ones(3))
        builder.add_joint("j", "revolute", child="a")
        add(builder)
        with pytest.raises(sim.ModelError, match=message):
            builder.finalize("float32")
        assert builder.finalize("float64").num_links == 1
