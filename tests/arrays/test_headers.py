"""One precompiled header serves modules with several sets of flags."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import warp as wp

from sim import output
from sim.arrays.headers import HEADER_ROOM, Headers
from sim.importers.untrusted import Limits, ReadingProcess

SOURCE = """#define WP_TILE_BLOCK_DIM 1
#define WP_NO_CRT
#include "builtin.h"
extern "C" WP_API double twice(double x) { return 2.0 * x; }
"""
FLAGS = ["-march=native", "-march=native -ffp-contract=fast", "-march=native -mllvm=-inline-threshold=9000"]


def test_flags_that_a_header_does_not_depend_on_share_it(tmp_path: Path, capfd):
    source = tmp_path / "twice.cpp"
    source.write_text(SOURCE)
    headers, build = Headers(2), wp._src.build
    before = build.build_cpu
    with headers.shared():
        for number, flags in enumerate(FLAGS):
            target = tmp_path / f"{number}.o"
            build.build_cpu(str(target), str(source), extra_flags=flags, use_precompiled_headers=True, block_dim=1)
            assert target.stat().st_size > 0
    assert build.build_cpu is before
    made = list(headers._folder.glob("*.pch"))
    # Under each of the names by which Warp looks for it, or Warp would have made another one.
    assert len(made) == len(FLAGS)
    assert len({file.stat().st_ino for file in made}) == 1
    assert 4_000_000 < made[0].stat().st_size < HEADER_ROOM
    assert capfd.readouterr().err == "", "the compiler refused a header"


def test_what_is_left_out_of_a_header_changes_no_code(tmp_path: Path, capfd):
    """A source without bfloat16, as Warp begins it, and one with; and each as Warp compiles it alone."""
    headers, build = Headers(1), wp._src.build
    for number, first in enumerate(("#define WP_NO_BFLOAT16\n", "")):
        source, ours, warps = (tmp_path / f"{number}.{suffix}" for suffix in ("cpp", "ours", "warps"))
        source.write_text(first + SOURCE)
        options = {"extra_flags": FLAGS[0], "use_precompiled_headers": True, "block_dim": 1}
        with headers.shared():
            build.build_cpu(str(ours), str(source), **options)
        build.build_cpu(str(warps), str(source), **options, pch_dir=str(tmp_path))
        assert ours.read_bytes() == warps.read_bytes()
    without, whole = sorted(file.stat().st_size for file in headers._folder.glob("*.pch"))
    assert without < whole
    assert capfd.readouterr().err == "", "the compiler refused a header"


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path, monkeypatch):
    make = """if True:
        import sys
        from pathlib import Path
        from sim.arrays.headers import HEADER_ROOM, Headers
        from sim.importers.untrusted import Limits, ReadingProcess
        made = Headers(1), ReadingProcess(Limits())
        print("made", flush=True)
        sys.stdin.read()"""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", make], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "made\n"
        left = set(tmp_path.iterdir())
        assert {path.name[:18] for path in left} == {"backswing_headers_", "backswing_reading_"}
        monkeypatch.setattr(output, "_cleaned", set())
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        made = Headers(1), ReadingProcess(Limits())
        assert left < set(tmp_path.iterdir()), "the other process is alive"
        other.kill()
        other.wait()
    monkeypatch.setattr(output, "_cleaned", set())
    again = Headers(1), ReadingProcess(Limits())
    assert not left & set(tmp_path.iterdir())
    del made, again
    assert list(tmp_path.iterdir()) == []


def test_long_sources_are_compiled_first(tmp_path: Path, monkeypatch):
    """One at a time, so that each can have options of its own."""
    order, begun, go_on = [], threading.Event(), threading.Event()

    def compile_source(target: str, source: str, **options):
        order.append(target)
        begun.set()
        assert go_on.wait(30.0)

    monkeypatch.setattr(wp._src.build, "build_cpu", compile_source)
    headers, threads = Headers(1), []
    with headers.shared():
        for name, size, flags in [
            ("a", 5, ""),
            ("b", 10, ""),
            ("c", 90, "-mllvm=-x"),
            ("d", 30, ""),
            ("e", 20, ""),
        ]:
            source = tmp_path / name
            source.write_bytes(bytes(size))
            arguments = {"args": (name, str(source)), "kwargs": {"extra_flags": flags}}
            threads.append(threading.Thread(target=wp._src.build.build_cpu, **arguments))
            threads[-1].start()
            assert begun.wait(30.0)
        while len(headers._waiting) < 4:
            assert go_on.wait(0.01) is False
        go_on.set()
        for thread in threads:
            thread.join(30.0)
    assert order == ["a", "c", "d", "e", "b"]
