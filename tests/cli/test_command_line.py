"""The command line: what it prints and writes, its messages, its exit status."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import warp as wp
from PIL import Image

import sim
from sim.cli.info import report
from sim.cli.main import COMMANDS, main
from sim.cli.pictures import every, frames_per_second

ROBOTS = Path(__file__).parents[2] / "scenes/robots"
ARM, QUADRUPED = str(ROBOTS / "arm.urdf"), str(ROBOTS / "quadruped.urdf")
HOPPER = """<mujoco><compiler angle="radian"/><option timestep="0.005"/>
<worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="rod" pos="0 0 1"><joint name="up" type="slide" axis="0 0 1"/><joint name="turn" axis="0 1 0" range="0.2 1"
limited="true"/><geom name="rod" type="capsule" size="0.05 0.2"/></body></worldbody>
<actuator><motor name="m" joint="up" gear="10"/></actuator><sensor><user dim="1"/></sensor>
<keyframe><key name="high" qpos="0.5 0.4" qvel="0 1" ctrl="2"/></keyframe></mujoco>"""


@pytest.fixture
def hopper(tmp_path):
    path = tmp_path / "hopper.xml"
    path.write_text(HOPPER)
    return str(path)


def test_info(capsys, hopper):
    assert main(["info", QUADRUPED, "--floating-base"]) == 0
    said = capsys.readouterr()
    assert "13 links in 1 tree, nq 19, nv 18, 13.64 kg" in said.out
    assert "fl_calf   fl_calf_joint   revolute  fl_thigh  0.31       -2.8 to -0.5 rad" in said.out.splitlines()
    assert main(["info", hopper, "--ground", "-1"]) == 0
    said = capsys.readouterr()
    assert said.err == "warning: ignored: sensor 0 (line 5): there are no sensors of type user for what they look at\n"
    rest = dict(line.split(maxsplit=1) for line in said.out.splitlines()[6:])
    assert rest["colliding"] == "2 plane, 1 capsule"
    assert (rest["actuators"], rest["keyframes"]) == ("m (torque)", "high")
    assert "base" not in said.out


def test_check_names_what_overlaps_at_the_start(capsys, tmp_path):
    """A turning arm 3 cm deep in a block of the world; a ball 0.5 mm deep in a plane rests there."""
    path = tmp_path / "stuck.xml"
    path.write_text("""<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<body name="mount" pos="0 0 0.5"><geom name="block" type="box" size="0.08 0.08 0.05"/>
