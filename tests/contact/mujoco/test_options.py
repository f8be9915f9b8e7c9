"""What MuJoCo's contact takes, and what it refuses."""

import mujoco
import numpy as np
import pytest

import sim
from tests.errors import raises_naming, refuses
from tests.simulation.differences import METHODS


def model(ball: sim.Surface | None = None) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball", surface=ball or sim.Surface())
    return builder.finalize()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"solref": (0.01, -1.0)}, r"solref is \[0.01, -1.0\]; it must be a time constant"),
        ({"solimp": (0.9, 1.0, 0.1, 0.5, 2.0)}, r"solimp is \[0.9, 1.0, .*two impedances between 0 and 1"),
        ({"solimp": (0.9, 0.95)}, r"solimp is \[0.9, 0.95\]"),
        ({"impratio": 0.0}, "impratio is 0.0; it must be positive"),
        ({"impratio": float("inf")}, "impratio is inf; it must be positive and finite"),
        ({"solref": (float("inf"), 1.0)}, r"solref is \[inf, 1.0\].*infinite"),
        ({"noslip_iterations": -1}, "noslip_iterations is -1; it must be a whole number"),
        ({"noslip_tolerance": -1.0}, "noslip_tolerance is -1.0; it must not be negative"),
    ],
)
def test_refused_options(options, said):
    with pytest.raises(sim.ModelError, match=said):
        sim.MujocoContact(**options)


@pytest.mark.parametrize(
    ("ball", "what"),
    [
        (sim.Surface(restitution=0.5), "restitution of geometries"),
        (sim.Surface(stiffness=1e4), "contact_stiffness of geometries"),
    ],
)
def test_refused_models(ball, what):
    with pytest.raises(sim.ModelError, match=f"MujocoContact: .* no {what}; .*sim.HardContact"):
        sim.Simulator(model(ball), 0.004, contact=sim.MujocoContact())


def test_refused_parameters():
    simulator = sim.Simulator(model(), 0.004, contact=sim.MujocoContact())
    refuses(lambda: simulator.parameters.update({"solref": [0.02, -1.0]}), "solref")
    with raises_naming("'limit_stiffness'", "finite", "sim.MujocoContact"):
        simulator.parameters["limit_stiffness"] = 100.0
    refuses(lambda: simulator.parameters.update({"regularisation": 0.01}), "unknown", "parameter 'regularisation'")
    hard = sim.Simulator(model(), 0.004)
    refuses(lambda: hard.parameters.update({"solref": [0.02, 1.0]}), "unknown", "parameter 'solref'")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_body_that_turns_about_its_centre_of_mass(tmp_path, dtype):
    """Its point that MuJoCo weighs doesn't move, so that its contacts are as hard as numbers can tell."""
    path = tmp_path / "seesaw.xml"
    path.write_text(
        '<mujoco><option timestep="0.002" tolerance="0" iterations="200"/><worldbody><geom type="plane" size="1 1 1"/>'
        '<body pos="0 0 0.097"><joint axis="0 1 0"/><geom size="0.1" pos="0.3 0 0"/><geom size="0.1" pos="-0.3 0 0"/>'
        "</body></worldbody></mujoco>"
    )
    peer = mujoco.MjModel.from_xml_path(str(path))
    assert peer.body_invweight0[1, 0] < 1e-15 < peer.body_invweight0[1, 1]
    model = sim.load(path, dtype=dtype)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    data = mujoco.MjData(peer)
    data.qvel = (0.4,)
    mujoco.mj_step(peer, data)
    end = simulator.step(simulator.state(model.q0, [0.4]))
    # What rounding leaves of rows that are so much stiffer than the body.
    np.testing.assert_allclose(end.qd.numpy()[0], data.qvel, atol=1e-7 if dtype == "float64" else 5e-3)


def test_a_singular_mass_matrix_is_named():
    """Two hinges of one axis at one place: neither knows its share of a rotation."""
    builder = sim.ModelBuilder()
    for number in range(2):
        name = builder.add_link(f"link{number}", mass=float(number), inertia=number * np.eye(3))
        parent = "link0" if number else "world"
        builder.add_joint(f"hinge{number}", "revolute", parent=parent, child=name, axis=(0, 0, 1))
    for law in ("hard", "mujoco"):
        with raises_naming("joint 'hinge0'", "inertia"):
            sim.Simulator(builder.finalize(), 0.004, device="cpu", contact=METHODS[law]())
