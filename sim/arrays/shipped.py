"""Compiled kernels that a wheel brings along, for processors with the instructions of a level of x86-64.

A wheel holds an archive for each level, see ``docs/compiled_wheel.py``. Its name has the level, Warp's version, the
operating system and the version of the compiler; the folders in it have the whole hash of a module, of its source and
the compiler's options. A module of the same name and hash was compiled by the same compiler from the same source for
the same instructions, and is copied into Warp's cache. Other modules are compiled. A source checkout has no archives.
"""

import contextlib
import os
import sys
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import warp as wp

import warp_kernels
from sim.output import WritingFolder
from warp_kernels.cpu import processor

FOLDER = Path(warp_kernels.__file__).parent / "compiled"
CHECKSUM = ".crc32"
# Archives that this process could not read.
_damaged: set[Path] = set()


class Compiled(NamedTuple):
    """Files of a compiled module in Warp's cache.

    Attributes:
        digest: hash of its source and options.
        folder: its folder in the cache.
        binary: name of its object file.
        description: name of the file that describes its kernels.
    """

    digest: str
    folder: Path
    binary: str
    description: str


def archive(level: str) -> Path:
    """Return the path of the archive for a level, which needn't exist, with this version of Warp on this system."""
    return FOLDER / f"{level}-{wp.get_cpu_kernel_cache_key(cpu_compiler_flags='')}.zip"


def write(path: Path, modules: Iterable[Compiled]) -> None:
    """Write the archive of modules that are in Warp's cache."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as made:
        for module in modules:
            for name in (module.description, module.binary):
                # Always the same time, so that the same kernels make the same archive.
                made.writestr(_entry(module, name), (module.folder / name).read_bytes())


def unpack(modules: Iterable[Compiled]) -> None:
    """Copy into Warp's cache the modules that the archive for this processor has.

    A damaged archive is reported by one line. A module that can't be written to the cache is compiled, which says why.
    """
    modules = list(modules)
    if not modules or processor.level() == processor.NATIVE or not FOLDER.is_dir():
        return
    path = archive(processor.level())
    if path in _damaged or not path.exists():
        return
    try:
        with zipfile.ZipFile(path) as opened:
            names = set(opened.namelist())
            for module in modules:
                files = {name: _entry(module, name).filename for name in (module.description, module.binary)}
                if names.issuperset(files.values()):
                    contents = {name: opened.read(inside) for name, inside in files.items()}
                    with contextlib.suppress(OSError):
                        _put(module, contents)
    except Exception as error:  # from its directory, a compressed file, or a Python without LZMA
        _damaged.add(path)
        said = (
            f"the compiled kernels in {path} can't be read ({error}); install Backswing again, for a Python with lzma"
        )
        print(f"{said}. Kernels are compiled here meanwhile", file=sys.stderr, flush=True)


def checksum(binary: bytes, description: bytes) -> int:
    """Return the checksum of a module in the cache."""
    return zlib.crc32(description, zlib.crc32(binary))


def _entry(module: Compiled, name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(f"{module.digest}/{name}")
    entry.compress_type = zipfile.ZIP_LZMA
    return entry


def _put(module: Compiled, contents: dict[str, bytes]) -> None:
    """Write the files of a module into the cache, whole or not at all; other processes may do the same."""
    binary, description = contents[module.binary], contents[module.description]
    contents = {f"{module.binary}{CHECKSUM}": str(checksum(binary, description)).encode(), **contents}
    cache = module.folder.parent
    cache.mkdir(parents=True, exist_ok=True)
    with WritingFolder(cache) as writing:
        for name, content in contents.items():
            (writing / name).write_bytes(content)
        module.folder.mkdir(exist_ok=True)
        # The object file last: Warp looks for it.
        for name in contents:
            os.replace(writing / name, module.folder / name)
