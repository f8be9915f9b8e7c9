"""Tries the built packages as a user would: each in a new environment without anything else of the repository.

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

from scenes import quadruped, throw

assert throw.ARM_URDF.is_file()
print("backswing", sim.__version__, "in", sim.__file__)
"""


def try_package(package: Path) -> None:
    """Install a package with the pinned versions into a new environment, run a program and the command.

    Raises:
        CalledProcessError: if any of them fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        flags = os.environ.get("PIP_FLAGS", "").split()
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *flags]
        subprocess.run([*install, "-c", ROOT / "constraints.txt", package], check=True)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        for command in ([python, "-c", PROGRAM], [python.with_name("backswing"), "--help"]):
            subprocess.run(command, check=True, cwd=folder, env=environment, stdout=sys.stdout)


def main() -> None:
    folder = Path(sys.argv[1])
    packages = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    if len(packages) != 2:
        raise SystemExit(f"{folder} must hold one wheel and one sdist; it holds {[path.name for path in packages]}")
    for package in packages:
        print(f"{package.name}: {package.stat().st_size / 1e6:.1f} MB", flush=True)
        try_package(package.resolve())


if __name__ == "__main__":
    main()
