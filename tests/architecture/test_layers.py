"""Folders are layers: the contracts of [tool.importlinter] in pyproject.toml hold, and the package root is no way round them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

from tests.architecture.source_tree import PACKAGE, ROOT, Module, modules

LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"

# Edges of the program, above every layer: they may use the package as its users do.
MAY_USE_THE_ROOT = ("loopwright.__main__", "loopwright.cli", "loopwright.inspector")


def test_imports_go_down_the_layers_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"\n{done.stdout}\n{done.stderr}"


def imported_from(node: ast.ImportFrom, module: Module) -> str:
    """The absolute name of the package or module that a `from … import` names."""
    if not node.level:
        return node.module or ""
    package = module.name.split(".") if module.path.name == "__init__.py" else module.name.split(".")[:-1]
    return ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])


def imports_of_the_root(module: Module) -> Iterator[str]:
    submodules = {path.name.removesuffix(".py") for path in PACKAGE.iterdir()}
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names) if any(alias.name == "loopwright" for alias in names):
                yield f"{module.place}:{node.lineno} {ast.unparse(node)}"
            case ast.ImportFrom(names=names) if imported_from(node, module) == "loopwright":
                if any(alias.name not in submodules for alias in names):
                    yield f"{module.place}:{node.lineno} {ast.unparse(node)}"
            case _:
                pass


def test_no_module_below_the_edges_imports_the_package_root() -> None:
    """The root imports everything, so a module that imports from it depends on every layer without the linter seeing it."""
    found = [
        place
        for module in modules()
        if not any(module.name == edge or module.name.startswith(f"{edge}.") for edge in MAY_USE_THE_ROOT)
        and module.name != "loopwright"
        for place in imports_of_the_root(module)
    ]
    assert found == []
