"""Files of one subject, folders that can be read at a glance."""

import pytest

from tests.layout.imports import PACKAGES, ROOT, python_files

MOST_LINES = 500
MOST_FILES = 16


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_no_file_is_long(package: str) -> None:
    files = [*python_files(package), *(ROOT / package).rglob("*.h")]
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in files}
    long = [f"{path} has {length} lines" for path, length in lengths.items() if length > MOST_LINES]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("package", ["sim", "warp_kernels"])
def test_no_folder_is_full(package: str) -> None:
    folders = {path.parent for path in [*python_files(package), *(ROOT / package).rglob("*.h")]}
    counts = {folder.relative_to(ROOT): sum(path.is_file() for path in folder.iterdir()) for folder in sorted(folders)}
    full = [f"{folder} has {count} files" for folder, count in counts.items() if count > MOST_FILES]
    assert not full, "\n".join(full)