<body name="arm" pos="0 0 0.05"><joint name="yaw" axis="0 0 1"/>
<geom name="rod" type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/></body></body>
<body pos="0 1 0.0995"><freejoint/><geom name="ball" type="sphere" size="0.1"/></body></worldbody></mujoco>""")
    assert main(["check", str(path)]) == 0
    capsys.readouterr()
    assert main(["check", "--strict", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: 'rod' of 'arm' and 'block' of 'world' ")
    assert " 30 mm " in line


def test_info_names_frames_that_are_no_links(capsys, tmp_path):
    """Links at fixed joints, which kinematics takes by name; of many the first ones."""
    assert main(["info", QUADRUPED, "--floating-base"]) == 0
    assert "frames       fl_foot, " in capsys.readouterr().out
    links = "".join(f'<link name="part{k}"/><joint name="j{k}" type="fixed"><parent link="base"/>'
                    f'<child link="part{k}"/></joint>' for k in range(50))  # fmt: skip
    path = tmp_path / "many.urdf"
    path.write_text(f'<robot name="many"><link name="base"/>{links}</robot>')
    assert main(["info", str(path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "frames base, part0, part1, " in out
    assert "part38, 11 more gravity" in out


def test_info_says_whether_the_base_is_free(capsys, tmp_path):
    def said(*arguments):
        assert main(["info", *arguments]) == 0
        return " ".join(capsys.readouterr().out.split("\n\n")[0].splitlines()[1:])

    free = "give --floating-base (in Python floating_base=True)"
    assert said(QUADRUPED, "--floating-base") == "base 'trunk' moves freely"
    trees = "base 'trunk' is fixed to the world, which splits it into 4 separate trees"
    assert said(QUADRUPED) == f"{trees}; for a robot that walks, drives or flies, {free}"
    assert said(ARM) == f"base 'base' is fixed to the world; for a floating base, {free}"
    drone = tmp_path / "drone.xml"  # a URDF by its first element
    drone.write_text("<robot name='drone'><link name='body'/></robot>")
    flies = "base 'body' is fixed to the world, so nothing moves; for a robot that walks, drives or flies"
    assert said(str(drone)) == f"{flies}, {free}"
    assert said(str(drone), "--floating-base") == "base 'body' moves freely"


def test_info_names_tendons_and_sensors(capsys, tmp_path):
    builder = sim.ModelBuilder()
    builder.add_urdf(ARM)
    first, second = builder.finalize().joint_names[:2]
    builder.add_fixed_tendon("rope", {first: 1.0, second: -1.0})
    builder.add_sensor("rate", "gyro", "hand")
    text = report(builder.finalize(), "arm")
    assert "tendons      rope\nsensors      rate\n" in text


def test_a_package_is_looked_for_where_it_is_said_to_be(capsys, tmp_path):
    mesh = tmp_path / "packages" / "arm" / "box.obj"
    mesh.parent.mkdir(parents=True)
    mesh.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    path = tmp_path / "robot" / "arm.urdf"
    path.parent.mkdir()
    geometry = '<collision><geometry><mesh filename="package://arm/box.obj"/></geometry></collision>'
    path.write_text(f'<robot name="arm"><link name="base">{geometry}</link></robot>')
    assert main(["info", str(path)]) == 1
    assert "with package_dirs (on the command line --package-dir)" in capsys.readouterr().err
    where = ["--package-dir", str(tmp_path / "gone"), "--package-dir", str(tmp_path / "packages")]
    for command in (["info"], ["check"], ["check", "--untrusted"], ["convert", str(tmp_path / "arm.usda")]):
        assert main([command[0], str(path), *command[1:], *where]) == 0
    assert "colliding    1 convex mesh" in capsys.readouterr().out


def test_check(capsys, hopper, tmp_path):
    assert main(["check", QUADRUPED]) == 0
    calves = capsys.readouterr().err.splitlines()
    assert main(["check", hopper]) == 0
    said = capsys.readouterr()
    assert "warning: joint 'turn' starts at 0, outside its limits 0.2 to 1" in said.err.splitlines()
    assert said.out == f"{hopper}: good, 2 warnings\n"
    assert calves == []
    assert main(["check", hopper, "--strict"]) == 1
    bad = tmp_path / "massless.urdf"
    joint = "<joint name='j' type='continuous'><parent link='a'/><child link='b'/></joint>"
    bad.write_text(f"<robot name='r'><link name='a'/><link name='b'/>{joint}</robot>")
    assert main(["check", str(bad)]) == 1
    assert "links 'b' move but have no mass" in capsys.readouterr().err


def test_convert(capsys, hopper, tmp_path):
    out = tmp_path / "hopper.usda"
    assert main(["convert", hopper, str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    models = [sim.load(QUADRUPED, floating_base=True, dtype="float64")]
    out = tmp_path / "quadruped.usdc"
    assert main(["convert", QUADRUPED, str(out), "--floating-base"]) == 0
    models.append(sim.load(out, dtype="float64"))
    masses = [sim.mass_matrix(model, model.q0[None]).numpy() for model in models]
    np.testing.assert_allclose(*masses, rtol=0, atol=1e-10)


def test_convert_between_all_formats(capsys, tmp_path):
    """From each to each: the robot is the one that it was at first."""
    first = sim.load(QUADRUPED, floating_base=True, dtype="float64")
    mass = sim.mass_matrix(first, first.q0[None]).numpy()
    before, free = QUADRUPED, ["--floating-base"]
    for number, suffix in enumerate((".xml", ".xml", ".urdf", ".urdf", ".usda", ".urdf", ".xml", ".usdc", ".xml")):
        out = str(tmp_path / f"{number}{suffix}")
        assert main(["convert", before, out, *free]) == 0
        said = capsys.readouterr()
        assert said.out == f"{out}\n"
        assert ("whether the base is free" in said.err) == (suffix == ".urdf")
        before, free = out, ["--floating-base"] if suffix == ".urdf" else []
        options = {"floating_base": True} if free else {}
        model = sim.load(out, dtype="float64", **options)
        assert model.joint_names[1:] == first.joint_names[1:]
        np.testing.assert_allclose(sim.mass_matrix(model, first.q0[None]).numpy(), mass, rtol=0, atol=1e-10)


def test_convert_refuses_what_would_move_otherwise(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spring.xml").write_text(HOPPER.replace('name="turn"', 'name="turn" stiffness="3"'))
    assert main(["convert", "spring.xml", "out.urdf"]) == 1
    assert "error: out.urdf: URDF can't represent springs ('turn')" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["spring.xml"]
    assert main(["convert", "spring.xml", "out.urdf", "--lossy"]) == 0
    said = capsys.readouterr()
    assert said.out == "out.urdf\n"
    assert "warning: not written: springs ('turn'), which changes the motion" in said.err.splitlines()
    assert (
        "warning: not written: geometry of the world ('floor'); add it when the file is read" in said.err.splitlines()
    )
    assert sim.load("out.urdf").joint_names == ("up", "turn")


def test_simulate(hopper, tmp_path):
    """From a keyframe, whose control is held, with the step of the file."""
    out = tmp_path / "states.npz"
    assert main(["simulate", hopper, "--seconds", "0.8", "--keyframe", "high", "--worlds", "2", "--out", str(out)]) == 0
    found = np.load(out)
    with pytest.warns(sim.MJCFWarning, match="ignored: sensor 0"):
        model = sim.load(hopper)
    simulator = sim.Simulator(model, 0.005, num_worlds=2)
    begin = simulator.state(np.tile([0.5, 0.4], (2, 1)), np.tile([0.0, 1.0], (2, 1)))
    expected = simulator.rollout(begin, steps=160, control=np.full((160, 2, 1), 2.0))
    np.testing.assert_array_equal(found["q"], expected.q.numpy())
    np.testing.assert_array_equal(found["qd"], expected.qd.numpy())
    assert float(found["dt"]) == 0.005
    options = ["--seconds", "0.8", "--keyframe", "high", "--law", "mujoco", "--out", str(out)]
    assert main(["simulate", hopper, *options]) == 0
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    begin = simulator.state([0.5, 0.4], [0.0, 1.0])
    expected = simulator.rollout(begin, steps=160, control=np.full((160, 1), 2.0))
    np.testing.assert_array_equal(np.load(out)["q"], expected.q.numpy())
    assert found["joint_names"].tolist() == ["up", "turn"]


def test_pictures(hopper, tmp_path):
    size = ["--width", "40", "--height", "30"]
    assert main(["render", hopper, "--out", str(tmp_path / "a.png"), *size]) == 0
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (40, 30)
        first = picture.tobytes()
    worlds = ["--steps", "40", "--worlds", "2", "--noise", "1"]
    assert main(["render", hopper, *worlds, "--out", str(tmp_path / "a.png"), *size]) == 0
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.tobytes() != first
    assert main(["render", hopper, "--seconds", "0.1", "--fps", "20", "--out", str(tmp_path / "a.gif"), *size]) == 0
    with Image.open(tmp_path / "a.gif") as animation:
        assert animation.n_frames == 3
    worlds = ["--worlds", "2", "--noise", "0.1", "--seconds", "0.1"]
    assert main(["render", hopper, *worlds, "--out", str(tmp_path / "a.mp4"), *size]) == 0
    assert (tmp_path / "a.mp4").stat().st_size > 0
    np.testing.assert_array_equal(every(21, 0.005, 20.0), [0, 10, 20])


SEEN = """<mujoco><worldbody><geom type="plane" size="2 2 .1"/><light pos="0 0 3"/>
<body name="cart" pos="0 0 .5"><joint name="slide" type="slide" axis="1 0 0"/><geom size=".1"/>
<camera name="on cart" pos="0 -2 0" xyaxes="1 0 0 0 0 1"/></body>
<geom type="box" size=".1 .1 .1" pos=".8 .5 .5" rgba="1 0 0 1"/></worldbody>
<keyframe><key name="fast" qvel="1"/></keyframe></mujoco>"""


def test_simulate_through_a_camera(tmp_path):
    """The red box at rest moves to the left in pictures of the camera on the cart, as far as the cart moves."""
    path = tmp_path / "seen.xml"
    path.write_text(SEEN)
    options = ["--keyframe", "fast", "--seconds", "0.4", "--camera", "on cart", "--width", "64", "--height", "48"]
    for name, rate in (("a.npz", ["--fps", "5"]), ("a.gif", ["--fps", "5"]), ("a.png", [])):
        assert main(["simulate", str(path), *options, *rate, "--out", str(tmp_path / name)]) == 0
    found = np.load(tmp_path / "a.npz")
    assert found["pictures"].shape == (3, 48, 64, 3)
    np.testing.assert_allclose(found["picture_times"], [0.0, 0.2, 0.4])
    colors = found["pictures"].astype(int)
    columns = np.array([np.nonzero(frame[..., 0] > 2 * frame[..., 1])[1].max() for frame in colors])
    # the right edge of the box's face: 48 pixels for the 45 degrees of a camera 2.4 m in front of it
    focal = 24.0 / np.tan(np.radians(22.5))
    seen = found["q"][:, 0, 0][[0, 100, 200]]
    np.testing.assert_allclose(columns + 1, 32.0 + focal * (0.9 - seen) / 2.4, atol=1.0)
    with Image.open(tmp_path / "a.gif") as animation:
        assert animation.n_frames == 3
    with Image.open(tmp_path / "a.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), found["pictures"][-1])


def test_pictures_of_a_policy(capsys, tmp_path):
    """As of a file; its task has no cameras of its own."""
    options = ["train", "Pendulum", "--iterations", "1", "--envs", "4", "--out", str(tmp_path)]
    assert main(options) == 0
    capsys.readouterr()
    play = ["simulate", "--policy", str(tmp_path / "policy.pt"), "--steps", "6"]
    size = ["--width", "40", "--height", "30"]
    assert main([*play, "--fps", "30", "--out", str(tmp_path / "a.gif"), *size, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 6
    with Image.open(tmp_path / "a.gif") as animation:
        assert animation.n_frames == 4
    assert main([*play, "--camera", "top", "--out", str(tmp_path / "b.gif")]) == 2
    assert "no camera 'top'; the model has none" in capsys.readouterr().err


def test_motion_as_usd(hopper, tmp_path):
    from pxr import Usd

    out = tmp_path / "motion.usdc"
    assert main(["simulate", hopper, "--steps", "40", "--fps", "50", "--out", str(out)]) == 0
    assert Usd.Stage.Open(str(out)).GetEndTimeCode() == 10.0


def test_frames_are_at_most_as_many_as_steps(capsys, hopper, tmp_path):
    """The hopper takes 200 steps a second."""
    from pxr import Usd

    out = tmp_path / "motion.usda"
    assert main(["simulate", hopper, "--steps", "4", "--fps", "1e9", "--out", str(out)]) == 0
    said = capsys.readouterr().err.splitlines()
    assert "warning: --fps 1e+09 exceeds the 200 steps per second; writing one frame per step" in said
    stage = Usd.Stage.Open(str(out))
    assert (stage.GetEndTimeCode(), stage.GetTimeCodesPerSecond()) == (4.0, 200.0)
    assert frames_per_second(None, 30.0, 0.1) == 10.0
    assert frames_per_second(25.0, 30.0, 0.04) == 25.0
    assert capsys.readouterr().err == ""


def test_a_file_where_nothing_moves(capsys, tmp_path):
    """It can be drawn, from above too, and has no overlaps to look for."""
    path = tmp_path / "still.xml"
    path.write_text("""<mujoco><worldbody><geom type="plane" size="1 1 1"/>
