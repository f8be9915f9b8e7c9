"""Links without mass in written stages: UsdPhysics and Newton give them none."""

import newton
import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, Usd, UsdPhysics

import sim
from sim.usd import write_usd
from tests.errors import quietly

SHAPES = {"box": (0.5, 0.3, 0.2), "sphere": 0.4, "capsule": (0.1, 0.3)}


def of_a_cube(_):
    """Volume and inertia of any collider, which a stated mass scales."""
    information = UsdPhysics.RigidBodyAPI.MassInformation()
    information.volume, information.inertia, information.localRot = 1.0, Gf.Matrix3f(1.0 / 6.0), Gf.Quatf(1.0)
    return information


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("base", ["fixed", "free"])
def test_other_readers_take_the_masses_of_the_model(tmp_path, base, seed):
    rng, builder = np.random.default_rng(seed), sim.ModelBuilder()
    parent = "world"
    for k, massive in enumerate([base == "free", False, bool(seed % 2), True]):
        name, free = f"link{k}", k == 0 and base == "free"
        builder.add_link(name, **({"mass": rng.uniform(0.5, 3.0), "inertia": np.eye(3)} if massive else {}))
        of_kind = {"type": "free"} if free else {"type": "revolute", "axis": rng.normal(size=3)}
        builder.add_joint(f"joint{k}", parent=parent, child=name, position=rng.normal(size=3), **of_kind)
        kind = rng.choice(list(SHAPES))
        if k < 3:
            builder.add_geometry(name, kind, size=SHAPES[kind])
        parent = name
    model = quietly(builder.finalize, "float64")
    path = quietly(write_usd, tmp_path / "a.usda", model, sim.forward_kinematics(model, model.q0[None]), fps=30)
    stage, masses = Usd.Stage.Open(str(path)), model.parameters["mass"]
    bodies = {prim.GetName(): prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.RigidBodyAPI)}
    found = [UsdPhysics.RigidBodyAPI(bodies[name]).ComputeMassProperties(of_a_cube)[0] for name in model.link_names]
    assert_allclose(found, masses, rtol=1e-6, atol=1e-11)
    peer = newton.ModelBuilder()
    quietly(peer.add_usd, str(path))
    theirs = {label.rsplit("/", 1)[-1]: mass for label, mass in zip(peer.body_label, peer.body_mass, strict=True)}
    assert_allclose([theirs[name] for name in model.link_names], masses, rtol=1e-6, atol=1e-11)
    again = quietly(sim.load, path, dtype="float64")
    for name in ("mass", "inertia"):
        assert_allclose(again.parameters[name], model.parameters[name], rtol=1e-12)
