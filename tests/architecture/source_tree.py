"""The source tree as parsed modules, for the tests that walk it.

Owns finding and parsing; knows no rule. The rules are in the tests beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "loopwright"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the package: dotted name, path and syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def place(self) -> str:
        """The path as a person would write it, from the root of the repository."""
        return self.path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Definition:
    """A class or function with its dotted name and its module."""

    name: str
    node: ast.ClassDef | Function
    module: Module
    in_function: bool

    def __str__(self) -> str:
        return f"{self.module.place}:{self.node.lineno} {self.name}"


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package, sorted by path."""
    found: list[Module] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found.append(Module(name, path, text, ast.parse(text, filename=str(path))))
    return tuple(found)


@cache
def definitions() -> tuple[Definition, ...]:
    """Every class and function at any depth, in source order."""
    return tuple(
        found for module in modules() for found in _inside(module, module.tree, module.name, in_function=False)
    )


def _inside(module: Module, node: ast.AST, prefix: str, *, in_function: bool) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}.{child.name}"
            yield Definition(name, child, module, in_function)
            inner = in_function or not isinstance(child, ast.ClassDef)
            yield from _inside(module, child, name, in_function=inner)
        else:
            yield from _inside(module, child, prefix, in_function=in_function)


def decorators(node: ast.ClassDef | Function) -> set[str]:
    """The last words of the decorators: `typing.overload` and `x.setter` give `overload` and `setter`."""
    words: set[str] = set()
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        words.add(ast.unparse(target).rsplit(".", 1)[-1])
    return words


def matching(name: str, table: dict[str, str]) -> str | None:
    """The entry of an exception table that covers a dotted name: the name itself, or an entry `prefix.*` above it."""
    return next(
        (entry for entry in table if name == entry or (entry.endswith(".*") and name.startswith(entry[:-1]))), None
    )
