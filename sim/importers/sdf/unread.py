"""Elements of an SDF file that the importer ignores."""

from collections import Counter

from sim.importers.sdf.values import FALSE, TRUE
from sim.importers.xmltree import Element

# Elements that are read or irrelevant to bodies, by their parent element
READ = {
    "model": {"link", "joint", "frame", "model", "include", "static", "pose", "self_collide"},
    "include": {"uri", "name", "pose", "static", "placement_frame"},
    "link": {"inertial", "collision", "visual", "pose", "gravity", "light"},
    "light": {
        "pose",
        "diffuse",
        "specular",
        "intensity",
        "direction",
        "attenuation",
        "spot",
        "cast_shadows",
        "light_on",
        "visualize",
    },
    "attenuation": {"constant", "linear", "quadratic"},
    "spot": {"inner_angle", "outer_angle"},
    "inertial": {"pose", "mass", "inertia"},
    "inertia": {"ixx", "iyy", "izz", "ixy", "ixz", "iyz"},
    "joint": {"parent", "child", "axis", "axis2", "pose", "screw_thread_pitch"},
    "axis": {"xyz", "limit", "dynamics", "mimic", "use_parent_model_frame"},
    "axis2": {"xyz", "limit", "dynamics", "mimic", "use_parent_model_frame"},
    "limit": {"lower", "upper", "effort", "velocity"},
    "dynamics": {"damping", "friction", "spring_stiffness", "spring_reference"},
    "mimic": {"multiplier", "offset", "reference"},
    "collision": {"geometry", "pose", "surface"},
    "surface": {"friction", "contact", "bounce"},
    "friction": {"ode"},
    "ode": {"mu"},
    "contact": {"collide_bitmask"},
    "bounce": set[str](),
    "visual": {"geometry", "pose", "material"},
    "world": {"model", "include", "gravity", "light", "scene", "gui", "frame"},
}
# Elements that are counted with their content
INSIDE = {
    "include", "inertial", "inertia", "axis", "axis2", "limit", "dynamics", "mimic", "surface", "friction", "ode",
    "contact", "bounce", "attenuation", "spot",
}  # fmt: skip
# Values without effect
PLAIN = {
    "slip1": 0.0, "slip2": 0.0, "restitution_coefficient": 0.0, "collide_without_contact": 0.0, "stiffness": 1e8,
    "dissipation": 1.0, "kinematic": 0.0,
}  # fmt: skip


def count_unread(element: Element, counts: Counter[str], path: str = "") -> None:
    """Count the ignored elements inside an element, by tag or by path from the element."""
    for child in element.children:
        if child.tag not in READ[element.tag] or _is_of_other_joints(child):
            if not _is_plain(child):
                counts[f"{path}<{child.tag}>"] += 1
        elif child.tag in INSIDE:
            count_unread(child, counts, f"{path}<{child.tag}>")


def _is_of_other_joints(element: Element) -> bool:
    """Return whether an element of a joint means something only for joints of another type."""
    joint = element.parent
    if joint is None or joint.tag != "joint":
        return False
    types = {"axis2": ("universal", "revolute2"), "screw_thread_pitch": ("screw",)}
    return element.tag in types and joint.attributes.get("type") not in types[element.tag]


def _is_plain(element: Element) -> bool:
    """Return whether an element states the default; a second friction does if it equals the first."""
    expected = PLAIN.get(element.tag)
    if element.tag == "mu2" and element.parent is not None:
        first = element.parent.all("mu")
        expected = _value(first[0]) if first else 1.0
    return expected is not None and _value(element) == expected


def _value(element: Element) -> float | None:
    word = element.content.lower()
    if word in (*TRUE, *FALSE):
        return float(word in TRUE)
    try:
        return float(word)
    except ValueError:
        return None
