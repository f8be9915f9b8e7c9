"""The keywords of earlier releases, which warn and return the new objects."""

import dataclasses
import pickle

import numpy as np
import pytest

import sim
from tests.contact.worlds import DT, loose_box

TABLE = [
    ({}, sim.ModelContact()),
    ({"solver": "newton", "sweeps": 50}, sim.ModelContact()),
    ({"friction": "pyramid", "max_contacts": 4}, sim.ModelContact(friction="pyramid", max_contacts=4)),
    ({"impratio": 2.0, "solref": np.array([0.02, 1.0])}, sim.ModelContact(impratio=2.0, solref=(0.02, 1.0))),
    ({"margin": 0.1, "friction": "pyramid"}, sim.HardContact(margin=0.1, friction="pyramid")),
    ({"law": "hard", "impratio": None, "warm_start": True}, sim.HardContact(warm_start=True)),
    ({"law": "mujoco", "noslip_iterations": 3}, sim.MujocoContact(noslip_iterations=3)),
    ({"solver": "pgs", "max_correction": None}, sim.PgsContact()),
    ({"solver": "pgs", "law": "hard", "tolerance": 2.0, "erp": 0.5}, sim.PgsContact(tolerance=2.0, erp=0.5)),
]


@pytest.mark.parametrize(("options", "expected"), TABLE)
def test_returns_the_new_object(options, expected):
    with pytest.warns(DeprecationWarning, match=rf"call sim\.{type(expected).__name__}\(") as caught:
        method = sim.ContactOptions(**options)
    assert (type(method), method) == (type(expected), expected)
    assert caught[0].filename == __file__
    assert pickle.loads(pickle.dumps(method)) == expected
    assert dataclasses.replace(method, friction="pyramid").friction == "pyramid"
    if type(method) is not sim.ModelContact:
        assert sim.Simulator(loose_box(), DT, contact=method).contact is method


def test_arguments_by_position():
    with pytest.warns(DeprecationWarning, match=r"call sim\.PgsContact\(sweeps=20, friction='pyramid'\)"):
        assert sim.ContactOptions("pgs", None, 20, "pyramid") == sim.PgsContact(sweeps=20, friction="pyramid")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"solver": "lemke"}, "solver='lemke'"),
        ({"law": "soft"}, "law='soft'"),
        ({"solver": "pgs", "law": "mujoco"}, "solver='pgs' .*law='mujoco'"),
        ({"sweeps": 20}, "sim.HardContact .*'sweeps'"),
        ({"law": "hard", "solref": (0.02, 1.0)}, "sim.HardContact .*'solref'"),
        ({"law": "mujoco", "regularisation": 0.01}, "sim.MujocoContact .*'regularisation'"),
        ({"solver": "pgs", "regularisation": 0.1}, "sim.PgsContact .*'regularisation'"),
        ({"margin": 0.1, "impratio": 2.0}, "sim.HardContact .*'impratio'"),
        ({"solver": "pgs", "cfm": -1.0}, "PgsContact: cfm is -1.0"),
    ],
)
def test_what_no_class_has_is_refused(options, said):
    with pytest.raises(sim.ModelError, match=said):
        sim.ContactOptions(**options)


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="solver, law, sweeps"):
        sim.ContactOptions(softness=1.0)
