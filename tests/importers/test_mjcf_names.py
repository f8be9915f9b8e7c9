"""Names of an MJCF file and those made for what it leaves unnamed."""

import pytest

import sim
from tests.importers.mjcf_steps import difference, load_noting

GEOM = '<geom size=".1"/>'
OTHER = '<body name="b" pos="0 0 1"><joint name="c"/>' + GEOM + "</body>"
# What the file names after what has no name, and what this is called then.
CLASHES = {
    "actuator": (
        f'<body name="a"><joint name="h"/>{GEOM}</body>{OTHER}',
        '<actuator><motor joint="h"/><motor name="h" joint="c"/></actuator>',
        ("actuator_names", {"h_", "h"}),
    ),
    "body": (f'<body><joint/>{GEOM}</body><body name="body_1" pos="0 0 1"><joint/>{GEOM}</body>', "",
             ("link_names", {"body_1_", "body_1"})),
    "joint": (f'<body name="a"><joint/>{GEOM}</body><body name="b"><joint name="a_joint"/>{GEOM}</body>', "",
              ("joint_names", {"a_joint_", "a_joint"})),
    "fixed joint": (
        f'<body name="a"><joint/>{GEOM}<body name="c">{GEOM}</body></body>'
        f'<body name="b"><joint name="c_fixed"/>{GEOM}</body>',
        "", ("joint_names", {"a_joint", "c_fixed"}),
    ),
    "origin": (f'<body name="a"><joint pos=".1 0 0"/>{GEOM}</body><body name="a/origin"><joint/>{GEOM}</body>', "",
               ("link_names", {"a", "a/origin"})),
    "link of a chain": (
        f'<body name="a"><joint name="x"/><joint name="y" axis="1 0 0"/>{GEOM}</body>'
        f'<body name="a/x"><joint name="c"/>{GEOM}</body>',
        "", ("link_names", {"a/x_", "a", "a/x"}),
    ),
    "site": (f'<body name="a"><joint/>{GEOM}<site name="a"/></body><body name="a/site"><joint/>{GEOM}</body>', "",
             ("link_names", {"a", "a/site"})),
    "constraint": (
        f'<body name="a"><joint name="x"/>{GEOM}</body>{OTHER}',
        '<equality><connect body1="a" body2="b" anchor="0 0 .1"/><weld name="connect_0" body1="a" body2="b"/>'
        "</equality>",
        ("link_names", {"a", "b"}),
    ),
    "spring": (
        f'<body name="a"><joint name="x" type="slide" stiffness="1 2 3"/>{GEOM}</body>{OTHER}',
        '<tendon><fixed name="x/spring"><joint joint="c" coef="1"/></fixed></tendon>',
        ("link_names", {"a", "b"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CLASHES)
def test_names_of_the_file_come_first(tmp_path, case):
    bodies, after, (attribute, expected) = CLASHES[case]
    path = tmp_path / "robot.xml"
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody>{after}</mujoco>")
    model, notes = load_noting(path)
    assert (set(getattr(model, attribute)), notes) == (expected, "")
    assert difference(path, steps=2) < 1e-12
    builder = sim.ModelBuilder()
    for name in ("one", "two"):
        builder.add_mjcf(path, name=name)
    assert {f"one/{name}" for name in expected} <= set(getattr(builder.finalize(), attribute))


def test_geometries_and_tendons_too(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(
        f'<mujoco><worldbody><body name="a"><joint name="x"/>{GEOM}</body>'
        '<body name="b" pos="0 0 1"><joint name="c"/><geom size=".1" name="a/geom_0"/></body></worldbody>'
        '<tendon><fixed><joint joint="x" coef="1"/></fixed><fixed name="tendon_0"><joint joint="c" coef="1"/></fixed>'
        "</tendon></mujoco>"
    )
    model, _ = load_noting(path)
    assert [geometry.name for geometry in model.geometries] == ["a/geom_0_", "a/geom_0"]
    assert model.tendons.names == ("tendon_0_", "tendon_0")


def test_a_keyframe_without_a_name_leaves_one_called_by_its_number(tmp_path):
    path = tmp_path / "robot.xml"
    keys = '<key qpos="1"/><key name="0" qpos="2"/><key qpos="3"/>'
    path.write_text(
        f'<mujoco><worldbody><body><joint type="slide"/>{GEOM}</body></worldbody><keyframe>{keys}</keyframe></mujoco>'
    )
    model, _ = load_noting(path)
    assert {name: key.q.tolist() for name, key in model.parts[0].keyframes.items()} == {
        "0_": [1.0], "0": [2.0], "2": [3.0],
    }  # fmt: skip


def test_a_follower_begins_where_its_coupling_holds(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(
        f'<mujoco><worldbody><body name="a"><joint name="x" type="slide" ref=".1"/>{GEOM}</body>'
        f'<body name="b" pos="0 0 1"><joint name="y" type="slide"/>{GEOM}</body></worldbody>'
        '<equality><joint joint1="y" joint2="x" polycoef=".7 2 0 0 0"/></equality></mujoco>'
    )
    model, notes = load_noting(path)
    assert (model.q0.tolist(), notes) == ([0.1, 0.7], "")
