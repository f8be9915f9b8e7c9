"""Softness and margins of geometries that differ: how a pair's follow from them, and that they come back from files."""

import mujoco
import numpy as np
import pytest

import sim
import sim.exporters
from sim.simulation.stepping.mujoco_law import pair_softness
from sim.usd import write_usd
from tests.errors import strictly
from tests.importers.mjcf_zoo import load_quietly

BALL = """
<mujoco><option timestep="0.002"/><worldbody>
  <geom name="floor" type="plane" size="1 1 1" {floor}/>
  <body pos="0 0 0.105"><freejoint/><geom name="ball" size="0.1" {ball}/></body>
</worldbody></mujoco>
"""
SOFT, STIFF = 'solref="0.03 1.2" solimp="0.8 0.9 0.01 0.3 2"', 'solref="0.01 0.7" solimp="0.95 0.99 0.002 0.6 3"'
CASES = {
    "mixed": (f'{SOFT} margin="0.01"', f'{STIFF} margin="0.02"'),
    "weighted": (f'{SOFT} solmix="3" margin="0.006"', STIFF),
    "no weight": (f'{SOFT} solmix="0" margin="0.006"', STIFF),
    "no weights": (f'{SOFT} solmix="0" margin="0.006"', f'{STIFF} solmix="0"'),
    "priority": (f'{SOFT} priority="2"', f'{STIFF} priority="1" margin="0.03"'),
    "stiffness": (SOFT, 'solref="-400 -20" margin="0.03" gap="0.01"'),
}


@pytest.mark.parametrize(("floor", "ball"), CASES.values(), ids=CASES)
class TestOfPairs:
    @pytest.fixture
    def path(self, tmp_path, floor, ball):
        path = tmp_path / "ball.xml"
        path.write_text(BALL.format(floor=floor, ball=ball))
        return path

    def test_is_that_of_mujoco(self, path):
        peer = mujoco.MjModel.from_xml_path(str(path))
        data = mujoco.MjData(peer)
        mujoco.mj_forward(peer, data)
        (contact,) = data.contact
        model = load_quietly(path)
        found = pair_softness(*model.geometries)
        np.testing.assert_allclose(found.solref, contact.solref, rtol=1e-15)
        np.testing.assert_allclose(found.solimp, contact.solimp, rtol=1e-15)
        assert sum(geometry.contact_margin for geometry in model.geometries) == contact.includemargin

    def test_moves_as_in_mujoco(self, path):
        """The ball rests within the margin, and falls on the floor first where there is little of it."""
        peer = mujoco.MjModel.from_xml_path(str(path))
        data = mujoco.MjData(peer)
        model = load_quietly(path)
        simulator = sim.Simulator(model, 0.002, 1, "cpu", sim.MujocoContact(friction="pyramid"))
        height = simulator.rollout(simulator.initial_state(), steps=400).q.numpy()[1:, 0, 2]
        theirs = []
        for _ in height:
            mujoco.mj_step(peer, data)
            theirs.append(data.qpos[2])
        np.testing.assert_allclose(height, theirs, atol=1e-12)
        assert np.ptp(height) > 1e-4

    def test_comes_back_from_files(self, path, tmp_path):
        model = load_quietly(path)
        sim.exporters.write_mjcf(tmp_path / "again.xml", model)
        poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        usd = write_usd(tmp_path / "again.usda", model, poses, fps=30)
        for again in (load_quietly(tmp_path / "again.xml"), strictly(sim.load, usd, dtype="float64")):
            for geometry in model.geometries:
                other = again.geometries[again.geometry(geometry.name)]
                for name in ("softness", "softness_mix", "contact_margin", "contact_priority"):
                    assert getattr(other, name) == getattr(geometry, name)


