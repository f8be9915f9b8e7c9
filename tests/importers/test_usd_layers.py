"""USD files of several layers: one that is missing, broken or leads back to itself is an error."""

import pytest
from pxr import Tf, Usd

import sim
from sim.importers.usd import masses, motion
from tests.errors import raises_naming
from tests.importers.usd_scenes import add_body, stage_of

BODY = 'def Cube "box" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]) {\n}\n'
PRIM = 'def Xform "a" (%s) {\n}\n'


def file_with(folder, name, text, head=""):
    """A layer with a box and more; its head is what stands in the brackets before the first prim."""
    path = folder / name
    path.write_text(f'#usda 1.0\n(\n    upAxis = "Z"\n{head}\n)\n{BODY}{text}')
    return path


@pytest.mark.parametrize(
    ("text", "head", "message"),
    [
        (PRIM % "prepend references = @gone.usda@", "", r"scene.usda: prim '/a': .*gone.usda@ for reference"),
        (PRIM % "prepend payload = @gone.usda@", "", r"scene.usda: prim '/a': .*gone.usda@ for payload"),
        ("", "subLayers = [@gone.usda@]", r"scene.usda: .*sublayer @gone.usda@"),
        (PRIM % "prepend references = @part.usda@</none>", "", r"'/a': Unresolved reference.*part.usda@</none>"),
        (PRIM % "prepend references = @part.usda@", "", r"'/a': Unresolved reference.*part.usda@<defaultPrim>"),
        (PRIM % "prepend references = @broken.usda@", "", r"'/a': Could not open asset.*broken.usda:2"),
        (PRIM % "prepend references = @nested.usda@</b>", "", r"'/a': .*gone.usda@ for payload.*nested.usda@</b>"),
        (PRIM % "instanceable = true\nprepend references = @nested.usda@</b>", "", r"gone.usda@ for payload"),
        (PRIM % "prepend references = @scene.usda@</a>", "", r"'/a': Cycle detected"),
        ("", "subLayers = [@ring.usda@]", r"scene.usda: .*has cycles"),
    ],
)  # fmt: skip
def test_a_layer_that_is_missing_or_cyclic_is_named(tmp_path, text, head, message):
    file_with(tmp_path, "part.usda", "")
    file_with(tmp_path, "nested.usda", 'def Xform "b" (prepend payload = @gone.usda@) {\n}\n')
    file_with(tmp_path, "ring.usda", "", "subLayers = [@scene.usda@]")
    (tmp_path / "broken.usda").write_text("#usda 1.0\nwhat is this\n")
    path = file_with(tmp_path, "scene.usda", text, head)
    for open_it in (sim.load, motion.read_motion):
        with pytest.raises(sim.ImportFileError, match=message) as caught:
            open_it(path)
        assert "@anon:" not in str(caught.value)


def test_a_prim_that_is_switched_off_may_refer_to_anything(tmp_path):
    path = file_with(tmp_path, "scene.usda", PRIM % "active = false\nprepend references = @gone.usda@")
    assert sim.load(path).num_links == 1


def test_texts_that_are_not_utf8(tmp_path):
    """The library opens such a file and fails when the text is asked for."""
    path = tmp_path / "text.usda"
    text = BODY.replace("{", '{\n    custom string backswing:name = "b\xff"')
    path.write_bytes(b"#usda 1.0\n" + text.encode("latin-1"))
    with raises_naming("text.usda", "not UTF-8", error=sim.ImportFileError):
        sim.load(path)


@pytest.mark.parametrize("error", [RuntimeError("Accessed invalid expired prim"), "posted"])
def test_errors_of_the_library_are_errors_of_the_file(tmp_path, monkeypatch, error):
    def fail(*_):
        if isinstance(error, Exception):
            raise error
        Tf.RaiseCodingError("nothing to see")

    stage = stage_of(tmp_path)
    add_body(stage, "a")
    monkeypatch.setattr(masses, "mass_properties", fail)
    builder = sim.ModelBuilder()
    stage.GetRootLayer().Save()
    with pytest.raises(sim.ImportFileError, match=r"scene.usda: can't be read as USD: .*(expired prim|nothing to see)"):
        builder.add_usd(stage.GetRootLayer().realPath)
    assert not builder.links


@pytest.mark.parametrize("brackets", ["()", "[]", ('def Xform "a" {\n', "}\n")])
def test_brackets_nested_beyond_measure(tmp_path, brackets):
    """The library would overflow its stack, or take minutes."""
    opening, closing = brackets
    path = tmp_path / "deep.usda"
    path.write_text(f"#usda 1.0\n{opening * 100_000}{closing * 100_000}")
    with raises_naming("brackets", 100000, 1000, error=sim.ImportFileError):
        sim.load(path)


def test_brackets_in_texts_do_not_count(tmp_path):
    path = tmp_path / "text.usda"
    smile = ":(" * 2000
    path.write_text(f'#usda 1.0\n(\n    """{smile}\n"quoted" {smile}"""\n)\n# {smile}\n{BODY}')
    assert sim.load(path).num_links == 1


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
def test_a_file_that_changes_while_another_stage_has_it_open(tmp_path, suffix):
    """The USD library keeps what the other stage reads; unsaved changes of that one stay."""
    path, held = str(tmp_path / f"scene{suffix}"), []
    for names in (("a",), ("a", "b"), ("c",)):
        stage = Usd.Stage.CreateInMemory()
        for name in names:
            add_body(stage, name)
        stage.GetRootLayer().Export(path)
        assert sim.load(path).link_names == names
        assert motion.read_motion(path).model.link_names == names
        held += [Usd.Stage.Open(path), motion.read_motion(path)]
    held[-2].RemovePrim("/c")
    add_body(held[-2], "unsaved")
    assert sim.load(path).link_names == ("unsaved",)


def test_looks_of_materialx_are_left_alone(tmp_path):
    """Only references to existing files; a missing one is an error as before."""
    (tmp_path / "m.mtlx").write_text('<?xml version="1.0"?><materialx version="1.38"/>')
    ball = 'def Sphere "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])\n{\n}\n'
    look = 'def Scope "Looks" (references = @./%s.mtlx@</MaterialX>)\n{\n}\n'
    path = tmp_path / "scene.usda"
    path.write_text("#usda 1.0\n" + ball + look % "m")
    with pytest.warns(sim.USDWarning, match=r"ignored: looks of MaterialX: .*m\.mtlx"):
        assert sim.load(path).num_links == 1
    path.write_text("#usda 1.0\n" + ball + look % "gone")
    with raises_naming(str(path), "gone.mtlx", "exists"):
        sim.load(path)
