"""The benchmark of cameras: both programs draw the same scene, and its page."""

import argparse

import numpy as np
import pytest

from bench import cameras, speed_page


@pytest.mark.parametrize("peer", [(50.0, 100.0, 3, "Mesa"), (None, None, None, None)])
def test_page_of_cameras(peer):
    machine = {"processor": "a core", "load": "0.1", "date": "today"}
    names = ("mujoco", "mujoco_without_shadows", "mujoco_geometries", "renderer")
    record = {"scene": "cart", "geometries": 3, "worlds": 64, "frames_per_second": 1000.0, "machine": machine}
    text = speed_page.cameras([record | dict(zip(names, peer, strict=True))])
    assert f"| cart | 3 | 1,000 | {'50 | 20 | 100 | 10.0' if peer[0] else '- | - | - | -'} |" in text
    assert ("MuJoCo draws" in text) == (peer[0] is not None)


def test_scenes_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(cameras, "mujoco_rates", lambda *_: (None, None, None, None))
    monkeypatch.setattr(cameras, "time_call", lambda call, **_: call() or argparse.Namespace(median=0.5))
    options = argparse.Namespace(worlds=4, device="cpu")
    row = cameras.measure("quadruped", cameras.write_scene("quadruped", tmp_path), options)
    assert row.frames_per_second == 8.0
    assert row.geometries > 10


def test_quaternions_are_those_of_mujoco(tmp_path):
    mujoco = pytest.importorskip("mujoco")
    path = cameras.write_scene("quadruped", tmp_path)
    builder = cameras.sim.ModelBuilder()
    builder.add_mjcf(path)
    model = builder.finalize()
    peer = mujoco.MjModel.from_xml_path(str(path))
    np.testing.assert_allclose(cameras.mujoco_coordinates(model, model.q0[None])[0], peer.qpos0, atol=1e-6)
