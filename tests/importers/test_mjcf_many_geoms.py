"""Friction of many geoms of an MJCF file: fitted for groups of geoms that are alike, as it would be for each."""

import random
import tracemalloc
import warnings

import numpy as np
import pytest

import sim
from sim.errors import MJCFWarning
from sim.importers.mjcf import contacts, touching


def geom(name, chance):
    properties = {
        "friction": f"{chance.choice([0.5, 0.8, 1.0])} {chance.choice([0.005, 0.01])} 0.0001",
        "condim": chance.choice([3, 4, 6]),
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


def read(tmp_path, text, **options):
    path = tmp_path / "scene.xml"
    path.write_text(text)
    builder = sim.ModelBuilder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MJCFWarning)
        builder.add_mjcf(path, **options)
    values = [[g.friction, g.torsional_friction, g.rolling_friction] for g in builder.geometries.values()]
    return np.array(values), builder.excluded_geometries


STATED = '<exclude body1="b0" body2="b2"/><pair geom1="g1" geom2="g3" friction="0.3 0.3 0.1 0.1 0.1"/>'


@pytest.mark.parametrize("self_collision", [True, False])
@pytest.mark.parametrize(("bodies", "links", "contact"), [(12, 0, ""), (6, 2, ""), (8, 1, STATED)])
def test_groups_have_the_friction_that_each_geom_would_have(
    tmp_path, monkeypatch, bodies, links, contact, self_collision
):
    for seed in range(5):
        text = scene(bodies, links, seed, contact)
        grouped, excluded = read(tmp_path, text, self_collision=self_collision)
        with monkeypatch.context() as patch:
            patch.setattr(touching, "ROUNDS", 0)  # every geom alone
            alone, excluded_alone = read(tmp_path, text, self_collision=self_collision)
        np.testing.assert_allclose(grouped, alone, rtol=1e-8, atol=1e-12)
        assert excluded == excluded_alone


def test_many_geoms_take_little_memory(tmp_path, monkeypatch):
    found = []

    def noted(*arguments):
        tracemalloc.start()
        found.append(read_surfaces(*arguments))
        found.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        return found[0]

    read_surfaces = contacts.read_surfaces
    monkeypatch.setattr("sim.importers.mjcf.importer.read_surfaces", noted)
    monkeypatch.setattr("sim.importers.mjcf.importer.exclude", lambda *_: None)  # the pairs that don't touch are many
    read(tmp_path, scene(2000, 0, 0))
    surfaces, memory = found
    assert len(surfaces.friction) == 2001
    # A table of truth values of all pairs would take 4 MB.
    assert memory < 3e6
