"""Compiled kernels of a wheel: what is used is what would be compiled, and whatever differs is compiled."""

import os
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import warp as wp

from sim import output
from sim.arrays import shipped
from sim.output import PREFIX
from warp_kernels.cpu import processor

# One module of one kernel, with the options of all kernels; the names of its files, and the bits of its results.
WORK = """
import sys
from pathlib import Path
import numpy as np
import warp as wp
from warp_kernels.cpu import processor
{before}
from sim.arrays import kernels, shipped
from sim.arrays.device_model import find_device
from sim.arrays.launch import launch
from warp_kernels.types import kernel_module

shipped.FOLDER = Path({folder!r})
module = kernel_module("test.shipped", wp.float32)

@wp.kernel(module=module, enable_backward=False)
def waves(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = wp.sin(x[i]) * x[i] + wp.exp(-x[i])

device = find_device("cpu")
x = wp.array(np.linspace(0.0, 3.0, 40), dtype=float, device=device)
launch(waves, 40, device=device, x=x)
files = kernels.CachedModule(module, device).compiled
print(x.numpy().tobytes().hex(), (files.folder / files.binary).read_bytes().hex())
{after}
"""
COMPILED = "compiling 1 module of kernels\n"
WRITE = "shipped.write(shipped.archive(processor.level()), [files])"
X86 = pytest.mark.skipif(processor.level() == processor.NATIVE, reason="kernels of this processor aren't shipped")


def start(folder: Path, cache: Path, before: str = "", after: str = "", number: int = 0) -> subprocess.CompletedProcess:
    """Run the program in a new process, which needs a file with its source: Warp reads it."""
    script = cache.parent / f"work{number}.py"
    script.write_text(WORK.format(folder=str(folder), before=before, after=after))
    paths = {"WARP_CACHE_PATH": str(cache), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    environment = {**os.environ, **paths}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with an archive, and what was printed where its kernel was compiled."""
    folder = tmp_path_factory.mktemp("made")
    done = start(folder / "archives", folder / "cache", after=WRITE)
    assert done.stderr == COMPILED
    return folder / "archives", done.stdout


@X86
def test_what_is_shipped_is_not_compiled_and_is_what_would_be_compiled(made, tmp_path):
    folder, printed = made
    refuse = "wp._src.build.build_cpu = None"
    done = start(folder, tmp_path / "cache", before=refuse)
    assert (done.stdout, done.stderr) == (printed, "")
    # The cache serves further processes, checksum included.
    assert start(tmp_path / "none", tmp_path / "cache", before=refuse).stdout == printed
    assert len(list((tmp_path / "cache").rglob("*.crc32"))) == 1
    assert not list((tmp_path / "cache").rglob(f"{PREFIX}*")), "nothing half written stays"


@X86
def test_several_processes_use_it_at_once(made, tmp_path):
    folder, printed = made
    refuse = "wp._src.build.build_cpu = None"
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda number: start(folder, tmp_path / "cache", before=refuse, number=number), range(4))
        assert [(done.stdout, done.stderr) for done in found] == [(printed, "")] * 4


@X86
@pytest.mark.parametrize("other", ["processor", "source", "version of Warp"])
def test_what_is_for_something_else_is_compiled(made, tmp_path, other):
    folder, printed = made
    (archive,) = folder.iterdir()
    copies, before = tmp_path / "archives", ""
    copies.mkdir()
    if other == "version of Warp":
        shutil.copy(archive, copies / archive.name.replace(wp.config.version, "1.0.0"))
    elif other == "source":
        with zipfile.ZipFile(archive) as source, zipfile.ZipFile(copies / archive.name, "w") as target:
            for digest, file in (name.split("/") for name in source.namelist()):
                target.writestr(f"{digest[::-1]}/{file}", source.read(f"{digest}/{file}"))
    else:
        # Kernels for another processor have other options; its archive here has those of this one.
        level = "x86-64-v3" if processor.level() == "x86-64-v4" else "native"
        before = f"processor.choose_level({level!r})"
        shutil.copy(archive, copies / archive.name.replace(processor.level(), level))
    done = start(copies, tmp_path / "cache", before=before)
    assert done.stderr == COMPILED
    if other != "processor":
        assert done.stdout == printed
    mine, theirs = (np.frombuffer(bytes.fromhex(text.split()[0]), np.float32) for text in (done.stdout, printed))
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@X86
@pytest.mark.parametrize("damage", ["empty", "cut off", "flipped", "noise"])
def test_a_damaged_archive_is_reported_and_kernels_are_compiled(made, tmp_path, damage):
    (archive,) = made[0].iterdir()
    good = archive.read_bytes()
    flipped = np.frombuffer(good, np.uint8).copy()
    flipped[len(good) // 3] ^= 64  # within a compressed file
    noise = np.random.default_rng(0).integers(256, size=len(good), dtype=np.uint8)
    written = {"empty": b"", "cut off": good[: len(good) // 2], "flipped": flipped.tobytes(), "noise": noise.tobytes()}
    broken = tmp_path / "archives" / archive.name
    broken.parent.mkdir()
    broken.write_bytes(written[damage])
    done = start(broken.parent, tmp_path / "cache")
    assert done.stdout == made[1]
    line, said = done.stderr.splitlines()
    assert line.startswith(f"the compiled kernels in {broken} can't be read (")
    assert line.endswith("); install Backswing again, for a Python with lzma. Kernels are compiled here meanwhile")
    assert f"{said}\n" == COMPILED


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Files of a module that an archive has, and the cache has not."""
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "archives")
    found = shipped.Compiled("0123456789abcdef", tmp_path / "cache" / "wp_module_0123456", "module.o", "module.meta")
    found.folder.mkdir(parents=True)
    (found.folder / found.binary).write_bytes(b"code")
    (found.folder / found.description).write_bytes(b"kernels")
    shipped.write(shipped.archive(processor.level()), [found])
    shutil.rmtree(found.folder.parent)
    return found


