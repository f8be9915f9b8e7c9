"""Words of pages, docstrings and names, held to tests/prose.toml. ``python -m tests.prose`` counts findings by folder.

Docstrings of public functions begin with a verb in the imperative; those of modules, classes and properties don't begin
with a question word. Retired terms and names don't come back. ``--list FOLDER`` prints the findings of a folder,
``--terms`` counts the terms in the whole text of the repository.
"""

import argparse
import ast
import collections
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
VERBS, QUESTIONS = frozenset(RULES["verbs"].split()), frozenset(RULES["questions"].split())
NAMES = {re.compile(f"(^|_)({pattern})(_|$)", re.IGNORECASE): instead for pattern, instead in RULES["names"].items()}
RETIRED = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in RULES["retired"].items()}
PACKAGES = ("backswing", "sim", "scenes", "examples", "bench", "warp_kernels")
PAGES = ("*.md", "docs/**/*.md", "docs/**/*.rst")


class Finding(NamedTuple):
    """A line to rewrite, and why."""

    path: str
    line: int
    rule: str  # "function", "noun", "term" or "name"
    said: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.said}"


def folder_of(path: str) -> str:
    """Return the folder that a file is counted in: two levels of a package, the page itself elsewhere."""
    parts = Path(path).parts
    return "/".join(parts[: min(2, len(parts) - 1)]) if path.endswith(".py") else path


def findings(root: Path = ROOT) -> Iterator[Finding]:
    """Yield the findings in pages and public docstrings."""
    for path in sorted({path for pattern in PAGES for path in root.glob(pattern)}):
        name = path.relative_to(root).as_posix()
        if name != "CHANGELOG.md":
            yield from _terms(name, 1, path.read_text(encoding="utf-8"))
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        yield from findings_in(path.relative_to(root).as_posix(), ast.parse(path.read_text(encoding="utf-8")))


def findings_in(name: str, tree: ast.Module) -> Iterator[Finding]:
    """Yield the findings in the public docstrings of a file."""
    for kind, line, text in _docstrings(tree):
        first = text.split(maxsplit=1)[0]
        if kind == "function" and first.rstrip(",;.") not in VERBS:
            said = f"begins with '{first}'; begin with a verb in the imperative (list: tests/prose.toml)"
            yield Finding(name, line, "function", said)
        elif kind == "noun" and first.rstrip(",;.") in QUESTIONS:
            yield Finding(name, line, "noun", f"begins with '{first}'; begin with a noun phrase")
        yield from _terms(name, line, text)


def names(root: Path = ROOT) -> Iterator[Finding]:
    """Yield the retired names in the engine and its kernels."""
    for package in ("sim", "warp_kernels"):
        for path in sorted((root / package).rglob("*.[ph]*")):
            if path.suffix in (".py", ".h"):
                yield from names_in(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))


def names_in(path: str, text: str) -> Iterator[Finding]:
    """Yield the retired names of a Python file, or of a C++ header: one finding for each name."""
    found: dict[str, int] = {}
    if not any(pattern.search(word) for word in set(re.findall(r"[A-Za-z_]\w*", text)) for pattern in NAMES):
        return  # most files, without the time to read their tokens
    if path.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                found.setdefault(token.string, token.start[0])
    else:
        for number, line in enumerate(text.splitlines(), start=1):
            for word in re.findall(r"[A-Za-z_]\w*", line.partition("//")[0]):
                found.setdefault(word, number)
    for name, line in found.items():
        for pattern, instead in NAMES.items():
            if pattern.search(name) and name not in RULES["names_kept"].get(path, ()):
                yield Finding(path, line, "name", f"'{name}': use {instead}")


def _docstrings(node: ast.Module | ast.ClassDef) -> Iterator[tuple[str, int, str]]:
    """Yield kind, line and text of the public docstrings of a module or class, its own first."""
    text = ast.get_docstring(node)
    if text and text.strip():
        yield "noun", node.body[0].lineno, text
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _docstrings(child)
        elif isinstance(child, ast.FunctionDef) and not child.name.startswith("_"):
            text = ast.get_docstring(child)
            if text and text.strip():
                noun = any("property" in ast.unparse(decorator) for decorator in child.decorator_list)
                yield "noun" if noun else "function", child.body[0].lineno, text


def _terms(name: str, line: int, text: str) -> Iterator[Finding]:
    """Yield retired terms of a text that starts at a line."""
    text = re.sub(r"\n[ \t>]+", "\n", text)
    flat = text.replace("\n", " ")
    for pattern, instead in RETIRED.items():
        for found in pattern.finditer(flat):
            at = line + text.count("\n", 0, found.start())
            yield Finding(name, at, "term", f"'{found[0]}': say {instead}")


def _count_terms(root: Path) -> None:
    """Print how often each term stands in the whole text of a tree: pages, code and comments."""
    suffixes = (".py", ".md", ".rst", ".h", ".toml", ".ipynb")
    folders = (*PACKAGES, "tests", "docs")
    paths = [*root.glob("*.md"), *(path for folder in folders for path in (root / folder).rglob("*"))]
    texts = [path.read_text(encoding="utf-8") for path in paths if path.suffix in suffixes and path.stem != "prose"]
    text = re.sub(r"\s+(#|//)?\s*", " ", "\n".join(texts))
    instead = {**RULES["retired"], **RULES["counted"]}
    for pattern, say in instead.items():
        print(f"{len(re.findall(pattern, text, re.IGNORECASE)):6d}  {pattern:40s} {say}")
    print("\nterms to use:")
    for say in RULES["use"]["terms"]:
        print(f"{len(re.findall(re.escape(say), text, re.IGNORECASE)):6d}  {say}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description=__doc__.splitlines()[0])
    parser.add_argument("--list", metavar="FOLDER", help="print the findings of a folder or page")
    parser.add_argument("--terms", action="store_true", help="count terms in the whole text")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    arguments = parser.parse_args()
    if arguments.terms:
        return _count_terms(arguments.root)
    found = [*findings(arguments.root), *names(arguments.root)]
    if arguments.list:
        print(*(one for one in found if one.path.startswith(arguments.list)), sep="\n")
        return None
    counts = collections.Counter((folder_of(one.path), one.rule) for one in found)
    rules = ("function", "noun", "term", "name")
    print("functions  nouns  terms  names")
    for folder in sorted({folder for folder, _ in counts}):
        print("{:9d} {:6d} {:6d} {:6d}  {}".format(*(counts[folder, rule] for rule in rules), folder))
    totals = collections.Counter(one.rule for one in found)
    print("{:9d} {:6d} {:6d} {:6d}  in all".format(*(totals[rule] for rule in rules)))
    clean = sorted(set(RULES["unfinished"]) - {folder for folder, _ in counts})
    if clean:
        print("clean now, take them off the list in tests/prose.toml:", *clean)
    return None


if __name__ == "__main__":
    main()
