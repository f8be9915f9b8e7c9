"""Record of trainings, to which a run adds the missing ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.report import write_json
from bench.timing import machine

Row = dict[str, Any]


class Trainings:
    """Rows of a file, which is written after each training.

    Args:
        path: path of the file; its folder is created. Existing rows are kept.
        key_of: function that returns a row's unique key.
        order: sort key of rows; None appends new ones.
    """

    def __init__(self, path: Path, key_of: Callable[[Row], Any], order: Callable[[Row], Any] | None = None):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._key_of, self._order = path, key_of, order
        self._record: dict[str, Any] = {"machine": machine(), "rows": []}
        if path.is_file():
            self._record = json.loads(path.read_text())

    def __contains__(self, key: object) -> bool:
        return any(self._key_of(row) == key for row in self._record["rows"])

    def add(self, row: Row) -> None:
        """Add a row, replacing one with the same key, and write the file."""
        key = self._key_of(row)
        rows: list[Row] = [old for old in self._record["rows"] if self._key_of(old) != key] + [row]
        if self._order is not None:
            rows.sort(key=self._order)
        self._record["rows"] = rows
        write_json(self._path, self._record)
