"""With ``make sanitize`` alone: each fault ends its process with the report that names it."""

import subprocess
import sys

from tests.kernels.faults import FAULTS

ADDRESSES = "AddressSanitizer: "
REPORTS = {
    "write_past_end": f"{ADDRESSES}heap-buffer-overflow",
    "write_past_view": f"{ADDRESSES}heap-buffer-overflow",
    "write_past_gradient": f"{ADDRESSES}heap-buffer-overflow",
    "write_in_replay": f"{ADDRESSES}heap-buffer-overflow",
    "write_past_numpy": f"{ADDRESSES}heap-buffer-overflow",
    "overflow": "runtime error: signed integer overflow: 2147483647 + 2147483647",
    "header_read": f"{ADDRESSES}heap-buffer-overflow",
    "header_stack": "runtime error: index 4 out of bounds for type 'float[4]'",
    "header_misaligned": "runtime error: load of misaligned address",
}


def end_of(fault: str) -> subprocess.CompletedProcess[str]:
    """Return how the process of a fault ends."""
    return subprocess.run(
        [sys.executable, "-m", "tests.kernels.faults", fault], capture_output=True, text=True, timeout=300, check=False
    )


def test_each_fault_is_reported():
    assert set(REPORTS) == set(FAULTS)
    for fault in FAULTS:
        end = end_of(fault)
        assert end.returncode != 0, fault
        assert REPORTS[fault] in end.stderr, f"{fault}: {end.stderr[-2000:]}"
        assert "survived" not in end.stdout, fault
