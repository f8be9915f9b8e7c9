"""Loading kernels: what is said meanwhile, what a broken cache says, and that collecting kernels launches none."""

import io
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from sim.arrays import headers as headers_module
from sim.arrays import kernels, launch
from sim.arrays.kernels import quiet

# Two modules of one kernel each; the first start compiles both together.
WORK = """
import sys
import warp as wp
{before}
from sim.arrays.device_model import find_device
from sim.arrays.launch import launch, load_launched
{ahead}

def kernel_of(name):
    @wp.kernel(module=wp.get_module(name), enable_backward=False)
    def double(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = 2.0 * x[i]
    return double

device = find_device("cpu")
x = wp.array([1.0, 2.0], dtype=float, device=device)
kernels = [kernel_of("test.first"), kernel_of("test.second")]

def work():
    for kernel in kernels:
        launch(kernel, 2, device=device, x=x)

load_launched(work, device)
assert x.numpy().tolist() == [1.0, 2.0], "collected, but not launched"
work()
assert x.numpy().tolist() == [4.0, 8.0]
{after}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def start(cache, before="", after="", ahead=""):
    code = WORK.format(before=before, after=after, ahead=ahead)
    (cache / "work.py").write_text(code)
    paths = {"WARP_CACHE_PATH": str(cache / "kernels"), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run(
        [sys.executable, str(cache / "work.py")], env={**os.environ, **paths}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_one_line_while_they_are_compiled_and_silence_when_they_are_cached(cache):
    first = start(cache, after="assert wp.config.log_level == wp.LOG_INFO")
    assert (first.returncode, first.stdout, first.stderr) == (0, "", "compiling 2 modules of kernels\n")
    again = start(cache)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    chosen = start(cache, before="wp.config.log_level = wp.LOG_DEBUG")
    assert "Warp 1." in chosen.stdout + chosen.stderr
    assert "Module test.first" in chosen.stdout + chosen.stderr


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("damage", ["empty", "cut off", "noise", "flipped", "description"])
def test_damaged_kernels_are_compiled_again_with_one_line_that_names_the_folder(cache, tmp_path, damage, sealed):
    if damage == "flipped" and not sealed:
        return  # loads, and nothing tells but the checksum
    start(cache)
    shutil.copytree(cache / "kernels", tmp_path / "kernels")
    (binary,) = (tmp_path / "kernels").glob("*/wp_test.second*/*.o")
    good, rng = binary.read_bytes(), np.random.default_rng(len(damage))
    noise = rng.integers(256, size=len(good), dtype=np.uint8)
    if damage == "description":
        binary, good = next(binary.parent.glob("*.meta")), b""
    flipped = np.frombuffer(good, dtype=np.uint8).copy()
    if damage == "flipped":
        flipped[rng.integers(len(good), size=3)] ^= 64
    written = {"empty": b"", "cut off": good[: len(good) // 2], "noise": noise.tobytes(), "flipped": flipped.tobytes()}
    binary.write_bytes(written.get(damage, b'{"a'))
    if not sealed:
        next(binary.parent.glob("*.crc32")).unlink()
    again = start(tmp_path)
    assert again.returncode == 0
    said = f"the cached kernels in {binary.parent} are damaged; compiling them again"
    assert again.stderr.endswith(f"{said}\ncompiling 1 module of kernels\n")  # the linker may say a word before
    assert start(tmp_path).stderr == ""


def test_what_is_cached_for_another_processor_is_compiled_in_view(tmp_path):
    """As in a folder that several machines share."""
    start(tmp_path)
    for compiled in (tmp_path / "kernels").rglob("*.o"):
        name, target, suffix = compiled.name.rsplit(".", 2)
        compiled.rename(compiled.with_name(f"{name}.{'x' * len(target)}.{suffix}"))
    again = start(tmp_path)
    assert (again.returncode, again.stderr) == (0, "compiling 2 modules of kernels\n")


def test_as_many_modules_are_compiled_for_a_gpu_at_a_time_as_there_are_cores(monkeypatch):
    running, most, lock = [0], [0], threading.Lock()

    def load(*_, **__):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1

    monkeypatch.setattr(wp, "load_module", load)
    headers = headers_module.Headers(2)
    gpu = SimpleNamespace(is_cuda=True)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda module: headers.compile(module, gpu, 64, 0), range(8)))
    assert most == [2]


def test_a_terminal_sees_how_many_are_compiled(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, futures = Terminal(), [Future() for _ in range(30)]
    monkeypatch.setattr(sys, "stderr", terminal)
    for future in futures:
        future.set_result(None)
    for number, _ in enumerate(kernels._shown(futures)):
        if number == 12:
            time.sleep(0.2)  # longer than between two updates of the line
    said = terminal.getvalue()
    assert "compiling 0 of 30 modules of kernels" in said
    assert re.search(r"\rcompiling 1[2-4] of 30 modules of kernels", said)
    assert "\n" not in said, "one line"
    assert said.endswith("\r"), "and it goes"


def test_a_cache_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "kernels").write_text("a file in its place")
    done = start(tmp_path)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("sim.errors.ModelError: ")
    assert str(tmp_path / "kernels") in last
    assert "WARP_CACHE_PATH" in last
    command = [sys.executable, "-m", "sim", "warmup", "scenes/robots/arm.urdf"]
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path / "kernels")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert str(tmp_path / "kernels") in line
    assert done.returncode == 1


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))"""


