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

# A pendulum's damping from its motion, and a torque that holds it up.
builder = sim.ModelBuilder()
builder.add_link("bob", mass=1.0, com=(0, 0, -0.5), inertia=(0.02, 0.02, 0.001))
builder.add_joint("hinge", "continuous", child="bob", axis=(0, 1, 0), damping=0.5)
pendulum = builder.finalize("float64")
swinging = sim.Simulator(pendulum, dt=0.01, device="cpu", parameters={"damping": [0.3]})
q = swinging.rollout(swinging.state([1.0]), steps=100).q.numpy()[:, 0]
log = sim.identify.Log(pendulum, 0.01 * np.arange(101), q)
fit = sim.identify.fit_trajectories(pendulum, log, ["damping of hinge"], dt=0.01, noise={"q": 1e-3})
assert abs(fit.estimate["damping of hinge"] - 0.3) < 1e-3, fit.estimate
costs = [sim.optimise.Posture([0.5], weight=100.0, at=-1), sim.optimise.Effort(1e-3)]
problem = sim.optimise.Problem(swinging, stages=20, costs=costs, hold=5, limits=(-9.0, 9.0))
assert abs(sim.optimise.ilqr(problem).q[-1, 0] - 0.5) < 0.05

# Rays on stairs.
ground = sim.terrain.generate([sim.terrain.Stairs()], levels=2, size=4.0, seed=0)
scene = sim.ModelBuilder()
ground.add_to(scene)
scene.add_sphere(radius=0.1, mass=1.0, position=(*ground.origins[1, 0][:2], 5.0), name="ball")
stairs, others = sim.torch.Robot(scene.finalize("float64")), sim.RayTargets(exclude=["ball"])
places = sim.rays.grid_pattern((1.0, 1.0), 0.5)
heights = 5.0 + sim.torch.height_scan(stairs, stairs.initial_coordinates(), "ball", places, others)
expected = ground.height(ground.origins[1, 0][:2] + places)
assert np.allclose(heights, expected, atol=1e-9), (heights, expected)
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