<geom type="box" size=".1 .1 .1" rgba="1 0 0 1"/></worldbody></mujoco>""")
    options = ["--width", "40", "--height", "30", "--elevation", "90"]
    assert main(["render", str(path), "--out", str(tmp_path / "still.png"), *options]) == 0
    with Image.open(tmp_path / "still.png") as picture:
        pixels = np.asarray(picture).astype(int)
    assert picture.size == (40, 30)
    assert pixels[15, 20, 0] > 2 * pixels[15, 20, 1]  # the red box in the middle
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out.endswith("still.xml: good, 0 warnings\n")


def test_warmup(capsys, hopper):
    assert main(["warmup", hopper, "--gradients"]) == 0
    assert capsys.readouterr().out.startswith("ready after ")


def test_warmup_without_a_file(monkeypatch):
    loaded = {}
    monkeypatch.setattr(wp.Module, "load", lambda module, device, block_dim: loaded.update({module.name: block_dim}))
    assert main(["warmup"]) == 0
    assert {"backswing.integrate.float32", "backswing.aba.float32", "backswing.aba.float32x8"} <= set(loaded)
    # Only what turns single precision into double and back, where that is within.
    assert {name for name in loaded if "float64" in name} == {"backswing.precision.float64"}
    assert set(loaded.values()) == {1}, "launches on a CPU would compile them again"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "the following arguments are required: COMMAND"),
        (["fly"], 2, "invalid choice: 'fly'"),
        (["info"], 2, "the following arguments are required: FILE"),
        (["info", "gone.urdf"], 1, "error: gone.urdf: can't be read: No such file"),
        (["info", "robot.step"], 1, "error: robot.step: files of type '.step' are not supported; supported are .urdf"),
        (["check", "HOPPER", "--floating-base"], 2, "--floating-base applies to URDF files"),
        (["convert", "HOPPER", "out.stl"], 2, "'.stl'; choose one of .urdf, .xml, .usda, .usdc"),
        (["convert", "HOPPER", "/gone/out.usda"], 2, "/gone "),
        (["simulate", "HOPPER", "--out", "x.npz"], 2, "--steps and --seconds"),
        (["simulate", "HOPPER", "--steps", "0", "--out", "x.npz"], 2, " 0 steps"),
        (["simulate", "HOPPER", "--steps", "1", "--dt", "-1", "--out", "x.npz"], 2, "--dt -1.0 must be positive"),
        (["simulate", "HOPPER", "--seconds", "nan", "--out", "x.npz"], 2, "--seconds nan must be finite"),
        (["simulate", "HOPPER", "--seconds", "inf", "--out", "x.npz"], 2, "--seconds inf must be finite"),
        (["simulate", "HOPPER", "--steps", "1", "--worlds", "0", "--out", "x.npz"], 2, "--worlds 0 must be"),
        (["simulate", "HOPPER", "--steps", "1", "--seed", "-1", "--out", "x.npz"], 2, "--seed -1 must not be negative"),
        (["simulate", "HOPPER", "--steps", "1", "--noise", "-1", "--out", "x.npz"], 2, "--noise -1.0 must be finite"),
        (["simulate", "HOPPER", "--steps", "1", "--noise", "nan", "--out", "x.npz"], 2, "--noise nan must be finite"),
        (["simulate", "HOPPER", "--steps", "1", "--fps", "0", "--out", "x.usda"], 2, "--fps 0.0 must be positive"),
        (["simulate", "HOPPER", "--steps", "1", "--keyframe", "low", "--out", "x.npz"], 2, "no keyframe 'low'"),
        (["simulate", "HOPPER", "--steps", "1", "--device", "gpu", "--out", "x.npz"], 1, "there is no 'gpu'"),
        (["simulate", "HOPPER", "--steps", "1", "--threads-per-world", "8", "--out", "x.npz"], 2, "a CPU has one"),
        (["simulate", "HOPPER", "--steps", "3", "--noise", "1e38", "--dt", "9", "--out", "x.npz"], 1, "isn't finite"),
        (["simulate", "HOPPER", "--steps", "1", "--camera", "top", "--out", "x.gif"], 2, "the model has none"),
        (["simulate", "HOPPER", "--steps", "1", "--camera", "top", "--out", "x.usda"], 2, "--camera: x.usda would"),
        (["simulate", "HOPPER", "--steps", "1", "--azimuth", "9", "--out", "x.npz"], 2, "--azimuth: x.npz would"),
        (["simulate", "HOPPER", "--steps", "1", "--azimuth", "nan", "--out", "x.png"], 2, "--azimuth nan must be"),
        (["simulate", "HOPPER", "--steps", "1", "--out", "x.txt"], 2, "choose one of .npz, .usda"),
        (["render", "HOPPER", "--worlds", "0", "--out", "x.png"], 2, "--worlds 0 must be at least 1"),
        (["info", "HOPPER", "--package-dir", "."], 2, "--package-dir applies to URDF and SDF files"),
        (["render", "HOPPER", "--steps", "1", "--fps", "1e9", "--out", "x.gif"], 2, "maximum of 50"),
        (["render", "HOPPER", "--worlds", "2", "--azimuth", "9", "--out", "x.gif"], 2, "--azimuth and --elevation"),
        (["render", "HOPPER", "--out", "x.png", "--width", "0"], 2, "--width 0, --height 480"),
        (["view", "HOPPER", "--trajectory", "gone.npz"], 1, "gone.npz: not a readable file of states (.npz): "),
        (["view", "HOPPER", "--trajectory", "HOPPER"], 1, "hopper.xml: not a readable file of states"),
        (["view", "HOPPER", "--trajectory", "x.npz", "--steps", "1"], 2, "--trajectory contains its worlds"),
        (["view", "HOPPER", "--target", "rod", "0", "0", "1"], 2, "--target requires"),
        (["view", "HOPPER", "--steps", "1", "--target", "rod", "0", "x", "1"], 2, "--target rod 0 x 1: "),
        (["view", "HOPPER", "--steps", "1", "--target", "rid", "0", "0", "1"], 1, "no frame named 'rid'"),
        (["view", "HOPPER", "--worlds", "0"], 2, "--worlds 0 must be at least 1"),
        (["view", "HOPPER", "--port", "65536"], 1, "port is 65536; it must be an integer from 0 to 65535"),
        (["warmup", "--gradients"], 2, "--gradients requires FILE"),
    ],
)  # fmt: skip
def test_messages_and_exit_status(capsys, hopper, monkeypatch, tmp_path, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    assert main([hopper if argument == "HOPPER" else argument for argument in arguments]) == status
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hopper.xml"]


def test_control_c_while_a_command_is_loaded(capsys, monkeypatch):
    """PyTorch and viser take a second or more."""

    def stopped(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", stopped)
    assert main(["view", "robot.urdf"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_help(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"backswing {sim.__version__}\n"
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        assert f"usage: backswing {command}" in capsys.readouterr().out
    done = subprocess.run([sys.executable, "-m", "sim", "--help"], capture_output=True, text=True, check=True)
    assert all(command in done.stdout for command in COMMANDS)


def test_a_file_is_not_written_over_itself(capsys, tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(Path(ARM).read_text())
    assert main(["convert", str(path), str(tmp_path / "." / "arm.urdf")]) == 2
    assert "OUT is the input file" in capsys.readouterr().err
    assert path.read_text() == Path(ARM).read_text()


@pytest.mark.parametrize("more", [["--steps", "100000000000"], ["--seconds", "1", "--worlds", "100000000"]])
def test_motions_that_do_not_fit_into_memory(capsys, tmp_path, more):
    assert main(["simulate", ARM, *more, "--out", str(tmp_path / "a.npz")]) == 1
    assert re.search(r"would take [\d.]+ [TP]B of memory, but this machine has [\d.]+ [GT]B", capsys.readouterr().err)


def test_an_animation_that_does_not_fit_into_memory(capsys, hopper, tmp_path):
    more = ["--seconds", "20", "--width", "16000", "--height", "8000", "--fps", "50"]
    assert main(["render", hopper, *more, "--out", str(tmp_path / "a.gif")]) == 1
    assert "1001 pictures in a.gif would take 769 GB of memory, but this machine has" in capsys.readouterr().err


def test_a_picture_that_does_not_fit_into_memory(capsys, tmp_path):
    size = ["--width", "1000000", "--height", "1000000"]
    assert main(["render", ARM, *size, "--out", str(tmp_path / "a.png")]) == 1
    assert "at most 134217728 pixels are supported" in capsys.readouterr().err


def test_the_law_of_mujoco_for_a_robot_of_another_format(tmp_path):
    out = tmp_path / "a.npz"
    assert main(["simulate", ARM, "--steps", "20", "--law", "mujoco", "--out", str(out)]) == 0
    simulator = sim.Simulator(sim.load(ARM), 1 / 240, contact=sim.MujocoContact(), device="cpu")
    expected = simulator.rollout(simulator.initial_state(), steps=20).q.numpy()
    np.testing.assert_allclose(np.load(out)["q"], expected, atol=1e-6)


def test_a_ground_beside_one_that_the_file_has(capsys, tmp_path):
    """Their names differ, also in the picture of a file's own motion."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0, position=(0, 0, 1))
    model, path = builder.finalize(), tmp_path / "scene.usda"
    sim.usd.write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=30)
    assert main(["info", str(path), "--ground", "0.1"]) == 0
    assert "2 plane" in capsys.readouterr().out
    assert (
        main(["render", str(path), "--ground", "--width", "64", "--height", "48", "--out", str(tmp_path / "a.png")])
        == 0
    )


