"""Every public signature as one line of text, read from the source.

Owns: turning the names that the public namespaces export into lines. From the source and not from live objects, because
the way in which annotations and defaults are shown differs from one Python to the next, and the source does not.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from tests.architecture.source_tree import Function, Module, decorators, definitions, modules

NAMES_ONLY = {"__version__"}
SHOWN_DECORATORS = (
    "abstractmethod",
    "asynccontextmanager",
    "classmethod",
    "contextmanager",
    "property",
    "staticmethod",
)


def public_lines(namespace: str) -> Iterator[tuple[str, str]]:
    """Dotted name and signature of everything that a namespace exports, members of classes included."""
    exported: ModuleType = importlib.import_module(namespace)
    for name in getattr(exported, "__all__", ()):
        value = getattr(exported, name)
        public = f"{namespace}.{name}"
        if name in NAMES_ONLY:
            yield public, "constant"
        elif inspect.ismodule(value):
            yield public, "namespace"
        elif inspect.isclass(value) and _defined(value):
            yield from _class_lines(public, value)
        elif inspect.isfunction(value) and _defined(value):
            yield from _function_lines(public, _overloads(value))
        else:
            yield public, _assignment(namespace, name)


def _defined(value: object) -> bool:
    return _full_name(value) in _defined_names()


@cache
def _defined_names() -> frozenset[str]:
    return frozenset(found.name for found in definitions())


def _full_name(value: object) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def _one_line(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _class_lines(public: str, value: type) -> Iterator[tuple[str, str]]:
    own = _class_node(value)
    yield public, f"class({', '.join(_one_line(part) for part in [*own.bases, *own.keywords])})"
    if issubclass(value, enum.Enum):
        for member in value:
            yield f"{public}.{member.name}", f"member = {member.value!r}"
    lines: dict[str, list[tuple[str, str]]] = {}
    for cls in reversed(value.__mro__):
        if _defined(cls):
            lines |= _members(public, _class_node(cls), is_enum=issubclass(value, enum.Enum))
    for found in lines.values():
        yield from found


def _class_node(cls: type) -> ast.ClassDef:
    wanted = _full_name(cls)
    return next(found.node for found in definitions() if found.name == wanted and isinstance(found.node, ast.ClassDef))


def _members(public: str, node: ast.ClassDef, *, is_enum: bool) -> dict[str, list[tuple[str, str]]]:
    """Lines of one class by member name, so that a subclass replaces what it overrides."""
    lines: dict[str, list[tuple[str, str]]] = {}
    for child in node.body:
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if _is_part_of_the_face(name):
                lines.setdefault(name, []).extend(_function_lines(f"{public}.{name}", [child]))
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                default = f" = {_one_line(child.value)}" if child.value else ""
                lines[name] = [(f"{public}.{name}", f"{_one_line(child.annotation)}{default}")]
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_") and not is_enum:
                lines[name] = [(f"{public}.{name}", f"= {_one_line(child.value)}")]
            case _:
                pass
    return lines


def _is_part_of_the_face(method: str) -> bool:
    """Public methods, and the magic ones through which a value is built, called, entered or iterated."""
    magic = {"__init__", "__call__", "__aenter__", "__aexit__", "__enter__", "__exit__", "__iter__", "__aiter__"}
    return not method.startswith("_") or method in magic


def _overloads(function: object) -> list[Function]:
    wanted = _full_name(function)
    found = [found.node for found in definitions() if found.name == wanted]
    return [node for node in found if not isinstance(node, ast.ClassDef)]


def _function_lines(public: str, nodes: list[Function]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        marks = "".join(f"@{mark} " for mark in SHOWN_DECORATORS if mark in decorators(node))
        marks += "@overload " if "overload" in decorators(node) else ""
        marks += "@setter " if "setter" in decorators(node) else ""
        word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        returns = f" -> {_one_line(node.returns)}" if node.returns else ""
        yield public, f"{marks}{word} ({_one_line(node.args)}){returns}"


def _assignment(namespace: str, name: str) -> str:
    """A constant or a type alias: what stands at its definition, sought in the namespace itself first."""
    ordered: list[Module] = sorted(modules(), key=lambda module: not module.name.startswith(namespace))
    for module in ordered:
        for node in module.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    return f"= {_one_line(value)}"
                case ast.AnnAssign(target=ast.Name(id=found), annotation=annotation, value=value) if found == name:
                    return f"{_one_line(annotation)}{f' = {_one_line(value)}' if value else ''}"
                case _:
                    pass
    return "from another package"
