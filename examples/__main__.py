"""List of the examples, and a command to run one: ``python -m examples``, ``python -m examples throw --seed 1``."""

import ast
import importlib
import sys
from pathlib import Path


def main() -> None:
    """Run the example named by the first argument, with the other arguments. Without arguments, list all examples."""
    examples = find_examples()
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        width = max(map(len, examples))
        print("usage: python -m examples NAME [options]; python -m examples NAME --help lists the options\n")
        for name, line in examples.items():
            print(f"  {name:{width}}  {line}")
        print("\nPolicies are trained by python -m examples.rl.shac, .rl.apg and .rl.sac, see docs/learning.md.")
        return
    name = sys.argv[1]
    if name not in examples:
        sys.exit(f"unknown example '{name}'; the examples are {', '.join(examples)}")
    sys.argv = [f"python -m examples {name}", *sys.argv[2:]]
    importlib.import_module(f"examples.{name}").main()


def find_examples() -> dict[str, str]:
    """Return names of the files in this folder with a main function, each with the first line of its docstring."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path != Path(__file__) and any(
            isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body
        ):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


if __name__ == "__main__":
    main()
