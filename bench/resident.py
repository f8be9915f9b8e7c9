"""Resident memory of this process and its peak, as Linux counts them. Needs nothing but Python itself."""

import ctypes
import re
from pathlib import Path


def in_use() -> int:
    """Bytes that are resident now."""
    return _status("VmRSS")


def peak() -> int:
    """The most bytes that were resident since the start or the last :func:`reset_peak`."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Let the peak start from now."""
    Path("/proc/self/clear_refs").write_text("5")


def give_back() -> None:
    """Let the C library give freed memory back to the system, so that it no longer counts as resident."""
    ctypes.CDLL(None).malloc_trim(0)


def available() -> int:
    """Bytes that this machine could still give to processes."""
    return _number(Path("/proc/meminfo"), "MemAvailable")


def _status(name: str) -> int:
    return _number(Path("/proc/self/status"), name)


def _number(path: Path, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", path.read_text()) if path.exists() else None
    if found is None:
        raise RuntimeError(f"{path} has no {name}; the memory of the CPU is measured on Linux only")
    return 1024 * int(found.group(1))
