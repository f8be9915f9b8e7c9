"""What URDF can't represent of a model from MJCF: the medium, MuJoCo's law, softness, sensors, mocap bodies."""

import pytest

import sim
from sim.exporters import write_urdf
from tests.errors import quietly, warned

FILE = """<mujoco><option density="1.2" viscosity="0.1" integrator="implicitfast"/><worldbody>
<body name="hand" mocap="true"><geom name="palm" size="0.1" contype="0" conaffinity="0"/></body>
<body name="arm"><joint name="j" axis="0 1 0" range="-60 60" solreflimit="0.05 1" solimpfriction="0.8 0.9 0.001"
 frictionloss="0.1"/><geom name="rod" size="0.1" margin="0.01"/></body></worldbody>
<sensor><jointpos name="angle" joint="j"/></sensor></mujoco>"""


def test_what_urdf_lacks_is_named(tmp_path):
    (tmp_path / "a.xml").write_text(FILE)
    model = quietly(sim.load, tmp_path / "a.xml")
    path = tmp_path / "a.urdf"
    grave = ("medium on links ('arm'", "limits ('j')", "dry friction ('j')")
    with pytest.raises(sim.ModelError) as refused:
        write_urdf(path, model)
    for words in grave:
        assert words in str(refused.value)
    said = warned(write_urdf, path, model, lossy=True)
    for words in (
        *grave,
        "'implicitfast'",
        "sensors ('angle')",
        "kinematic links ('hand')",
        "friction and other surface values ('rod')",
    ):
        assert words in said


def test_a_model_without_them_is_written_without_a_word_of_them(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("j", "revolute", child="a", limits=sim.Limits(-1, 1), friction_loss=0.1)
    builder.add_geometry("a", "sphere", size=(0.1, 0, 0))
    assert warned(write_urdf, tmp_path / "a.urdf", builder.finalize()) == ""
