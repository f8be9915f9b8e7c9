"""The law of a model where its user names none."""

import dataclasses
import pickle

import numpy as np
import pytest
import torch

import sim
from sim.importers.model_file import model_from_bytes, model_to_bytes
from tests.errors import raises_naming, strictly
from tests.importers.mjcf_zoo import load_quietly

XML = """<mujoco><option timestep="0.004" integrator="{integrator}" cone="elliptic" impratio="3" noslip_iterations="2"/>
  <worldbody><geom type="plane" size="5 5 1" solref="0.03 1"/>
    <body pos="0 0 0.099"><freejoint/><geom type="box" size=".2 .15 .1"/>
      <body pos=".3 0 0"><joint name="j" axis="0 1 0" damping="0.1"/><geom type="box" size=".1 .05 .05"/></body></body>
  </worldbody><actuator><motor joint="j"/></actuator></mujoco>"""
DT = 0.003
UNUSED = "used with MuJoCo's law alone.*: solref and solimp; impratio 3; noslip_iterations 2"


@pytest.fixture(name="path")
def _path(tmp_path):
    path = tmp_path / "box.xml"
    path.write_text(XML.format(integrator="implicitfast"))
    return path


def loaded(path, **options) -> sim.Model:
    """Without a warning."""
    return strictly(sim.load, path, dtype="float64", **options)


def moved(simulator: sim.Simulator) -> np.ndarray:
    start = simulator.state(simulator.model.q0, np.linspace(-0.5, 0.5, simulator.model.nv))
    return simulator.rollout(start, steps=5).final_state.qd.numpy()


def test_a_file_moves_by_its_own_law_and_options(path):
    model = loaded(path)
    settings = {**sim.mujoco_settings(model), "dt": DT}
    simulator, stated = sim.Simulator(model, DT), sim.Simulator(model, **settings)
    assert simulator.contact == stated.contact == settings["contact"]
    assert simulator.integrator == stated.integrator == "implicitfast"
    np.testing.assert_array_equal(moved(simulator), moved(stated))
    assert np.abs(moved(simulator) - moved(sim.Simulator(model, DT, contact=sim.HardContact()))).max() > 1e-4


def test_what_is_stated_wins(path):
    model = loaded(path)
    for contact in (sim.HardContact(margin=0.01), sim.MujocoContact(), sim.PgsContact()):
        simulator = sim.Simulator(model, DT, contact=contact)
        assert (simulator.contact, simulator.integrator) == (contact, "euler")
    own = sim.mujoco_settings(model)["contact"]
    assert (own.friction, own.impratio, own.noslip_iterations) == ("cone", 3.0, 2)
    for stated in (
        {"friction": "pyramid", "noslip_iterations": 0},
        {"impratio": 2.0, "solref": (0.02, 1.0)},
        {"iterations": 7, "tolerance": 1e-9, "max_contacts": 5, "noslip_tolerance": 0.0},
    ):
        simulator = sim.Simulator(model, DT, contact=sim.ModelContact(**stated))
        assert simulator.contact == dataclasses.replace(own, **stated)
        assert simulator.integrator == "implicitfast"
    assert sim.Simulator(model, DT, integrator="euler").integrator == "euler"


def test_other_models_are_hard():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0)
    model = builder.finalize()
    simulator = sim.Simulator(model, DT)
    assert model.mujoco is None
    assert (simulator.contact, simulator.integrator) == (sim.HardContact(), "euler")
    stated = {"friction": "pyramid", "iterations": 7, "tolerance": 1e-9, "max_contacts": 5}
    assert sim.Simulator(model, DT, contact=sim.ModelContact(**stated)).contact == sim.HardContact(**stated)
    with raises_naming("impratio", "sim.MujocoContact"):
        sim.Simulator(model, DT, contact=sim.ModelContact(impratio=2.0))


@pytest.mark.parametrize("more", ["ground", "ball", "link", "restitution", "another file"])
def test_what_is_not_wholly_from_agreeing_files_is_hard(path, tmp_path, more):
    """And says what is left unused."""
    builder = sim.ModelBuilder()
    builder.add_mjcf(path, restitution=0.5 if more == "restitution" else 0.0)
    if more == "ground":
        builder.add_ground()
    elif more == "ball":
        builder.add_sphere(radius=0.1, mass=1.0)
    elif more == "link":
        builder.add_link("more", mass=1.0)
        builder.add_joint("slide", "prismatic", child="more")
    elif more == "another file":
        (tmp_path / "other.xml").write_text(XML.format(integrator="RK4"))
        builder.add_mjcf(tmp_path / "other.xml", name="other")
    with pytest.warns(sim.MJCFWarning, match=UNUSED):
        model = builder.finalize()
    assert model.mujoco is None
    assert sim.Simulator(model, DT).contact == sim.HardContact()


def test_files_that_agree_keep_their_law(path):
    builder = sim.ModelBuilder()
    for name in "ab":
        builder.add_mjcf(path, name=name, position=(0, 0, 0 if name == "a" else 3))
    model = builder.finalize()
    assert model.mujoco == loaded(path).mujoco
    assert isinstance(sim.Simulator(model, DT).contact, sim.MujocoContact)


def test_it_goes_where_the_model_goes(path, tmp_path):
    from sim.exporters import write_mjcf
    from sim.usd import write_usd

    model = loaded(path)
    write_mjcf(tmp_path / "again.xml", model)
    write_usd(tmp_path / "again.usda", model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=24)
    others = [model_from_bytes(model_to_bytes(model)), pickle.loads(pickle.dumps(model)), loaded(path, untrusted=True)]
    others += [load_quietly(tmp_path / name) for name in ("again.xml", "again.usda")]
    for other in others:
        assert other.mujoco == model.mujoco
    simulator = sim.Simulator(model, DT)
    again = pickle.loads(pickle.dumps(simulator))
    assert (again.contact, again.integrator) == (simulator.contact, "implicitfast")
    np.testing.assert_array_equal(moved(again), moved(simulator))


def test_in_torch_and_in_a_task(path):
    model = loaded(path)

    class Stay(sim.envs.Task):
        dt = DT

        def model(self):
            return model

        def sample_state(self, n, generator):
            q = torch.as_tensor(model.q0).expand(n, -1).clone()
            return self.episodes(q, torch.zeros(n, model.nv, dtype=q.dtype))

        def observe(self, state):
            return state.qd

        def reward(self, before, action, after):
            return after.qd.sum(dim=-1)

    simulator = sim.envs.VectorEnv(Stay(dtype="float64"), 2, device="cpu").simulator
    assert isinstance(simulator.contact, sim.MujocoContact)
    assert simulator.integrator == "implicitfast"
    _, qd = sim.torch.rollout(
        simulator, torch.as_tensor(np.tile(model.q0, (2, 1))), torch.ones(2, model.nv, dtype=torch.float64), steps=3
    )
    expected = sim.Simulator(model, num_worlds=2, **{**sim.mujoco_settings(model), "dt": DT})
    end = expected.rollout(expected.state(np.tile(model.q0, (2, 1)), np.ones((2, model.nv))), steps=3).final_state
    np.testing.assert_array_equal(qd[-1].numpy(), end.qd.numpy())
