"""Memory of large results: what is asked of the system, and that results don't depend on the answer."""

import ctypes
import mmap
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import sim
import sim.torch
from sim.torch.runtime import tensors
from sim.torch.runtime.tensors import LARGE, new_tensor

ARM = Path(__file__).parents[2] / "scenes/robots/arm.urdf"
LIKE = torch.empty(0, dtype=torch.float64)


@pytest.fixture(autouse=True)
def found_anew() -> Iterator[None]:
    """The system's function is looked for again in each test."""
    tensors._madvise.cache_clear()
    yield
    tensors._madvise.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Address and size of what the system is advised about."""
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(tensors, "_madvise", lambda: lambda first, size, advice: calls.append((first, size)))
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 14, raising=False)
    return calls


@pytest.mark.parametrize("size", [LARGE, LARGE + 8, LARGE + mmap.PAGESIZE - 8, 9 * LARGE + 24])
def test_whole_pages_inside(size, asked):
    tensor = new_tensor(LIKE, (size // 8,))
    ((first, advised),) = asked
    before, after = first - tensor.data_ptr(), tensor.data_ptr() + size - first - advised
    assert first % mmap.PAGESIZE == advised % mmap.PAGESIZE == 0
    assert 0 <= before < mmap.PAGESIZE
    assert 0 <= after < mmap.PAGESIZE


@pytest.mark.parametrize("count", [0, 1, LARGE // 8 - 1])
def test_small_ones_ask_for_nothing(count, asked):
    assert new_tensor(LIKE, (count,)).shape == (count,)
    assert asked == []


def test_all_of_it_is_in_huge_pages_where_the_system_has_them():
    if not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        pytest.skip("this system has no huge pages on request")
    tensor = new_tensor(LIKE, (8 * LARGE // 8,))
    assert "hg" in flags_of_mapping(tensor.data_ptr() + tensor.nbytes // 2)


def flags_of_mapping(address: int) -> list[str]:
    """What Linux notes about the mapping that an address lies in; hg: huge pages are asked for."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, _, rest = line.partition("-")
        if rest and ":" not in first:
            inside = int(first, 16) <= address < int(rest.split()[0], 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    raise AssertionError("no such mapping")


def without_the_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)


def without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: object) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", refuse)


def without_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())


def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_madvise", lambda: lambda first, size, advice: -1)


SYSTEMS = [without_the_constant, without_the_library, without_the_function, refused]


@pytest.mark.skipif(sys.platform != "linux", reason="takes from a system what only Linux has")
@pytest.mark.parametrize("take_away", SYSTEMS, ids=lambda f: f.__name__)
def test_other_systems(take_away, monkeypatch):
    take_away(monkeypatch)
    if take_away is not refused:
        assert tensors._madvise() is None
    assert (new_tensor(LIKE, (2, LARGE // 8)).fill_(1.0) == 1.0).all()


def test_large_results():
    """A large batch gives what its rows give in small ones, in memory of its own, and so do gradients."""
    robot = sim.torch.Robot(ARM, dtype=torch.float64)
    rows = LARGE // (8 * robot.nq) + 3  # the gradients of this many rows are large, too
    q = torch.rand(rows, robot.nq, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    first = robot.mass_matrix(q)
    kept = first.detach().clone()
    (gradient,) = torch.autograd.grad(first.square().sum(), q)
    second = robot.mass_matrix(2.0 * q.detach())
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()
    assert torch.equal(first.detach(), kept)
    for few in (slice(0, 5), slice(rows // 2, rows // 2 + 5), slice(rows - 5, rows)):
        part = q.detach()[few].clone().requires_grad_()
        alone = robot.mass_matrix(part)
        alone.square().sum().backward()
        torch.testing.assert_close(first[few], alone, rtol=0.0, atol=1e-14)
        torch.testing.assert_close(gradient[few], part.grad, rtol=0.0, atol=1e-13)


# In a process of its own, which has freed nothing of that size.
CALLS = """
import resource
import torch
from sim.torch.runtime.tensors import new_tensor

like = torch.zeros((), dtype=torch.uint8)
faults = []
for _ in range(30):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [new_tensor(like, (3900000,)).zero_() for _ in range(12)]
    del tensors
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sorted(faults)[15])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_freed_memory_serves_the_next_call():
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, check=True)
    # They have 11000 pages, which were mapped and cleared again in each call.
    assert int(done.stdout) < 100
