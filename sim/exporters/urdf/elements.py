"""Elements of a URDF file."""

import xml.etree.ElementTree as ET

import numpy as np
from scipy.spatial.transform import Rotation

from sim.exporters.text import number, numbers


def child(element: ET.Element, tag: str) -> ET.Element:
    """The child with this tag, made if it isn't there."""
    found = element.find(tag)
    return ET.SubElement(element, tag) if found is None else found


def set_inertial(link: ET.Element, mass: float, com: np.ndarray, inertia: np.ndarray) -> None:
    """Give a link its mass [kg], centre of mass [3], and rotational inertia about it in link axes [3, 3]."""
    inertial = child(link, "inertial")
    origin = _origin(inertial)
    origin.set("xyz", numbers(com))
    origin.set("rpy", "0 0 0")
    child(inertial, "mass").set("value", number(mass))
    element = child(inertial, "inertia")
    symmetric = 0.5 * (inertia + inertia.T)
    for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        element.set(f"i{'xyz'[i]}{'xyz'[j]}", number(symmetric[i, j]))


def set_origin(element: ET.Element, placement: np.ndarray) -> None:
    """Give an element its ``<origin>``: position and quaternion xyzw [7]."""
    origin = _origin(element)
    origin.set("xyz", numbers(placement[:3]))
    origin.set("rpy", numbers(roll_pitch_yaw(placement[3:])))


def _origin(element: ET.Element) -> ET.Element:
    """The ``<origin>`` of an element, to be given angles: without a quaternion beside them."""
    origin = child(element, "origin")
    origin.attrib.pop("quat_xyzw", None)
    return origin


def roll_pitch_yaw(quaternion: np.ndarray) -> np.ndarray:
    """Angles about the fixed axes x, y, z, in that order [3], exact near a pitch of a right angle too.

    There roll and yaw are only known together: whatever yaw is taken, the roll that is left after it makes up for it.
    """
    matrix = Rotation.from_quat(quaternion).as_matrix()
    yaw = np.arctan2(matrix[1, 0], matrix[0, 0])
    sine, cosine = np.sin(yaw), np.cos(yaw)
    pitch = np.arctan2(-matrix[2, 0], cosine * matrix[0, 0] + sine * matrix[1, 0])
    roll = np.arctan2(sine * matrix[0, 2] - cosine * matrix[1, 2], cosine * matrix[1, 1] - sine * matrix[0, 1])
    return np.array([roll, pitch, yaw])
