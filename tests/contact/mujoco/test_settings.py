"""A simulator with the settings of a file, and where there are none."""

import mujoco
import numpy as np
import pytest

import sim
from tests.contact.mujoco.scenes import SOLIMP, SOLREF, XML
from tests.errors import quietly, refuses
from tests.importers.mjcf_zoo import load_quietly
from tests.importers.reference import GYMNASIUM
from tests.mujoco_states import assert_same_state

OPTIONS = [
    {"integrator": "RK4"},
    {"integrator": "implicitfast", "cone": "elliptic", "impratio": "7"},
    {"cone": "elliptic", "timestep": "0.003"},
    {"cone": "elliptic", "noslip_iterations": "3", "noslip_tolerance": "1e-4"},
    {"integrator": "implicit"},
    {},
]


def written(folder, **options: str):
    """A file with these options; the contact solver goes on to the end."""
    path = folder / "scene.xml"
    values = {"solref": " ".join(map(str, SOLREF)), "solimp": " ".join(map(str, SOLIMP))}
    text = XML.format(dt=0.004, cone="pyramidal", impratio=1.0, box=3, **values)
    stated = {"timestep": "0.004", **options}
    attributes = " ".join(f'{name}="{value}"' for name, value in stated.items())
    old = text[text.index("<option") : text.index("/>") + 2]
    path.write_text(text.replace(old, f'<option {attributes} tolerance="0" iterations="200"/>'))
    return path


@pytest.mark.parametrize("options", OPTIONS)
def test_a_step_with_the_settings_of_the_file(tmp_path, options):
    path = written(tmp_path, **options)
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    settings = sim.mujoco_settings(model)
    assert settings["integrator"] == options.get("integrator", "Euler").lower()
    simulator = sim.Simulator(model, **settings)
    data = mujoco.MjData(peer)
    qd = np.linspace(-0.5, 0.5, model.nv)
    data.qpos, data.qvel = sim.to_mujoco(model, model.q0, qd)
    mujoco.mj_step(peer, data)
    end = simulator.step(simulator.state(model.q0, qd))
    assert_same_state(model, end, data, 1e-13, 1e-11)


@pytest.mark.parametrize(
    ("options", "values"),
    [(OPTIONS[1], ("implicitfast", "elliptic", 7.0)), (OPTIONS[3], ("euler", "elliptic", 1.0, 3, 1e-4))],
)
def test_they_come_back_from_other_formats(tmp_path, options, values):
    from sim.exporters import write_mjcf
    from sim.usd import write_usd

    model = load_quietly(written(tmp_path, **options))
    expected = model.parts[0].mujoco
    assert expected == sim.model.model.MujocoOptions(*values)
    write_mjcf(tmp_path / "again.xml", model)
    assert load_quietly(tmp_path / "again.xml").parts[0].mujoco == expected
    poses = sim.forward_kinematics(model, model.q0[None])
    again = sim.load(write_usd(tmp_path / "again.usdc", model, poses, fps=30), dtype="float64")
    assert {part.mujoco for part in again.parts if part.mujoco} == {expected}
    assert sim.mujoco_settings(again) == sim.mujoco_settings(model)


def test_the_ant_of_gymnasium():
    if not (GYMNASIUM / "ant.xml").is_file():
        pytest.skip("gymnasium is not installed")
    settings = sim.mujoco_settings(load_quietly(GYMNASIUM / "ant.xml"))
    assert settings["dt"] == 0.01
    assert settings["integrator"] == "rk4"
    assert settings["contact"] == sim.MujocoContact(friction="pyramid")


def test_what_is_refused(tmp_path):
    ball = sim.ModelBuilder()
    ball.add_sphere(radius=0.1, mass=1.0)
    refuses(lambda: sim.mujoco_settings(ball.finalize()), "mujoco_settings", "MJCF")
    both = sim.ModelBuilder()
    for number, integrator in enumerate(("RK4", "Euler")):
        path = written(tmp_path, integrator=integrator)
        quietly(both.add_mjcf, path, name=integrator, position=(0, 5 * number, 0))
    with pytest.warns(sim.MJCFWarning, match="used with MuJoCo's law alone"):
        model = both.finalize()
    refuses(lambda: sim.mujoco_settings(model), "mujoco_settings", "RK4, Euler")
