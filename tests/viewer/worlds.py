"""A model with every kind of slider, and readings of what a viewer has sent to the browser."""

import numpy as np

import sim


def arm_and_box(dtype="float32"):
    """An arm whose red box stands out along x, and a green box of 2 kg that lies on the ground at (0, 0.8)."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    for link in ("upper", "wheel", "slider"):
        builder.add_link(link, mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint(
        "hinge", "revolute", child="upper", position=(0, 0, 1), axis=(0, -1, 0), limits=sim.Limits(-0.5, 1.5)
    )
    builder.add_joint("wheel", "revolute", parent="upper", child="wheel")
    builder.add_joint("slide", "prismatic", parent="upper", child="slider", limits=sim.Limits(-1.0, 1.0))
    builder.add_joint_coupling("slide", "hinge", ratio=0.5, offset=0.1)
    builder.add_geometry(
        "upper", "box", name="red", size=(0.25, 0.15, 0.15), position=(0.5, 0, 0), rgba=(0.9, 0.05, 0.05, 1),
        collides=False,
    )  # fmt: skip
    builder.add_box(
        half_extents=(0.2, 0.2, 0.2), mass=2.0, name="box", position=(0, 0.8, 0.2), rgba=(0.05, 0.6, 0.1, 1)
    )
    return builder.finalize(dtype)


def node(viewer, name):
    """Properties of a node of the scene."""
    return viewer._server.scene.get_handle_by_name(name)


def control(viewer, label):
    """The slider, button or box of a label."""
    found = [
        handle
        for handle in viewer._server.gui._gui_input_handle_from_uuid.values()
        if handle._impl.props.label == label
    ]
    assert len(found) == 1, label
    return found[0]


def arrows(viewer, name):
    """Vectors that are drawn [n, 3]."""
    drawn = node(viewer, f"{name}/arrows")
    return np.diff(drawn.points, axis=1)[:, 0] if drawn.visible else np.zeros((0, 3))
