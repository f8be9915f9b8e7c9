"""Resident memory of this process and its peak, as reported by Linux. Imports only the standard library."""

import ctypes
import re
from pathlib import Path


def in_use() -> int:
    """Return resident memory [bytes]."""
    return _status("VmRSS")


def peak() -> int:
    """Return the peak of resident memory since the start or the last :func:`reset_peak` [bytes]."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Reset the peak to the current value."""
    Path("/proc/self/clear_refs").write_text("5")


def give_back() -> None:
    """Return freed memory from the C library to the system, so that it no longer counts as resident."""
    ctypes.CDLL(None).malloc_trim(0)


def available() -> int:
    """Return the memory of this machine that is available to processes [bytes]."""
    return _number(Path("/proc/meminfo"), "MemAvailable")


def _status(name: str) -> int:
    return _number(Path("/proc/self/status"), name)


def _number(path: Path, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", path.read_text()) if path.exists() else None
    if found is None:
        raise RuntimeError(f"{path} has no {name}; the memory of the CPU is measured on Linux only")
    return 1024 * int(found.group(1))
