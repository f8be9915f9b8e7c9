"""Mesh files of a robot: search, reading, and convex hulls.

Array sizes and file references in .gltf and .glb files are checked before memory is allocated for them.
"""

import io
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np

from sim.errors import ModelError
from sim.importers import fuel
from sim.importers.gltf_lights import lights_of
from sim.importers.mesh_looks import Colour, MeshLooks, corner_uv, texture_files
from sim.importers.pictures import Budget
from sim.model.geometries import Mesh
from sim.model.looks.lights import MountedLight
from sim.model.looks.looks import DEFAULT_MATERIAL, Material
from sim.model.shapes.hulls import SMALLEST, FlatMeshError, convex_hull

# Of a glTF file, whose transforms trimesh multiplies one by one: nodes, and ancestors of all nodes together
MOST_NODES, MOST_ANCESTORS = 10_000, 200_000
HEADER, CHUNK = 12, 8  # bytes before the first chunk of a .glb file, and before the data of a chunk


def check_gltf(path: Path) -> None:
    """Check a .gltf or .glb file before it is read.

    Raises:
        ValueError: for arrays without data, which a reader would fill with zeros up to any stated length (arrays with
            data are bounded by the size of their file); for buffers that don't exist or aren't plain files; for too
            many nodes; and for nodes that are their own ancestors.
    """
    description = _description(path)
    for number, accessor in enumerate(_objects(description, "accessors")):
        if "bufferView" not in accessor:
            raise ValueError(
                f"accessor {number} has no bufferView; sparse and compressed arrays aren't supported; export the mesh "
                "without them"
            )
    for number, item in enumerate(_objects(description, "buffers")):
        uri = str(item.get("uri", "data:"))
        if not uri.startswith("data:") and not os.path.isfile(path.parent / unquote(uri)):
            raise ValueError(f"buffers[{number}]: the file '{uri}' doesn't exist")
    _check_nodes(_objects(description, "nodes"))


def note_gltf(path: Path, looks: MeshLooks) -> None:
    """Keep the lights of a .gltf or .glb file that has been checked, and its colours, which trimesh rounds."""
    description = _description(path)
    for material in _objects(description, "materials"):
        surface = material.get("pbrMetallicRoughness")
        looks.add_factor(material.get("name"), surface.get("baseColorFactor") if isinstance(surface, dict) else None)
    looks.lights = lights_of(description, looks.notes)


def _check_nodes(nodes: list[dict[str, Any]]) -> None:
    """Check the number of nodes, that each has at most one parent, and that none is its own ancestor."""
    if len(nodes) > MOST_NODES:
        raise ValueError(f"it has {len(nodes)} nodes; at most {MOST_NODES} are supported; join its parts")
    parent: dict[int, int] = {}
    for number, node in enumerate(nodes):
        for child in node.get("children", ()):
            if not isinstance(child, int) or not 0 <= child < len(nodes) or child in parent:
                raise ValueError(f"node {number} has the child {child!r}, which doesn't exist or has another parent")
            parent[child] = number
    levels: dict[int, int] = {}  # numbers of ancestors of the nodes that have been checked
    for first in range(len(nodes)):
        visited: dict[int, None] = {}
        above: int | None = first
        while above is not None and above not in levels:
            if above in visited:
                raise ValueError(f"node {above} is its own ancestor")
            visited[above] = None
            above = parent.get(above)
        for below in reversed(visited):
            levels[below] = levels[parent[below]] + 1 if below in parent else 0
    if (total := sum(levels.values())) > MOST_ANCESTORS:
        raise ValueError(
            f"its nodes have {total} ancestors together; at most {MOST_ANCESTORS} are supported; use fewer levels"
        )


