"""Motions written frame by frame."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Sdf, Usd, UsdGeom

import sim
from sim.usd import UsdRecorder, write, write_usd
from tests.errors import raises_naming
from tests.usd.test_stage import all_joints_model, link_poses, validation_errors, wave


def samples(path):
    """Every attribute of a stage with its default and its time samples."""
    stage = Usd.Stage.Open(str(path))
    return {
        str(attribute.GetPath()): (
            str(attribute.Get()),
            [(time, str(attribute.Get(time))) for time in attribute.GetTimeSamples()],
        )
        for prim in stage.Traverse()
        for attribute in prim.GetAttributes()
    }


@pytest.mark.parametrize("worlds", [1, 3])
def test_frames_one_by_one_make_the_same_stage(tmp_path, worlds):
    model = all_joints_model()
    poses = np.stack([link_poses(model, wave(model, 5, seed)) for seed in range(worlds)], axis=1)
    whole = write_usd(tmp_path / "whole.usdc", model, poses if worlds > 1 else poses[:, 0], fps=24)
    with UsdRecorder(tmp_path / "grown.usdc", model, fps=24, num_worlds=worlds) as recorder:
        for frame in poses:
            recorder.append(frame)
    assert samples(tmp_path / "grown.usdc") == samples(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grown.usdc", "whole.usdc"]


def test_frames_leave_the_memory(tmp_path, monkeypatch):
    """A binary file grows while frames are added."""
    monkeypatch.setattr(write, "FLUSH_AFTER", 10_000)
    model = all_joints_model()
    worlds = 200
    poses = np.repeat(link_poses(model, wave(model, 20))[:, None], worlds, axis=1)
    with UsdRecorder(tmp_path / "motion.usdc", model, fps=24, num_worlds=worlds) as recorder:
        (growing,) = tmp_path.glob(".writing-*/new.usdc")
        sizes = []
        for frame in poses:
            recorder.append(frame)
            sizes.append(growing.stat().st_size)
    assert sizes[5] > 50_000
    assert np.count_nonzero(np.diff(sizes)) >= 8
    # 28 bytes for each world, link that is seen and frame, and little beside.
    shown = len({geometry.link for geometry in model.geometries if geometry.link >= 0})
    assert (tmp_path / "motion.usdc").stat().st_size < 1.5 * 28 * worlds * shown * len(poses) + 200_000


def test_what_came_before_an_error_is_kept(tmp_path):
    model = all_joints_model()
    poses = link_poses(model, wave(model, 3))

    def record():
        with UsdRecorder(tmp_path / "motion.usda", model, fps=24) as recorder:
            recorder.append(poses[0])
            recorder.append(poses[1])
            recorder.append(poses[2, 1:])

    with raises_naming("poses", "shape"):
        record()
    assert Usd.Stage.Open(str(tmp_path / "motion.usda")).GetEndTimeCode() == 1.0
    with UsdRecorder(tmp_path / "empty.usda", model, fps=24):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["motion.usda"]


@pytest.mark.parametrize("frames", [0, 1])
def test_a_closed_recorder_takes_no_more_frames(tmp_path, frames):
    """A second close, such as that at the end of a with block, leaves the file as it is."""
    model = all_joints_model()
    poses = link_poses(model, wave(model, 2))
    with UsdRecorder(tmp_path / "motion.usda", model, fps=24) as recorder:
        for frame in poses[:frames]:
            recorder.append(frame)
        recorder.close()
        written = [path.read_bytes() for path in tmp_path.iterdir()]
        with raises_naming("motion.usda", "closed"):
            recorder.append(poses[1])
    assert [path.read_bytes() for path in tmp_path.iterdir()] == written
    assert len(written) == frames


def test_a_link_that_waits_moves_only_then(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    builder.add_sphere(radius=0.1, mass=1.0, name="rock", position=(1, 0, 0))
    model = builder.finalize()
    poses = np.tile(link_poses(model, model.q0[None]), (6, 1, 1))
    poses[4:, 0, 0] = [1.0, 2.0]
    stage = Usd.Stage.Open(str(write_usd(tmp_path / "x.usda", model, poses, fps=24)))
    translate = stage.GetAttributeAtPath("/World/ball.xformOp:translate")
    assert [translate.Get(time)[0] for time in range(6)] == [0, 0, 0, 0, 1, 2]
    assert not stage.GetAttributeAtPath("/World/rock.xformOp:translate").GetTimeSamples()


def test_contacts_are_a_layer_that_can_be_muted(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 0, 0.1))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, dt=1 / 240, num_worlds=1, device="cpu")
    state = simulator.initial_state()
    path = tmp_path / "box.usda"
    with UsdRecorder(path, model, fps=240) as recorder:
        recorder.append(sim.forward_kinematics(model, state.q))
        for _ in range(3):
            contacts = simulator.contacts(state)
            state = simulator.step(state)
            recorder.append(sim.forward_kinematics(model, state.q), contacts)
    assert validation_errors(path) == []
    stage = Usd.Stage.Open(str(path))
    points = UsdGeom.PointInstancer(stage.GetPrimAtPath("/World/Contacts/points"))
    forces = UsdGeom.BasisCurves(stage.GetPrimAtPath("/World/Contacts/forces"))
    assert len(points.GetPositionsAttr().Get(0)) == 0
    assert len(points.GetPositionsAttr().Get(3)) == 4
    assert list(forces.GetCurveVertexCountsAttr().Get(3)) == [2, 2, 2, 2]
    # Together the four lines are as long as the weight, half a metre, and point up.
    lines = np.array(forces.GetPointsAttr().Get(3)).reshape(4, 2, 3)
    assert_allclose((lines[:, 1] - lines[:, 0]).sum(axis=0), (0, 0, 0.5), atol=1e-3)
    layer = Sdf.Layer.Find(str(tmp_path / "box_contacts.usda"))
    stage.MuteLayer(layer.identifier)
    assert not stage.GetPrimAtPath("/World/Contacts")
    assert stage.GetPrimAtPath("/World/box_0")


def test_bad_arguments_are_refused_and_leave_nothing(tmp_path):
    model = all_joints_model()
    for name, options, message in (
        ("x.usdz", {"fps": 10}, "must end in"),
        ("x.usda", {"fps": -1}, "fps"),
        ("x.usda", {"fps": 10, "num_worlds": 0}, "num_worlds"),
        ("x.usda", {"fps": 10, "num_worlds": 2.5}, "num_worlds is 2.5"),
        ("x.usda", {"fps": 10, "force_scale": "x"}, "force_scale is 'x'; it must be one number"),
        ("x.usda", {"fps": 10, "camera": 3}, "camera is a int; it must be a sim.render.Camera"),
        ("none/x.usda", {"fps": 10}, "no folder"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            UsdRecorder(tmp_path / name, model, **options)
    assert list(tmp_path.iterdir()) == []