CAMERAS = """<mujoco><worldbody><geom type="plane" size="1 1 1" rgba="1 0 0 1"/><camera name="down" pos="0 0 2"/>
<body pos="0 0 1"><joint axis="0 1 0"/><geom size="0.05" pos="0.3 0 0"/><camera name="up" euler="180 0 0"/></body>
</worldbody></mujoco>"""


def test_render_looks_through_a_camera_of_the_file(capsys, tmp_path):
    """Down at a red floor, and up at the sky, from a link that moves."""
    path = tmp_path / "cameras.xml"
    path.write_text(CAMERAS)
    pictures = {}
    for name in ("down", "up"):
        out = tmp_path / f"{name}.png"
        assert main(["render", str(path), "--camera", name, "--out", str(out), "--width", "32", "--height", "24"]) == 0
        pictures[name] = np.asarray(Image.open(out))[2, 2].astype(int)
    assert pictures["down"][0] > pictures["down"][2] + 50
    assert pictures["up"][2] >= pictures["up"][0]
    capsys.readouterr()
    assert main(["render", str(path), "--camera", "side", "--out", str(out)]) == 2
    assert "choose from: down, up" in capsys.readouterr().err
    assert main(["render", str(path), "--camera", "up", "--azimuth", "3", "--out", str(out)]) == 2


