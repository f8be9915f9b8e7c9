"""What ``import sim`` offers: modules on demand, a version, objects that print as one line."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sim

MODULES = ["exporters", "importers", "render", "torch", "usd", "viewer"]
ROOT = Path(__file__).parents[1]
HEAVY = ["mujoco", "pxr", "torch", "viser"]


def test_modules_are_there_after_import_sim_alone():
    """Heavy libraries come with the module that needs them, not before."""
    code = f"""
import sys, sim
assert not set({HEAVY}) & set(sys.modules), set({HEAVY}) & set(sys.modules)
assert {{*{MODULES}, "__version__", *sim.__all__}} <= set(dir(sim))
sim.render.Camera, sim.exporters.write_urdf, sim.exporters.write_mjcf
sim.ModelBuilder.add_usd, sim.importers.usd.add_usd
assert not set({HEAVY}) & set(sys.modules), set({HEAVY}) & set(sys.modules)
sim.viewer.Viewer
assert "viser" not in sys.modules
sim.usd.write_usd, sim.torch.Robot
assert "usd" in dir(sim.importers)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_not_there():
    for module in (sim, sim.importers):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'gone'"):
            _ = module.gone


def test_viewer_without_viser(monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=1.0, mass=1.0)
    with pytest.raises(sim.ModelError, match=r"package viser: pip install 'backswing\[view\]'"):
        sim.viewer.Viewer(builder.finalize())


def test_objects_print_as_one_line():
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=1.0, mass=1.0, name="ball")
    assert repr(builder) == "ModelBuilder(1 link, 1 joint, 2 geometries, 0 actuators)"
    model = builder.finalize()
    said = "Model(ball: 1 link in 1 tree, nq 7, nv 6, nu 0, 2 geometries, float32)"
    assert repr(model) == str(model) == said
    simulator = sim.Simulator(model, 0.01, num_worlds=2, device="cpu")
    assert repr(simulator) == f"Simulator(2 worlds on cpu, dt 0.01 s, {said})"
    state = simulator.state(simulator.model.q0)
    assert repr(state) == "State(q [2, 7], qd [2, 6], float32 on cpu)"
    trajectory = simulator.rollout(state, steps=5)
    shapes = "q [6, 2, 7], qd [6, 2, 6], float32 on cpu"
    assert repr(trajectory) == f"Trajectory(5 steps of 0.01 s, 2 worlds, {shapes})"
    trajectory = simulator.rollout(state, steps=4, checkpoint_interval=2)
    shapes = "q [3, 2, 7], qd [3, 2, 6], float32 on cpu"
    assert repr(trajectory) == f"Trajectory(4 steps of 0.01 s, checkpoint_interval 2, 2 worlds, {shapes})"
    warm = sim.Simulator(model, 0.01, contact=sim.PgsContact(warm_start=True))
    assert repr(warm.step(warm.state(warm.model.q0))).startswith("State(q [1, 7], qd [1, 6], impulses, float32")


def test_models_of_many_parts_and_of_none():
    builder = sim.ModelBuilder()
    for _ in range(4):
        builder.add_sphere(radius=1.0, mass=1.0)
    assert repr(builder.finalize("float64")).startswith("Model(sphere_0, sphere_1, sphere_2, ...: 4 links in 4 trees,")
    assert repr(sim.ModelBuilder().finalize()).startswith("Model(0 links in 0 trees")
    mesh = sim.model.geometries.Mesh(np.eye(3), np.array([[0, 1, 2]]))
    assert repr(mesh) == "Mesh(3 vertices, 1 faces)"


def test_one_version():
    """The package has it, pyproject.toml reads it there, the citation and the changelog name it."""
    dynamic = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]
    assert dynamic["version"] == {"attr": "sim.version.__version__"}
    assert f"\nversion: {sim.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## \[{re.escape(sim.__version__)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
