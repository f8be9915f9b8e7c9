"""Friction of pairs of many geoms of an MJCF file: MuJoCo's, whatever their dimensions, priorities and listed pairs."""

import random
import tracemalloc

import mujoco
import numpy as np
import pytest

import sim
from sim.importers.mjcf.contacts import set_pairs
from sim.simulation.stepping.collision import candidate_pairs
from sim.simulation.stepping.pair_friction import pair_friction
from tests.importers.mjcf_zoo import compiled, load_quietly


def geom(name, chance):
    properties = {
        "friction": f"{chance.choice([0.5, 0.8, 1.0])} {chance.choice([0.005, 0.01])} 0.0001",
        "condim": chance.choice([1, 3, 4, 6]),
        "priority": chance.choice([0, 0, 0, 1]),
        "contype": chance.choice([1, 1, 1, 2]),
    }
    stated = " ".join(f'{key}="{value}"' for key, value in properties.items())
    return f'<geom name="{name}" size="0.1" {stated}/>'


def scene(bodies, links, seed, contact=""):
    """Free bodies over a plane, each with further links joined one after another."""
    chance, lines = random.Random(seed), []
    for body in range(bodies):
        lines.append(f'<body name="b{body}" pos="{body} 0 1"><freejoint/>{geom(f"g{body}", chance)}')
        lines += [f'<body name="b{body}_{k}"><joint/>{geom(f"g{body}_{k}", chance)}' for k in range(links)]
        lines.append("</body>" * (links + 1))
    floor = '<geom name="floor" type="plane" size="1 1 1" conaffinity="3"/>'
    return f"<mujoco><worldbody>{floor}{''.join(lines)}</worldbody><contact>{contact}</contact></mujoco>"


STATED = '<exclude body1="b0" body2="b2"/><pair geom1="g1" geom2="g3" friction="0.3 0.3 0.1 0.1 0.1"/>'


@pytest.mark.parametrize(("bodies", "links", "contact"), [(12, 0, ""), (6, 2, ""), (8, 1, STATED)])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_have_the_friction_of_mujoco(tmp_path, bodies, links, contact, seed):
    """With a large margin MuJoCo finds a contact for every pair that it looks at."""
    path = tmp_path / "scene.xml"
    path.write_text(scene(bodies, links, seed, contact))
    model, peer = load_quietly(path), compiled(path, margin=100.0)
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    theirs = {
        frozenset(peer.geom(int(geom)).name for geom in found.geom): (
            found.friction[[0, 2, 3]] * (found.dim >= np.array([3, 4, 6]))
        ).tolist()
        for found in data.contact
    }
    pairs = list(zip(*candidate_pairs(model), strict=True))
    ours = {
        frozenset(model.geometries[index].name for index in pair): friction
        for pair, friction in zip(pairs, pair_friction(model, pairs).tolist(), strict=True)
    }
    assert len(ours) > 40
    assert ours == theirs


def test_friction_of_all_geoms_may_be_given(tmp_path):
    path = tmp_path / "scene.xml"
    path.write_text(scene(8, 1, 0, STATED))
    model = load_quietly(path, friction=0.6)
    found = pair_friction(model, zip(*candidate_pairs(model), strict=True))
    np.testing.assert_array_equal(found[:, 0], 0.6)
    assert len(np.unique(found[:, 1])) > 2


def test_many_geoms_take_little_memory(tmp_path, monkeypatch):
    """A table of truth values of all pairs would take 4 MB."""
    path = tmp_path / "scene.xml"
    path.write_text(scene(2000, 0, 0).replace('condim="1"', 'condim="3"').replace('condim="6"', 'condim="4"'))
    # The pairs that are listed are many.
    monkeypatch.setattr(sim.ModelBuilder, "exclude_geometries", lambda *_: None)
    monkeypatch.setattr(sim.ModelBuilder, "set_pair_friction", lambda *_, **__: None)
    peaks = []

    def noted(*arguments):
        tracemalloc.start()
        set_pairs(*arguments)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    monkeypatch.setattr("sim.importers.mjcf.importer.set_pairs", noted)
    sim.ModelBuilder().add_mjcf(path)
    assert peaks[0] < 3e6