def test_of_joints_comes_back_from_files(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, com=(0.1, 0, 0), inertia=(0.1, 0.1, 0.1))
    limit, friction = sim.Softness((0.05, 0.8)), sim.Softness(solimp=(0.5, 0.6, 0.01, 0.4, 3.0))
    builder.add_joint(
        "hinge", "revolute", child="arm", axis=(0, 1, 0), limits=sim.Limits(-0.3, 0.3, softness=limit),
        friction_loss=0.1, friction_softness=friction,
    )  # fmt: skip
    model = builder.finalize("float64")
    sim.exporters.write_mjcf(tmp_path / "arm.xml", model)
    usd = write_usd(tmp_path / "arm.usda", model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=30)
    for again in (load_quietly(tmp_path / "arm.xml"), strictly(sim.load, usd, dtype="float64")):
        assert again.limit_softness == (limit,)
        assert again.friction_softness == (friction,)


def test_default_is_mujocos():
    peer = mujoco.MjOption()
    assert sim.Softness().solref == tuple(peer.o_solref)
    np.testing.assert_array_equal(sim.Softness().solimp, peer.o_solimp)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"solref": (0.1, -1.0)}, "Softness: solref is"),
        ({"solimp": (0.9, 0.95, -0.1, 0.5, 2.0)}, "a width that is not negative"),
    ],
)
def test_numbers_without_meaning_are_refused(words, said):
    with pytest.raises(sim.ModelError, match=said):
        sim.Softness(**words)


PAIRS = """
<mujoco><option timestep="0.002"/><worldbody>
  <geom name="floor" type="plane" size="1 1 1"/>
  <body pos="0 0 0.098"><freejoint/><geom name="ball" size="0.1"/></body>
  <body pos="0.3 0 0.105"><freejoint/><geom name="other" size="0.1"/></body>
</worldbody><contact>
  <pair geom1="floor" geom2="ball" solref="0.03 0.7" solimp="0.7 0.9 0.01 0.3 3"/>
  <pair geom1="other" geom2="floor" solref="-500 -30" margin="0.02" friction="0.4 0.4 0.005 0.0001 0.0001"/>
</contact></mujoco>
"""


class TestOfListedPairs:
    @pytest.fixture
    def model(self, tmp_path):
        (tmp_path / "pairs.xml").write_text(PAIRS)
        return load_quietly(tmp_path / "pairs.xml")

    def test_moves_as_in_mujoco(self, tmp_path, model):
        peer = mujoco.MjModel.from_xml_path(str(tmp_path / "pairs.xml"))
        peer.opt.tolerance = 0.0
        data = mujoco.MjData(peer)
        simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
        speeds = np.tile([0.3, 0.1, -0.2, 0.1, 0.2, 0.5], 2)
        data.qvel[:] = speeds
        state = simulator.state(model.q0, speeds)
        found = simulator.rollout(state, steps=50).final_state
        for _ in range(50):
            mujoco.mj_step(peer, data)
        here = found.q.numpy()[0]
        np.testing.assert_allclose(here[[0, 1, 2, 7, 8, 9]], data.qpos[[0, 1, 2, 7, 8, 9]], atol=1e-10)

    @pytest.mark.parametrize("suffix", ["usda", "xml"])
    def test_comes_back_from_files(self, tmp_path, model, suffix):
        path = tmp_path / f"again.{suffix}"
        if suffix == "xml":
            strictly(sim.exporters.write_mjcf, path, model)
        else:
            write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=1)
        again = load_quietly(path)

        def named(of):
            return {
                frozenset(of.geometries[index].name for index in (pair.a, pair.b)): (pair.softness, pair.contact_margin)
                for pair in of.pair_softness
            }

        assert named(again) == named(model)
        assert len(named(model)) == 2

    def test_what_is_refused(self):
        builder = sim.ModelBuilder()
        with pytest.raises(sim.ModelError, match="geometries 'a' and 'a'"):
            builder.set_pair_softness("a", "a")
        with pytest.raises(sim.ModelError, match="contact_margin"):
            builder.set_pair_softness("a", "b", contact_margin=-1.0)
