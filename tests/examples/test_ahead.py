"""What an example compiles ahead is what it then needs."""

import subprocess
import sys

from examples.ahead import AHEAD

COMPARE = """if True:
    import warp as wp
    from sim.arrays import launch
    from examples import ahead, throw
    from scenes.throw import build
    begun, needed, load = set(), set(), launch.load_modules

    def noted(modules, device):
        modules = list(modules)
        needed.update(module.name for module in modules)
        load(modules, device)

    launch.load_modules = noted
    ahead.compile_ahead = lambda kernels, device: begun.update(kernel.module.name for kernel in kernels)
    ahead.AHEAD["examples.throw"](wp.get_device("cpu"))
    throw.optimise(build(steps=20), 1, "cpu", bar=False)
    print(sorted(begun - needed), sorted(needed - begun))
"""


def test_the_throw_begins_with_all_that_it_needs():
    """All but the module that comes first, with what all share. A process of its own has loaded nothing yet."""
    done = subprocess.run([sys.executable, "-c", COMPARE], capture_output=True, text=True, check=True)
    assert done.stdout == "[] ['backswing.trajectory.float32']\n"
    assert all(name.startswith("examples.") for name in AHEAD)
