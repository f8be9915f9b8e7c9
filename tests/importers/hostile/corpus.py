"""Files that mean harm, made by a script: each must end in a model or an ImportFileError."""

# Files are easier to read in whole lines.
# ruff: noqa: E501

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pxr import Sdf, Usd

from tests.importers.hostile import features
from tests.importers.hostile.sdf import sdfs

# Put into every place of a valid file in turn.
VALUES = (
    "nan",
    "inf",
    "1e300",
    "-1",
    "0 0 0",
    "",
    "1e-310",
    "9" * 400,
    "a" * 100_000,
    "2147483648",
    "0 0 0 0",
    "\u2028",
)
PATHS = ("/dev/zero", "..", "", "a\x7f" * 50, "n" * 5000, "package://", "file://%00", "%s%n", "http://localhost/a.stl")

URDF_SLOTS = {
    "<mass value='{}'/>": "1", "ixx='{}'": "1", "<origin xyz='{}'/>": "0 0 0", "rpy='{}'": "0 0 0",
    "<axis xyz='{}'/>": "0 0 1", "lower='{}'": "-1", "effort='{}'": "1", "<sphere radius='{}'/>": "1",
    "<dynamics damping='{}'/>": "0", "multiplier='{}'": "1",
}  # fmt: skip
URDF = """<robot name='r'>
<link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>
<collision><origin xyz='0 0 0'/><geometry><sphere radius='1'/></geometry></collision></link>
<link name='b'><inertial><origin rpy='0 0 0'/><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial></link>
<link name='c'/>
<joint name='j' type='revolute'><parent link='a'/><child link='b'/><axis xyz='0 0 1'/><limit lower='-1' effort='1'/>
<dynamics damping='0'/></joint>
<joint name='k' type='continuous'><parent link='b'/><child link='c'/><mimic joint='j' multiplier='1'/></joint>
</robot>"""
MJCF_SLOTS = {
    'timestep="{}"': "0.01", 'gravity="{}"': "0 0 -9.81", 'pos="{}"': "0 0 1", 'quat="{}"': "1 0 0 0",
    'axis="{}"': "0 1 0", 'damping="{}"': "0.1", 'range="{}"': "-1 1", 'ref="{}"': "0.5", 'size="{}"': "0.1 0.2 0.3",
    'friction="{}"': "1 0 0", 'gear="{}"': "2", 'qpos="{}"': "0 0 1 1 0 0 0 0", 'nrow="{}"': "2", 'elevation="{}"': "0 1 0 1",
    'polycoef="{}"': "0 1 0 0 0", 'vertex="{}"': "0 0 0 1 0 0 0 1 0 0 0 1", 'count="{}"': "3", 'data="{}"': "1 2",
}  # fmt: skip
MJCF = """<mujoco><option timestep="0.01" gravity="0 0 -9.81"/><custom><numeric name="n" data="1 2"/></custom>
<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1" elevation="0 1 0 1"/>
<mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>
<worldbody><geom type="hfield" hfield="h"/><replicate count="3" offset="1 0 0"><geom size="0.1"/></replicate>
<body name="b" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.3" friction="1 0 0"/><body quat="1 0 0 0">
<joint name="j" axis="0 1 0" damping="0.1" range="-1 1" limited="true" ref="0.5"/><geom type="mesh" mesh="m"/></body></body>
</worldbody><equality><joint joint1="j" polycoef="0 1 0 0 0"/></equality><actuator><motor joint="j" gear="2"/></actuator>
<keyframe><key qpos="0 0 1 1 0 0 0 0"/></keyframe></mujoco>"""
USD_SLOTS = {
    "float physics:mass = {}": "1", "physics:gravityMagnitude = {}": "9.8", "double radius = {}": "1",
    "xformOp:translate = {}": "(0, 0, 1)", "physics:lowerLimit = {}": "-1", "metersPerUnit = {}": "1",
    "int[] faceVertexIndices = {}": "[0, 1, 2, 0, 2, 3]", "point3f[] points = {}": "[(0,0,0), (1,0,0), (0,1,0), (0,0,1)]",
    "int[] faceVertexCounts = {}": "[3, 3]", "body1 = {}": "</W/b>", 'axis = "{}"': "Z",
}  # fmt: skip
USD_VALUES = ("nan", "inf", "1e300", "-1", "(0, nan, 1e38)", "[0, 1, 99999999]", "[-1, -1, -1]", "[]", "</gone>", '"x"')
USDA = """#usda 1.0
( upAxis = "Z"
metersPerUnit = 1 )
def Xform "W" {
    def PhysicsScene "s" {
float physics:gravityMagnitude = 9.8
}
    def Xform "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
        float physics:mass = 1
        double3 xformOp:translate = (0, 0, 1)
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Sphere "g" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
double radius = 1
}
    }
    def Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
        def Mesh "m" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]) {
            int[] faceVertexCounts = [3, 3]
            int[] faceVertexIndices = [0, 1, 2, 0, 2, 3]
            point3f[] points = [(0,0,0), (1,0,0), (0,1,0), (0,0,1)]
            uniform token physics:approximation = "convexHull"
        }
    }
    def PhysicsRevoluteJoint "j" {
        rel physics:body0 = </W/a>
        rel physics:body1 = </W/b>
        uniform token physics:axis = "Z"
        float physics:lowerLimit = -1
        float physics:upperLimit = 1
    }
}
"""
STL_HEADER = b"\0" * 80
PLY = (
    b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face 1\n"
    b"property list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
)


