"""The time that reading a model takes grows with its size, not with its square."""

import gc
import time

import numpy as np
import pytest
import torch

import sim
import sim.torch

LINK = """<link name="l{i}"><inertial><origin xyz="0.05 0 0"/><mass value="0.1"/>
<inertia ixx="1e-4" iyy="2e-4" izz="2e-4"/></inertial>
<collision><origin xyz="0.05 0 0"/><geometry><sphere radius="0.02"/></geometry></collision></link>"""
JOINT = """<joint name="j{i}" type="{type}"><parent link="l{parent}"/><child link="l{i}"/>
<origin xyz="0.1 0 0"/><axis xyz="0 0 1"/></joint>"""

BODY = """def Sphere "body_{k}" (
prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"]) {{
double radius = 0.1
float physics:mass = 1.0
double3 xformOp:translate = ({k}, 0, 0)
uniform token[] xformOpOrder = ["xformOp:translate"]
}}
"""
STAGE = """#usda 1.0
(defaultPrim = "World"
metersPerUnit = 1
upAxis = "Z")
def Xform "World" {{
{bodies}}}
"""


def stage(path, count):
    path.write_text(STAGE.format(bodies="".join(BODY.format(k=k) for k in range(count))))
    return path


def chain(path, count, type="continuous"):
    links = "".join(LINK.format(i=i) for i in range(count))
    joints = "".join(JOINT.format(i=i, parent=i - 1, type=type) for i in range(1, count))
    path.write_text(f'<robot name="c">{links}{joints}</robot>')
    return path


def load_chain(path):
    model = sim.load(path)
    assert len(model.geometries) == model.nv + 1


def load_welded_chain(path):
    assert sim.load(path).nv == 0


def make_robot(path):
    assert sim.torch.Robot(path, dtype=torch.float64).nv > 0


def add_bodies(count):
    builder = sim.ModelBuilder()
    for k in range(count):
        builder.add_sphere(radius=0.1, mass=1.0, position=(k, 0.0, 0.0))
        builder.add_geometry(f"sphere_{k}", "box", size=(0.1, 0.1, 0.1), collides=False)
    assert builder.finalize().nv == 6 * count


def seconds(function, arguments):
    """CPU times, each the least of five; in turns, since a machine may be slower for a while.

    Python looks for garbage among all objects of the process, now in the one call, now in the other: not here.
    """
    taken = [[] for _ in arguments]
    gc.disable()
    try:
        for _ in range(5):
            for times, argument in zip(taken, arguments, strict=True):
                start = time.process_time()
                function(argument)
                times.append(time.process_time() - start)
                gc.collect()
    finally:
        gc.enable()
    return map(min, taken)


@pytest.mark.parametrize(
    ("function", "type"),
    [(load_chain, "continuous"), (load_welded_chain, "fixed"), (make_robot, "continuous"), (add_bodies, None)],
)
def test_twice_the_links_take_twice_the_time(tmp_path, function, type):
    counts = (800, 1600)
    arguments = counts if type is None else [chain(tmp_path / f"{count}.urdf", count, type) for count in counts]
    once, twice = seconds(function, arguments)
    assert twice < 3.0 * once
    assert twice < 5.0


# Bounds of CPU time [s], some four times what it takes.
@pytest.mark.parametrize(("count", "bound"), [(1000, 1.0), (5000, 5.0)])
@pytest.mark.parametrize("function", [sim.load, sim.torch.Robot])
def test_a_long_chain_is_read_in_time(tmp_path, function, count, bound):
    sim.torch.Robot(chain(tmp_path / "short.urdf", 3))  # what is done once in a process
    path = chain(tmp_path / "long.urdf", count)
    assert cpu_seconds(lambda: function(path)) < bound


def test_a_stage_of_many_bodies_is_read_in_time(tmp_path):
    """2,000 bodies take about 2 s of CPU time."""
    assert sim.load(stage(tmp_path / "few.usda", 3)).nv == 18
    path = stage(tmp_path / "many.usda", 2000)
    assert cpu_seconds(lambda: sim.load(path)) < 5.0


def cpu_seconds(function):
    """CPU time of a call, the lesser of two: others on the machine may slow one down."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        function()
        taken.append(time.process_time() - start)
    return min(taken)


def test_a_long_chain_is_read_whole(tmp_path):
    model = sim.load(chain(tmp_path / "long.urdf", 5000))
    assert model.max_depth == 4999
    assert model.frame("l4999").link == 4999 - 1
    assert (0, 4999) in model.excluded_pairs
    np.testing.assert_array_equal(model.dof_depth, np.arange(4999))
