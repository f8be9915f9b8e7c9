"""Tries a built wheel as a user would: in a new environment without anything else of the repository.

The sdist is tried as well, since `python -m build` makes the wheel of it.

    python -m tests.docs.bare_environment out/dist

PIP_FLAGS goes to pip, as in the Makefile.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np
import sim

scene = sim.ModelBuilder()
scene.add_ground(friction=0.8)
scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.0999))
simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu")
trajectory = simulator.rollout(simulator.state(simulator.model.q0, [1.0, 0, 0, 0, 0, 0]), steps=100)
x = trajectory.q.numpy()[-1, 0, 0]
assert abs(x - 1.0 / (2 * 0.8 * 9.81)) < 3e-3, x
slope = trajectory.backward(np.eye(1, 7)).qd.numpy()[0, 0]
assert abs(slope - 1.0 / (0.8 * 9.81)) < 3e-3, slope

# What needs no extra can be imported without one.
import sim.envs, sim.exporters, sim.importers, sim.render, sim.torch, sim.torch.drm, sim.usd
from scenes import throw

robot = sim.torch.Robot(throw.ARM_URDF)
assert robot.forward_kinematics(robot.initial_coordinates(), "hand")[0].shape == (3,)
print("backswing", sim.__version__, "in", sim.__file__)
"""


def try_wheel(wheel: Path) -> None:
    """Install a wheel with the pinned versions into a new environment, run a program and the command.

    Raises:
        CalledProcessError: if any of them fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        flags = os.environ.get("PIP_FLAGS", "").split()
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *flags]
        subprocess.run([*install, "-c", ROOT / "constraints.txt", wheel], check=True)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        for command in (
            [python, "-c", PROGRAM],
            [python.with_name("backswing"), "info", ROOT / "scenes/robots/arm.urdf"],
        ):
            subprocess.run(command, check=True, cwd=folder, env=environment, stdout=sys.stdout)


def main() -> None:
    folder = Path(sys.argv[1])
    wheels, sources = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sources) != 1:
        raise SystemExit(f"{folder} must hold one wheel and one sdist; it holds {[*wheels, *sources]}")
    for package in (*wheels, *sources):
        print(f"{package.name}: {package.stat().st_size / 1e6:.1f} MB", flush=True)
    try_wheel(wheels[0].resolve())


if __name__ == "__main__":
    main()
