"""What benchmarks write."""

import json

from bench.report import Record, with_machine, write_json


def test_records_are_written_with_their_machine_into_new_folders(tmp_path):
    record, machine = Record("standing", 64, "cpu", "float32", forward_us=2.7), {"cpu": "one", "load": "0.1"}
    path = tmp_path / "out" / "bench" / "step.json"
    write_json(path, with_machine([record], machine))
    (found,) = json.loads(path.read_text())
    assert found.pop("machine") == machine
    assert Record(**found) == record
    write_json(path, {"rows": [record]})  # over what is there
    assert json.loads(path.read_text())["rows"] == [found]