def make_corpus(folder: Path) -> list[Path]:
    """Write all files into a folder; returns those to be read, others belong to them."""
    for name, data in meshes().items():
        (folder / name).write_bytes(data)
    made = []
    for name, data in (
        *urdfs(),
        *sdfs(VALUES, (*meshes(), *PATHS)),
        *mjcfs(),
        *usds(folder),
        *features.mjcfs(),
        *features.usds(),
    ):
        path = folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
        made.append(path)
    return made


def urdfs() -> Iterator[tuple[str, str | bytes]]:
    yield from _slots("u", ".urdf", URDF, URDF_SLOTS, VALUES)
    shape = "<{kind}><geometry><mesh filename='{name}' scale='{scale}'/></geometry></{kind}>"
    for number, name in enumerate([*meshes(), *PATHS]):
        for kind, scale in (("visual", "1 1 1"), ("collision", "1 1e200 -1")):
            text = URDF.replace(
                "<link name='c'/>", f"<link name='c'>{shape.format(kind=kind, name=name, scale=scale)}</link>"
            )
            yield f"mesh_{number}_{kind}.urdf", text
    deep = "<link name='a'>" * 50_000 + "</link>" * 50_000
    yield from (
        ("empty.urdf", ""), ("binary.urdf", bytes(range(256)) * 100), ("deep.urdf", f"<robot name='r'>{deep}</robot>"),
        ("open.urdf", "<robot name='r'>" + "<link name='a'>" * 50_000),
        ("attributes.urdf", "<robot " + " ".join(f"a{k}='1'" for k in range(20_000)) + "/>"),
        ("utf16.urdf", URDF.encode("utf-16")), ("encoding.urdf", "<?xml version='1.0' encoding='utf-7'?>" + URDF),
        ("laughs.urdf", _laughs(URDF.replace("name='r'", "name='&e9;'"))), ("comments.xml", "<!--" * 100_000),
        ("outside.urdf", '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + URDF.replace("name='r'", "name='&x;'")),
        ("loop.urdf", URDF.replace("<child link='c'/>", "<child link='a'/>")),
        ("many.urdf", URDF.replace("<link name='c'/>", "<link name='c'/>" + "<gazebo/>" * 100_000)),
        ("star.urdf", _star(1500)), ("followers.urdf", _star(300, "<mimic joint='j{}'/>")),
    )  # fmt: skip


def mjcfs() -> Iterator[tuple[str, str | bytes]]:
    yield from _slots("m", ".xml", MJCF, MJCF_SLOTS, VALUES[:8] + VALUES[9:])
    world = '<worldbody><body><joint/><geom size="1"/></body></worldbody>'
    for number, name in enumerate([*meshes(), *PATHS]):
        body = (
            '<worldbody><body><joint/><geom type="mesh" mesh="m"/></body><geom type="hfield" hfield="h"/></worldbody>'
        )
        for kind in ("mesh", "hfield"):
            size = "" if kind == "mesh" else 'size="1 1 1 1"'
            asset = f'<{kind} name="{kind[0]}" file="{name}" {size}/>'
            other = (
                '<hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/>'
                if kind == "mesh"
                else '<mesh name="m" builtin="sphere" params="1"/>'
            )
            yield f"asset_{number}_{kind}.xml", f"<mujoco><asset>{asset}{other}</asset>{body}</mujoco>"
    for number, size in enumerate(("nuser_geom", "nuser_body", "nkey", "nuserdata", "memory", "njmax", "nconmax")):
        yield f"size_{number}.xml", f'<mujoco><size {size}="100000000"/>{world}</mujoco>'
    textures = '<texture name="t" type="2d" file="wide.png"/><material name="k" texture="t"/>'
    replicas = '<replicate count="3000"><geom size="1"/></replicate>'
    yield from (
        ("texture.xml", f"<mujoco><asset>{textures}</asset>{world}</mujoco>"),
        ("heights.xml", MJCF.replace('nrow="2" ncol="2"', 'nrow="30000" ncol="3000"').replace('elevation="0 1 0 1"', "")),
        ("numeric.xml", MJCF.replace('data="1 2"', 'size="900000000"')),
        ("replicas.xml", f"<mujoco><worldbody>{replicas}</worldbody></mujoco>"),
        ("nested.xml", "<mujoco><worldbody>" + '<replicate count="99">' * 9 + '<geom size="1"/>' + "</replicate>" * 9
         + "</worldbody></mujoco>"),
        ("cloth.xml", '<mujoco><worldbody><flexcomp type="grid" count="9999 9999 1" name="f"/></worldbody></mujoco>'),
        ("cable.xml", '<mujoco><worldbody><composite type="cable" count="99999999 1 1" size="1"/></worldbody></mujoco>'),
        ("deep.xml", "<mujoco><worldbody>" + "<body>" * 3000 + "</body>" * 3000 + "</worldbody></mujoco>"),
        ("self.xml", "<mujoco><include file='self.xml'/></mujoco>"), ("quotes.xml", "<a '" * 100_000),
        ("zero.xml", "<mujoco><include file='/dev/zero'/></mujoco>"), ("laughs.xml", _laughs("<mujoco model='&e9;'/>")),
        ("null.xml", "<mujoco>\0</mujoco>"), ("sdf.xml", "<sdf/>"), ("blank.xml", " \n"),
        ("plugin.xml", "<mujoco><extension><plugin plugin='mujoco.elasticity.cable'/></extension></mujoco>"),
        ("grid.xml", '<mujoco><asset><mesh name="m" builtin="supertorus" params="3000 1 1 1"/></asset></mujoco>'),
    )  # fmt: skip


def usds(folder: Path) -> Iterator[tuple[str, str | bytes]]:
    yield from _slots("s", ".usda", USDA, USD_SLOTS, USD_VALUES)
    whole = folder / "whole.usdc"
    layer = Sdf.Layer.CreateAnonymous(".usda")
    layer.ImportFromString(USDA)
    Usd.Stage.Open(layer).Export(str(whole))
    data, rng = whole.read_bytes(), np.random.default_rng(0)
    for number in range(48):
        damaged = np.frombuffer(data, np.uint8).copy()
        damaged[rng.integers(8, len(data), 1 + number % 6)] = rng.integers(0, 256, 1 + number % 6)
        yield f"damaged_{number}.usdc", damaged.tobytes()
    for number in range(8):
        yield f"cut_{number}.usdc", data[: len(data) * number // 8]
    yield from (
        ("nest.usda", "#usda 1.0\n" + 'def Xform "a" {\n' * 100_000 + "}" * 100_000),
        ("wide.usda", "#usda 1.0\n" + "".join(f'def Sphere "s{k}" {{}}\n' for k in range(1500))),
        ("cycle.usda", '#usda 1.0\n( subLayers = [@./cycle.usda@] )\n'),
        ("refers.usda", '#usda 1.0\ndef Xform "a" (references = @./refers.usda@</a>) {}\n'),
        ("inherits.usda", '#usda 1.0\ndef Xform "a" (inherits = </a/b>) { def Xform "b" {} }\n'),
        ("gone.usda", '#usda 1.0\ndef Xform "a" (references = @./nowhere.usd@) {}\n'),
        ("latin.usda", '#usda 1.0\ndef Xform "W" {\ncustom string s = "\xe9\xff"\n}\n'.encode("latin-1")),
        ("instances.usda", '#usda 1.0\ndef PointInstancer "p" {\nint[] protoIndices = [0, 99, -1]\nrel prototypes = </gone>\n}\n'),
        ("text.usd", "solid cube"), ("zip.usdz", b"PK\x03\x04" + bytes(200)), ("empty.usdc", b""),
    )  # fmt: skip


def meshes() -> dict[str, bytes]:
    """Mesh and picture files, by name."""
    triangle = struct.pack("<12fH", 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0)
    bad = struct.pack("<12fH", 0, 0, 1, np.nan, 0, 0, 1, 0, 0, 0, np.inf, 0, 0)
    face = b"f 1 2 3\n"
    collada = b'<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">'
    return {
        "count.stl": STL_HEADER + struct.pack("<I", 2**32 - 1) + triangle,
        "short.stl": STL_HEADER + struct.pack("<I", 5) + triangle * 2,
        "nan.stl": STL_HEADER + struct.pack("<I", 4) + bad * 4,
        "flat.stl": STL_HEADER + struct.pack("<I", 4) + triangle * 4,
        "none.stl": STL_HEADER + struct.pack("<I", 0), "empty.stl": b"", "solid.stl": b"solid " * 10_000,
        "index.obj": b"v 0 0 0\nv 1 0 0\nf 1 2 999999999\n", "zero.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 0 0\n",
        "negative.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf -9 -8 -7\n", "words.obj": b"v a b c\n" + face,
        "nan.obj": b"v nan 0 0\nv 1 0 0\nv 0 1 0\n" + face, "long.obj": b"v " + b"1" * 100_000 + b" 0 0\n" + face,
        "material.obj": b"mtllib /dev/zero\nusemtl x\nv 0 0 0\nv 1 0 0\nv 0 1 0\n" + face, "binary.obj": bytes(range(256)) * 40,
        "count.ply": PLY.replace(b"vertex 3", b"vertex 4000000000"), "negative.ply": PLY.replace(b"3 0 1 2", b"3 0 1 -1"),
        "texture.ply": PLY.replace(b"1.0\n", b"1.0\ncomment TextureFile /dev/zero\n"), "header.ply": b"ply\n" * 10_000,
        "binary.ply": PLY.replace(b"ascii", b"binary_little_endian").replace(b"face 1", b"face 4000000000"),
        "list.ply": PLY.replace(b"3 0 1 2", b"2000000000 0 1 2"), "empty.dae": collada + b"</COLLADA>", "open.dae": collada, "laughs.dae": _laughs("<COLLADA>&e9;</COLLADA>").encode(),
        "count.dae": collada + b'<library_geometries><geometry id="g"><mesh><source id="s"><float_array id="f" '
        b'count="4000000000">0</float_array></source></mesh></geometry></library_geometries></COLLADA>',
        "count.gltf": b'{"accessors": [{"count": 1000000000000, "type": "VEC3", "componentType": 5126}]}', "list.gltf": b"[]",
        "zero.gltf": b'{"buffers": [{"uri": "/dev/zero", "byteLength": 12}]}', "deep.gltf": b"[" * 100_000,
        "cycle.gltf": b'{"scenes": [{"nodes": [0]}], "nodes": [{"children": [0]}]}', "cut.glb": b"glTF" + bytes(20),
        "wide.png": _png(30_000, 30_000), "tall.png": _png(1, 2**31 - 1), "cut.png": _png(100, 100)[:40],
        "grid.bin": struct.pack("<ii", 30_000, 30_000) + bytes(100), "negative.bin": struct.pack("<ii", -5, -5) + bytes(100),
        "overflow.bin": struct.pack("<ii", 65_536, 65_537) + bytes(65_536 * 4), "mesh.msh": struct.pack("<4i", 2**30, 0, 0, 2**30),
    }  # fmt: skip


def _slots(
    prefix: str, suffix: str, text: str, slots: dict[str, str], values: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """The text with each value in each of its slots."""
    for index, (slot, good) in enumerate(slots.items()):
        for number, value in enumerate(values):
            where = slot.format(good)
            assert where in text, where
            yield f"{prefix}_{index}_{number}{suffix}", text.replace(where, slot.format(value))


def _star(count: int, inside: str = "") -> str:
    links = "".join(f"<link name='l{k}'/>" for k in range(count + 1))
    joints = "".join(
        f"<joint name='j{k}' type='continuous'><parent link='l0'/><child link='l{k}'/>{inside.format(k + 1) if k < count else ''}"
        "</joint>"
        for k in range(1, count + 1)
    )
    return f"<robot name='r'>{links}{joints}</robot>"


def _laughs(text: str) -> str:
    """XML whose entities stand for each other ten times over."""
    entities = "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 10}">' for k in range(1, 10))
    return f'<!DOCTYPE x [<!ENTITY e0 "ha">{entities}]>{text}'


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(30_001))) + chunk(b"IEND", b"")