def test_render_looks_through_a_named_camera_of_a_stage(capsys, tmp_path):
    from pxr import Gf, Usd, UsdGeom

    stage = Usd.Stage.CreateNew(str(tmp_path / "stage.usda"))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    ball = UsdGeom.Sphere.Define(stage, "/Ball")
    ball.CreateDisplayColorAttr([(1.0, 0.0, 0.0)])
    for name, height in (("Near", 4.0), ("Far", 4000.0)):
        camera = UsdGeom.Camera.Define(stage, f"/{name}")
        camera.AddTranslateOp().Set(Gf.Vec3d(0.0, 0.0, height))
    stage.Save()
    middle = {}
    for name in ("Near", "Far"):
        out = tmp_path / f"{name}.png"
        words = ["render", str(tmp_path / "stage.usda"), "--camera", name, "--out", str(out)]
        assert main([*words, "--width", "33", "--height", "33"]) == 0
        middle[name] = np.asarray(Image.open(out))[16, 12].astype(int)
    assert middle["Near"][0] > middle["Near"][2] + 50
    assert middle["Far"][0] < middle["Far"][2] + 50
    capsys.readouterr()
    assert main(["render", str(tmp_path / "stage.usda"), "--camera", "Side", "--out", str(out)]) == 1
    assert "choose from: Near, Far" in capsys.readouterr().err


