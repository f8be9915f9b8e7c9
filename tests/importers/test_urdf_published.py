"""Irregular URDF files, as robots are published: what is read all the same, and what is said about it."""

import pytest
import trimesh
from numpy.testing import assert_allclose

import sim
from sim.errors import URDFWarning

INERTIAL = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
ZEROS = "<inertial><mass value='0'/><inertia ixx='0' iyy='0' izz='0'/></inertial>"
HINGE = "<joint name='hinge' type='continuous'><parent link='{}'/><child link='tip'/>{}</joint>"


def link(name, inside=INERTIAL):
    return f"<link name='{name}'>{inside}</link>"


@pytest.fixture
def write(tmp_path):
    """Write the inside of a <robot> to a file and return its path."""

    def write(inside):
        path = tmp_path / "robot.urdf"
        path.write_text(f"<robot name='tester'>{inside}</robot>")
        return path

    return write


def test_blank_lines_before_the_declaration(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(f"\n \n<?xml version='1.0'?>\n<robot name='r'>{link('body')}\n<link/></robot>")
    with pytest.raises(sim.ImportFileError, match=r"<link> \(line 5\): attribute 'name' is missing"):
        sim.load(path)
    path.write_text(path.read_text().replace("<link/>", ""))
    assert sim.load(path, floating_base=True).link_names == ("body",)


def test_commas_between_numbers(write):
    inside = link("base") + link("tip") + HINGE.format("base", "<origin xyz='0.5, 0, -1'/>")
    model = sim.load(write(inside), dtype="float64")
    assert_allclose(model.parameters["joint_placement"][-1, :3], [0.5, 0.0, -1.0])


def test_mass_without_inertia_is_a_point(write):
    weighed = "<inertial><origin xyz='0 0 2'/><mass value='3'/></inertial>"
    inside = link("base") + link("tip", weighed) + HINGE.format("base", "")
    with pytest.warns(URDFWarning, match="link 'tip' has a mass and no <inertia>; its mass is a point here"):
        model = sim.load(write(inside), dtype="float64")
    assert_allclose(sim.mass_matrix(model, [[0.5]]).numpy(), [[[12.0]]])


def test_the_first_of_several_inertials_counts(write):
    other = "<inertial><mass value='7'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
    with pytest.warns(URDFWarning, match="link 'body' has 2 <inertial> elements"):
        assert sim.load(write(link("body", INERTIAL + other)), floating_base=True).parameters["mass"] == [1.0]


def test_world_needs_no_link(write):
    model = sim.load(write(link("tip") + HINGE.format("world", "<origin xyz='0 0 2'/>")))
    assert model.joint_names == ("hinge",)
    assert_allclose(sim.forward_kinematics(model, [[0.0]]).numpy()[0, model.link("tip"), :3], [0.0, 0.0, 2.0])


def test_zeros_count_as_none(write):
    inside = link("base") + link("tip", ZEROS) + HINGE.format("base", "")
    with pytest.warns(URDFWarning, match="no inertial data on moving links 'tip'"):
        assert sim.load(write(inside)).nv == 1


def test_a_link_without_mass_may_carry_one(write):
    """Two joints in a row between two bodies, as of a base that slides along x and y: nothing to warn of."""
    ends = "<parent link='base'/><child link='between'/><limit lower='0' upper='1'/>"
    slide = f"<joint name='slide' type='prismatic'>{ends}</joint>"
    inside = link("base") + link("between", ZEROS) + link("tip") + slide + HINGE.format("between", "")
    model = sim.load(write(inside), dtype="float64")
    assert (model.nv, model.massless_links) == (2, ())
    sim.Simulator(model, 0.01)


def test_macros_left_in_paths_are_named(write):
    inside = "<visual><geometry><mesh filename='$(arg meshes)/part.stl'/></geometry></visual>"
    with pytest.raises(sim.ImportFileError, match="part.stl' not found; .*; expand the macros with xacro first"):
        sim.load(write(link("body", INERTIAL + inside)))


def test_flat_mesh_does_not_collide(write, tmp_path):
    trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]).export(tmp_path / "sheet.stl")
    inside = "<collision><geometry><mesh filename='sheet.stl'/></geometry></collision>"
    with pytest.warns(URDFWarning, match="ignored: collision 0 of link 'body', which has no volume"):
        model = sim.load(write(link("body", INERTIAL + inside)))
    assert model.geometries == ()
