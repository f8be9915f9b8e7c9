"""A robot file with its mesh files, and numbers as text."""

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sim.errors import ModelError
from sim.model.geometries import Geometry, Mesh
from sim.output import WritingFolder, check_target, system_errors
from sim.render.texture_files import TextureFiles


def number(value: float) -> str:
    """Format one number."""
    return repr(float(value) + 0.0)


def numbers(values: Iterable[float]) -> str:
    """Format several numbers, separated by spaces."""
    return " ".join(number(value) for value in values)


def wxyz(quaternion: np.ndarray) -> str:
    """Format a quaternion xyzw in MuJoCo's order, wxyz."""
    return numbers(quaternion[[3, 0, 1, 2]])


class MeshFiles:
    """The meshes of a robot file, each as an .obj in a folder next to it, such as ``ant_xml_meshes`` for ant.xml, and
    images of textures.

    Args:
        path: the robot file.
    """

    def __init__(self, path: str | os.PathLike[str]):
        target = Path(path)
        self._folder = f"{target.stem}_{target.suffix[1:].lower()}_meshes"
        self.textures = TextureFiles(target, self._folder)
        self._texts: dict[str, str] = {}
        self._files: dict[str, str] = {}

    def add(self, geometry: Geometry, mesh: Mesh, look: bool = False) -> str:
        """Add the mesh of a geometry; return its path relative to the robot file.

        Visual meshes are often large, so they are written in single precision. With ``look`` a file of materials beside
        it has the geometry's colour, texture and, as a Phong exponent, roughness.
        """
        if geometry.name not in self._files:
            # Some file systems are case-insensitive.
            base = re.sub(r"[^a-z0-9_.-]", "_", geometry.name.lower())
            name, number = base, 1
            while f"{name}.obj" in self._texts:
                number += 1
                name = f"{base}_{number}"
            begin = f"mtllib {name}.mtl\nusemtl look\n" if look else ""
            self._texts[f"{name}.obj"] = begin + _obj(mesh, "%r" if geometry.collides else "%.9g")
            if look:
                self._texts[f"{name}.mtl"] = self._mtl(geometry)
            self._files[geometry.name] = f"{self._folder}/{name}.obj"
        return self._files[geometry.name]

    def _mtl(self, geometry: Geometry) -> str:
        rgba, material = geometry.rgba, geometry.material
        exponent = 2.0 / max(material.roughness, 0.05) ** 4 - 2.0  # as mesh files are read
        lines = [
            "newmtl look", "Ka 0 0 0", "Kd " + " ".join(f"{value:.6g}" for value in rgba[:3]), f"d {rgba[3]:.6g}",
            f"Ns {exponent:.9g}",
        ]  # fmt: skip
        if material.texture is not None:
            lines.append(f"map_Kd {Path(self.textures.add(material.texture)).name}")
        return "\n".join(lines) + "\n"

    def write(self, root: ET.Element, path: str | os.PathLike[str], suffix: str) -> Path:
        """Write the robot file and its meshes, overwriting files of the same names.

        All are written to a temporary folder next to the target first, then moved, the robot file last.

        Raises:
            ModelError: see :func:`sim.output.check_target`; for a name that XML can't hold.
        """
        target = check_target(path, (suffix,))
        folder = target.parent / self._folder
        if self._texts and folder.exists() and not folder.is_dir():
            raise ModelError(
                f"{target}: the meshes need the folder {folder}, but a file has that name; rename or remove it"
            )
        ET.indent(root)
        text = ET.tostring(root, encoding="utf-8", xml_declaration=True)
        try:
            ET.fromstring(text)
        except ET.ParseError as error:
            raise ModelError(f"{target}: a name has characters that are invalid in XML ({error}); rename it") from None
        with system_errors(target), WritingFolder(target.parent) as new:
            (new / "robot").write_bytes(text)
            for key, content in self._texts.items():
                (new / key).write_text(content)
            if self._texts:
                folder.mkdir(exist_ok=True)
            for key in self._texts:
                (new / key).replace(folder / key)
            self.textures.write(new)
            (new / "robot").replace(target)
        return target


def scaled(mesh: Mesh, size: np.ndarray) -> Mesh:
    """Return a mesh with the scale of its geometry applied to its vertices."""
    return mesh if (size == 1.0).all() else Mesh(mesh.vertices * size, mesh.faces, mesh.uv)


def _obj(mesh: Mesh, number: str) -> str:
    vertices = (
        f"v {number} {number} {number}\n"
        * len(mesh.vertices)
        % tuple(mesh.vertices.astype(np.float64).ravel().tolist())
    )
    faces = mesh.faces + 1
    if mesh.uv is None:
        return vertices + "f %d %d %d\n" * len(faces) % tuple(faces.ravel().tolist())
    values, index = np.unique(mesh.uv.reshape(-1, 2), axis=0, return_inverse=True)
    coordinates = "vt %.9g %.9g\n" * len(values) % tuple(values.ravel().tolist())
    corners = np.stack([faces, index.reshape(faces.shape) + 1], axis=2)
    return vertices + coordinates + "f %d/%d %d/%d %d/%d\n" * len(faces) % tuple(corners.ravel().tolist())
