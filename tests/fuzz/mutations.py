"""Valid files, and changes to them that a seeded generator chooses."""

import functools
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import trimesh
from pxr import Sdf, Usd

from sim.render.texture_files import hdr_of
from tests.importers.hostile import features
from tests.importers.hostile.corpus import MJCF, URDF, USDA, VALUES
from tests.importers.hostile.sdf import SDF
from tests.importers.mjcf_zoo import PART, ZOO
from tests.importers.usd_scenes import CENTIMETRES_Y_UP

ROBOTS = Path(__file__).parents[2] / "scenes" / "robots"
NUMBER = re.compile(rb"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
TOKENS = (
    *(value.encode() for value in VALUES if len(value) < 1000),
    *(b"<", b">", b"/>", b"<!--", b"-->", b"&#0;", b'"', b"'", b"{", b"}", b"[", b"]", b"@", b"\0", b"\xff", b"\n"),
    *(b"-2147483648", b"4294967295", b"1e39", b"-0", b"true", b"world", b"free", b"mesh", b"None", b"</gone>"),
)  # fmt: skip
MESH_ROBOT = """<robot name='r'><link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>
<visual><geometry><mesh filename='NAME'/></geometry></visual>
<collision><geometry><mesh filename='NAME'/></geometry></collision></link></robot>"""


DOME = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "World"
{
    def DomeLight "dome"
    {
        asset inputs:texture:file = @./NAME@
    }
    def Sphere "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
    {
    }
}
"""
MESHES = (".stl", ".obj", ".ply", ".dae", ".glb")
# Files that others refer to, by NAME: the suffix and the text of these.
REFERRING = {**dict.fromkeys(MESHES, (".urdf", MESH_ROBOT)), ".hdr": (".usda", DOME)}


@dataclass(frozen=True)
class Seed:
    """A valid file: its suffix and bytes."""

    suffix: str
    data: bytes


@functools.cache
def seeds() -> tuple[Seed, ...]:
    """The files to begin with, always in the same order."""
    texts = [(".urdf", URDF), (".xml", MJCF), (".xml", ZOO), (".usda", USDA), (".usda", CENTIMETRES_Y_UP)]
    texts += [(".xml", features.MJCF), (".usda", features.USDA), (".sdf", SDF)]
    found = [Seed(suffix, text.encode()) for suffix, text in texts]
    found += [Seed(".urdf", path.read_bytes()) for path in sorted(ROBOTS.glob("*.urdf"))]
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate((USDA, CENTIMETRES_Y_UP)):
            layer, path = Sdf.Layer.CreateAnonymous(".usda"), Path(folder, f"{number}.usdc")
            layer.ImportFromString(text)
            Usd.Stage.Open(layer).Export(str(path))
            found.append(Seed(".usdc", path.read_bytes()))
        for suffix in MESHES:
            path = Path(folder, f"box{suffix}")
            trimesh.creation.box((1.0, 2.0, 3.0)).export(str(path))
            found.append(Seed(suffix, path.read_bytes()))
    found.append(Seed(".hdr", hdr_of(np.geomspace(0.1, 100.0, 8 * 16 * 3).astype(np.float32).reshape(8, 16, 3))))
    return tuple(found)


def make_case(seed: int, number: int, folder: Path) -> tuple[Path, Path]:
    """Write the case of this number; the same numbers give the same files.

    Returns:
        the file to be read, and the file that was changed, which is another one for a mesh or an image.
    """
    rng = np.random.default_rng([seed, number])
    valid = seeds()[rng.integers(len(seeds()))]
    data = valid.data
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        data = _changed(rng, data, valid.suffix)
    changed = folder / f"case_{seed}_{number}{valid.suffix}"
    changed.write_bytes(data)
    (folder / "part.xml").write_text(PART)
    if valid.suffix not in REFERRING:
        return changed, changed
    suffix, text = REFERRING[valid.suffix]
    referring = changed.with_name(f"{changed.stem}_refers{suffix}")
    referring.write_text(text.replace("NAME", changed.name))
    return referring, changed


def _changed(rng: np.random.Generator, data: bytes, suffix: str) -> bytes:
    """One change to the bytes of a file."""
    start = int(rng.integers(len(data) + 1))
    end = min(len(data), start + int(rng.integers(1, 2 ** rng.integers(1, 9))))
    match rng.choice([*["number"] * 6, "token", "bytes", "drop", "repeat", "cut", "splice"]):
        case "number" if numbers := list(NUMBER.finditer(data)):
            found = numbers[rng.integers(len(numbers))]
            return data[: found.start()] + _token(rng) + data[found.end() :]
        case "token":
            return data[:start] + _token(rng) + data[end if rng.integers(2) else start :]
        case "bytes":
            return data[:start] + rng.integers(0, 256, end - start, dtype=np.uint8).tobytes() + data[end:]
        case "drop":
            return data[:start] + data[end:]
        case "repeat":
            return data[:start] + data[start:end] * int(rng.integers(2, 50)) + data[end:]
        case "cut" if rng.integers(4) == 0:
            return data[:start]
        case "splice":
            others = [each.data for each in seeds() if each.suffix == suffix]
            other = others[rng.integers(len(others))]
            at = int(rng.integers(len(other)))
            return data[:start] + other[at : at + end - start] + data[end:]
    return data


def _token(rng: np.random.Generator) -> bytes:
    return TOKENS[rng.integers(len(TOKENS))]
