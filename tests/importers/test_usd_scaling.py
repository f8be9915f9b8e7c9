"""Reading and writing USD take work in proportion to the bodies."""

import sys

import pytest
from pxr import UsdPhysics

import sim
from sim.usd import write_usd
from tests.importers.usd_scenes import add_body, add_joint, poses_at, stage_of

OURS = ("/sim/importers/usd/", "/sim/usd/")


def calls_in(function):
    """Number of calls of and from the functions of the USD reader and writer while a function runs."""
    count = 0

    def note(frame, event, _):
        nonlocal count
        if event in ("call", "c_call") and any(part in frame.f_code.co_filename for part in OURS):
            count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def file_of(tmp_path, bodies, linked):
    """Bodies in pairs: joined by a hinge, or filtered from colliding; each next to a body to be kept apart from."""
    stage = stage_of(tmp_path, f"{bodies}.usda")
    for number in range(bodies):
        prim = add_body(stage, f"b{number}", (number, 0, 0))
        if number % 2 and linked:
            add_joint(stage, UsdPhysics.RevoluteJoint, f"j{number}", f"b{number - 1}", f"b{number}", (1, 0, 0))
        elif number % 2:
            UsdPhysics.FilteredPairsAPI.Apply(prim).CreateFilteredPairsRel().AddTarget(f"/b{number - 1}/box")
    stage.GetRootLayer().Save()
    return stage.GetRootLayer().realPath


@pytest.mark.parametrize("linked", [False, True])
def test_twice_the_bodies_take_twice_the_work(tmp_path, linked):
    reading, writing = [], []
    for bodies in (30, 60):
        path, builder = file_of(tmp_path, bodies, linked), sim.ModelBuilder()
        reading.append(calls_in(lambda builder=builder, path=path: builder.add_usd(path)))
        model = builder.finalize()
        target, poses = tmp_path / f"{bodies}.usdc", poses_at(model, model.q0)
        writing.append(calls_in(lambda t=target, m=model, p=poses: write_usd(t, m, p, fps=30)))
    assert reading[1] <= 2.05 * reading[0]
    assert writing[1] <= 2.05 * writing[0]
