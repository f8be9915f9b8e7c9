"""The time that reading a model takes grows with its size, not with its square."""

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
    """CPU times, each the least of five; in turns, since a machine may be slower for a while."""
    taken = [[] for _ in arguments]
    for _ in range(5):
        for times, argument in zip(taken, arguments, strict=True):
            start = time.process_time()
            function(argument)
            times.append(time.process_time() - start)
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


def test_a_long_chain_is_read_whole(tmp_path):
    """5,000 links take about 3 s of CPU time on an idle machine."""
    path = chain(tmp_path / "long.urdf", 5000)
    start = time.process_time()
    model = sim.load(path)
    assert time.process_time() - start < 20.0
    assert model.max_depth == 4999
    assert model.frame("l4999").link == 4999 - 1
    assert (0, 4999) in model.excluded_pairs
    np.testing.assert_array_equal(model.dof_depth, np.arange(4999))