# Room for nothing, and for the source of a module but not for what the compiler writes.
@pytest.mark.parametrize("size", [500, 900_000])
def test_a_full_disk_is_one_sentence(tmp_path, size):
    done = start(tmp_path, before=FULL.format(size=size))
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("sim.errors.ModelError: "), done.stderr
    assert "File too large; set WARP_CACHE_PATH" in last


def test_without_room_for_a_precompiled_header_there_is_none(tmp_path):
    done = start(tmp_path, before=FULL.format(size=4_000_000))
    assert (done.returncode, done.stderr) == (0, "compiling 2 modules of kernels\n")


def test_only_the_default_log_level_is_changed(monkeypatch):
    for before, inside in ((wp.LOG_INFO, wp.LOG_WARNING), (wp.LOG_DEBUG, wp.LOG_DEBUG), (wp.LOG_ERROR, wp.LOG_ERROR)):
        monkeypatch.setattr(wp.config, "log_level", before)
        with quiet():
            assert wp.config.log_level == inside
        assert wp.config.log_level == before


AHEAD = """
wp.config.log_level = wp.LOG_WARNING
compile_ahead = __import__("sim.arrays.kernels").arrays.kernels.compile_ahead
load_before = load_launched
def load_launched(work, device):
    {spoil}
    compile_ahead(kernels, device)
    load_before(work, device)"""


def test_what_is_compiled_ahead_is_waited_for(tmp_path):
    done = start(tmp_path, after="", before="", ahead=AHEAD.format(spoil="pass"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "compiling 2 modules of kernels\n")
    assert len(list((tmp_path / "kernels").rglob("*.o"))) == 2


def test_what_was_asked_for_first_is_compiled_first():
    headers = kernels.Headers(2)
    turns = [headers_module._Turn([], asked, size) for asked, size in ((1, 900), (0, 10), (0, 20), (1, 1000))]
    headers._waiting, order = list(turns), []
    while headers._waiting:
        order.append(headers._next())
        headers._waiting.remove(order[-1])
    assert [(turn.asked, turn.size) for turn in order] == [(0, 20), (0, 10), (1, 1000), (1, 900)]


def test_what_cannot_be_compiled_ahead_is_compiled_later(tmp_path):
    spoil = """
    from sim.arrays import kernels as module
    load = wp.load_module
    def fail_once(*arguments, **options):
        wp.load_module = load
        raise RuntimeError("no")
    wp.load_module = fail_once"""
    done = start(tmp_path, ahead=AHEAD.format(spoil=spoil))
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(compiling [12] modules? of kernels\n){1,2}", done.stderr)


def test_nothing_is_launched_while_kernels_are_collected(device):
    @wp.kernel(module=wp.get_module("test.add_one"), enable_backward=False)
    def add_one(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = x[i] + 1.0

    x = wp.zeros(3, dtype=float, device=device)
    with launch.collecting_kernels() as kernels:
        assert launch.is_collecting()
        launch.launch(add_one, 3, device=x.device, x=x)
        recorded = launch.record(add_one, 3, device=x.device, x=x)
    assert list(kernels) == [add_one]
    assert not launch.is_collecting()
    np.testing.assert_array_equal(x.numpy(), 0.0)
    launch.launch(add_one, 3, device=x.device, x=x)
    recorded.launch()
    np.testing.assert_array_equal(x.numpy(), 2.0)
