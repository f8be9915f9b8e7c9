"""Types as a user's program has them: mypy checks one from outside of the checkout, where only ``py.typed`` counts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from pathlib import Path
from typing import Any, assert_type

import backswing
import backswing.optimise
import numpy as np
import sim
import sim.diagnostics
import sim.envs
import sim.exporters
import sim.identify
import sim.learn
import sim.optimise
import sim.render
import sim.torch
import sim.usd
import sim.viewer
import torch
from sim.envs.vector_env import VectorEnv
from sim.optimise.result import Result
from sim.simulation.gradients import Gradients


def slide(path: Path) -> None:
    scene = sim.ModelBuilder()
    scene.add_ground(surface=sim.Surface(friction=0.8))
    assert_type(scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=np.zeros(3)), sim.Part)
    model = scene.finalize(dtype="float64")
    assert_type(model, sim.Model)
    assert_type(sim.load(path), sim.Model)
    simulator = sim.Simulator(model, dt=1 / 240, num_worlds=64, device="cpu", contact=sim.HardContact())
    trajectory = simulator.rollout(simulator.initial_state(), steps=100)
    assert_type(trajectory, sim.Trajectory)
    assert_type(trajectory.state(100), sim.State)
    assert_type(trajectory.backward(parameters=["friction"]), Gradients)
    assert_type(sim.render.render_frames(model, model.q0), np.ndarray[tuple[Any, ...], np.dtype[Any]])
    assert_type(sim.usd.write_usd(path, model, model.q0, fps=30.0), Path)
    assert_type(sim.exporters.write_mjcf(path, model), Path)
    sim.viewer.Viewer(model)


def differentiate(problem: sim.optimise.Problem, simulator: sim.Simulator) -> None:
    q, qd = sim.torch.rollout(simulator, torch.zeros(64, 7), torch.zeros(64, 6), steps=3)
    assert_type(q, torch.Tensor)
    assert_type(sim.torch.Robot("arm.urdf"), backswing.torch.Robot)
    assert_type(sim.optimise.ilqr(problem), Result)
    assert_type(backswing.optimise.ilqr(problem).controls, np.ndarray[tuple[Any, ...], np.dtype[Any]])
    assert_type(sim.envs.make("Ant", num_envs=4), VectorEnv)


def wrong(model: sim.Model) -> None:
    sim.Simulator(model, dt="1 / 240")
    model.no_such_attribute
"""


@pytest.mark.slow
def test_a_program_of_a_user(tmp_path: Path) -> None:
    """All types are known, and errors are found where the program has them, and nowhere else."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # As installed or editable: what stands in the folder of the tests doesn't count.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    command = [sys.executable, "-m", "mypy", "--no-incremental", "--no-error-summary", str(program)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found = [line for line in ran.stdout.splitlines() if ": error:" in line]
    lines = PROGRAM.splitlines()
    expected = [number for number, line in enumerate(lines, 1) if line.strip() in lines[-2:] or line in lines[-2:]]
    assert [int(line.split(":")[1]) for line in found] == expected, ran.stdout + ran.stderr
    assert "[arg-type]" in found[0]
    assert "[attr-defined]" in found[1]
