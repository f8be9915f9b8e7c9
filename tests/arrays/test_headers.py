"""One precompiled header serves modules with several sets of flags."""

from pathlib import Path

import warp as wp

from sim.arrays.headers import Headers

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
    assert capfd.readouterr().err == "", "the compiler refused a header"
