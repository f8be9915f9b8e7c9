"""Try a built wheel as a user would: in a new environment without anything else of the repository.

    python -m tests.docs.bare_environment out/dist

The sdist is tried as well, since `python -m build` makes the wheel of it. Of two wheels the one with compiled kernels
is tried, see ``docs/compiled_wheel.py``: with it nothing may be compiled. PIP_FLAGS goes to pip, as in the Makefile.
Beside the packages it writes what a release has of its dependencies: their bill of materials, and a file of their
versions and hashes for `pip install --require-hashes -r`. Needs cyclonedx-bom and uv.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
# End of the name of a wheel without compiled kernels.
PURE = "-none-any.whl"
PROGRAM = """
import backswing.torch
import numpy as np
import sim

# What needs no extra can be imported without one.
import sim.envs, sim.exporters, sim.importers, sim.learn, sim.render, sim.torch, sim.torch.drm, sim.usd
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

# A policy for a cart-pole, by some steps of a training.
training = sim.learn.train("CartpoleSwingup", iterations=2, device="cpu", envs=4, horizon=8, folder="policy")
assert sim.learn.load_policy("policy/policy.pt")[0].num_observations == training.policy.num_observations

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


def readme_programs() -> tuple[str, str]:
    """Return the first program of README, and the first two as one, since the second goes on where the first ends."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    check = "assert tau.grad.abs().max() > 0.0 and friction.grad.abs().max() > 0.0"
    return blocks[0], "\n".join([*blocks[:2], check])


def try_wheel(wheel: Path) -> None:
    """Install a wheel with the pinned versions into a new environment, and run programs and the command.

    Raises:
        CalledProcessError, SystemExit: as :func:`run_programs`.
    """
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        flags = os.environ.get("PIP_FLAGS", "").split()
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *flags]
        subprocess.run([*install, "-c", ROOT / "constraints.txt", wheel], check=True)
        write_materials(python, wheel.with_name(f"backswing-{version}.cdx.json"))
        write_requirements(wheel.with_name(f"requirements-{version}.txt"))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        run_programs(python, Path(folder), environment, compiled=not wheel.name.endswith(PURE))
        for command in (
            [python, "-c", f"import sim; assert sim.__version__ == {version!r}, sim.__version__"],
            [python.with_name("backswing"), "info", ROOT / "scenes/robots/arm.urdf"],
        ):
            subprocess.run(command, check=True, cwd=folder, env=environment, stdout=sys.stdout)


def run_programs(python: Path, folder: Path, environment: dict[str, str], compiled: bool) -> None:
    """Run the programs, and print their times.

    Args:
        python: interpreter of the environment.
        folder: the working folder.
        environment: variables of the environment.
        compiled: whether the wheel has compiled kernels. The first program then begins with an empty kernel cache, and
            nothing may be compiled.

    Raises:
        CalledProcessError: if one of them fails.
        SystemExit: if kernels are compiled that the wheel should have.
    """
    if compiled:
        environment = environment | {"WARP_CACHE_PATH": str(folder / "kernels")}
    first, both = readme_programs()
    for name, program in {"README's ten lines": first, "README's first two programs": both, "others": PROGRAM}.items():
        began = time.perf_counter()
        command = [python, "-c", program]
        done = subprocess.run(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        print(done.stderr, end="", file=sys.stderr, flush=True)
        done.check_returncode()
        if compiled and "compiling" in done.stderr:
            raise SystemExit(f"{name}: kernels were compiled that the wheel should have")
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)


def write_materials(python: Path, out: Path) -> None:
    """Write the bill of materials of an environment, in CycloneDX's format."""
    tool = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-file", out, python]
    subprocess.run(tool, check=True)


def write_requirements(out: Path) -> None:
    """Write versions and hashes of the dependencies for all platforms, and see that an installer can resolve them."""
    uv = [sys.executable, "-m", "uv", "pip"]
    choose = [
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
        "--no-annotate",
        "--constraint",
        ROOT / "constraints.txt",
    ]
    subprocess.run([*uv, "compile", "--quiet", "--no-header", *choose, "-o", out, ROOT / "pyproject.toml"], check=True)
    check = ["install", "--quiet", "--dry-run", "--require-hashes", "--python", sys.executable, "-r", out]
    subprocess.run([*uv, *check], check=True)


def main() -> None:
    folder = Path(sys.argv[1])
    wheels, sources = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    wheels.sort(key=lambda wheel: wheel.name.endswith(PURE))
    if len(wheels) not in (1, 2) or len(sources) != 1:
        raise SystemExit(f"{folder} must hold one sdist and one wheel or two; it holds {[*wheels, *sources]}")
    try_wheel(wheels[0].resolve())
    for file in sorted(folder.iterdir()):
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
