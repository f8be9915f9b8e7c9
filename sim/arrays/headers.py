"""Warp's headers, parsed once for all modules that a process compiles for the CPU.

Warp keeps a precompiled header for each thread and each set of flags, and making one takes as long as compiling a
module of middle size. The syntax tree that it holds depends on the target alone: neither on options of LLVM, nor on
whether products and sums are contracted, which are looked up when code is generated. While modules are compiled, Warp's
function for it is replaced by one that keeps a single header, under the names by which the compiler looks for it. Where
a version of Warp names them otherwise, it makes its own.
"""

import contextlib
import itertools
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warp as wp

from sim.output import WritingFolder

# What the name of a process's folder for its headers begins with, among the system's temporary files.
FOLDER = "backswing_headers_"
ROOM = 1_000_000  # more than a compiled module takes [bytes]
HEADER_ROOM = 64 * ROOM  # more than a precompiled header takes [bytes]
HEADER = """#define WP_TILE_BLOCK_DIM {block_dim}
#define WP_NO_CRT
#include "builtin.h"
"""
# How Warp begins a source without numbers of type bfloat16, and the flag that leaves these out of the header too: it is
# then parsed in two thirds of the time. Both define the same, so that the compiler doesn't complain.
WITHOUT_BFLOAT16 = b"#define WP_NO_BFLOAT16\n"
WITHOUT_BFLOAT16_FLAG = "-DWP_NO_BFLOAT16="
# What the header itself needs of its templates is made once, and not for every module.
INSTANTIATED_FLAG = "-fpch-instantiate-templates"
# Flags that the tree of a header doesn't depend on.
LATE_FLAGS = ("-mllvm", "-ffp-contract=")


class Headers:
    """The precompiled headers of a process.

    Args:
        at_a_time: how many modules are compiled at a time; code for others is generated meanwhile.
    """

    def __init__(self, at_a_time: int):
        self._writing = WritingFolder(Path(tempfile.gettempdir()), FOLDER)
        self._folder = self._writing.path
        self._made: dict[tuple[Any, ...], Path | None] = {}
        self._lock = threading.Lock()
        self._at_a_time = at_a_time
        self._turn = threading.Condition()
        self._running = 0
        self._options: list[str] = []
        self._waiting: list[_Turn] = []
        self._users = 0
        self._asked = itertools.count()
        self._own = threading.local()
        self._for_gpus = threading.Semaphore(at_a_time)  # the largest modules take a gigabyte each

    def ask(self) -> int:
        """A number for modules that are asked for together: those with a lower one are compiled first."""
        return next(self._asked)

    def compile(self, module: wp.Module, device: wp.Device, block_dim: int, asked: int) -> None:
        """Compile and load a module in this thread, which waits for its turn."""
        if device.is_cuda:
            with self._for_gpus:
                wp.load_module(module, device, block_dim=block_dim)
            return
        self._own.asked = asked
        with self.shared():
            wp.load_module(module, device, block_dim=block_dim)

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Context in which all threads that compile share a header."""
        build: Any = getattr(getattr(wp, "_src", None), "build", None)  # Warp has no public name for it
        if not hasattr(build, "build_cpu"):
            yield
            return
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._compile, build.build_cpu = build.build_cpu, self._build
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    build.build_cpu = self._compile

    def _build(self, target: str, source: str, **options: Any) -> None:
        """In place of Warp's function."""
        if options.get("use_precompiled_headers") and {"extra_flags", "block_dim"} <= options.keys():
            options["pch_dir"] = str(self._folder)
            added = WITHOUT_BFLOAT16_FLAG if _begins_with(source, WITHOUT_BFLOAT16) else ""
            options["extra_flags"] = f"{options['extra_flags']} {INSTANTIATED_FLAG} {added}"
            with self._lock:
                try:
                    self._provide(options)
                except OSError:  # no room among the system's temporary files
                    options["use_precompiled_headers"] = False
        flags = [flag for flag in options.get("extra_flags", "").split() if flag.startswith("-mllvm")]
        with self._slot(_Turn(flags, getattr(self._own, "asked", 0), os.path.getsize(source))):
            require_space_on_disk(Path(target).parent)
            self._compile(target, source, **options)

    @contextlib.contextmanager
    def _slot(self, turn: "_Turn") -> Iterator[None]:
        """Wait for a core, and for modules with other options of LLVM: the compiler itself would wait on a core.

        What was asked for first goes first. Of that the longest sources do, so that no core is left with a long one at
        the end.
        """
        with self._turn:
            self._waiting.append(turn)
            self._turn.wait_for(lambda: self._next() is turn)
            self._waiting.remove(turn)
            self._running, self._options = self._running + 1, turn.options
            self._turn.notify_all()
        try:
            yield
        finally:
            with self._turn:
                self._running -= 1
                self._turn.notify_all()

    def _next(self) -> "_Turn | None":
        """Who may start now."""
        if self._running >= self._at_a_time:
            return None
        ready = [turn for turn in self._waiting if not self._running or turn.options == self._options]
        return min(ready, key=lambda turn: (turn.asked, -turn.size), default=None)

    def _provide(self, options: dict[str, Any]) -> None:
        """Make the header for these options, unless there is one, and give it the name for these flags."""
        flags = options["extra_flags"].split()
        early = tuple(flag for flag in flags if not flag.startswith(LATE_FLAGS))
        others = {key: value for key, value in options.items() if key not in ("extra_flags", "verbose")}
        kind = (early, *map(str, others.items()))
        folder, name = self._folder, f"{_digest(flags)}.pch"
        if kind not in self._made:
            require_space_on_disk(folder, HEADER_ROOM)
            before = set(folder.iterdir())
            source = folder / "headers.cpp"
            source.write_text(HEADER.format(block_dim=options["block_dim"]))
            self._compile(str(folder / "headers.o"), str(source), **options)
            found = [file for file in set(folder.iterdir()) - before if file.name.endswith(name)]
            self._made[kind] = found[0] if found else None
        header = self._made[kind]
        if header is not None:
            with contextlib.suppress(OSError):  # there already, or a file system without links
                os.link(header, folder / (header.name[: -len(name)] + name))


@dataclass(eq=False)
class _Turn:
    """A module that waits to be compiled.

    Attributes:
        options: options of LLVM.
        asked: its number of :meth:`Headers.ask`.
        size: length of its source [bytes].
    """

    options: list[str]
    asked: int
    size: int


def _begins_with(source: str, line: bytes) -> bool:
    with open(source, "rb") as file:
        return file.read(len(line)) == line


def require_space_on_disk(folder: Path, size: int = ROOM) -> None:
    """Let the system say whether what the compiler writes finds room: where it doesn't, LLVM ends the whole process.

    Args:
        folder: where it will be.
        size: what it takes at most [bytes].

    Raises:
        OSError: if it doesn't, or nothing can be written.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(size // ROOM):
            file.write(bytes(ROOM))
        file.flush()


def _digest(flags: list[str]) -> str:
    """The end of the name that Warp gives to the header for these flags (64-bit FNV-1a)."""
    digest = 14695981039346656037
    for byte in b"".join(flag.encode() + b"\0" for flag in flags):
        digest = (digest ^ byte) * 1099511628211 % 2**64
    return f"{digest:016x}"
