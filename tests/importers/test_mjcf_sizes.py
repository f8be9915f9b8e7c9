"""Small MJCF files that ask for much: refused before the memory is taken, and in time."""

import struct
import time
import zlib

import pytest

import sim
from sim.importers.mjcf.source.markup import root_tag, tags
from tests.errors import refuses

BODY = '<body name="b"><joint name="j"/><geom name="g" size="1"/></body>'
WORLD = f"<worldbody>{BODY}</worldbody>"


def asset(inside):
    return f'<mujoco><asset>\n{inside}</asset><worldbody><geom type="hfield" hfield="h"/></worldbody></mujoco>'


def png(width, height, rows=b""):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


FILES = {
    "wide.png": png(20000, 20000),
    "long.bin": struct.pack("<ii", 30000, 30000) + bytes(200),
    "overflow.bin": struct.pack("<ii", 65536, 65536 + 1) + bytes(4 * 65536),
    "part.xml": b'<mujoco>\n<custom>\n<numeric name="n" size="400000000"/></custom></mujoco>',
}
HFIELD = "hfield 'h' (line 2)"
WRONG = {
    "inline heights": (
        asset('<hfield name="h" nrow="10000" ncol="9999" size="1 1 1 1"/>'),
        *(HFIELD, "10000 x 9999", 10000000),
    ),
    "heights of a picture": (asset('<hfield name="h" file="wide.png" size="1 1 1 1"/>'), HFIELD, "20000 x 20000"),
    "heights of a binary file": (asset('<hfield name="h" file="long.bin" size="1 1 1 1"/>'), HFIELD, "30000 x 30000"),
    "heights whose product overflows": (
        asset('<hfield name="h" file="overflow.bin" size="1 1 1 1"/>'),
        *(HFIELD, "65536 x 65537"),
    ),
    "heights in a folder of assets": (
        '<mujoco><compiler meshdir="meshes"/><asset><hfield name="h" file="wide.png" size="1 1 1 1"/></asset></mujoco>',
        *("hfield 'h' (line 1)", "20000 x 20000"),
    ),
    "numbers of the user": (
        f'<mujoco><size nuser_geom="100000000"/>{WORLD}</mujoco>',
        *("<size> attribute 'nuser_geom'", 100000000, 10000000),
    ),
    "keyframes": (f'<mujoco><size nkey="100000000"/>{WORLD}</mujoco>', "<size> attribute 'nkey'", 800000000),
    "data of the user": (f'<mujoco><size nuserdata="100000000"/>{WORLD}</mujoco>', "'nuserdata'", 100000000),
    "a fine mesh": (
        '<mujoco><asset><mesh name="m" builtin="supertorus" params="3000 1 1 1"/></asset></mujoco>',
        *("mesh 'm' (line 1)", 3000, 1000),
    ),
    "numeric": (
        f'<mujoco><custom>\n<numeric name="n" size="400000000"/></custom>{WORLD}</mujoco>',
        *("numeric 'n' (line 2)", 400000000),
    ),
    "numeric of an included file": (
        f'<mujoco>{WORLD}<include file="part.xml"/></mujoco>',
        *("wrong.xml", "numeric 'n' (part.xml, line 3)", 400000000),
    ),
    "replicas of replicas": (
        '<mujoco><worldbody><replicate count="2000">\n<replicate count="2000"><geom size="1"/></replicate>'
        "</replicate></worldbody></mujoco>",
        *("<replicate> (line 2)", "4002002 elements", 1000000),
    ),
    "many replicas": (
        '<mujoco><worldbody>\n<replicate count="333333"><geom size="1"/></replicate></worldbody></mujoco>',
        *("<replicate> (line 2)", "333333 replicas", 10000),
    ),
    "cloth": (
        '<mujoco><worldbody><flexcomp name="f" type="grid" count="9999 9999 9"/></worldbody></mujoco>',
        *("<flexcomp> (line 1)", "elements"),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_before_memory_is_taken(tmp_path, case):
    text, *items = WRONG[case]
    (tmp_path / "meshes").mkdir()
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / "meshes" / name).write_bytes(data)
    path = tmp_path / "wrong.xml"
    path.write_text(text)
    refuses(lambda: sim.load(path), *items, error=sim.ImportFileError)


def model_of(name, attached="", world=WORLD):
    """Return a file that loads another one as a model."""
    body = f'<worldbody><body name="o"><geom size="1"/>{attached}</body></worldbody>' if attached else world
    return f'<mujoco><asset><model name="m" file="{name}"/></asset>{body}</mujoco>'


# Files that load each other, by name; the first is read. MuJoCo crashes in most.
LOADED = {
    "itself": ({"robot.xml": model_of("robot.xml")}, "robot.xml -> robot.xml"),
    "itself and attached": (
        {"robot.xml": model_of("robot.xml", '<attach model="m" body="o" prefix="p"/>')},
        "robot.xml -> robot.xml",
    ),
    "by a detour": (
        {"robot.xml": model_of("parts/../part.xml"), "part.xml": model_of("./robot.xml"), "parts/x.xml": "<mujoco/>"},
        "robot.xml -> part.xml -> robot.xml",
    ),
    "from an include": (
        {
            "robot.xml": f'<mujoco><include file="parts/some.xml"/>{WORLD}</mujoco>',
            "parts/some.xml": model_of("robot.xml", world=""),
        },
        "robot.xml -> robot.xml",
    ),
    "from a folder": (
        {"robot.xml": model_of("parts/a.xml"), "parts/a.xml": model_of("b.xml"), "parts/b.xml": model_of("a.xml")},
        "a.xml -> b.xml -> a.xml",
    ),
    "a long chain": (
        {"robot.xml": model_of("0.xml")} | {f"{k}.xml": model_of(f"{k + 1}.xml") for k in range(400)},
        "50 deep",
    ),
    "too often": (
        {
            f"{name}.xml": model_of(f"{name}x.xml", 40 * '<attach model="m" body="o" prefix="p"/>')
            for name in ("robot", "robotx", "robotxx", "robotxxx")
        }
        | {"robotxxxx.xml": f"<mujoco>{WORLD}</mujoco>"},
        "<attach> (line 1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LOADED)
def test_models_that_load_themselves_or_too_many(tmp_path, case):
    files, message = LOADED[case]
    (tmp_path / "parts").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    refuses(lambda: sim.load(tmp_path / "robot.xml"), "robot.xml", message, error=sim.ImportFileError)


@pytest.mark.parametrize("folder", ["", "parts/"])
def test_models_within_models_are_attached(tmp_path, folder):
    (tmp_path / "parts").mkdir()
    part = tmp_path / folder / "part.xml"
    part.write_text('<mujoco><worldbody><body name="b"><joint/><geom size="1"/></body></worldbody></mujoco>')
    attached = '<joint/><attach model="m" body="b" prefix="p"/><attach model="m" body="b" prefix="q"/>'
    (tmp_path / "robot.xml").write_text(model_of(f"{folder}part.xml", attached))
    assert sim.load(tmp_path / "robot.xml").num_links == 3


NAMED_NAN = {
    "folders": '<mujoco><compiler meshdir="nano" assetdir="nan" texturedir="nanny"/>{world}</mujoco>',
    "frame": '<mujoco><asset><model name="nan" file="part.xml"/></asset><worldbody><frame name="nan_frame">'
    '<attach model="nan" body="nan_body" prefix="nan"/></frame></worldbody></mujoco>',
    "attached frame": '<mujoco><asset><model name="nan" file="part.xml"/></asset><worldbody>'
    '<attach model="nan" frame="nancy" prefix="nan"/></worldbody></mujoco>',
    "subtrees": '<mujoco>{world}<sensor><contact name="nan" subtree1="nan_body" subtree2="nan_too"/></sensor></mujoco>',
    "replicas": '<mujoco><worldbody><replicate count="2" sep="nan"><body name="b"><geom size="1"/></body></replicate>'
    "</worldbody></mujoco>",
    "pictures": '<mujoco><asset><texture type="cube" fileup="nan.png" fileright="nan.png"/></asset>{world}</mujoco>',
}
NAN_BODIES = (
    '<worldbody><body name="nan_body"><joint/><geom size="1"/></body><frame name="nancy"><body name="nan_too"><joint/>'
    '<geom size="1"/></body></frame></worldbody>'
)


@pytest.mark.parametrize("case", NAMED_NAN)
def test_names_may_begin_with_nan(tmp_path, case):
    (tmp_path / "part.xml").write_text(f"<mujoco>{NAN_BODIES}</mujoco>")
    path = tmp_path / "robot.xml"
    path.write_text(NAMED_NAN[case].format(world=NAN_BODIES))
    assert sim.load(path).parts


@pytest.mark.parametrize("element", ["rgba", "scale"])
def test_colours_and_sizes_of_what_has_a_name_are_numbers(tmp_path, element):
    path = tmp_path / "robot.xml"
    path.write_text(f'<mujoco><visual><{element} camera="nan"/></visual>{WORLD}</mujoco>')
    refuses(lambda: sim.load(path), f"<{element}> (line 1)", "camera", "nan", "finite", error=sim.ImportFileError)


def test_huge_textures_are_not_decoded(tmp_path):
    """One of 1 GB in a file of 1 MB costs nothing, and one that isn't used is not even opened."""
    (tmp_path / "huge.png").write_bytes(png(32000, 32000, bytes(32001)))
    path = tmp_path / "robot.xml"
    textures = (
        '<texture name="t" type="2d" file="huge.png"/><texture name="s" type="skybox" fileleft="gone.png"/>'
        '<texture name="c" type="cube" builtin="gradient" width="30000" height="30000"/>'
        '<material name="m" texture="t" rgba="1 0 0 1"/><material name="k" texture="c"/>'
    )
    body = BODY.replace('size="1"', 'size="1" material="m"')
    path.write_text(f"<mujoco><asset>{textures}</asset><worldbody>{body}</worldbody></mujoco>")
    with pytest.warns(sim.MJCFWarning, match="texture 't'.*1024000000 pixels"):
        model = sim.load(path)
    assert model.geometries[0].material.texture is None
    assert model.geometries[0].rgba == (1.0, 0.0, 0.0, 1.0)


BOMBS = {
    "comments": b"<!--" * 40_000,
    "instructions": b"<?" * 80_000,
    "declarations": b"<!DOCTYPE " * 16_000,
    "tags": b"<" * 160_000,
    "quotes": b"<a '" * 40_000,
    "two quotes": b"<a \"'" * 32_000,
    "a word": b"<a " + b"b" * 160_000,
    "words": b"<a " + b"b " * 80_000 + b">",
    "blanks": b"<a b" + b" " * 160_000 + b">",
}


@pytest.mark.parametrize("case", BOMBS)
def test_text_is_read_once(tmp_path, case):
    """Each takes less than a second, and 40 s where every comment looks for its end anew."""
    path = tmp_path / "bomb.xml"
    path.write_bytes(BOMBS[case])
    start = time.process_time()
    root_tag(path)
    for tag in tags(BOMBS[case]):
        assert len(tag.attributes) < 100
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("<?xml version='1.0'?><!-- <a> --><!DOCTYPE b><c d='>'/>", "c"),
        ("<!-- -- <a> -- --><b/>", "b"),
        ("no element", ""),
        ("<!-- never closed <a>", "a"),
        ("</a><b>", "b"),
    ],
)
def test_first_element(tmp_path, text, root):
    path = tmp_path / "file.xml"
    path.write_text(text)
    assert root_tag(path) == root


def test_tags_and_their_attributes():
    found = list(tags(b"<a b='1' c = \"x > y\" d><!-- <e/> --><f g='/'/></a>"))
    assert [(tag.name, tag.ends, tag.alone) for tag in found] == [
        ("a", False, False),
        ("f", False, True),
        ("a", True, False),
    ]
    assert found[0].attributes == {"b": "1", "c": "x > y", "d": ""}
    assert found[1].attributes == {"g": "/"}
