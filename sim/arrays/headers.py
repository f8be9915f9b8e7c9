"""Warp's headers, parsed once for all modules that a process compiles for the CPU.

Warp keeps a precompiled header for each thread and each set of flags, and making one takes as long as compiling a
module of medium size. Its syntax tree depends only on the target: neither on options of LLVM, nor on floating-point
contraction, which apply when code is generated. While modules are compiled, a function replaces Warp's that keeps a
single header, under the names by which the compiler looks for it. If a version of Warp has other names, Warp makes its
own header.
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

# Prefix of a process's folder for its headers, among the system's temporary files.
FOLDER = "backswing_headers_"
ROOM = 1_000_000  # upper bound for a compiled module [bytes]
HEADER_ROOM = 64 * ROOM  # upper bound for a precompiled header [bytes]
HEADER = """#define WP_TILE_BLOCK_DIM {block_dim}
#define WP_NO_CRT
#include "builtin.h"
"""
# Start of Warp's sources without numbers of type bfloat16, and the flag that omits these from the header too, which is
# then parsed 1.5x faster. Both define the same, so that the compiler doesn't complain.
WITHOUT_BFLOAT16 = b"#define WP_NO_BFLOAT16\n"
WITHOUT_BFLOAT16_FLAG = "-DWP_NO_BFLOAT16="
# Templates that the header instantiates are compiled once, and not in every module.
INSTANTIATED_FLAG = "-fpch-instantiate-templates"
# Flags that don't affect the syntax tree of a header.
LATE_FLAGS = ("-mllvm", "-ffp-contract=")


class Headers:
    """Precompiled headers of a process.

    Args:
        at_a_time: number of modules that are compiled at a time; code for others is generated meanwhile.
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
        self._for_gpus = threading.Semaphore(at_a_time)  # the largest modules take 1 GB each

    def ask(self) -> int:
        """Return the number of a request; modules of earlier requests are compiled first."""
        return next(self._asked)

    def compile(self, module: wp.Module, device: wp.Device, block_dim: int, asked: int) -> None:
        """Compile and load a module in this thread, in its turn."""
        if device.is_cuda:
            with self._for_gpus:
                wp.load_module(module, device, block_dim=block_dim)
            return
        self._own.asked = asked
        with self.shared():
            wp.load_module(module, device, block_dim=block_dim)

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Share one header between all threads that compile in this context."""
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
        """Build a CPU module instead of Warp's function, with the shared header."""
        if options.get("use_precompiled_headers") and {"extra_flags", "block_dim"} <= options.keys():
            options["pch_dir"] = str(self._folder)
            added = WITHOUT_BFLOAT16_FLAG if _begins_with(source, WITHOUT_BFLOAT16) else ""
            options["extra_flags"] = f"{options['extra_flags']} {INSTANTIATED_FLAG} {added}"
            with self._lock:
                try:
                    self._provide(options)
                except OSError:  # no space among the system's temporary files
                    options["use_precompiled_headers"] = False
        flags = [flag for flag in options.get("extra_flags", "").split() if flag.startswith("-mllvm")]
        with self._slot(_Turn(flags, getattr(self._own, "asked", 0), os.path.getsize(source))):
            require_space_on_disk(Path(target).parent)
            self._compile(target, source, **options)

    @contextlib.contextmanager
    def _slot(self, turn: "_Turn") -> Iterator[None]:
        """Wait for a core, and for modules with other LLVM options: the compiler itself would block a core meanwhile.

        Earlier requests go first, and within a request the longest sources, so that no core ends with a long one.
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
        """Return the module that may start now."""
        if self._running >= self._at_a_time:
            return None
        ready = [turn for turn in self._waiting if not self._running or turn.options == self._options]
        return min(ready, key=lambda turn: (turn.asked, -turn.size), default=None)

    def _provide(self, options: dict[str, Any]) -> None:
        """Make the header for these options, unless it exists, and link it under the name for these flags."""
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
            with contextlib.suppress(OSError):  # exists, or a file system without links
                os.link(header, folder / (header.name[: -len(name)] + name))


@dataclass(eq=False)
class _Turn:
    """Module that waits to be compiled.

    Attributes:
        options: options of LLVM.
        asked: number of its request, see :meth:`Headers.ask`.
        size: length of its source [bytes].
    """

    options: list[str]
    asked: int
    size: int


def _begins_with(source: str, line: bytes) -> bool:
    with open(source, "rb") as file:
        return file.read(len(line)) == line


def require_space_on_disk(folder: Path, size: int = ROOM) -> None:
    """Check that the compiler's output fits on the disk: if it doesn't, LLVM would abort the process.

    Args:
        folder: folder of the output.
        size: maximum size of the output [bytes].

    Raises:
        OSError: if there is no space, or nothing can be written.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(size // ROOM):
            file.write(bytes(ROOM))
        file.flush()


def _digest(flags: list[str]) -> str:
    """Return the suffix of Warp's name of the header for these flags (64-bit FNV-1a)."""
    digest = 14695981039346656037
    for byte in b"".join(flag.encode() + b"\0" for flag in flags):
        digest = (digest ^ byte) * 1099511628211 % 2**64
    return f"{digest:016x}"
