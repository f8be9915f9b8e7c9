"""Tendons and their actuators written as USD: Newton reads them from MuJoCo's schema."""

import newton
import numpy as np
import pytest
from newton.usd import SchemaResolverNewton, SchemaResolverPhysx
from numpy.testing import assert_allclose

import sim
from tests.errors import quietly
from tests.exporters.test_newton_motion import written
from tests.usd.test_tendons import cords


@pytest.fixture
def peer(tmp_path):
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    model = cords()
    path = str(written(tmp_path, model, model.q0))
    quietly(builder.add_usd, path, schema_resolvers=[SchemaResolverNewton(), SchemaResolverPhysx()])
    return quietly(builder.finalize, device="cpu")


def numbers(peer, name):
    return getattr(peer.mujoco, name).numpy()


def test_newton_reads_tendons(peer):
    names = [label.rsplit("/", 1)[-1] for label in peer.joint_label]
    assert [names[joint] for joint in numbers(peer, "tendon_joint")] == ["near_joint", "far_joint", "far_joint"]
    expected = {
        "tendon_joint_adr": [0, 2], "tendon_joint_num": [2, 1], "tendon_type": [0, 0], "tendon_coef": [0.7, -0.4, 1.5],
        "tendon_stiffness": [30.0, 0.0], "tendon_damping": [0.8, 0.0], "tendon_armature": [0.3, 0.0],
        "tendon_frictionloss": [0.05, 0.0], "tendon_limited": [1, 1], "tendon_range": [[-0.2, 0.12], [-1e10, 0.4]],
        "tendon_margin": [0.01, 0.0], "tendon_solref_limit": [[0.03, 0.8], [0.02, 1.0]],
        "tendon_solimp_limit": [[0.8, 0.9, 0.01, 0.4, 3.0], [0.9, 0.95, 0.001, 0.5, 2.0]],
    }  # fmt: skip
    for name, value in expected.items():
        assert_allclose(numbers(peer, name), value, rtol=1e-6, err_msg=name)
    rest = numbers(peer, "tendon_springlength")[0]
    assert_allclose(rest, [-1.0, 0.05], rtol=1e-6)
    assert rest[0] != -1.0  # which would be the initial length


def test_newton_reads_actuators_of_tendons(peer):
    expected = {
        "actuator_gainprm": [1.0, 25.0], "actuator_gear": [2.0, 0.8],
    }  # fmt: skip
    for name, value in expected.items():
        assert_allclose(numbers(peer, name)[:, 0], value, rtol=1e-6, err_msg=name)
    assert_allclose(numbers(peer, "actuator_biasprm")[:, :3], [[0, 0, 0], [0, -25.0, -0.6]], rtol=1e-6)
    assert_allclose(numbers(peer, "actuator_forcerange")[0], [-1.0, 3.0], rtol=1e-6)
    assert_allclose(numbers(peer, "actuator_ctrlrange")[1], [0.1, 0.5], rtol=1e-6)
    labels = peer.mujoco.tendon_label
    assert [labels.index(label) for label in peer.mujoco.actuator_target_label] == [0, 1]


def test_tendons_of_joints_in_series_are_not_stated(tmp_path):
    """Newton has one joint for several between two bodies, and would leave it out of the tendon."""
    builder = sim.ModelBuilder()
    builder.add_link("frame")
    builder.add_joint("swing", "revolute", child="frame", axis=(0, 1, 0))
    builder.add_link("arm", mass=1.0, inertia=np.eye(3))
    builder.add_joint("roll", "revolute", parent="frame", child="arm", axis=(1, 0, 0))
    builder.add_link("hand", mass=1.0, inertia=np.eye(3))
    builder.add_joint("wrist", "revolute", parent="arm", child="hand", axis=(1, 0, 0), position=(1, 0, 0))
    builder.add_fixed_tendon("inner", {"swing": 1.0, "wrist": 2.0})
    builder.add_fixed_tendon("outer", {"wrist": 2.0})
    model = builder.finalize("float64")
    path = written(tmp_path, model, model.q0)
    text = path.read_text()
    assert ('MjcTendon "outer"' in text, 'MjcTendon "inner"' in text) == (True, False)
    assert sim.load(path).tendons.names == model.tendons.names
