"""Process that reads untrusted files: ``python -m sim.importers.child``, started by :mod:`sim.importers.untrusted`.

A line of JSON on standard input requests a file; the model is written to the path in that line, and a line of JSON on
standard output has the result. Output of libraries is discarded.
"""

import importlib
import json
import math
import os
import resource
import sys
import warnings
from pathlib import Path
from typing import Any, TextIO

from sim.errors import ImportFileError, ModelError
from sim.importers.formats import FORMAT_OF_SUFFIX
from sim.importers.load import load
from sim.importers.model_file import model_to_bytes
from sim.importers.transaction import in_words

# Modules that importers import with the first file of a format
LIBRARIES = {"mjcf": "mujoco", "usd": "sim.importers.usd.contents"}


def serve(requests: TextIO, replies: TextIO) -> None:
    """Process requests until there are no more."""
    for line in requests:
        replies.write(json.dumps(answer(json.loads(line))) + "\n")
        replies.flush()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Read a file within its limits.

    Returns:
        "warnings" with class and text of each; "error" with class and text, or None; "tired" if the process should not
        get further requests.
    """
    path = request["path"]
    said: list[warnings.WarningMessage] = []
    error: tuple[str, str] | None = None
    tired = False
    try:
        _load_libraries(path)
        _limit(request["cpu_seconds"], request["memory"])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            data = model_to_bytes(load(path, **request["options"]))
        Path(request["result"]).write_bytes(data)
    except Exception as problem:
        tired = isinstance(problem, MemoryError) or isinstance(problem.__cause__, MemoryError)
        error = _described(problem, path, request["memory"] if tired else None)
    return {"warnings": [(each.category.__name__, str(each.message)) for each in said], "error": error, "tired": tired}


def _described(problem: Exception, path: str, memory: float | None) -> tuple[str, str]:
    """Return class and text of an error; ``memory`` is the limit that it exceeded, or None."""
    if memory is not None:
        return "ImportFileError", f"needs more than {memory / 1e6:.0f} MB of memory; raise the limit"
    if isinstance(problem, ImportFileError):
        return "ImportFileError", str(problem).removeprefix(f"{path}: ")
    if isinstance(problem, ModelError):
        return "ModelError", str(problem)
    return "ImportFileError", f"can't be read: {in_words(problem)}"


def _load_libraries(path: str) -> None:
    """Import what the format needs, so that it doesn't count as memory of the file."""
    found = FORMAT_OF_SUFFIX.get(Path(path).suffix.lower())
    if found in LIBRARIES:
        importlib.import_module(LIBRARIES[found])


def _limit(cpu_seconds: float, memory: float) -> None:
    """Limit the resources of this process beyond what it has used so far."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = math.ceil(used.ru_utime + used.ru_stime + cpu_seconds)
    for kind, limit in ((resource.RLIMIT_AS, int(size + memory)), (resource.RLIMIT_CPU, cpu)):
        resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Process requests from standard input."""
    replies = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    replies.write("ready\n")
    replies.flush()
    serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