@X86
def test_the_object_file_comes_last(module, monkeypatch, capfd):
    """Another process may remove the folder meanwhile: then the module isn't there, and nothing half written stays."""
    replaced, replace = [], os.replace

    def until_the_last(source, target):
        replaced.append(Path(target).name)
        if replaced[-1] == module.binary:
            raise FileNotFoundError(target)
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", until_the_last)
        shipped.unpack([module])
    assert replaced == ["module.o.crc32", "module.meta", "module.o"]
    assert sorted(file.name for file in module.folder.iterdir()) == ["module.meta", "module.o.crc32"]
    assert list(module.folder.parent.iterdir()) == [module.folder]
    shipped.unpack([module])
    assert (module.folder / "module.o").read_bytes() == b"code"
    assert (module.folder / "module.meta").read_bytes() == b"kernels"
    assert int((module.folder / "module.o.crc32").read_text()) == shipped.checksum(b"code", b"kernels")
    assert list(module.folder.parent.iterdir()) == [module.folder]
    assert capfd.readouterr() == ("", "")


@X86
def test_what_killed_processes_left_is_removed(module, monkeypatch):
    monkeypatch.setattr(output, "_cleaned", set())
    left = module.folder.parent / f"{PREFIX}left"
    left.mkdir(parents=True)
    (left / "module.o").write_bytes(b"co")
    shipped.unpack([module])
    assert list(module.folder.parent.iterdir()) == [module.folder]


@X86
def test_a_cache_that_cannot_be_written_is_reported_by_the_compiler(module, capfd):
    module.folder.parent.write_text("a file in place of the folder")
    shipped.unpack([module])
    assert capfd.readouterr() == ("", "")
    # The archive isn't taken for damaged.
    module.folder.parent.unlink()
    shipped.unpack([module])
    assert (module.folder / "module.o").exists()


@X86
def test_a_module_without_its_description_is_not_copied(module, capfd):
    with zipfile.ZipFile(shipped.archive(processor.level()), "w") as target:
        target.writestr(f"{module.digest}/{module.binary}", b"code")
    shipped.unpack([module])
    assert not module.folder.exists()
    assert capfd.readouterr() == ("", "")


def test_the_level_of_a_processor():
    v4, v3 = processor.LEVELS.values()
    assert v3 < v4
    assert processor.level_of(v4 | {"avx512vnni", "sha"}) == "x86-64-v4"
    for instruction in v4 - v3:
        assert processor.level_of(v4 - {instruction}) == "x86-64-v3"
    for instruction in v3:
        assert processor.level_of(v4 - {instruction}) == "native"
    assert processor.level_of(frozenset({"neon", "fp-armv8"})) == processor.level_of(frozenset()) == "native"


def test_only_known_levels_are_chosen_and_one_in_a_process():
    with pytest.raises(ValueError, match="no level 'x86-64-v9' of processors; there is x86-64-v4, x86-64-v3, native"):
        processor.choose_level("x86-64-v9")
    chosen = processor.level()
    processor.choose_level(chosen)
    with pytest.raises(ValueError, match=f"kernels were made for {chosen} before"):
        processor.choose_level(next(name for name in (*processor.LEVELS, "native") if name != chosen))