def test_results_as_json(capsys, hopper, tmp_path):
    assert main(["info", hopper, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["nq"], found["actuators"], found["keyframes"], found["trees"]) == (2, {"m": "torque"}, ["high"], 1)
    assert [link["limits"] for link in found["links"]] == [[None, None], [0.2, 1.0]]
    assert len(found["warnings"]) == 1
    assert main(["check", hopper, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["good"]
    assert len(found["warnings"]) == 2  # also that the hinge starts outside its limits
    out = str(tmp_path / "states.npz")
    assert main(["simulate", hopper, "--steps", "3", "--out", out, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["out"], found["steps"], found["dt"], found["worlds"]) == (out, 3, 0.005, 1)


def test_errors_are_one_line_and_traced_on_request(capsys, tmp_path):
    missing = str(tmp_path / "none.urdf")
    assert main(["info", missing]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert main(["info", missing, "-v"]) == 1
    assert "Traceback" in capsys.readouterr().err
    for words in (["render", ARM], ["simulate", ARM, "--out", "a.npz", "--steps", "x"], ["nothing"]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert "--help" in said


def test_simulate_a_policy(capsys, tmp_path):
    """The task's own model, one world per environment, with the policy's actions."""
    torch.manual_seed(0)
    task = sim.envs.make_task("Pendulum-1", substeps=1)
    env = sim.envs.VectorEnv(task, 2, device="cpu", seed=3)
    policy = sim.learn.Policy(env.num_observations, env.action_low, env.action_high)
    file, out = tmp_path / "policy.pt", tmp_path / "states.npz"
    sim.learn.save_policy(file, policy, "Pendulum-1", {"substeps": 1})
    words = ["simulate", "--policy", str(file), "--out", str(out)]
    assert main([*words, "--steps", "4", "--worlds", "2", "--seed", "3"]) == 0
    stored = np.load(out)
    observation, _ = env.reset()
    for step in range(4):
        np.testing.assert_array_equal(stored["q"][step], env.state.q.numpy())
        action = policy(observation).detach()
        np.testing.assert_array_equal(stored["actions"][step], action.numpy())
        observation = env.step(action)[0]
    np.testing.assert_array_equal(stored["q"][4], env.state.q.numpy())
    assert stored["dt"] == task.step_dt
    capsys.readouterr()
    for wrong in ([ARM], ["--law", "hard"], ["--dt", "0.1"]):
        assert main([*words, "--steps", "4", *wrong]) == 2
    assert main([*words[:-2], "--out", str(out), "--steps", "0"]) == 2


def test_completion_knows_commands_and_options(tmp_path):
    """The script of bash, run by bash."""
    script = subprocess.run(
        [sys.executable, "-m", "sim", "completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    asked = "COMP_WORDS=(backswing {0}); COMP_CWORD={1}; _shtab_backswing backswing; echo ${{COMPREPLY[@]}}"
    for words, at, wanted in (("ren", 1, "render"), ("render --cam", 2, "--camera")):
        said = subprocess.run(
            ["bash", "-c", f"{script}\n{asked.format(words, at)}"], capture_output=True, text=True, check=True
        )
        assert wanted in said.stdout.split()
