"""Keywords of version 0.1: each warns, names the new form and gives the same model."""

import dataclasses

import numpy as np
import pytest

import sim
from sim.model.builder.properties import JOINT_FIELDS, OLD_ACTUATOR_FIELDS, SURFACE_FIELDS, TENDON_FIELDS
from sim.model.specs import DYNAMICS_CODES
from tests.errors import raises_naming, refuses

SOFT = sim.Softness(solref=(0.01, 1.0))
SURFACE = {
    "friction": 0.3, "restitution": 0.2, "torsional_friction": 0.01, "rolling_friction": 0.02, "contact_stiffness": 1e3,
    "contact_damping": 5.0, "friction_rule": "maximum", "contact_priority": 2, "softness": SOFT, "softness_mix": 2.0,
    "contact_margin": 0.1, "contact_gap": 0.2, "group": 2, "mask": 3,
}  # fmt: skip
HINGE = {
    "lower": -0.5, "upper": 0.4, "effort": 3.0, "velocity": 2.0, "limit_margin": 0.1, "limit_stiffness": 50.0,
    "limit_damping": 1.0, "limit_softness": SOFT, "stiffness": 4.0, "damping": 0.3, "rest_position": 0.2,
}  # fmt: skip
BALL = {"swing_limit": 0.5, "twist_limit": 0.6, "rotation_limit": 0.7}
TENDON = {
    "limit_margin": 0.1, "limit_softness": SOFT, "stiffness": (1.0, 2.0), "damping": 0.5, "rest_length": (0.1, 0.2),
}  # fmt: skip
ACTUATOR = {
    "kp": 60.0, "kd": 2.0, "gain": 3.0, "offset": -0.5, "kp_per_input": 1.5, "kd_per_input": -0.25,
    "dynamics": "filterexact", "time_constant": 0.1, "act_range": (-1.0, 2.0), "act_early": True,
}  # fmt: skip
SHAPES = {
    "sphere": {"radius": 0.1, "mass": 1.0},
    "box": {"half_extents": (0.1, 0.1, 0.1), "mass": 1.0},
    "capsule": {"radius": 0.1, "half_length": 0.2, "mass": 1.0},
    "cylinder": {"radius": 0.1, "half_length": 0.2, "mass": 1.0},
    "ellipsoid": {"semi_axes": (0.1, 0.1, 0.2), "mass": 1.0},
    "geometry": {"link": "world", "type": "sphere", "size": 0.1},
    "ground": {},
    "heightfield": {"heights": np.zeros((2, 2)), "spacing": 1.0},
    "static_mesh": {"vertices": [(0, 0, 0), (1, 0, 0), (0, 1, 0)], "faces": [(0, 1, 2)]},
}


def fields(values: dict, table: dict, group: str) -> dict:
    """Of old keywords and their values those of a group, by its fields."""
    return {table[old].split(".")[1]: value for old, value in values.items() if table[old].startswith(group)}


def test_every_old_keyword_is_tested():
    assert SURFACE.keys() == SURFACE_FIELDS.keys()
    assert HINGE.keys() | BALL.keys() == JOINT_FIELDS.keys()
    assert TENDON.keys() == TENDON_FIELDS.keys()
    assert ACTUATOR.keys() == OLD_ACTUATOR_FIELDS.keys()


@pytest.mark.parametrize("shape", SHAPES)
def test_surfaces(shape):
    old, new = sim.ModelBuilder(), sim.ModelBuilder()
    with pytest.warns(
        DeprecationWarning, match=rf"^add_{shape}\(friction=.*give surface=sim\.Surface\(friction"
    ) as warned:
        getattr(old, f"add_{shape}")(**SHAPES[shape], **SURFACE)
    assert [warning.filename for warning in warned] == [__file__]
    getattr(new, f"add_{shape}")(**SHAPES[shape], surface=sim.Surface(**fields(SURFACE, SURFACE_FIELDS, "surface")))
    (a,), (b,) = old.geometries.values(), new.geometries.values()
    assert a.link == b.link
    for name in SURFACE.keys() & {field.name for field in dataclasses.fields(a)}:
        assert getattr(a, name) == getattr(b, name) == SURFACE[name]
    for name in SURFACE.keys() & {field.name for field in dataclasses.fields(a.geometry)}:
        assert getattr(a.geometry, name) == getattr(b.geometry, name) == SURFACE[name]


