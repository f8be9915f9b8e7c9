"""Add compiled kernels to a wheel, for the levels of x86-64 processors.

    python docs/compiled_wheel.py out/dist                       # for the level of this processor
    python docs/compiled_wheel.py out/dist x86-64-v3 x86-64-v4   # for these

The program leaves the wheel for all platforms as it is, and writes a second one beside it. The second one has the same
files, and an archive of all kernels for each level, see :mod:`sim.arrays.shipped`. Its name has the platform of Warp's
own wheel, so that pip prefers it there. Kernels are taken from Warp's cache, and compiled if they aren't in it.
"""

import base64
import hashlib
import importlib.metadata
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSIDE = "warp_kernels/compiled"


def write_archive(folder: Path, level: str) -> None:
    """Compile all kernels for a level, in both precisions, and write their archive.

    Once in a process: kernels are made for one level.

    Raises:
        RuntimeError: if this version of Warp has other names for the files of a compiled module.
    """
    sys.path.insert(0, str(ROOT))
    from sim.arrays import kernels, shipped
    from sim.arrays.device_model import the_cpu
    from warp_kernels.cpu import processor
    from warp_kernels.registry import all_modules
    from warp_kernels.types import DTYPES, LANES

    processor.choose_level(level)
    device = the_cpu()
    modules = {m.name: m for scalar in DTYPES.values() for m in all_modules(scalar, (1, LANES), looping=True)}
    kernels.load_modules(modules.values(), device)
    found = [kernels.CachedModule(module, device).compiled for module in modules.values()]
    known = [compiled for compiled in found if compiled is not None]
    if len(known) < len(found):
        raise RuntimeError("sim/arrays/kernels.py doesn't know how this version of Warp names compiled files")
    shipped.write(folder / shipped.archive(level).name, known)


def this_level() -> str | None:
    """Return the level of this processor, or None."""
    sys.path.insert(0, str(ROOT))
    from warp_kernels.cpu import processor

    return None if processor.level() == processor.NATIVE else processor.level()


def platform_of_warp() -> str:
    """Return the tag of Warp's wheel, such as "py3-none-manylinux_2_28_x86_64"."""
    described = importlib.metadata.distribution("warp-lang").read_text("WHEEL") or ""
    (tag,) = re.findall(r"^Tag: (\S+)$", described, re.MULTILINE)
    return str(tag)


def with_archives(wheel: Path, archives: list[Path], tag: str) -> Path:
    """Write a wheel with archives beside one without, and return its path.

    Args:
        wheel: the wheel for all platforms.
        archives: files to add.
        tag: Python version, ABI and platform of the new wheel.
    """
    name, version = wheel.name.split("-")[:2]
    described, record = (f"{name}-{version}.dist-info/{file}" for file in ("WHEEL", "RECORD"))
    made = wheel.with_name(f"{name}-{version}-{tag}.whl")
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        added = {f"{INSIDE}/{archive.name}": archive.read_bytes() for archive in archives}
        description = source.read(described).decode()
        description = re.sub(r"^Tag: .*$", f"Tag: {tag}", description, flags=re.MULTILINE)
        description = description.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
        added[described] = description.encode()
        rows = [row for row in source.read(record).decode().splitlines() if row.split(",")[0] not in added]
        rows[:0] = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in added.items()]
        for entry in source.infolist():
            if entry.filename not in (described, record):
                target.writestr(entry, source.read(entry))
        for path, content in {**added, record: "\n".join([*rows, ""]).encode()}.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_STORED if path.endswith(".zip") else zipfile.ZIP_DEFLATED
            target.writestr(entry, content)
    return made


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main() -> None:
    """Write the wheel, or one archive for its level."""
    if sys.argv[1] == "--archive":
        write_archive(Path(sys.argv[2]), sys.argv[3])
        return
    folder, levels = Path(sys.argv[1]), sys.argv[2:] or [level for level in (this_level(),) if level]
    if not levels:
        print("there are no compiled kernels for processors such as this one; the wheel has none")
        return
    (wheel,) = folder.glob("*-none-any.whl")
    with tempfile.TemporaryDirectory() as made:
        for level in levels:
            subprocess.run([sys.executable, __file__, "--archive", made, level], check=True)
        print(with_archives(wheel, sorted(Path(made).iterdir()), platform_of_warp()))


if __name__ == "__main__":
    main()