def _objects(description: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list of objects of this name; empty if missing."""
    found = description.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f"'{name}' isn't a list of objects")
    return found


def _description(path: Path) -> dict[str, Any]:
    """Return the JSON text of the file; only the first chunk of a .glb file is read."""
    with path.open("rb") as file:
        length = path.stat().st_size
        if path.suffix.lower() == ".glb":
            head = file.read(HEADER + CHUNK)
            if head[:4] != b"glTF" or len(head) < HEADER + CHUNK:
                raise ValueError("it doesn't have the header of a .glb file")
            length = min(length, int.from_bytes(head[HEADER : HEADER + 4], "little"))
        description = json.loads(file.read(length))
    if not isinstance(description, dict):
        raise ValueError("its description isn't a JSON object")
    return description


GLTF = (".gltf", ".glb")
SUFFIXES = (".stl", ".obj", ".ply", ".dae", *GLTF)
COLLADA_LOOKS = {
    "library_images", "library_effects", "library_materials", "library_cameras", "library_lights",
    "bind_material", "instance_camera", "instance_light",
}  # fmt: skip
PACKAGE_OPTION = "package_dirs (on the command line --package-dir)"
PACKAGES = ("package", "model")  # schemes of ROS and Gazebo
LARGEST = 1e12  # extent of a mesh [m] whose cube is a float32 number, as is that of the smallest
# Bytes of a binary .stl file: before its triangles, per triangle, and the range in which a text file has its first
# triangle.
STL_HEADER, STL_TRIANGLE, STL_BEGINNING = 84, 50, 1000
PLY_TEXT, PLY_ELEMENT = rb"^format +ascii", rb"^element +\S+ +(\d+)"  # in the header of a .ply file
FROM_ZERO = re.compile(r"^ *f (?:[^#\n]* )?0(?:[/ ][^\n]*)?$", re.MULTILINE)
NOT_FINITE = re.compile(rb"\b(?:nan|inf|infinity)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Piece:
    """Triangles of one colour and material in a mesh file, in metres. ``rgba`` is None if the file states no colour."""

    mesh: Mesh
    rgba: Colour | None
    material: Material = DEFAULT_MATERIAL


class MeshLibrary:
    """Meshes that a robot file refers to; each mesh file is read once.

    Args:
        folder: the folder of the robot file, absolute.
        package_dirs: folders to search for packages first.

    Attributes:
        decomposed: convex pieces of decomposed files, by path and scale.
        notes: what is not kept of the looks of files.
    """

    def __init__(self, folder: Path, package_dirs: Sequence[Path] = ()):
        self._folder = folder
        self._package_dirs = package_dirs
        self._pieces: dict[Path, list[Piece]] = {}
        self._hulls: dict[tuple[Path, tuple[float, ...]], Mesh] = {}
        self.decomposed: dict[tuple[Path, tuple[float, ...]], list[Mesh]] = {}
        self.notes: list[str] = []
        self._pictures = Budget()
        self._lights: dict[Path, list[MountedLight]] = {}

    def find(self, filename: str) -> Path:
        """Return the path of the mesh that a robot file calls ``filename``.

        ``package://name/rest`` and ``model://name/rest`` are searched in the package folders, in ROS_PACKAGE_PATH and
        AMENT_PREFIX_PATH, and in the folders above the robot file; each may contain the package or be the package.
        Addresses of Gazebo Fuel are searched on this machine (:mod:`sim.importers.fuel`).
        ``file://`` and plain names are absolute, or relative to the robot file.

        Raises:
            ModelError: if the file doesn't exist, naming the folders searched, or the scheme is unknown.
        """
        scheme, separator, rest = filename.partition("://")
        if not separator:
            candidates = [self._folder / filename]
        elif scheme == "file":
            candidates = [self._folder / unquote(rest)]
        elif scheme in PACKAGES:
            candidates = self._package_candidates(rest)
        elif fuel.is_address(filename):
            candidates = list(fuel.candidates(filename, self._roots()))
        else:
            raise ModelError(
                f"mesh '{filename}': '{scheme}://' is not supported; use package://, model://, file://, an "
                "address of Gazebo Fuel or a path"
            )
        for candidate in candidates:
            if os.path.isfile(candidate):  # unlike Path.is_file, also False for invalid file names
                return candidate
        searched = ", ".join(str(candidate) for candidate in candidates)
        if "$(" in filename or "${" in filename:
            hint = "expand the macros with xacro first"
        elif separator and scheme in PACKAGES:
            hint = f"name the folder that holds the package with {PACKAGE_OPTION}"
        else:
            hint = "to read the file without its meshes, pass visual=False and collision=False"
        raise ModelError(f"mesh '{filename}' not found; searched {searched}; {hint}")

    def pieces(self, filename: str, scale: np.ndarray) -> list[Piece]:
        """Return the triangles of a mesh file, one piece per colour and material, scaled by ``scale`` [3]."""
        pieces = self._read(self.find(filename), filename)
        return [replace(piece, mesh=_scaled(piece.mesh, scale, filename)) for piece in pieces]

    def lights(self, filename: str, scale: np.ndarray) -> list[MountedLight]:
        """Return the lights of a mesh file in its frame, moved by ``scale`` [3]."""
        path, factors = self.find(filename), np.array([*scale, 1.0, 1.0, 1.0, 1.0])
        self._read(path, filename)
        return [replace(light, placement=light.placement * factors) for light in self._lights[path]]

    def surface(self, filename: str, scale: np.ndarray) -> Mesh:
        """Return all triangles of a mesh file as one mesh, scaled by ``scale`` [3]."""
        return _scaled(_joined([piece.mesh for piece in self._read(self.find(filename), filename)]), scale, filename)

    def hull(self, filename: str, scale: np.ndarray) -> Mesh:
        """Return the convex hull of a mesh file, scaled by ``scale`` [3]."""
        path = self.find(filename)
        key = (path, tuple(scale.tolist()))
        if key not in self._hulls:
            vertices = self.surface(filename, scale).vertices
            try:
                self._hulls[key] = convex_hull(vertices)
            except FlatMeshError as error:
                raise FlatMeshError(f"mesh '{filename}' ({path}) {error}") from None
        return self._hulls[key]

    def _package_candidates(self, rest: str) -> list[Path]:
        package, _, inside = unquote(rest).partition("/")
        candidates: list[Path] = []
        for root in self._roots():
            if root.name == package:
                candidates.append(root / inside)
            candidates.append(root / package / inside)
        return list(dict.fromkeys(candidates))

    def _roots(self) -> list[Path]:
        """Return the folders in which packages are searched."""
        listed = [entry for entry in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if entry]
        prefixes = [entry for entry in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if entry]
        return [
            *self._package_dirs,
            *(Path(entry) for entry in listed),
            *(Path(entry) / "share" for entry in prefixes),
            self._folder,
            *self._folder.parents,
        ]

    def _read(self, path: Path, filename: str) -> list[Piece]:
        if path not in self._pieces:
            if path.suffix.lower() not in SUFFIXES:
                raise ModelError(
                    f"mesh '{filename}': format '{path.suffix}' is not supported; use {', '.join(SUFFIXES)}"
                )
            try:
                with np.errstate(all="ignore"):  # non-finite values are rejected afterwards
                    is_gltf = path.suffix.lower() in GLTF
                    looks = MeshLooks(is_gltf, self._pictures)
                    pieces = _read_pieces(path, looks)
            except Exception as error:  # trimesh's readers raise many types of errors for broken files
                raise ModelError(f"mesh '{filename}' ({path}) can't be read: {_first_line(error)}") from None
            if not pieces:
                raise ModelError(f"mesh '{filename}' ({path}) contains no triangles")
            self._pieces[path], self._lights[path] = pieces, looks.lights
            self.notes += [f"mesh '{filename}': {note}" for note in dict.fromkeys(looks.notes)]
        return self._pieces[path]


def _read_pieces(path: Path, looks: MeshLooks) -> list[Piece]:
    """Return triangles by colour and material. The unit of the file is applied, its up axis is not, as in ROS."""
    import trimesh

    suffix = path.suffix.lower()
    if suffix in GLTF:
        check_gltf(path)
        note_gltf(path, looks)
    elif suffix == ".stl":
        _check_stl(path)
    if suffix in WITH_IMAGES:
        scene = WITH_IMAGES[suffix](path, looks)
    else:
        scene = _read_ply(path) if suffix == ".ply" else _read_scene(str(path))
    by_look: dict[tuple[Colour | None, Material], list[Mesh]] = {}
    factor = 1.0
    if scene.units is not None:
        factor = float(trimesh.units.unit_conversion(scene.units, "meters"))
    if not (math.isfinite(factor) and factor > 0.0):
        raise ValueError(f"its unit is {factor} m; it must be finite and positive")
    known: list[tuple[Colour | None, Material]] = []
    for part in scene.geometry.values():
        if isinstance(part, trimesh.Trimesh):
            part.metadata["look"] = len(known)
            known.append(looks.of(part.visual))
    for part in scene.dump():
        if isinstance(part, trimesh.Trimesh) and len(part.faces):
            rgba, material = known[part.metadata["look"]]
            uv = None if material.texture is None else corner_uv(part)
            if uv is None:
                material = replace(material, texture=None)
            mesh = Mesh(np.array(part.vertices, dtype=np.float64) * factor, np.array(part.faces, dtype=np.int32), uv)
            by_look.setdefault((rgba, material), []).append(mesh)
    return [Piece(_joined(meshes), *look) for look, meshes in by_look.items()]


def _read_scene(source: Any, **options: Any) -> Any:
    """Return what trimesh reads; vertices are checked before trimesh would drop non-finite ones."""
    import trimesh

    scene = trimesh.load_scene(source, process=False, **options)
    for part in scene.geometry.values():
        if isinstance(part, trimesh.Trimesh):
            if part.vertices.shape[1:] != (3,):
                raise ValueError("its vertices don't have three coordinates each; repair the mesh")
            if not np.isfinite(part.vertices).all():
                raise ValueError(
                    f"vertex {np.argwhere(~np.isfinite(part.vertices))[0][0]} is not finite; repair the mesh"
                )
            if part.faces.min(initial=0) < 0:
                raise ValueError(f"a triangle has the vertex {part.faces.min()}; indices start at 0")
            part.process()
    return scene


def _read_obj(path: Path, looks: MeshLooks) -> Any:
    """Read an .obj file as a scene, normalised to the whitespace and line ends that trimesh supports.

    Raises:
        ValueError: for a face that counts its corners from 0, which trimesh treats as the last vertex.
    """
    text = path.read_text("utf-8-sig", errors="replace").replace("\t", " ")
    if (found := FROM_ZERO.search(text)) is not None:
        raise ValueError(f"the face '{found[0].strip()}' has a vertex 0; indices of an .obj file start at 1")
    return _read_scene(io.StringIO(text), file_type="obj", resolver=texture_files(str(path), looks.notes))


def _read_gltf(path: Path, looks: MeshLooks) -> Any:
    """Read a .gltf or .glb file as a scene."""
    buffers = {str(item.get("uri")) for item in _objects(_description(path), "buffers")}
    files = texture_files(str(path), looks.notes, buffers)
    with path.open("rb") as file:
        return _read_scene(file, file_type=path.suffix.lower()[1:], resolver=files)


def _read_ply(path: Path) -> Any:
    """Read a .ply file as a scene, without textures.

    Raises:
        ValueError: for a text file with fewer lines than its header states, which trimesh would accept.
    """
    header, _, body = path.read_bytes().partition(b"end_header")
    if re.search(PLY_TEXT, header, re.MULTILINE):
        expected = sum(int(count) for count in re.findall(PLY_ELEMENT, header, re.MULTILINE))
        found = sum(bool(line.strip()) for line in body.splitlines())
        if found < expected:
            raise ValueError(f"its header states {expected} lines, but it has {found}; export it again")
    return _read_scene(str(path), skip_materials=True)


def _check_stl(path: Path) -> None:
    """Raise ValueError for a binary .stl file whose length doesn't match its number of triangles."""
    data = path.read_bytes()
    if b"facet" in data[:STL_BEGINNING].lower() or len(data) < STL_HEADER:
        return  # a text file, or empty
    count = int.from_bytes(data[STL_HEADER - 4 : STL_HEADER], "little")
    length = STL_HEADER + count * STL_TRIANGLE
    if length != len(data):
        raise ValueError(f"its {count} triangles need {length} bytes, but it has {len(data)}; export it again")


def _read_collada(path: Path, looks: MeshLooks) -> Any:
    """Read a .dae file as a scene, without colours if their definitions are broken, but with its full shape."""
    import collada

    _check_positions(path)
    try:
        files = texture_files(str(path), looks.notes)
        return _read_scene(io.BytesIO(path.read_bytes()), file_type="dae", ignore_broken=False, resolver=files)
    except collada.common.DaeError:
        tree = ElementTree.parse(path)
        for element in list(tree.iter()):
            for child in list(element):
                if child.tag.rpartition("}")[2] in COLLADA_LOOKS:
                    element.remove(child)
        data = io.BytesIO(ElementTree.tostring(tree.getroot()))
        return _read_scene(data, file_type="dae", ignore_broken=False)


def _check_positions(path: Path) -> None:
    """Raise ValueError for non-finite positions in a .dae file, which pycollada would replace by zero.

    Normals and texture coordinates of published files often contain such numbers.
    """
    if not NOT_FINITE.search(path.read_bytes()):
        return
    root = ElementTree.parse(path).getroot()
    inputs = [element for element in root.iter() if element.get("semantic") == "POSITION"]
    sources = {element.get("source", "").removeprefix("#") for element in inputs}
    for source in root.iter():
        if source.get("id") in sources:
            for array in source:
                if array.tag.endswith("float_array") and NOT_FINITE.search((array.text or "").encode()):
                    raise ValueError(f"a position in '{source.get('id')}' is not finite")


def _joined(meshes: list[Mesh]) -> Mesh:
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [mesh.faces + start for mesh, start in zip(meshes, starts, strict=False)]
    uv = [mesh.uv for mesh in meshes if mesh.uv is not None]
    return Mesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate(faces).astype(np.int32),
        np.concatenate(uv) if len(uv) == len(meshes) else None,
    )


def _scaled(mesh: Mesh, scale: np.ndarray, filename: str) -> Mesh:
    # A mirrored mesh would show its inside, so its triangles are reversed.
    turn = -1 if scale.prod() < 0.0 else 1
    uv = None if mesh.uv is None else mesh.uv[:, ::turn]
    return Mesh(_checked(mesh.vertices, scale, filename), np.ascontiguousarray(mesh.faces[:, ::turn]), uv)


def _checked(vertices: np.ndarray, scale: np.ndarray, filename: str) -> np.ndarray:
    """Return vertices times a scale. Raise ModelError for a mesh too large or small to compute its volume."""
    with np.errstate(over="ignore"):
        scaled = vertices * scale
        extent = float(np.ptp(scaled, axis=0).max())
    if not (np.abs(scaled).max() <= LARGEST and extent >= SMALLEST):
        raise ModelError(
            f"mesh '{filename}' is {extent:.3g} m wide with scale {scale.tolist()}; it must be between {SMALLEST:g} m "
            f"and {LARGEST:g} m"
        )
    return scaled


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


WITH_IMAGES = {".obj": _read_obj, ".dae": _read_collada, **dict.fromkeys(GLTF, _read_gltf)}