@pytest.mark.parametrize(("kind", "values"), [("revolute", HINGE), ("spherical", BALL)])
def test_joints(kind, values):
    old, new = sim.ModelBuilder(), sim.ModelBuilder()
    with pytest.warns(DeprecationWarning, match=r"^add_joint\(.*limits=sim\.Limits\("):
        old.add_joint("j", kind, child="a", **values)
    limits = sim.Limits(**fields(values, JOINT_FIELDS, "limits"))
    new.add_joint("j", kind, child="a", limits=limits, spring=sim.Spring(**fields(values, JOINT_FIELDS, "spring")))
    for name, value in values.items():
        assert getattr(old.joints["j"], name) == getattr(new.joints["j"], name) == value


@pytest.mark.parametrize("kind", ["fixed", "spatial"])
def test_tendons(kind):
    """Their limits were a pair, which stays, and may stand beside old keywords."""
    builder = sim.ModelBuilder()
    path = {"j": 1.0} if kind == "fixed" else [("a", (0, 0, 0)), ("b", (0, 0, 1))]
    with pytest.warns(DeprecationWarning, match=r"spring=sim\.Spring\(.*rest="):
        getattr(builder, f"add_{kind}_tendon")("old", path, limits=(-1.0, 2.0), **TENDON)
    limits = sim.Limits(-1.0, 2.0, **fields(TENDON, TENDON_FIELDS, "limits"))
    spring = sim.Spring(**fields(TENDON, TENDON_FIELDS, "spring"))
    getattr(builder, f"add_{kind}_tendon")("new", path, limits=limits, spring=spring)
    old, new = (dataclasses.asdict(builder.tendons[name]) for name in ("old", "new"))
    for record in (old, new):
        record.pop("name"), record.pop("branches")
    assert old == new
    assert (old["stiffness_polynomial"], old["rest"], old["upper"]) == ((2.0, 0.0), (0.1, 0.2), 2.0)


def test_actuators():
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0)
    builder.add_joint("j", "revolute", child="a")
    with pytest.warns(DeprecationWarning, match=r"gains=sim\.Gains\(kp=.*activation=sim\.Activation\(kind=") as warned:
        builder.add_actuator("j", "affine", name="old", **ACTUATOR)
    assert [warning.filename for warning in warned] == [__file__]
    gains = sim.Gains(**fields(ACTUATOR, OLD_ACTUATOR_FIELDS, "gains"))
    activation = sim.Activation(**fields(ACTUATOR, OLD_ACTUATOR_FIELDS, "activation"))
    builder.add_actuator("j", "affine", name="new", gains=gains, activation=activation)
    old, new = builder.actuators.values()
    for name, value in ACTUATOR.items():
        expected = DYNAMICS_CODES[value] if name == "dynamics" else value
        assert getattr(old, name) == getattr(new, name) == expected


def test_terrain():
    ground = sim.terrain.generate([sim.terrain.Stairs(rise=0.1, tread=0.5)], size=5.0)
    builder = sim.ModelBuilder()
    with pytest.warns(DeprecationWarning, match=r"^add_to\(.*surface=sim\.Surface\(friction="):
        ground.add_to(builder, friction=0.4)
    assert {(one.friction, one.restitution) for one in builder.geometries.values()} == {(0.4, 1.0)}


def test_both_forms_at_once_are_refused():
    builder = sim.ModelBuilder()
    refuses(lambda: builder.add_ground(friction=0.5, surface=sim.Surface()), "add_ground", "friction", "surface")
    with raises_naming("add_joint", "damping", "spring"):
        builder.add_joint("j", "revolute", child="a", damping=0.5, spring=sim.Spring())
    with raises_naming("add_actuator", "kp", "gains"):
        builder.add_actuator("j", "position", kp=1.0, gains=sim.Gains())


def test_unknown_keywords_stay_an_error():
    with (
        pytest.warns(DeprecationWarning, match="friction"),
        pytest.raises(TypeError, match="unexpected keyword argument 'colour'"),
    ):
        sim.ModelBuilder().add_ground(colour=1, friction=0.5)


def test_distance_sensor():
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0)
    sides = {"geometries": ["ground"], "against": ["sphere_0/geometry"]}
    with pytest.warns(DeprecationWarning, match=r"^ModelBuilder.add_distance_sensor\(reach=") as caught:
        builder.add_distance_sensor("height", **sides, reach=2.0)
    assert builder.sensors["height"].max_distance == 2.0
    assert caught[0].filename == __file__
