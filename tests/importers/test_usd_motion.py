"""Motions stored in USD files, drawn as they are."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from pxr import Gf, Usd, UsdGeom
from scipy.spatial.transform import Rotation

import sim
from scenes import throw
from sim.cli.main import main
from sim.importers.usd.motion import read_motion
from sim.render import Camera, Renderer, render_frames
from sim.usd import write_usd
from tests.errors import refuses

SIZE = (80, 60)
CAMERA = Camera((1.6, -2.0, 1.2), (0.4, 0.0, 0.4), fov=45.0)
FRAMES, FPS = 5, 20.0

# In centimetres, Y up, of another program: an arm of two parts without any physics, a mesh that deforms, a camera that
# moves. Time samples from 10 to 34 at 24 a second.
FOREIGN = """#usda 1.0
(
  metersPerUnit = 0.01
  upAxis = "Y"
  timeCodesPerSecond = 24
)
def Xform "Arm" {
  double3 xformOp:translate.timeSamples = { 10: (0, 0, 0), 34: (0, 50, 100) }
  float3 xformOp:scale = (1, 2, 1)
  uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
  def Cube "Base" {
    double size = 20
  }
  def Xform "Tip" {
    float xformOp:rotateY.timeSamples = { 10: 0, 34: 90 }
    double3 xformOp:translate = (30, 0, 0)
    uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateY"]
    def Sphere "Ball" {
      double radius = 5
    }
  }
}
def Mesh "Flag" {
  int[] faceVertexCounts = [3]
  int[] faceVertexIndices = [0, 1, 2]
  point3f[] points.timeSamples = { 10: [(0, 0, 0), (9, 0, 0), (0, 9, 0)], 34: [(0, 0, 0), (9, 0, 0), (0, 9, 5)] }
}
def Camera "Eye" {
  float verticalAperture = 10
  float horizontalAperture = 30
  float focalLength = 5
  float focusDistance = 500
  double3 xformOp:translate.timeSamples = { 10: (0, 0, 500), 34: (100, 0, 500) }
  uniform token[] xformOpOrder = ["xformOp:translate"]
}
"""


def motion_of(model, q0):
    qd = 0.4 * np.random.default_rng(0).normal(size=(1, model.nv))
    q = np.concatenate([sim.integrate(model, q0[None], qd, 0.1 * k).numpy() for k in range(FRAMES)])
    return sim.forward_kinematics(model, q).numpy()


@pytest.fixture(scope="module")
def thrown(tmp_path_factory):
    """A model and a motion of it, and the file of that."""
    scene = throw.build()
    poses = motion_of(scene.model, scene.q0)
    path = write_usd(tmp_path_factory.mktemp("motion") / "throw.usdc", scene.model, poses, fps=FPS, camera=CAMERA)
    return scene.model, poses, path


def pictures(motion, times):
    renderer = Renderer(motion.model, width=SIZE[0], height=SIZE[1], camera=CAMERA,
                        offsets=np.zeros((motion.num_worlds, 3)))  # fmt: skip
    return np.stack([renderer.draw(motion.poses(time)) for time in times])


def test_what_was_written_is_drawn(thrown):
    model, poses, path = thrown
    motion = read_motion(path)
    assert (motion.moves, motion.seconds, motion.codes_per_second) == (True, (FRAMES - 1) / FPS, FPS)
    found = pictures(motion, np.arange(FRAMES) / FPS)
    assert_array_equal(found, render_frames(model, poses, CAMERA, *SIZE))
    assert (found[0] != found[-1]).any()
    seen = motion.camera(0.0, 4 / 3)
    assert_allclose(seen.axes(), CAMERA.axes(), atol=1e-7)
    assert_allclose([*seen.position, seen.fov], [*CAMERA.position, CAMERA.fov], rtol=1e-6)
    assert_allclose(seen.target, CAMERA.target, atol=1e-6)


def test_many_worlds_are_drawn(thrown, tmp_path):
    model, poses, _ = thrown
    worlds = np.repeat(poses[:, None], 3, axis=1)
    worlds[:, 1:, :, 0] += 0.3
    worlds[:, 2] = worlds[::-1, 2]
    motion = read_motion(write_usd(tmp_path / "many.usdc", model, worlds, fps=FPS))
    assert (motion.num_worlds, motion.moves) == (3, True)
    renderer = Renderer(model, width=SIZE[0], height=SIZE[1], camera=CAMERA, offsets=np.zeros((3, 3)))
    expected = np.stack([renderer.draw(frame) for frame in worlds]).astype(int)
    # Positions, quaternions and points are in single precision there, so that a ray may pass an edge on the other side.
    off = np.abs(pictures(motion, np.arange(FRAMES) / FPS) - expected).max(axis=-1)
    assert (off > 2).mean() < 1e-3
    assert off.mean() < 0.02


def test_files_of_others_move_too(tmp_path):
    path = tmp_path / "foreign.usda"
    path.write_text(FOREIGN)
    with pytest.warns(sim.USDWarning, match="prim '/Flag' deforms; it is drawn with its first shape"):
        motion = read_motion(path)
    assert (motion.start, motion.end, motion.codes_per_second) == (10.0, 34.0, 24.0)
    assert set(motion.model.link_names) == {"Arm", "Arm/Tip"}
    for second in (0.0, 0.25, 1.0):
        poses = dict(zip(motion.model.link_names, motion.poses(second)[0], strict=True))
        up = Rotation.from_euler("x", 90, degrees=True)
        assert_allclose(poses["Arm"][:3], up.apply([0.0, 0.5 * second, 1.0 * second]), atol=1e-9)
        assert_allclose(poses["Arm/Tip"][:3], up.apply([0.3, 0.5 * second, 1.0 * second]), atol=1e-9)
        turn = up * Rotation.from_euler("y", 90.0 * second, degrees=True)
        assert (Rotation.from_quat(poses["Arm/Tip"][3:]).inv() * turn).magnitude() < 1e-6
    sizes = {geometry.name: sorted(geometry.size) for geometry in motion.model.geometries if geometry.mesh is None}
    assert_allclose(sizes["Arm/Base"], [0.1, 0.1, 0.2])
    assert_allclose(sizes["Arm/Tip/Ball"], [0.05, 0.05, 0.1])
    # All that the camera sees fits into a square picture too: there its horizontal angle counts.
    for second, aspect, tangent in ((0.0, 4.0, 1.0), (0.5, 1.0, 3.0)):
        camera = motion.camera(second, aspect)
        assert_allclose(camera.position, [second, -5.0, 0.0], atol=1e-9)
        assert_allclose(camera.target, [second, 0.0, 0.0], atol=1e-9)
        assert np.tan(np.radians(camera.fov) / 2) == pytest.approx(tangent)


def test_what_cant_be_drawn_is_said(tmp_path):
    path = str(tmp_path / "odd.usda")
    stage = Usd.Stage.CreateNew(path)
    stage.Save()
    refuses(lambda: read_motion(path), "shows nothing")
    instancer = UsdGeom.PointInstancer.Define(stage, "/Crowd")
    shapes = [UsdGeom.Cube.Define(stage, f"/Crowd/{name}").GetPath() for name in ("A", "B")]
    instancer.CreatePrototypesRel().SetTargets(shapes)
    instancer.CreateProtoIndicesAttr([0, 1])
    instancer.CreatePositionsAttr([Gf.Vec3f(0), Gf.Vec3f(1)])
    sparks = UsdGeom.PointInstancer.Define(stage, "/Sparks")  # their number changes
    sparks.CreatePrototypesRel().SetTargets([UsdGeom.Sphere.Define(stage, "/Sparks/Spark").GetPath()])
    for time in (0, 1):
        sparks.CreateProtoIndicesAttr().Set([0] * (2 + time), time)
        sparks.CreatePositionsAttr().Set([Gf.Vec3f(0.0)] * (2 + time), time)
    cube = UsdGeom.Cube.Define(stage, "/Grows")
    cube.CreateVisibilityAttr().Set("inherited", 0.0)
    cube.GetVisibilityAttr().Set("invisible", 1.0)
    scale = cube.AddScaleOp()
    scale.Set(Gf.Vec3f(1.0), 0.0)
    scale.Set(Gf.Vec3f(2.0), 1.0)
    stage.Save()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        motion = read_motion(path)
    said = " ".join(str(warning.message) for warning in caught)
    assert "not drawn: PointInstancer (2)" in said
    assert "prim '/Grows' appears and disappears" in said
    motion.poses(0.0)
    refuses(lambda: motion.poses(1.0 / 24.0), "prim '/Grows'", "transform", "time code 1", "rigid")


def test_the_command_plays(thrown, tmp_path, capsys):
    model, poses, path = thrown
    size = ["--width", str(SIZE[0]), "--height", str(SIZE[1])]
    out = tmp_path / "a.png"
    assert main(["render", str(path), "--start", "0.1", "--out", str(out), *size]) == 0
    with Image.open(out) as picture:
        assert_array_equal(np.asarray(picture), render_frames(model, poses, CAMERA, *SIZE, frames=[2])[0])
    for options, frames in (([], 5), (["--fps", "40"], 9), (["--start", "0.05", "--end", "0.15"], 3)):
        clip = tmp_path / "a.gif"
        assert main(["render", str(path), "--out", str(clip), *size, *options]) == 0
        with Image.open(clip) as animation:
            assert animation.n_frames == frames
    still = write_usd(tmp_path / "still.usda", model, poses[:1], fps=FPS)
    capsys.readouterr()
    for file, options, status, message in (
        (still, [], 2, "stores no motion"),
        (path, ["--end", "0.5"], 2, "--end 0.5 "),
        (path, ["--fps", "0"], 2, "--fps 0.0 must be positive"),
        (path, ["--floating-base"], 2, "--floating-base applies to URDF files"),
        (path, ["--dt", "0.1"], 2, "--dt: "),
        (path, ["--steps", "2", "--start", "0.1"], 2, "--start and --end"),
    ):
        assert main(["render", str(file), "--out", str(tmp_path / "b.gif"), *size, *options]) == status
        assert message in capsys.readouterr().err
    assert main(["render", str(still), "--steps", "20", "--out", str(tmp_path / "b.gif"), *size]) == 0
    with Image.open(tmp_path / "b.gif") as animation:
        assert animation.n_frames == 3


def test_a_lone_mesh_is_drawn(tmp_path):
    """Neither physics nor motion nor camera."""
    path, out = tmp_path / "cube.usda", tmp_path / "cube.png"
    about = "(\n  metersPerUnit = 1\n)"
    path.write_text(f'#usda 1.0\n{about}\ndef Cube "Box" {{\n  color3f[] primvars:displayColor = [(1, 0, 0)]\n}}\n')
    assert main(["render", str(path), "--out", str(out), "--width", "40", "--height", "30"]) == 0
    with Image.open(out) as picture:
        red = np.asarray(picture).astype(int)
    assert (red[..., 0] > 2 * red[..., 1]).sum() > 300
